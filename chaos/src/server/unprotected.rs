//! The report of unprotected runs.

use std::{fmt, time::SystemTime};

use serde::{Deserialize, Serialize};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, layer::Context, registry::LookupSpan};
use uuid::Uuid;

use super::wire::Saying;
use crate::step::{SAMPLE_TARGET, Step, UNPROTECTED_TARGET};

/// A call with a key whose handler runs unprotected.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Unprotected {
    /// The call's key; `None` if it is not known.
    pub(crate) key: Option<Uuid>,
    pub(crate) cause: String,
    /// When the store was asked.
    pub(crate) asked: SystemTime,
    /// When the handler began.
    pub(crate) ran: SystemTime,
}

/// Sees every call and its claim, and reports to the harness if it runs unprotected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unprotectedness;

/// A call, as far as it is known; kept in its span.
#[derive(Clone, Copy, Debug)]
struct Call {
    asked: SystemTime,
    key: Option<Uuid>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Unprotectedness {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() == SAMPLE_TARGET
            && let Some(span) = context.span(id)
        {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            let key = fields.key.and_then(|key| key.parse().ok());
            span.extensions_mut().insert(Call { asked: SystemTime::now(), key });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let now = SystemTime::now();
        let spans = || context.event_scope(event).into_iter().flatten();
        if event.metadata().target() == UNPROTECTED_TARGET {
            let call = spans().find_map(|span| span.extensions().get::<Call>().copied());
            let Call { asked, key } = call.unwrap_or(Call { asked: now, key: None });
            let cause = fields.cause.unwrap_or_default();
            Saying::Unprotected(Unprotected { key, cause, asked, ran: now }).say();
        } else if fields.step.is_some_and(|step| step.parse() == Ok(Step::BeforeClaim)) {
            spans().for_each(|span| {
                if let Some(call) = span.extensions_mut().get_mut::<Call>() {
                    call.asked = now;
                }
            });
        }
    }
}

/// The fields of spans and events.
#[derive(Debug, Default)]
struct Fields {
    cause: Option<String>,
    key: Option<String>,
    step: Option<String>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        let place = match field.name() {
            "cause" => &mut self.cause,
            "key" => &mut self.key,
            "step" => &mut self.step,
            _ => return,
        };
        *place = Some(value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
