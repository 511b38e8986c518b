//! The metrics of the servers, and what they come to in a second.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::failure::Failure;

/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_millis(1500);

/// The servers whose metrics are asked for.
pub(super) struct Servers {
    agent: ureq::Agent,
    pub(super) servers: Vec<Server>,
}

pub(super) struct Server {
    url: String,
    last: Option<(Instant, Totals)>,
    pub(super) now: Result<Rates, String>,
}

/// The counters and gauges that are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Totals {
    calls: f64,
    replays: f64,
    refusals: f64,
    in_flight: f64,
    outcomes_waiting: f64,
}

/// A server in the last two seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// In a second; `None` until there are two answers.
    pub(super) calls: Option<f64>,
    pub(super) replays: Option<f64>,
    pub(super) refusals: Option<f64>,
    pub(super) in_flight: f64,
    pub(super) outcomes_waiting: f64,
}

impl Servers {
    pub(super) fn new(urls: &[String]) -> Result<Self, Failure> {
        if let Some(other) = urls.iter().find(|url| !url.starts_with("http://")) {
            return Err(Failure::Input(format!("--metrics {other}: only http:// is spoken")));
        }
        let agent = ureq::Agent::config_builder().timeout_global(Some(ANSWER)).build().new_agent();
        let server = |url: &String| Server { url: url.clone(), last: None, now: Err("not asked yet".to_owned()) };
        Ok(Self { agent, servers: urls.iter().map(server).collect() })
    }

    /// Asks all of them at once.
    pub(super) async fn ask(&mut self) {
        let asked = self.servers.iter().map(|server| {
            let (agent, url) = (self.agent.clone(), server.url.clone());
            tokio::task::spawn_blocking(move || {
                let mut response = agent.get(&url).call().map_err(|error| error.to_string())?;
                response.body_mut().read_to_string().map_err(|error| error.to_string())
            })
        });
        let answers = join_all(asked).await;
        for (server, answer) in self.servers.iter_mut().zip(answers) {
            server.note(Instant::now(), answer.unwrap_or_else(|error| Err(error.to_string())));
        }
    }
}

impl Server {
    /// The address without what all have in common.
    pub(super) fn name(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches("/metrics")
    }

    fn note(&mut self, time: Instant, answer: Result<String, String>) {
        self.now = answer.map(|text| {
            let totals = Totals::read(&text);
            let last = self.last.replace((time, totals));
            let rate = |of: fn(&Totals) -> f64| {
                let (then, last) = last.as_ref()?;
                let (counted, before) = (of(&totals), of(last));
                // A counter that is smaller has begun anew.
                let more = if counted < before { counted } else { counted - before };
                Some(more / (time - *then).as_secs_f64().max(1e-3))
            };
            Rates {
                calls: rate(|totals| totals.calls),
                replays: rate(|totals| totals.replays),
                refusals: rate(|totals| totals.refusals),
                in_flight: totals.in_flight,
                outcomes_waiting: totals.outcomes_waiting,
            }
        });
    }
}

impl Totals {
    /// Adds the series of Prometheus's text.
    fn read(text: &str) -> Self {
        let mut totals = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            match name {
                "idempotency_calls_total" => {
                    totals.calls += value;
                    if labels.contains("outcome=\"replayed\"") {
                        totals.replays += value;
                    }
                }
                "idempotency_rejected_total" => totals.refusals += value,
                "idempotency_in_flight" => totals.in_flight += value,
                "idempotency_outcomes_waiting" => totals.outcomes_waiting += value,
                _ => {}
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(calls: u32) -> Result<String, String> {
        Ok(format!(
            "# TYPE idempotency_calls_total counter\n\
             idempotency_calls_total{{procedure=\"/a.B/C\",outcome=\"first\"}} {calls}\n\
             idempotency_calls_total{{procedure=\"/a.B/C\",outcome=\"replayed\"}} {calls}\n\
             idempotency_rejected_total{{reason=\"x y\"}} 3\n\
             idempotency_in_flight 7\nnonsense\nother 1 2\n"
        ))
    }

    #[test]
    fn rates_are_of_the_time_between_two_answers_and_survive_a_restart() {
        let mut server = Server { url: "http://a:1/metrics".to_owned(), last: None, now: Err(String::new()) };
        let begun = Instant::now();
        let mut calls = |seconds, answer| {
            server.note(begun + Duration::from_secs(seconds), answer);
            server.now.clone().ok().map(|rates| (rates.calls, rates.replays, rates.in_flight))
        };
        assert_eq!(calls(0, text(10)), Some((None, None, 7.0)));
        assert_eq!(calls(2, text(20)), Some((Some(10.0), Some(5.0), 7.0)));
        assert_eq!(calls(4, Err("away".to_owned())), None);
        assert_eq!(calls(12, text(4)), Some((Some(0.8), Some(0.4), 7.0)));
    }
}
