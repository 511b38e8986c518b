//! Gives the table of keys and its functions to another owner.

use std::time::Duration;

use tokio::time;

use super::{
    calls::with_calls,
    locks::{ATTEMPTS, locked},
    stage::Stage,
};
use crate::error::Error;

/// Gives everything of the library's to the role of the two that has not got it. An owner who is no superuser is bound by the policies.
const GIVE: &str = "
    DO $$ DECLARE
        heir text;
        it record;
    BEGIN
        SELECT CASE relowner::regrole::text WHEN 'chaos_owner_a' THEN 'chaos_owner_b' ELSE 'chaos_owner_a' END INTO heir
        FROM pg_class WHERE oid = 'tenant.idempotency_keys'::regclass;
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = heir) THEN
            EXECUTE format('CREATE ROLE %I', heir);
        END IF;
        -- The role is the server's, and its rights are this database's: there is one for each mode.
        EXECUTE format('GRANT ALL ON SCHEMA tenant, authz TO %I', heir);
        EXECUTE format('GRANT ALL ON ALL TABLES IN SCHEMA tenant, authz TO %I', heir);
        FOR it IN SELECT oid::regclass AS name FROM pg_class
                  WHERE relnamespace = 'tenant'::regnamespace AND relname LIKE 'idempotency%' AND relkind IN ('r', 'p') LOOP
            EXECUTE format('ALTER TABLE %s OWNER TO %I', it.name, heir);
        END LOOP;
        FOR it IN SELECT oid::regprocedure AS name FROM pg_proc
                  WHERE pronamespace = 'tenant'::regnamespace AND proname LIKE 'idempotency%' LOOP
            EXECUTE format('ALTER ROUTINE %s OWNER TO %I', it.name, heir);
        END LOOP;
    END $$";

/// Gives everything away, and runs the migrations after this long, as whoever changes an owner has to. Calls go on meanwhile.
pub(super) async fn happen(stage: &Stage, hold: Duration) -> Result<(), Error> {
    let mut owner = stage.database.connect().await?;
    locked(&owner, ATTEMPTS, GIVE).await?;
    let waiting = async {
        time::sleep(hold).await;
        Ok(())
    };
    with_calls(stage, waiting).await?;
    owner.batch_execute("RESET lock_timeout").await?;
    organization::migrations::run(&mut owner).await?;
    Ok(())
}
