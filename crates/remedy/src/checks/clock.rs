//! The wall clock: whether somebody disciplines it, and how far it is off. What the kernel says is asked, so that any daemon will do.

use super::Said;
use std::time::Duration;
use surefoot_hostfs::clock_discipline::ClockDiscipline;
use surefoot_model::CheckState;

pub(super) fn ask(warning: Duration, critical: Duration) -> Said {
    match ClockDiscipline::read() {
        Ok(clock) => judge(&clock, warning, critical),
        Err(error) => Said::unknown(format!("The kernel does not tell of its clock: {error}")),
    }
}

fn judge(clock: &ClockDiscipline, warning: Duration, critical: Duration) -> Said {
    let off = Duration::from_nanos(clock.offset_ns.unsigned_abs()).max(clock.estimated_error);
    // Of a clock that nobody synchronises the kernel gives 16 s, which is no estimate.
    let error = match clock.is_synchronized {
        true => format!(
            "estimated error: {:.6} s, at most {:.3} s",
            clock.estimated_error.as_secs_f64(),
            clock.error_max.as_secs_f64()
        ),
        false => "estimated error: unknown, because nothing synchronises the clock".to_owned(),
    };
    let offset = match clock.is_synchronized {
        true => format!("offset that is being corrected: {:.6} s", clock.offset_ns as f64 / 1e9),
        // The kernel then gives 0, which nobody measured.
        false => "offset: unknown, because nothing synchronises the clock".to_owned(),
    };
    let evidence = vec![
        offset,
        error,
        format!("limits: warning {} s, critical {} s", warning.as_secs_f64(), critical.as_secs_f64()),
    ];
    let sentence = format!("The wall clock is off by {:.3} s.", off.as_secs_f64());
    let said = match clock.is_synchronized {
        true if off >= critical => Said::new(CheckState::Critical, sentence),
        true if off >= warning => Said::new(CheckState::Warning, sentence),
        true => Said::new(CheckState::Ok, "The wall clock is disciplined and right."),
        false => Said::new(
            CheckState::Warning,
            "The wall clock is not synchronised: start chrony, ntpd or systemd-timesyncd, or find out why it reaches no server.",
        ),
    };
    said.with_evidence(evidence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_disciplines_or_that_is_off_is_told() {
        let state = |is_synchronized, offset_ns, error_ms| {
            let clock = ClockDiscipline {
                is_synchronized,
                offset_ns,
                estimated_error: Duration::from_millis(error_ms),
                error_max: Duration::from_secs(1),
            };
            let said = judge(&clock, Duration::from_millis(100), Duration::from_secs(1));
            let is_measured = said.evidence[..2].iter().all(|line| !line.contains("unknown"));
            assert_eq!(is_measured, is_synchronized, "{:?}", said.evidence);
            said.state
        };
        assert_eq!(state(true, 1_000, 1), CheckState::Ok);
        assert_eq!(state(true, -200_000_000, 1), CheckState::Warning);
        assert_eq!(state(true, 1_000, 150), CheckState::Warning);
        assert_eq!(state(true, 1_000_000_000, 1), CheckState::Critical);
        assert_eq!(state(false, 0, 0), CheckState::Warning);
    }
}
