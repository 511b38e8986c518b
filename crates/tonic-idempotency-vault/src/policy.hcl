path "transit/datakey/plaintext/idempotency-*" { capabilities = ["update"] }
path "transit/decrypt/idempotency-*" { capabilities = ["update"] }
path "transit/hmac/idempotency-hashes" { capabilities = ["update"] }
path "transit/keys/+" { capabilities = ["update"] }
