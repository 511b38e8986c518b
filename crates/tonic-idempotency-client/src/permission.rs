//! Decides whether an attempt may be sent to a server that may lack the layer.

use tonic::Status;

use crate::verdict::Verdict;

/// Whether an attempt may be sent, by what is known of the server.
///
/// | the application demands | the server, for the procedure | the first attempt | a further one, or one of a call that may have been sent |
/// |---|---|---|---|
/// | anything | has shown the layer | is sent | is sent |
/// | nothing | is unknown, or has answered without a status | is sent | asks; if the server cannot tell, is sent |
/// | that it has not answered without a status: `require_protection` of the layer, or a journal | is unknown | is sent | asks; if the server cannot tell, is sent |
/// | the same | has answered without a status | is sent | is not sent |
/// | that it has shown the layer: `require_protection` of a journal | is unknown | asks; if the server cannot tell, is sent | asks; if the server cannot tell, is not sent |
/// | the same | has answered without a status | asks; if the server cannot tell, is sent | is not sent |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    Granted,
    Refused,
    /// The server has to say with `DescribeProcedure` whether it protects the procedure.
    ToBeAsked {
        /// Whether the attempt is sent if the server cannot tell.
        if_untold: bool,
    },
}

/// The demand of the application on a server before a call may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    Nothing,
    /// Its last success had a status, if there was one.
    NoneMissing,
    /// An answer has shown the layer.
    Shown,
}

/// The knowledge of a server, for a procedure, by its answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The last success had no status.
    Missing,
    /// The last answer that tells has shown the layer.
    Shown,
    Unknown,
}

/// Why an attempt is not sent.
#[derive(Clone, Debug)]
pub(crate) enum SendRefusal {
    /// The server may lack the layer, and cannot tell.
    Unshown,
    /// The server has not said whether it protects the procedure.
    Unanswered(MissingDescription),
    /// The server says that it does not protect the procedure.
    Unprotected,
}

/// An answer that does not say whether a server protects a procedure.
#[derive(Clone, Debug)]
pub(crate) struct MissingDescription {
    /// Whether another answer is to be expected only after a change of the server or of its surroundings.
    pub(crate) is_stuck: bool,
    /// The answer, named for the log.
    pub(crate) reason: String,
    pub(crate) status: Status,
    /// Whether, and when, to ask again.
    pub(crate) verdict: Verdict,
}

impl Permission {
    pub(crate) fn of(demand: Demand, standing: Standing, is_first: bool) -> Self {
        match (demand, standing) {
            (_, Standing::Shown) => Self::Granted,
            (Demand::Nothing | Demand::NoneMissing, _) if is_first => Self::Granted,
            (Demand::NoneMissing | Demand::Shown, Standing::Missing) if !is_first => Self::Refused,
            (Demand::Nothing | Demand::NoneMissing, _) => Self::ToBeAsked { if_untold: true },
            (Demand::Shown, _) => Self::ToBeAsked { if_untold: is_first },
        }
    }
}

impl SendRefusal {
    /// Returns the status of a call whose first attempt is not sent.
    pub(crate) fn status(self) -> Status {
        match self {
            Self::Unshown => Status::failed_precondition(
                "the call was not sent again: its server may lack the layer, and run it twice, as its last success had no idempotency-status, \
                 or as the journal requires an answer that shows the layer",
            ),
            Self::Unanswered(MissingDescription { status, .. }) => {
                let message = status.message();
                let told = format!(
                    "the call was not sent: its server has not said whether it protects the procedure: {message}"
                );
                Status::new(status.code(), told)
            }
            Self::Unprotected => Status::failed_precondition(
                "the call was not sent: its server says that its layer does not protect the procedure, so that each attempt would run",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Demand::{NoneMissing, Nothing, Shown},
        Permission::{Granted, Refused, ToBeAsked},
        *,
    };

    const SENT_IF_UNTOLD: Permission = ToBeAsked { if_untold: true };
    const NOT_SENT_IF_UNTOLD: Permission = ToBeAsked { if_untold: false };

    #[test]
    fn full_matrix() {
        for (demand, standing, first, further) in [
            (Nothing, Standing::Missing, Granted, SENT_IF_UNTOLD),
            (Nothing, Standing::Shown, Granted, Granted),
            (Nothing, Standing::Unknown, Granted, SENT_IF_UNTOLD),
            (NoneMissing, Standing::Missing, Granted, Refused),
            (NoneMissing, Standing::Shown, Granted, Granted),
            (NoneMissing, Standing::Unknown, Granted, SENT_IF_UNTOLD),
            (Shown, Standing::Missing, SENT_IF_UNTOLD, Refused),
            (Shown, Standing::Shown, Granted, Granted),
            (Shown, Standing::Unknown, SENT_IF_UNTOLD, NOT_SENT_IF_UNTOLD),
        ] {
            let found = [true, false].map(|is_first| Permission::of(demand, standing, is_first));
            assert_eq!(found, [first, further], "{demand:?} {standing:?}");
        }
    }
}
