//! Power and the physical core: idle states, frequency, the sibling thread.

use super::{Facts, Judgement, Known, Rule, cores_text, fine, fix, known};
use crate::audit::measure::listed;
use surefoot_hostfs::isolation::IdleState;
use surefoot_model::{CpuId, Digits};

/// The wake-up that a low-latency core may take, microseconds: that of C1 on today's servers.
const WAKE_UP_MOST_US: u64 = 2;

pub const RULES: &[Rule] = &[
    Rule {
        name: "idle_states",
        expected: "no idle state that takes more than 2 us to leave",
        why: "a core that sleeps deeply comes back late and cold when the workload wakes",
        source: "kernel admin-guide/pm/cpuidle: disable, PM QoS",
        judge: idle_states,
        evidence: |facts, measured| {
            let states =
                measured.idle.get(&facts.cpu()).ok_or_else(|| format!("core {} shows no idle states", facts.cpu()))?;
            let entered =
                listed(states.iter().filter(|state| state.2 > 0).map(|(_, name, count)| format!("{name} {count}")));
            let entered = if entered.is_empty() { "none".to_owned() } else { entered };
            Ok(format!("entered in {}: {entered}", measured.length()))
        },
    },
    Rule {
        name: "governor",
        expected: "performance",
        why: "other governors lower the frequency when the core seems idle and take milliseconds to raise it",
        source: "kernel admin-guide/pm/cpufreq: scaling_governor",
        judge: |facts| {
            let governor = known(&facts.core.governor)?;
            if governor == "performance" {
                return fine(governor.clone());
            }
            let cpu = facts.cpu();
            fix(
                governor.clone(),
                format!("echo performance > /sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
            )
        },
        evidence: |_, _| Err(ASKING_DISTURBS.to_owned()),
    },
    Rule {
        name: "turbo",
        expected: "one fixed frequency: no turbo, or equal limits",
        why: "with turbo the frequency depends on the neighbours' load, and each change stops the core for microseconds",
        source: "kernel admin-guide/pm/intel_pstate: no_turbo; admin-guide/pm/cpufreq: boost",
        judge: turbo,
        evidence: |_, _| Err(ASKING_DISTURBS.to_owned()),
    },
    Rule {
        name: "sibling",
        expected: "the other thread of the physical core is offline or isolated too",
        why: "both threads share the caches and the execution units, so the sibling's work slows this core down",
        source: "kernel ABI sysfs-devices-system-cpu: topology/thread_siblings_list",
        judge: sibling,
        evidence: |facts, measured| {
            let others = siblings(facts)?;
            let busy = |cpu: &CpuId| Ok(format!("core {cpu} was {:.0} % busy", measured.busy(*cpu)? * 100.0));
            let each: Vec<String> = others.iter().map(busy).collect::<Known<_>>()?;
            if each.is_empty() {
                Err("there is no sibling".to_owned())
            } else {
                Ok(format!("{} in {}", each.join(", "), measured.length()))
            }
        },
    },
];

const ASKING_DISTURBS: &str = "asking a core for its frequency interrupts it on many kernels";

fn idle_states(facts: &Facts<'_>) -> Known<Judgement> {
    let states = known(&facts.core.idle_states)?;
    let (limit_us, limited_by) = wake_up_limit(facts);
    let deep: Vec<&IdleState> = states
        .iter()
        .filter(|state| !state.disabled && state.latency_us > WAKE_UP_MOST_US && state.latency_us <= limit_us)
        .collect();
    let text =
        |states: &[&IdleState]| listed(states.iter().map(|state| format!("{} {} us", state.name, state.latency_us)));
    if deep.is_empty() {
        let open: Vec<&IdleState> =
            states.iter().filter(|state| !state.disabled && state.latency_us <= limit_us).collect();
        return fine(format!("{}{limited_by}", if open.is_empty() { "none".to_owned() } else { text(&open) }));
    }
    let unknown = match &facts.settings.dma_latency_us {
        Ok(_) => String::new(),
        Err(_) => "; whether /dev/cpu_dma_latency limits them only root may read".to_owned(),
    };
    let numbers: Vec<String> = deep.iter().map(|state| state.index.to_string()).collect();
    fix(
        format!("{}{limited_by}{unknown}", text(&deep)),
        format!(
            "for state in {}; do echo 1 > /sys/devices/system/cpu/cpu{}/cpuidle/state$state/disable; done",
            numbers.join(" "),
            facts.cpu()
        ),
    )
}

/// The longest wake-up that the limits of the machine and of the core allow, and who set it.
fn wake_up_limit(facts: &Facts<'_>) -> (u64, String) {
    // The kernel says 2,000 s when nobody holds a limit, and a negative number never limits.
    let machine = facts.settings.dma_latency_us.as_ref().ok().and_then(|us| u64::try_from(*us).ok());
    let core = match facts.core.resume_latency.as_deref() {
        // In this file 0 is "no limit" and n/a is "no latency at all".
        Ok("n/a") => Some(0),
        Ok(text) => text.digits::<u64>().filter(|&us| us > 0),
        Err(_) => None,
    };
    const NOBODY_US: u64 = 2_000_000_000;
    match (machine.filter(|&us| us < NOBODY_US), core) {
        (Some(machine), core) if core.is_none_or(|core| machine <= core) => {
            (machine, format!(" (a process holds /dev/cpu_dma_latency at {machine} us)"))
        }
        (_, Some(core)) => (core, format!(" (pm_qos_resume_latency_us allows {core} us)")),
        (_, None) => (u64::MAX, String::new()),
    }
}

fn turbo(facts: &Facts<'_>) -> Known<Judgement> {
    if let Ok((low, high)) = facts.core.frequency_range_khz
        && low == high
    {
        return fine(format!("fixed at {} MHz", low / 1000));
    }
    let turbo = known(&facts.settings.turbo)?;
    match (turbo.on, turbo.intel_pstate) {
        (false, _) => fine("off"),
        (true, true) => fix("on", "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"),
        (true, false) => fix("on", "echo 0 > /sys/devices/system/cpu/cpufreq/boost"),
    }
}

fn siblings(facts: &Facts<'_>) -> Known<Vec<CpuId>> {
    Ok(known(&facts.core.siblings)?.iter().copied().filter(|&cpu| cpu != facts.cpu()).collect())
}

fn sibling(facts: &Facts<'_>) -> Known<Judgement> {
    let others = siblings(facts)?;
    if others.is_empty() {
        return fine("the core has no other thread online");
    }
    let isolated = facts.settings.isolated.as_deref().unwrap_or_default();
    let ordinary: Vec<CpuId> =
        others.iter().copied().filter(|cpu| !facts.settings.audited.contains(cpu) && !isolated.contains(cpu)).collect();
    if ordinary.is_empty() {
        return fine(format!("{}, isolated too", cores_text(&others)));
    }
    let commands: Vec<String> =
        ordinary.iter().map(|cpu| format!("echo 0 > /sys/devices/system/cpu/cpu{cpu}/online")).collect();
    fix(format!("{} does ordinary work", cores_text(&ordinary)), commands.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Try, good, measured};

    #[test]
    fn idle_states() {
        let try_it = Try::new("idle_states");
        assert_eq!(try_it.ok(&good()).actual, "POLL 0 us, C1 1 us");
        let at = "sys/devices/system/cpu/cpu2";
        let deep = || good().file(format!("{at}/cpuidle/state2/disable"), "0\n");
        let mut measured = measured("", "", 1.0);
        measured.idle = [(surefoot_model::CpuId(2), vec![(1, "C1".into(), 0), (2, "C6".into(), 41)])].into();
        let found = try_it.fix_with(&deep(), &measured);
        assert_eq!(
            found.fix,
            "for state in 2; do echo 1 > /sys/devices/system/cpu/cpu2/cpuidle/state$state/disable; done"
        );
        assert_eq!(found.evidence, "entered in 2.0 s: C6 41");
        assert!(found.actual.starts_with("C6 133 us; whether /dev/cpu_dma_latency"), "{}", found.actual);
        let held = |us: i32| deep().file("dev/cpu_dma_latency", us.to_ne_bytes());
        assert!(try_it.ok(&held(0)).actual.contains("holds /dev/cpu_dma_latency at 0 us"));
        assert_eq!(try_it.fix(&held(2_000_000_000)).actual, "C6 133 us");
        assert!(
            try_it
                .ok(&deep().file(format!("{at}/power/pm_qos_resume_latency_us"), "n/a\n"))
                .actual
                .contains("allows 0 us")
        );
        try_it.fix(&deep().file(format!("{at}/power/pm_qos_resume_latency_us"), "500\n"));
        try_it.cannot(&good().without(format!("{at}/cpuidle")));
    }

    #[test]
    fn governor() {
        let try_it = Try::new("governor");
        try_it.ok(&good());
        let found = try_it.fix(&good().file("sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "schedutil\n"));
        assert_eq!(found.fix, "echo performance > /sys/devices/system/cpu/cpu2/cpufreq/scaling_governor");
    }

    #[test]
    fn turbo() {
        let try_it = Try::new("turbo");
        try_it.ok(&good());
        let at = "sys/devices/system/cpu";
        let intel = || good().file(format!("{at}/intel_pstate/no_turbo"), "0\n");
        assert_eq!(try_it.fix(&intel()).fix, format!("echo 1 > /{at}/intel_pstate/no_turbo"));
        let amd = good().without(format!("{at}/intel_pstate")).file(format!("{at}/cpufreq/boost"), "1\n");
        assert_eq!(try_it.fix(&amd).fix, format!("echo 0 > /{at}/cpufreq/boost"));
        let range = |tree: surefoot_testkit::HostTree, low: &str| {
            tree.file(format!("{at}/cpu2/cpufreq/scaling_min_freq"), low)
                .file(format!("{at}/cpu2/cpufreq/scaling_max_freq"), "2600000\n")
        };
        assert_eq!(try_it.ok(&range(intel(), "2600000\n")).actual, "fixed at 2600 MHz");
        try_it.fix(&range(intel(), "800000\n"));
    }

    #[test]
    fn sibling() {
        let try_it = Try::new("sibling");
        try_it.ok(&good());
        let with = |list: &str| good().file("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", list);
        assert_eq!(try_it.ok(&with("2-3\n")).actual, "3, isolated too");
        let found = try_it.fix(&with("0,2\n"));
        assert_eq!(
            (found.actual.as_str(), found.fix.as_str()),
            ("0 does ordinary work", "echo 0 > /sys/devices/system/cpu/cpu0/online")
        );
        try_it.cannot(&good().without("sys/devices/system/cpu/cpu2/topology/thread_siblings_list"));
    }
}
