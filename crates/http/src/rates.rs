//! How often somebody may ask.

use crate::lock;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// Those who are remembered; beyond, all begin anew.
const KNOWN_MAX: usize = 100_000;

/// So many at once, and so many per second in the long run, for each name.
pub struct Rates {
    burst: f64,
    per_s: f64,
    left: Mutex<HashMap<String, (f64, Instant)>>,
}

impl Rates {
    /// `burst` at once, `per_s` in the long run.
    pub fn new(burst: u32, per_s: u32) -> Rates {
        Rates { burst: burst.into(), per_s: per_s.into(), left: Mutex::default() }
    }

    /// Whether one more may be asked now.
    pub fn may(&self, name: &str, now: Instant) -> bool {
        let mut left = lock(&self.left);
        if left.len() >= KNOWN_MAX && !left.contains_key(name) {
            left.clear();
        }
        let (tokens, since) = left.entry(name.to_owned()).or_insert((self.burst, now));
        *tokens = (*tokens + now.saturating_duration_since(*since).as_secs_f64() * self.per_s).min(self.burst);
        *since = now;
        let may = *tokens >= 1.0;
        if may {
            *tokens -= 1.0;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_name_has_its_own_rate() {
        let (rates, begin) = (Rates::new(3, 2), Instant::now());
        assert_eq!([0; 4].map(|_| rates.may("a", begin)), [true, true, true, false]);
        assert!(rates.may("b", begin));
        let later = begin + Duration::from_secs(1);
        assert_eq!([0; 3].map(|_| rates.may("a", later)), [true, true, false]);
    }
}
