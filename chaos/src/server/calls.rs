//! Sees every call of the server: its steps, when its handler runs, and whether it runs unprotected.

use std::{fmt, time::Duration};

use clap::ValueEnum as _;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id},
};
use tracing_subscriber::{Layer, filter::Targets, layer::Context, registry::LookupSpan};
use uuid::Uuid;

use super::{
    points::Points,
    wire::{Saying, UnprotectedCall},
};
use crate::{clock, step::Step};

/// The target of the engine's step events.
const ENGINE: &str = "tonic_idempotency::step";

/// The target of the engine's events of unprotected runs.
const UNPROTECTED: &str = "tonic_idempotency";

/// The target of the sample's step events, and of its calls' spans.
const SAMPLE: &str = "organization::step";

/// Tells the points of each step, and reports to the harness each run of a handler, and whether it is unprotected.
#[derive(Clone, Debug)]
pub(super) struct CallLayer(pub(super) Points);

/// A call, as far as it is known; kept in its span.
#[derive(Clone, Copy, Debug)]
struct Call {
    asked: Duration,
    key: Option<Uuid>,
}

impl CallLayer {
    /// The events and spans that it needs.
    pub(super) fn filter() -> Targets {
        let steps = Targets::new().with_target(ENGINE, Level::TRACE).with_target(SAMPLE, Level::TRACE);
        steps.with_target(UNPROTECTED, Level::WARN)
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for CallLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() == SAMPLE
            && let Some(span) = context.span(id)
        {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            let key = fields.key.and_then(|key| key.parse().ok());
            span.extensions_mut().insert(Call { asked: clock::now(), key });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let now = clock::now();
        let spans = || context.event_scope(event).into_iter().flatten();
        let call = spans().find_map(|span| span.extensions().get::<Call>().copied());
        if event.metadata().target() == UNPROTECTED {
            let Call { asked, key } = call.unwrap_or(Call { asked: now, key: None });
            let cause = fields.cause.unwrap_or_default();
            Saying::Unprotected(UnprotectedCall { key, cause, asked, ran: now }).say();
        } else if let Some(step) = fields.step.and_then(|step| Step::from_str(&step, false).ok()) {
            if step == Step::BeforeClaim {
                spans().for_each(|span| {
                    if let Some(call) = span.extensions_mut().get_mut::<Call>() {
                        call.asked = now;
                    }
                });
            }
            match (step, call.and_then(|call| call.key)) {
                (Step::HandlerStarted, Some(key)) => Saying::Began { key, at: now }.say(),
                (Step::BeforeSettle, Some(key)) => Saying::Ended { key, at: now }.say(),
                _ => {}
            }
            self.0.reached(step);
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
