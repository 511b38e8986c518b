//! Faults, as they happen: [`Targets::strike`].

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::{advance, sleep};

use crate::{
    database::Database,
    plan::{Fault, Kind},
    server::Server,
    world::{Link, Weather, World},
};

/// Messages are slow, and some do not arrive.
const STORM: Weather = Weather {
    delay: [Duration::from_millis(1), Duration::from_millis(800)],
    cut: 0.05,
    silence: 0.05,
    ..Weather::CLEAR
};

/// A proxy distorts one answer in three.
const DISTORTION: Weather = Weather { distortion: 0.33, ..Weather::CLEAR };

/// A proxy sends one request in three a second time.
const REPETITION: Weather = Weather { repetition: 0.33, ..Weather::CLEAR };

/// Half of all messages do not arrive.
const SILENCE: Weather = Weather { silence: 0.5, ..Weather::CLEAR };

/// No connection lives.
const REFUSED: Weather = Weather { cut: 1.0, ..Weather::CLEAR };

/// No message arrives.
const SPLIT: Weather = Weather { is_split: true, ..Weather::CLEAR };

/// All that faults happen to. Faults of one target may overlap: it is well again when the last one is over.
#[derive(Clone)]
pub struct Targets {
    /// The world.
    pub world: World,
    /// The servers.
    pub servers: Arc<Vec<Server>>,
    /// The database.
    pub database: Database,
    /// The network between clients and servers.
    pub to_servers: Link,
}

impl Targets {
    /// Does what a fault is, and undoes it when it is over.
    pub async fn strike(&self, fault: &Fault) {
        let (lasts, servers, database) = (fault.lasts, &self.servers, &self.database);
        self.tell(fault, format_args!("{:?} for {lasts:?}", fault.kind));
        let kind = format!("{:?}", fault.kind);
        self.world.count("fault", kind.split('(').next().unwrap_or_default());
        match fault.kind {
            Kind::Kill(server) => {
                if servers[server].kill() {
                    sleep(lasts).await;
                    servers[server].start_if_down();
                } else {
                    self.tell(fault, format_args!("it is down already"));
                }
            }
            Kind::Stop(server) => {
                if servers[server].stop(false).await {
                    servers[server].start_if_down();
                } else {
                    self.tell(fault, format_args!("it is down already, or was killed meanwhile"));
                }
            }
            Kind::Pause(server) => match servers[server].process() {
                Some(process) => {
                    process.pause();
                    sleep(lasts).await;
                    process.resume();
                }
                None => self.tell(fault, format_args!("it is down already")),
            },
            Kind::Stall => advance(lasts).await,
            Kind::WallClocks(by) => {
                self.world.set_wall_clocks(by);
                sleep(lasts).await;
                self.world.set_wall_clocks(-by);
            }
            Kind::SplitDatabase(server) => during(&servers[server].to_database, SPLIT, lasts).await,
            Kind::CutDatabase(server) => servers[server].to_database.cut(),
            Kind::RefuseDatabase(server) => {
                servers[server].to_database.cut();
                during(&servers[server].to_database, REFUSED, lasts).await;
            }
            Kind::StormDatabase(server) => during(&servers[server].to_database, STORM, lasts).await,
            Kind::SilenceDatabase(server) => during(&servers[server].to_database, SILENCE, lasts).await,
            Kind::Outage => {
                let links = servers.iter().map(|server| during(&server.to_database, SPLIT, lasts));
                join_all(links).await;
            }
            Kind::StormOutside(server) => during(&servers[server].outside, STORM, lasts).await,
            Kind::StormClients => during(&self.to_servers, STORM, lasts).await,
            Kind::SplitClients => during(&self.to_servers, SPLIT, lasts).await,
            Kind::CutClients => self.to_servers.cut(),
            Kind::DistortClients => during(&self.to_servers, DISTORTION, lasts).await,
            Kind::RepeatClients => during(&self.to_servers, REPETITION, lasts).await,
            Kind::Restart => database.restart(fault.goes_on()),
            Kind::EndSessions => database.end_sessions(),
            Kind::FailOver => database.fail_over(0, fault.goes_on()),
            Kind::LoseCommits(commits) => database.fail_over(commits, fault.goes_on()),
            Kind::Jump => database.jump(lasts),
            Kind::SetBack => database.set_back(lasts),
            Kind::Trouble | Kind::SlowStatements | Kind::SlowCommits | Kind::SlowStatuses | Kind::CutsAtStatements => {
                database.add(fault.trouble);
                sleep(lasts).await;
                database.remove(fault.trouble);
            }
        }
    }

    fn tell(&self, fault: &Fault, event: fmt::Arguments<'_>) {
        self.world.tell(format_args!("world"), format_args!("fault {}: {event}", fault.number));
    }
}

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Targets").field("world", &self.world).finish_non_exhaustive()
    }
}

async fn during(link: &Link, weather: Weather, lasts: Duration) {
    link.add(weather);
    sleep(lasts).await;
    link.remove(weather);
}
