//! What Surefoot did on this host, as the watch reads it from the host's journal and counts it for /metrics.

mod source;

pub use source::source;

use crate::http::series::{Claim, Series};
use std::path::Path;
use surefoot_rooms::watch::deeds::Counts;

/// The words of [`surefoot_model::DeedOutcome`].
const OUTCOMES: [&str; 9] =
    ["planned", "withheld", "begun", "goes_on", "done", "not_needed", "taken_back", "failed", "in_doubt"];
/// What its address answers.
pub(crate) const SAYS: &str = "What Surefoot did on this host: who did what, why, and with what outcome.";

/// The name of the source.
pub const SOURCE: &str = "deeds";

/// Why this process cannot read the host's journal; `None` where it can, or there is none.
pub(crate) fn why_not_read() -> Option<String> {
    let held = surefoot_foreign::hold_name(Path::new(surefoot_journal::deeds::FILE));
    let error = held.and_then(|held| held.regular()?.open()).err()?;
    let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied;
    is_denied.then(|| format!("{} can be read by root only", surefoot_journal::deeds::FILE))
}

/// Writes how many there were of each kind.
pub(crate) fn encode(counts: &Counts, series: &mut Series) {
    let help = "All actions of Surefoot on this host by outcome, including those of the 30 days before the start that the journal still has.";
    let family = series.counter("watch_all_deeds", help);
    for outcome in OUTCOMES {
        let count = counts.iter().filter(|((.., of), _)| *of == outcome).map(|(_, count)| count).sum::<u64>();
        family.add(&[("outcome", outcome)], count);
    }
    let help = "The same by room and action.";
    let family = series.counter("watch_deeds", help);
    for (place, ((room, action, outcome), &count)) in counts.iter().enumerate() {
        let labels = [("room", room.as_str()), ("action", action.as_str()), ("outcome", outcome)];
        family.of(Claim(place), &labels, count);
    }
}
