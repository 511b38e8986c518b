-- Comes before every variant, so that drawing keys costs all of them the same. A UUID is two numbers of 16 digits.
\set user random(1000000000000001, 1000000000000900)
\set cluster random(1000000000000001, 1000000000000900)
\set key_a random(1000000000000000, 9999999999999999)
\set key_b random(1000000000000000, 9999999999999999)
\set token_a random(1000000000000000, 9999999999999999)
\set token_b random(1000000000000000, 9999999999999999)
\set request random(0, 999999999)
