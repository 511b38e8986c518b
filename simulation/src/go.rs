//! A server with the Go interceptor, on the same table. Its reservations have neither a lease nor a token; it writes the response when its
//! handler has ended, and deletes the row if that failed.

use std::{fmt, sync::Arc};

use prost::Message as _;
use tokio::time::{Instant, sleep, sleep_until};
use tonic_idempotency::{
    KeyId,
    run::{Codec as _, Prost},
    store::{CallSession, Claim, RequestHash, Reservation, StoredResponse},
};

use crate::{
    database::Database,
    ledger::Ledger,
    plan::{Operation, Settings, caller},
    service::{
        descriptors, message_of,
        proto::{EnterReply, EnterRequest},
    },
    world::World,
};

/// The runs of Go servers have the numbers from here.
pub const FIRST_RUN: u64 = 1 << 32;

/// The Go server.
#[derive(Clone)]
pub struct GoServer {
    /// The world.
    pub world: World,
    /// The database.
    pub database: Database,
    /// The settings of the run.
    pub settings: Arc<Settings>,
    /// The evidence.
    pub ledger: Ledger,
}

impl fmt::Debug for GoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoServer").finish_non_exhaustive()
    }
}

impl GoServer {
    /// Serves its call of an operation, if it gets one.
    pub async fn serve(self, operation: Operation) {
        let (Some(call), Some(user)) = (operation.go, operation.user) else { return };
        sleep_until(Instant::now() + call.at).await;
        let claim =
            self.claim(&operation, Reservation::new(caller(user, operation.scope).owner(), KeyId::new(operation.key)));
        if !self.database.reserve_as_go(&claim).await {
            return self.tell(&operation, "finds the key used:");
        }
        self.tell(&operation, "reserves the key:");
        let run = self.ledger.begin_of_go(operation.number, self.world.time());
        sleep(call.takes).await;
        let reply = EnterReply::new(FIRST_RUN + run as u64, &operation).encode_to_vec();
        let is_done = call.succeeds;
        let response = is_done.then(|| StoredResponse::message(reply));
        // Its row may be another's by now.
        self.database.end_as_go(&claim, response).await;
        self.ledger.end_of_go(run, self.world.time(), is_done);
        self.tell(&operation, if is_done { "is done:" } else { "fails:" });
    }

    fn claim(&self, operation: &Operation, reservation: Reservation) -> Claim {
        let policies = &self.settings.policies;
        let codec = Prost::<EnterRequest, EnterReply>::new(&descriptors(false)).expect("the service's descriptors");
        let hash = codec.hash(&message_of(operation)).expect("a message that can be hashed");
        Claim {
            reservation,
            session: CallSession::default(),
            procedure: operation.procedure.path(),
            request: RequestHash::from(hash).into(),
            lease: policies.lease,
            retention: policies.retention,
            on_lease_ended: policies.on_lease_ended,
            on_foreign_reservation: policies.on_foreign_reservation,
            effect: policies.effect,
            resource_type: None,
        }
    }

    fn tell(&self, operation: &Operation, event: &str) {
        self.world.tell(format_args!("go server"), format_args!("{event} operation {}", operation.number));
    }
}
