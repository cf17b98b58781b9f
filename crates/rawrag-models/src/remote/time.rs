//! Time and stopping, as the rest of the clients see them.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use tokio::sync::watch;

/// Where clients get the time from and how they wait. Tests hand in one that does not.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Time since some fixed moment; never goes back.
    fn now(&self) -> Duration;

    /// The time of day, to compare with a date that a service names.
    fn wall(&self) -> SystemTime;

    /// Waits.
    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(time))
    }
}

/// Stops a run in two steps: asked once, calls that are under way finish and no other begins; asked
/// again, those under way are broken off too. Copies are the same switch.
#[derive(Debug, Clone)]
pub struct Stop(Arc<watch::Sender<u8>>);

impl Default for Stop {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Stop {
    /// Asks, the first or the second time.
    pub fn request(&self) {
        self.0.send_modify(|asked| *asked = asked.saturating_add(1));
    }

    /// Whether anyone asked.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Returns when it has been asked `times` times.
    pub(super) async fn asked(&self, times: u8) {
        let mut receiver = self.0.subscribe();
        // The sender lives as long as `self`, so this cannot fail.
        let _ = receiver.wait_for(|asked| *asked >= times).await;
    }
}
