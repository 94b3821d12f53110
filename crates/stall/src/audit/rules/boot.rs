//! Boot options: the scheduler's domains, managed interrupts, the tick, RCU callbacks.

use super::{Facts, Judgement, Known, Measured, Rule, cores_text, fine, fix, known};
use crate::audit::measure::listed;
use surefoot_hostfs::cpus::{format_list, parse_boot_list};
use surefoot_hostfs::tasks::Task;
use surefoot_model::{CpuId, Digits};

pub const RULES: &[Rule] = &[
    Rule {
        name: "isolcpus",
        expected: "the core is isolated from the scheduler",
        why: "the scheduler balances ordinary tasks onto every core that is not isolated",
        source: "kernel admin-guide/kernel-parameters: isolcpus; admin-guide/cgroup-v2: cpuset.cpus.partition",
        judge: isolcpus,
        evidence: |facts, measured| {
            Ok(format!("user threads: {}", measured.threads_on(facts.cpu(), |ran| !ran.kernel)?))
        },
    },
    Rule {
        name: "managed_irq",
        expected: "isolcpus has the flag managed_irq for the core",
        why: "the queues of NVMe and many network devices place their interrupts themselves, and only this flag keeps them off",
        source: "kernel admin-guide/kernel-parameters: isolcpus, flag managed_irq",
        judge: managed_irq,
        evidence: device_interrupts,
    },
    Rule {
        name: "nohz_full",
        expected: "the core may run without a tick",
        why: "without it the scheduling tick interrupts the core 100 to 1,000 times a second",
        source: "kernel timers/no_hz",
        judge: nohz_full,
        evidence: |facts, measured| {
            let count = measured.interrupt("LOC", facts.cpu())?;
            Ok(format!("{count} local timer interrupts in {}", measured.length()))
        },
    },
    Rule {
        name: "rcu_nocbs",
        expected: "RCU callbacks of the core are offloaded",
        why: "callbacks that are not offloaded run on the core in softirq context, thousands at a time",
        source: "kernel admin-guide/kernel-parameters: rcu_nocbs, nohz_full",
        judge: rcu_nocbs,
        evidence: |facts, measured| {
            let count = measured.softirq("RCU", facts.cpu())?;
            let threads = callback_threads(facts)?.into_iter().filter(|task| serves(task, facts.cpu())).count();
            Ok(format!("{count} RCU softirqs in {}; {threads} callback threads serve the core", measured.length()))
        },
    },
    Rule {
        name: "rcu_threads",
        expected: "the threads that run offloaded callbacks stay off the core",
        why: "an offloaded callback gains nothing when its thread runs on an isolated core",
        source: "kernel admin-guide/kernel-per-CPU-kthreads: rcuo",
        judge: rcu_threads,
        evidence: |facts, measured| measured.threads_on(facts.cpu(), |ran| ran.kernel && ran.name.starts_with("rcu")),
    },
];

/// `managed_irq,domain,1-3` as its flags and its cores. A flag that is not known may change what the others mean.
fn isolcpus_parts<'a>(value: &'a str, facts: &Facts<'_>) -> Known<(Vec<&'a str>, Vec<CpuId>)> {
    let is_flag = |word: &&str| word.starts_with(|c: char| c.is_ascii_alphabetic());
    let flags: Vec<&str> = value.split(',').take_while(is_flag).collect();
    if let Some(unknown) = flags.iter().find(|flag| !ISOLCPUS_FLAGS.contains(flag)) {
        return Err(format!(
            "isolcpus={value}: '{unknown}' is not a flag that Surefoot knows, and the kernel may ignore it or the whole option; \
             see what the kernel's log says of isolcpus"
        ));
    }
    let rest = value.split(',').skip(flags.len()).collect::<Vec<_>>().join(",");
    Ok((flags, boot_list(&rest, facts)?))
}

/// The flags of `isolcpus=`. The kernel takes every word before the first digit for one, `N` and `all` too.
const ISOLCPUS_FLAGS: [&str; 3] = ["nohz", "domain", "managed_irq"];

/// Cores as boot options name them.
fn boot_list(list: &str, facts: &Facts<'_>) -> Known<Vec<CpuId>> {
    let possible = known(&facts.settings.possible)?;
    parse_boot_list(list, possible).map_err(|error| format!("of the boot options {error}"))
}

fn isolcpus(facts: &Facts<'_>) -> Known<Judgement> {
    let isolated = known(&facts.settings.isolated)?;
    let value = format!("isolated: {}", cores_text(isolated));
    if isolated.contains(&facts.cpu()) {
        return fine(value);
    }
    fix(value, expected_isolcpus(facts, "boot option"))
}

/// The option that adds the audited cores to those isolated at boot.
fn expected_isolcpus(facts: &Facts<'_>, what: &str) -> String {
    let already = facts.settings.isolated.as_deref().unwrap_or_default();
    facts.for_audited(already, |list| format!("{what}: isolcpus=managed_irq,domain,{list}"))
}

fn managed_irq(facts: &Facts<'_>) -> Known<Judgement> {
    let Some(value) = facts.settings.boot.get("isolcpus")? else {
        return fix("isolcpus is not given", expected_isolcpus(facts, "only a boot option helps"));
    };
    let (flags, cores) = isolcpus_parts(value, facts)?;
    if flags.contains(&"managed_irq") && cores.contains(&facts.cpu()) {
        return fine(format!("isolcpus={value}"));
    }
    fix(format!("isolcpus={value}"), expected_isolcpus(facts, "only a boot option helps"))
}

fn device_interrupts(facts: &Facts<'_>, measured: &Measured) -> Known<String> {
    let table = known(&measured.interrupts)?;
    let rose = Measured::rose(table, facts.cpu());
    let is_line = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let lines = rose.iter().filter(|row| is_line(row.0)).map(|(label, name, count)| format!("{label} {name} {count}"));
    let lines = listed(lines);
    Ok(match lines.as_str() {
        "" => format!("no device interrupt arrived on it in {}", measured.length()),
        lines => format!("device interrupts that arrived on it in {}: {lines}", measured.length()),
    })
}

fn nohz_full(facts: &Facts<'_>) -> Known<Judgement> {
    let cores = known(&facts.settings.nohz_full)?;
    let value = format!("without a tick: {}", cores_text(cores));
    if cores.contains(&facts.cpu()) {
        return fine(value);
    }
    fix(value, facts.for_audited(cores, |list| format!("only a boot option helps: nohz_full={list}")))
}

fn rcu_nocbs(facts: &Facts<'_>) -> Known<Judgement> {
    let covers = |name: &str| -> Known<Option<(String, Vec<CpuId>)>> {
        match facts.settings.boot.get(name)? {
            None => Ok(None),
            // Without a list the option only prepares the kernel for it.
            Some("") => Ok(Some((name.to_owned(), Vec::new()))),
            Some(list) => Ok(Some((format!("{name}={list}"), boot_list(list, facts)?))),
        }
    };
    let named = covers("rcu_nocbs")?;
    // nohz_full offloads the callbacks of its cores, too.
    let implied = covers("nohz_full")?;
    for option in [&named, &implied].into_iter().flatten() {
        if option.1.contains(&facts.cpu()) {
            return fine(option.0.clone());
        }
    }
    let (value, already) = named.unwrap_or(("rcu_nocbs is not given".to_owned(), Vec::new()));
    if facts.settings.host.has_rcu_nocb == Some(false) {
        return fix(value, "this kernel cannot offload callbacks: one built with CONFIG_RCU_NOCB_CPU can".to_owned());
    }
    fix(value, facts.for_audited(&already, |list| format!("only a boot option helps: rcu_nocbs={list}")))
}

/// The threads that run offloaded callbacks (`rcuop/3`, `rcuos/3`) and those that drive a group of them (`rcuog/0`).
fn callback_threads<'a>(facts: &Facts<'a>) -> Known<Vec<&'a Task>> {
    let tasks = known(&facts.settings.tasks)?;
    Ok(tasks.tasks.iter().filter(|task| task.kernel && task.name.starts_with("rcuo")).collect())
}

fn serves(task: &Task, cpu: CpuId) -> bool {
    let number = task.name.split_once('/').and_then(|(_, number)| number.digits());
    !task.name.starts_with("rcuog") && number == Some(cpu.0)
}

fn rcu_threads(facts: &Facts<'_>) -> Known<Judgement> {
    let threads = callback_threads(facts)?;
    if threads.is_empty() {
        return Err(
            "there is no callback thread (rcuo): nothing is offloaded, or threads of the kernel are hidden here"
                .to_owned(),
        );
    }
    let here: Vec<&&Task> = threads.iter().filter(|task| task.allowed.contains(&facts.cpu())).collect();
    let Some(first) = here.first() else {
        return fine(format!("none of the {} callback threads may run on it", threads.len()));
    };
    let numbers: Vec<String> = here.iter().map(|task| task.tid.to_string()).collect();
    let value = format!(
        "{} of {} may run on it, such as {} (cores {})",
        here.len(),
        threads.len(),
        first.name,
        format_list(&first.allowed)
    );
    fix(
        value,
        facts.to_housekeeping(|list, _| {
            format!("for thread in {}; do taskset -pc {list} $thread; done", numbers.join(" "))
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Try, good, task};
    use surefoot_testkit::HostTree;

    #[test]
    fn isolcpus() {
        let try_it = Try::new("isolcpus");
        assert_eq!(try_it.ok(&good()).actual, "isolated: 2-3");
        let found = try_it.fix(&good().file("sys/devices/system/cpu/isolated", "\n"));
        assert_eq!(
            (found.actual.as_str(), found.fix.as_str()),
            ("isolated: none", "boot option: isolcpus=managed_irq,domain,2-3")
        );
        // A partition of the cgroup tree isolates as well, and cores isolated already stay in the option.
        let partition =
            good().file("sys/devices/system/cpu/isolated", "").file("sys/fs/cgroup/cpuset.cpus.isolated", "2-3\n");
        try_it.ok(&partition);
        let found = try_it.fix(&good().file("sys/devices/system/cpu/isolated", "1\n"));
        assert_eq!(found.fix, "boot option: isolcpus=managed_irq,domain,1-3");
    }

    fn booted(options: &str) -> HostTree {
        good().file("proc/cmdline", format!("ro quiet {options}\n"))
    }

    #[test]
    fn managed_irq() {
        let try_it = Try::new("managed_irq");
        try_it.ok(&booted("isolcpus=domain,managed_irq,2-3"));
        let found = try_it.fix(&booted("isolcpus=2-3"));
        assert_eq!(found.actual, "isolcpus=2-3");
        assert_eq!(found.fix, "only a boot option helps: isolcpus=managed_irq,domain,2-3");
        try_it.fix(&booted("isolcpus=managed_irq,1"));
        try_it.fix(&booted("quiet"));
        // N is the last core that there can be.
        try_it.ok(&booted("isolcpus=managed_irq,domain,2-N"));
        try_it.ok(&booted("isolcpus=managed_irq,0-3:1/2"));
        try_it.fix(&booted("isolcpus=managed_irq,1-3:1/2"));
        // The kernel refuses a list with a core that cannot be, and takes words before the list for flags.
        assert!(try_it.cannot(&booted("isolcpus=managed_irq,2-7")).actual.contains("core 7 is not possible here"));
        for words in ["managed_irq,N", "managed_irq,all", "managed_irq,quiet,2-3"] {
            let found = try_it.cannot(&booted(&format!("isolcpus={words}")));
            assert!(found.actual.contains("is not a flag"), "{found:?}");
        }
    }

    #[test]
    fn nohz_full() {
        let try_it = Try::new("nohz_full");
        try_it.ok(&good());
        let found = try_it.fix(&good().file("sys/devices/system/cpu/nohz_full", "1\n"));
        assert_eq!(found.fix, "only a boot option helps: nohz_full=1-3");
        let found = try_it.cannot(&good().without("sys/devices/system/cpu/nohz_full"));
        assert!(found.actual.contains("CONFIG_NO_HZ_FULL"), "{}", found.actual);
    }

    #[test]
    fn rcu_nocbs() {
        let try_it = Try::new("rcu_nocbs");
        assert_eq!(try_it.ok(&booted("rcu_nocbs=2-3")).actual, "rcu_nocbs=2-3");
        assert_eq!(try_it.ok(&booted("rcu_nocbs=all")).actual, "rcu_nocbs=all");
        assert_eq!(try_it.ok(&booted("rcu_nocbs=2-N")).actual, "rcu_nocbs=2-N");
        assert_eq!(try_it.ok(&booted("nohz_full=1-N:1/1")).actual, "nohz_full=1-N:1/1");
        // N counts from the cores that there can be, also where some do not run now.
        try_it.fix(&booted("rcu_nocbs=N").file("sys/devices/system/cpu/possible", "0-7\n"));
        assert_eq!(try_it.ok(&booted("nohz_full=1-3")).actual, "nohz_full=1-3");
        let found = try_it.fix(&booted("rcu_nocbs=1"));
        assert_eq!(found.fix, "only a boot option helps: rcu_nocbs=1-3");
        try_it.fix(&booted("rcu_nocbs"));
        try_it.fix(&booted(""));
        try_it.cannot(&good().without("proc/cmdline"));
    }

    #[test]
    fn rcu_threads() {
        let try_it = Try::new("rcu_threads");
        assert_eq!(try_it.ok(&good()).actual, "none of the 1 callback threads may run on it");
        let found = try_it.fix(&task(good(), 31, "rcuop/2", true, false, "0-3"));
        assert_eq!(found.actual, "1 of 2 may run on it, such as rcuop/2 (cores 0-3)");
        assert_eq!(found.fix, "for thread in 31; do taskset -pc 0-1 $thread; done");
        try_it.cannot(&good().without("proc/30"));
    }
}
