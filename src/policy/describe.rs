//! Describes a procedure as the option that would give it the same policies.

use super::{Mode, Policies, Procedure};
use crate::proto::v1;

impl Procedure {
    /// Returns the policies that are in force, whether by the option, in code, or by the layer's defaults. Without those that have no effect
    /// in the procedure's mode.
    pub(crate) fn describe(&self) -> v1::Procedure {
        let creates = self.creates.as_ref().map(|creates| v1::Creates {
            resource_type: creates.resource_type.clone(),
            id_field: creates.id_field.clone(),
            untracked: !creates.tracked,
        });
        v1::Procedure {
            creates,
            final_errors: final_errors(&self.policies),
            ignore: self.ignored_fields().to_vec(),
            key_field: self.key_field().unwrap_or_default().to_owned(),
            redact: self.redact.clone(),
            redact_error_details: self.redact_errors.clone(),
            ..in_force(&self.policies)
        }
    }
}

/// Returns the codes as numbers, which are those of the enum; or the one that stands for none.
fn final_errors(policies: &Policies) -> Vec<i32> {
    let codes: Vec<_> = policies.final_errors.codes().map(i32::from).collect();
    if codes.is_empty() { vec![v1::FinalError::None.into()] } else { codes }
}

/// Returns the policies that have an effect. The option of a procedure may not have the others.
fn in_force(policies: &Policies) -> v1::Procedure {
    let mut written = policies.write();
    match policies.mode {
        Mode::Reserved => {
            written.isolation = v1::Isolation::Unspecified.into();
            written.on_disconnect = v1::DisconnectPolicy::Unspecified.into();
            written.transaction_idle = None;
        }
        Mode::Transactional => written.effect = v1::EffectPolicy::Unspecified.into(),
    }
    written
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prost_reflect::DescriptorPool;
    use tonic::Code;

    use super::*;
    use crate::policy::{
        DisconnectPolicy, EffectPolicy, ExpiredKeyPolicy, FinalErrors, ForeignPolicy, InProgressPolicy, Isolation,
        KeyFormat, KeyPolicy, LeasePolicy, ProcedureBuilder, StorePolicy, UserPolicy, option::of_option, resolve,
    };

    const WAIT: &str = "/idempotency.v1.OperationService/WaitOperation";

    fn resolved(described: ProcedureBuilder, defaults: &Policies) -> Procedure {
        let pool = DescriptorPool::decode(crate::proto::FILE_DESCRIPTOR_SET).expect("descriptors");
        resolve(described, &pool, defaults).expect("a procedure").0
    }

    /// Defaults that all differ from the layer's own.
    fn others(mode: Mode) -> Policies {
        Policies {
            effect: EffectPolicy::SameServer,
            expired_keys: ExpiredKeyPolicy::Refuse,
            final_errors: FinalErrors::new([Code::NotFound, Code::Unauthenticated]).expect("they may be final"),
            handler_timeout: Duration::from_millis(1),
            isolation: Isolation::Serializable,
            key_format: KeyFormat::Any,
            key_policy: KeyPolicy::Required,
            lease: Duration::from_secs(7),
            max_wait: Duration::from_nanos(1_000_000_001),
            mode,
            on_disconnect: DisconnectPolicy::RollBack,
            on_foreign_reservation: ForeignPolicy::Rerun,
            on_in_progress: InProgressPolicy::Wait,
            on_lease_ended: LeasePolicy::Refuse,
            on_no_user: UserPolicy::PassThrough,
            on_store_unavailable: StorePolicy::Proceed,
            retention: crate::policy::MAX_DURATION,
            transaction_idle: Duration::from_secs(9),
        }
    }

    #[test]
    fn a_procedure_that_is_made_of_its_description_is_the_same() {
        let plain = Procedure::builder(WAIT);
        let full = plain
            .clone()
            .creates_untracked("operation", "resource.id")
            .final_errors([])
            .ignore("timeout")
            .key_field("key")
            .redact("procedure")
            .redact_error_details("google.rpc.DebugInfo");
        let reconciled = plain
            .clone()
            .creates("operation", "key")
            .isolation(Isolation::RepeatableRead)
            .mode(Mode::Transactional)
            .on_foreign_reservation(ForeignPolicy::Reconcile)
            .on_lease_ended(LeasePolicy::Reconcile);
        for defaults in [Policies::default(), others(Mode::Reserved), others(Mode::Transactional)] {
            for described in [plain.clone(), full.clone(), reconciled.clone()] {
                let procedure = resolved(described, &defaults);
                let again = of_option(WAIT, procedure.describe()).expect("an option");
                // As text: it has all but the descriptor and the telemetry, which are those of one layer.
                assert_eq!(format!("{:?}", resolved(again.clone(), &defaults)), format!("{procedure:?}"));
                // The description says everything that has an effect: other defaults change nothing in it.
                for other in [Policies::default(), others(Mode::Reserved)] {
                    assert_eq!(resolved(again.clone(), &other).describe(), procedure.describe());
                }
            }
        }
    }

    #[test]
    fn a_description_has_each_default_that_has_an_effect() {
        let described = resolved(Procedure::builder(WAIT), &Policies::default()).describe();
        assert_eq!((described.mode(), described.effect()), (v1::Mode::Reserved, v1::EffectPolicy::Anywhere));
        assert_eq!(described.final_errors().collect::<Vec<_>>(), [v1::FinalError::None]);
        assert_eq!(described.retention.map(|it| it.seconds), Some(24 * 60 * 60));
        assert_eq!((described.isolation(), described.transaction_idle), (v1::Isolation::Unspecified, None));
        let transactional = resolved(Procedure::builder(WAIT).mode(Mode::Transactional), &Policies::default());
        let described = transactional.describe();
        assert_eq!(described.isolation(), v1::Isolation::ReadCommitted);
        assert_eq!(described.effect(), v1::EffectPolicy::Unspecified);
    }
}
