//! Whether a fault stays.

use super::mode::Found;
use surefoot_model::{FaultMode, Persistence};

/// Patrol scrubbers rewrite every word within a day (the usual default of server firmware) or a few. The interval of this host is not
/// known, so only what is seen again after three days is no flipped bit that waited for the scrubber.
pub(super) const SCRUB_NS: u64 = 72 * 3600 * 1_000_000_000;
/// What was seen for longer than the usual scrub takes is no flip on most hosts, though it may be one on this.
const USUAL_SCRUB_NS: u64 = 24 * 3600 * 1_000_000_000;
/// A fault that was not seen for so long was transient. Permanent ones come back within days (most do within hours).
const QUIET_NS: u64 = 7 * 24 * 3600 * 1_000_000_000;

/// Whether the fault stays, as of a time (`CLOCK_REALTIME`).
pub(super) fn of(found: &Found, now_realtime_ns: u64) -> Persistence {
    let seen = found.seen;
    if found.mode == FaultMode::None || !found.has_place || seen.first_ns == 0 {
        return Persistence::Undetermined;
    }
    if seen.reports >= 2 && seen.last_ns - seen.first_ns > SCRUB_NS {
        return Persistence::Permanent;
    }
    if seen.last_ns - seen.first_ns <= USUAL_SCRUB_NS && now_realtime_ns.saturating_sub(seen.last_ns) >= QUIET_NS {
        Persistence::Transient
    } else {
        Persistence::Undetermined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::evidence::Seen;
    use surefoot_model::Certainty;

    fn at(first_h: u64, last_h: u64, reports: u64, now_h: u64) -> Persistence {
        let ns = |hours: u64| hours * 3600 * 1_000_000_000;
        let seen = Seen { errors: reports, reports, first_ns: ns(first_h), last_ns: ns(last_h) };
        let found = Found {
            mode: FaultMode::Cell,
            certainty: Certainty::Probable,
            evidence: String::new(),
            seen,
            has_place: true,
            odds: None,
        };
        of(&found, ns(now_h))
    }

    #[test]
    fn what_comes_back_after_a_scrub_stays() {
        assert_eq!(at(1, 74, 2, 74), Persistence::Permanent);
        assert_eq!(at(1, 73, 2, 73), Persistence::Undetermined, "a scrubber that takes three days was not there yet");
        assert_eq!(at(1, 3, 9, 3 + 7 * 24), Persistence::Transient);
        assert_eq!(at(1, 26, 9, 26 + 7 * 24), Persistence::Undetermined, "a day's scrub would have removed it");
        assert_eq!(at(1, 1, 1, 7 * 24), Persistence::Undetermined);
        assert_eq!(at(0, 0, 9, 99_999), Persistence::Undetermined, "without times nothing is known");
    }
}
