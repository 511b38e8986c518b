//! Operators at the coordinator, whose functions change records on the node of their user.

use super::{call::of, cluster::PASSWORD, distributed::Distributed};
use crate::prelude::*;

const OPERATOR: &str = "my_operator_role";

#[tokio::test]
async fn an_operator_evicts_a_response_and_erases_those_of_a_user_on_its_node() {
    let Some(distributed) = Distributed::make().await else { return };
    let superuser = distributed.superuser().await;
    let role = format!(
        "CREATE ROLE {OPERATOR} LOGIN PASSWORD '{PASSWORD}';
         GRANT CONNECT ON DATABASE {} TO {OPERATOR};
         INSERT INTO pg_dist_authinfo (nodeid, rolename, authinfo) VALUES (0, '{OPERATOR}', 'password={PASSWORD}')",
        distributed.name
    );
    for statement in role.split(';') {
        superuser.batch_execute(statement).await.expect("the role, on all nodes");
    }
    migrations::grant_operator(&superuser, &Schema::default(), OPERATOR).await.expect("the grant");
    let operator = distributed.connect(&distributed.coordinator, OPERATOR).await;
    let store = distributed.store();
    let (user, other) = (Uuid::new_v4(), Uuid::new_v4());
    let [evicted, erased, of_other] = [of(user), of(user), of(other)];
    for claim in [&evicted, &erased, &of_other] {
        complete(&store, claim, &completion("done")).await;
    }

    let evict = "SELECT * FROM tenant.idempotency_evict($1::uuid::text, $2::uuid::text, $3, p_reason => 'a ticket')";
    let Reservation { key, token, .. } = &evicted.reservation;
    let parameters: Parameters<'_> = &[(key.as_uuid(), Type::UUID), (&user, Type::UUID), (token, Type::UUID)];
    let row = operator.query_typed_one(evict, parameters).await.expect("an answer");
    assert_eq!(row.get::<_, &str>("outcome"), "evicted", "{}", row.get::<_, &str>("hint"));
    assert_eq!(replay_of(&store, &evicted).await.response, StoredResponse::NotStored);
    assert_ne!(replay_of(&store, &erased).await.response, StoredResponse::NotStored);

    let erase = "SELECT * FROM tenant.idempotency_erase($1::uuid::text, NULL, 'a ticket', 1000)";
    let row = operator.query_typed_one(erase, &[(&user, Type::UUID)]).await.expect("an answer");
    assert_eq!((row.get::<_, i64>("erased"), row.get::<_, i64>("remaining")), (1, 0));
    assert_eq!(replay_of(&store, &erased).await.response, StoredResponse::NotStored);
    assert_ne!(replay_of(&store, &of_other).await.response, StoredResponse::NotStored);
}
