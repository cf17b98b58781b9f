//! When the next attempt may be made, and whether there is one.

use std::time::{Duration, SystemTime};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

use super::settings::Limits;

/// The pace of one service: calls and tokens a minute, and the pause it asked for.
#[derive(Debug)]
pub(super) struct Pace {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    held_until: Duration,
}

impl Pace {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            requests: limits.requests_per_minute.map(|n| Bucket::new(n.into())),
            tokens: limits.tokens_per_minute.map(|n| Bucket::new(n as f64)),
            held_until: Duration::ZERO,
        }
    }

    /// Books a call of `tokens` and says how long after `now` it may be sent.
    pub(super) fn book(&mut self, now: Duration, tokens: u64) -> Duration {
        let take = |bucket: &mut Option<Bucket>, amount| {
            let bucket = bucket.as_mut();
            bucket.map_or(Duration::ZERO, |bucket| bucket.take(now, amount))
        };
        let requests = take(&mut self.requests, 1.0);
        let tokens = take(&mut self.tokens, tokens as f64);
        requests.max(tokens).max(self.held(now))
    }

    /// How long after `now` nothing may be sent at all.
    pub(super) fn held(&self, now: Duration) -> Duration {
        self.held_until.saturating_sub(now)
    }

    /// Nothing is sent before `until`, because the service said so.
    pub(super) fn hold(&mut self, until: Duration) {
        self.held_until = self.held_until.max(until);
    }
}

/// A token bucket that holds one minute's worth and may be overdrawn by those who wait.
#[derive(Debug)]
struct Bucket {
    per_minute: f64,
    level: f64,
    at: Duration,
}

impl Bucket {
    fn new(per_minute: f64) -> Self {
        Self {
            per_minute,
            level: per_minute,
            at: Duration::ZERO,
        }
    }

    fn take(&mut self, now: Duration, amount: f64) -> Duration {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        self.level = (self.level + passed * self.per_minute / 60.0).min(self.per_minute);
        self.at = self.at.max(now);
        self.level -= amount;
        let owed = (-self.level).max(0.0);
        Duration::try_from_secs_f64(owed * 60.0 / self.per_minute).unwrap_or(Duration::MAX)
    }
}

/// Whether the same call may succeed if it is made again: the service was busy, broken or timed
/// out, and not out of money.
pub(super) fn is_passing(status: u16, code: Option<&str>) -> bool {
    let spent = matches!(
        code,
        Some("insufficient_quota" | "billing_hard_limit_reached")
    );
    matches!(status, 408 | 409 | 429 | 500..=599) && !spent
}

/// The pause before attempt `attempt + 1`: between half and the whole of a length that doubles with
/// every attempt. Equal calls of equal runs pause equally.
pub(super) fn backoff(limits: &Limits, seed: u64, attempt: u32) -> Duration {
    let doubled = limits.pause_seconds * 2f64.powi(attempt.saturating_sub(1).min(64) as i32);
    let longest = doubled.min(limits.longest_pause_seconds);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(attempt.into());
    let unit = f64::from(random.next_u32()) / f64::from(u32::MAX);
    Duration::from_secs_f64(longest * (0.5 + 0.5 * unit))
}

/// The pause that a reply's headers ask for, in milliseconds, seconds, or up to a date.
pub(super) fn retry_after(
    header: impl Fn(&'static str) -> Option<String>,
    wall: SystemTime,
) -> Option<Duration> {
    let seconds = |text: String, unit: f64| {
        let value: f64 = text.trim().parse().ok()?;
        Duration::try_from_secs_f64(value * unit).ok()
    };
    if let Some(pause) = header("retry-after-ms").and_then(|text| seconds(text, 1e-3)) {
        return Some(pause);
    }
    let text = header("retry-after")?;
    if let Ok(date) = httpdate::parse_http_date(text.trim()) {
        return Some(date.duration_since(wall).unwrap_or_default());
    }
    seconds(text, 1.0)
}

/// Counts calls that fail in a row, and stops all of them when there are too many.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    reason: String,
}

impl Breaker {
    /// How many failed in a row and how the last did, if that is too many.
    pub(super) fn tripped(&self, limits: &Limits) -> Option<(u32, String)> {
        let most = limits.failures_in_a_row;
        (most > 0 && self.failures >= most).then(|| (self.failures, self.reason.clone()))
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    pub(super) fn failed(&mut self, reason: String) {
        self.failures += 1;
        self.reason = reason;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_minute_holds_no_more_calls_and_tokens_than_it_may() {
        let limits = Limits {
            requests_per_minute: Some(60),
            tokens_per_minute: Some(6000),
            ..Limits::default()
        };
        let mut pace = Pace::new(&limits);
        let waits: Vec<_> = (0..62).map(|_| pace.book(Duration::ZERO, 10)).collect();
        assert_eq!(waits[59], Duration::ZERO);
        assert_eq!(waits[61], 2 * SECOND);
        let mut pace = Pace::new(&limits);
        assert_eq!(pace.book(Duration::ZERO, 6000), Duration::ZERO);
        assert_eq!(pace.book(Duration::ZERO, 100), SECOND);
        pace.hold(9 * SECOND);
        assert_eq!(pace.book(2 * SECOND, 0), 7 * SECOND);
        assert_eq!(pace.held(10 * SECOND), Duration::ZERO);
    }

    #[test]
    fn pauses_double_to_a_bound_with_seeded_jitter() {
        let limits = Limits::default();
        for attempt in 1..=40 {
            let whole = 2f64.powi(attempt as i32 - 1).min(60.0);
            let pause = backoff(&limits, 7, attempt).as_secs_f64();
            assert!((whole / 2.0..=whole).contains(&pause), "{attempt}: {pause}");
            assert_eq!(backoff(&limits, 7, attempt), backoff(&limits, 7, attempt));
        }
        assert_ne!(backoff(&limits, 7, 1), backoff(&limits, 8, 1));
    }

    #[test]
    fn retry_after_is_read_in_every_form() {
        let wall = httpdate::parse_http_date("Mon, 30 Nov 2026 12:00:00 GMT").unwrap();
        let read = |name: &'static str, value: &str| {
            let value = value.to_owned();
            retry_after(|asked| (asked == name).then(|| value.clone()), wall)
        };
        assert_eq!(read("retry-after", "7"), Some(7 * SECOND));
        assert_eq!(read("retry-after", "0.5"), Some(SECOND / 2));
        assert_eq!(read("retry-after-ms", "1500"), Some(3 * SECOND / 2));
        let date = "Mon, 30 Nov 2026 12:00:09 GMT";
        assert_eq!(read("retry-after", date), Some(9 * SECOND));
        let past = "Mon, 30 Nov 2026 11:00:00 GMT";
        assert_eq!(read("retry-after", past), Some(Duration::ZERO));
        assert_eq!(read("retry-after", "soon"), None);
        assert_eq!(read("retry-after", "-3"), None);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for status in [408, 409, 429, 500, 502, 503, 504, 529] {
            assert!(is_passing(status, None), "{status}");
        }
        for status in [400, 401, 403, 404, 413, 422] {
            assert!(!is_passing(status, None), "{status}");
        }
        assert!(!is_passing(429, Some("insufficient_quota")));
    }

    #[test]
    fn the_breaker_counts_failures_in_a_row_only() {
        let limits = Limits {
            failures_in_a_row: 2,
            ..Limits::default()
        };
        let mut breaker = Breaker::default();
        breaker.failed("first".into());
        breaker.succeeded();
        breaker.failed("second".into());
        assert_eq!(breaker.tripped(&limits), None);
        breaker.failed("third".into());
        assert_eq!(breaker.tripped(&limits), Some((2, "third".into())));
    }
}
