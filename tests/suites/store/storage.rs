//! How PostgreSQL stores large responses, as the migrations choose it.

use crate::migrations::core;
use crate::prelude::*;

/// The table of the Go interceptor, as far as the storage is concerned.
const OF_THE_GO_INTERCEPTOR: &str = "
    CREATE SCHEMA tenant;
    CREATE TABLE tenant.idempotency_keys (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(), idempotency_key uuid NOT NULL, user_id uuid NOT NULL,
        procedure text NOT NULL, request_hash bytea NOT NULL, response_bytes bytea,
        created timestamptz NOT NULL DEFAULT now(), expires timestamptz NOT NULL,
        UNIQUE (idempotency_key, user_id)
    );";

async fn has_lz4(client: &Client) -> bool {
    let select = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'";
    value(client, select).await
}

/// The storage and the compression of the column of the responses, as the catalogue has them.
async fn chosen(client: &Client) -> (i8, i8) {
    let select = "SELECT attstorage, attcompression FROM pg_attribute
                  WHERE attrelid = 'tenant.idempotency_keys'::regclass AND attname = 'response_bytes'";
    let row = client.query_one(select, &[]).await.expect("the column");
    (row.get(0), row.get(1))
}

/// The storage and the compression of the column after the migrations, on the Go interceptor's table with this change.
async fn adopted(change: &str) -> (i8, i8) {
    let (_database, mut owner) = Database::empty_with_owner().await;
    owner.batch_execute(&format!("{OF_THE_GO_INTERCEPTOR}{change}")).await.expect("the table");
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations");
    chosen(&owner).await
}

const EXTENDED: i8 = b'x'.cast_signed();
const EXTERNAL: i8 = b'e'.cast_signed();
const LZ4: i8 = b'l'.cast_signed();
const PGLZ: i8 = b'p'.cast_signed();
const DEFAULT: i8 = 0;

#[tokio::test]
async fn compresses_a_large_response_with_lz4_if_the_server_has_it() {
    let (database, owner) = Database::with_owner().await;
    let store = PostgresStore::new(database.pool(1), ResourceTypes::none());
    let claim = new_claim();
    let large = Completion { response: StoredResponse::message(vec![0x5a; 100_000]), ..completion("") };
    complete(&store, &claim, &large).await;

    let compression: Option<String> =
        value(&owner, "SELECT pg_column_compression(response_bytes) FROM tenant.idempotency_keys").await;
    let expected = if has_lz4(&owner).await { "lz4" } else { "pglz" };
    assert_eq!(compression.as_deref(), Some(expected));
}

#[tokio::test]
async fn chooses_lz4_for_an_adopted_table_unless_another_storage_was_chosen() {
    let has_lz4 = has_lz4(&Database::empty().await.owner().await).await;
    let column = "ALTER TABLE tenant.idempotency_keys ALTER COLUMN response_bytes";
    for (change, expected) in [
        (String::new(), (EXTENDED, if has_lz4 { LZ4 } else { DEFAULT })),
        (format!("{column} SET STORAGE EXTERNAL"), (EXTERNAL, DEFAULT)),
        (format!("{column} SET COMPRESSION pglz"), (EXTENDED, PGLZ)),
    ] {
        assert_eq!(adopted(&change).await, expected, "{change}");
    }
}

#[tokio::test]
async fn leaves_the_servers_own_method_if_it_was_built_without_lz4() {
    let (_database, owner) = Database::empty_with_owner().await;
    for file in core() {
        // A method that no server has stands for one that this server was built without.
        owner.batch_execute(&file.replace("lz4", "lz5")).await.expect("the core's migrations");
    }
    assert_eq!(chosen(&owner).await, (EXTENDED, DEFAULT));
}
