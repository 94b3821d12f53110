//! How long, how often and how much.

use crate::Fault;
use crate::disturbance::{Method, Spec, What};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::time_words;
use surefoot_probes::FREEZE_LENGTH_MAX_NS;

/// A stall may be so long. Watchdogs of the kernel and of clusters bite after seconds.
pub const LENGTH_MAX_NS: u64 = FREEZE_LENGTH_MAX_NS;
/// Of the time a disturbance may take so much.
pub const SHARE_MAX_PERCENT: u64 = 45;
/// From the start of one stall to the start of the next, at least.
pub const PERIOD_MIN_NS: u64 = 100_000;
/// Nobody knows before how long the firmware takes for one.
const SMI_PERIOD_MIN_NS: u64 = 10_000_000;
/// At most: one hour.
pub const PERIOD_MAX_NS: u64 = 3_600_000_000_000;
/// An experiment may take so long unless more is allowed.
pub const TOTAL_DEFAULT: Duration = Duration::from_secs(3_600);

/// Whether this may be done at all.
///
/// # Errors
/// [`Fault::Refused`] with the reason.
pub fn check(spec: &Spec, root: &Root) -> Result<(), Fault> {
    let Spec { length_ns, period_ns, .. } = *spec;
    let refused = |why: String| Err(Fault::Refused(why));
    if spec.what.is_rated() && !(PERIOD_MIN_NS..=PERIOD_MAX_NS).contains(&period_ns) {
        let most = 1_000_000_000 / PERIOD_MIN_NS;
        return refused(format!("that rate: one an hour to {most} a second are possible"));
    }
    if !(PERIOD_MIN_NS..=PERIOD_MAX_NS).contains(&period_ns) {
        return refused(format!(
            "a period of {}: {} to one hour are possible",
            time_words(period_ns),
            time_words(PERIOD_MIN_NS)
        ));
    }
    if spec.what == What::Smi && period_ns < SMI_PERIOD_MIN_NS {
        return refused(format!(
            "{:.0} SMIs a second: at most {} are possible",
            1e9 / period_ns as f64,
            1_000_000_000 / SMI_PERIOD_MIN_NS
        ));
    }
    if spec.what.is_rated() {
        return Ok(());
    }
    let (length, period) = (time_words(length_ns), time_words(period_ns));
    if length_ns >= period_ns {
        return refused(format!("stalls of {length} every {period}: a stall must be shorter than its period"));
    }
    if length_ns == 0 || length_ns > LENGTH_MAX_NS {
        return refused(format!("stalls of {length}: 1 ns to {} are possible", time_words(LENGTH_MAX_NS)));
    }
    if u128::from(length_ns) * 100 > u128::from(period_ns) * u128::from(SHARE_MAX_PERCENT) {
        // Never the limit itself by rounding.
        let share = (length_ns as f64 * 1_000.0 / period_ns as f64).ceil() / 10.0;
        return refused(format!(
            "stalls of {length} every {period} take {share:.1} % of the time: at most {SHARE_MAX_PERCENT} % are \
             allowed, so that the machine can be used and the disturbance be ended"
        ));
    }
    if spec.what == What::Freeze(Some(Method::Spin)) {
        return throttled(spec, root).map_err(|why| Fault::Refused(format!("{why}; take shorter ones, or method=bpf")));
    }
    Ok(())
}

/// Real-time threads have a budget of the machine's time (`sched_rt_runtime_us` of each `sched_rt_period_us`); beyond it the
/// kernel takes the core from them in the middle of a stall. Says why that would be.
pub(crate) fn throttled(spec: &Spec, root: &Root) -> Result<(), String> {
    let Spec { length_ns, period_ns, .. } = *spec;
    let number = |name: &str| surefoot_hostfs::settings::number_file(root, &root.proc(format!("sys/kernel/{name}")));
    let (Ok(runtime_us), Ok(budget_period_us)) = (number("sched_rt_runtime_us"), number("sched_rt_period_us")) else {
        return Ok(());
    };
    // Negative: there is no budget.
    let (Ok(runtime_us), Ok(budget_period_us)) = (u64::try_from(runtime_us), u64::try_from(budget_period_us)) else {
        return Ok(());
    };
    let in_budget_period = (budget_period_us * 1_000).div_ceil(period_ns) * length_ns;
    if in_budget_period > runtime_us * 1_000 {
        return Err(format!(
            "real-time threads may have {} of {} here (sched_rt_runtime_us), and these stalls take up to {} of it: the kernel would \
             end them early",
            time_words(runtime_us * 1_000),
            time_words(budget_period_us * 1_000),
            time_words(in_budget_period)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disturbance::Phase;
    use surefoot_testkit::HostTree;

    fn spec(length_ns: u64, period_ns: u64, method: Option<Method>) -> Spec {
        Spec {
            what: What::Freeze(method),
            length_ns,
            period_ns,
            cores: vec![],
            phase: Phase::Same,
            guest: None,
            even_on_bare_metal: false,
        }
    }

    #[test]
    fn of_a_rate_no_period_is_told() {
        let root = Root::host();
        for period_ns in [0, 99_999, u64::MAX] {
            let spec = Spec { what: What::Ipi, ..spec(0, period_ns, None) };
            let error = check(&spec, &root).unwrap_err().to_string();
            assert!(error.contains("one an hour to 10000 a second") && !error.contains("period"), "{error}");
        }
    }

    #[test]
    fn what_is_too_long_too_much_or_impossible_is_refused_with_the_reason() {
        let tree = HostTree::new();
        let root = Root::at(tree.path());
        for (length_ns, period_ns, said) in [
            (1_000_000_000, 1_000_000_000, "shorter than its period"),
            (2_000_000_000, 1_000_000_000, "shorter than its period"),
            (460_000_000, 1_000_000_000, "1 ns to 450 ms"),
            (0, 1_000_000_000, "1 ns to 450 ms"),
            (5_000_000, 10_000_000, "50.0 % of the time"),
            (10, 99_999, "a period of 99.999 us"),
            (10, u64::MAX, "to one hour"),
        ] {
            let error = check(&spec(length_ns, period_ns, None), &root).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(check(&spec(450_000_000, 1_000_000_000, None), &root).is_ok());
    }

    #[test]
    fn spinners_that_the_kernel_would_throttle_are_refused() {
        let check = |runtime: &str, length_ns| {
            let tree = HostTree::new()
                .file("proc/sys/kernel/sched_rt_runtime_us", runtime)
                .file("proc/sys/kernel/sched_rt_period_us", "1000000\n");
            check(&spec(length_ns, 500_000_000, Some(Method::Spin)), &Root::at(tree.path()))
        };
        assert!(check("950000\n", 200_000_000).is_ok());
        assert!(check("-1\n", 200_000_000).is_ok());
        let error = check("100000\n", 200_000_000).unwrap_err().to_string();
        assert!(error.contains("100 ms of 1 s") && error.contains("up to 400 ms"), "{error}");
    }
}
