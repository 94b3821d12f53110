use std::time::{Duration, Instant};

/// The least time between two notices about the same trouble.
const NOTICE_PERIOD: Duration = Duration::from_secs(60);

/// Lets a repeated notice through at most once a minute, so that it does not push the others out.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Option<Instant>);

impl Seldom {
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= NOTICE_PERIOD);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}
