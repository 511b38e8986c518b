//! The network between two hosts: [`Link`].

use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::sleep};

use super::Random;

/// How the network is, between two hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weather {
    /// The least and the longest time that a message takes.
    pub delay: [Duration; 2],
    /// The chance that a message does not arrive, and the connection is cut: both sides are told.
    pub cut: f64,
    /// The chance that a message does not arrive, and neither side is told.
    pub silence: f64,
    /// The chance that an answer is distorted on its way.
    pub distortion: f64,
    /// The chance that a request is sent a second time.
    pub repetition: f64,
    /// The network is split: no message arrives, and neither side is told.
    pub is_split: bool,
}

impl Weather {
    /// Messages that arrive within a millisecond.
    pub const CLEAR: Self = Self {
        delay: [Duration::from_micros(50), Duration::from_micros(1000)],
        cut: 0.0,
        silence: 0.0,
        distortion: 0.0,
        repetition: 0.0,
        is_split: false,
    };

    /// Returns the weather in which both happen.
    fn and(self, other: Self) -> Self {
        Self {
            delay: [self.delay[0].max(other.delay[0]), self.delay[1].max(other.delay[1])],
            cut: self.cut.max(other.cut),
            silence: self.silence.max(other.silence),
            distortion: self.distortion.max(other.distortion),
            repetition: self.repetition.max(other.repetition),
            is_split: self.is_split || other.is_split,
        }
    }
}

/// A message that has not arrived, of a connection that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

/// The network between two hosts. Clones are the same. Its weather can change at any time, for more than one reason at once.
#[derive(Clone, Debug)]
pub struct Link {
    between: Arc<Between>,
    random: Arc<Mutex<Random>>,
}

#[derive(Debug)]
struct Between {
    weather: Mutex<Vec<Weather>>,
    /// All connections are cut at once.
    cuts: Arc<Notify>,
}

impl Link {
    /// Makes a link in clear weather.
    pub fn new(random: Random) -> Self {
        let between = Between { weather: Mutex::default(), cuts: Arc::new(Notify::new()) };
        Self { between: Arc::new(between), random: Arc::new(Mutex::new(random)) }
    }

    /// Returns the same link for messages that draw from a stream of their own.
    #[must_use]
    pub fn with(&self, random: Random) -> Self {
        Self { between: Arc::clone(&self.between), random: Arc::new(Mutex::new(random)) }
    }

    /// Adds to the weather, until it is [removed](Self::remove).
    pub fn add(&self, weather: Weather) {
        self.weather().push(weather);
    }

    /// Takes away what was [added](Self::add), once.
    pub fn remove(&self, weather: Weather) {
        let mut all = self.weather();
        if let Some(place) = all.iter().position(|added| *added == weather) {
            all.remove(place);
        }
    }

    /// Cuts all connections that are there now.
    pub fn cut(&self) {
        self.between.cuts.notify_waiters();
    }

    /// Returns when connections are cut the next time, counted from this call.
    pub fn next_cut(&self) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(&self.between.cuts).notified_owned()
    }

    /// Carries one message across. In silence it never returns.
    ///
    /// # Errors
    ///
    /// [`Cut`] if the connection was cut instead.
    pub async fn carry(&self) -> Result<(), Cut> {
        enum Fate {
            Arrives,
            Cut,
            Silence,
        }
        let (delay, fate) = {
            let weather = self.now();
            let mut random = self.random();
            let delay = random.duration(weather.delay[0]..=weather.delay[1]);
            let fate = match () {
                () if weather.is_split || random.chance(weather.silence) => Fate::Silence,
                () if random.chance(weather.cut) => Fate::Cut,
                () => Fate::Arrives,
            };
            (delay, fate)
        };
        sleep(delay).await;
        match fate {
            Fate::Arrives => Ok(()),
            Fate::Cut => Err(Cut),
            Fate::Silence => pending().await,
        }
    }

    /// Draws whether an answer is distorted, and how.
    pub fn distorts(&self) -> Option<Random> {
        let distortion = self.now().distortion;
        let mut random = self.random();
        random.chance(distortion).then(|| random.fork())
    }

    /// Draws whether a request is sent a second time.
    pub fn repeats(&self) -> bool {
        let repetition = self.now().repetition;
        self.random().chance(repetition)
    }

    fn now(&self) -> Weather {
        self.weather().iter().copied().fold(Weather::CLEAR, Weather::and)
    }

    fn random(&self) -> MutexGuard<'_, Random> {
        self.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that happens now.
    fn weather(&self) -> MutexGuard<'_, Vec<Weather>> {
        self.between.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
