//! Interrupts: what arrived, what may arrive, and who moves the lines.

use super::{Facts, Judgement, Known, Measured, Rule, cores_text, fine, fix, known};
use crate::audit::measure::listed;
use surefoot_hostfs::cpus::parse_list;
use surefoot_hostfs::interrupts::counts_interrupts;
use surefoot_hostfs::isolation::InterruptLine;
use surefoot_hostfs::settings::parse_mask;
use surefoot_model::CpuId;

/// Local timer interrupts a second on a busy core that still count as a stopped tick: leftovers of timers, no tick.
const TICKS_PER_S_MOST: f64 = 10.0;

/// The share of the time that a core must be busy for its missing ticks to prove anything.
const BUSY_LEAST: f64 = 0.5;

pub const RULES: &[Rule] = &[
    Rule {
        name: "tick",
        expected: "at most 10 local timer interrupts a second while the core is busy",
        why: "nohz_full only allows the tick to stop, and a second task, a POSIX timer or a performance event brings it back",
        source: "kernel timers/no_hz: known issues",
        judge: tick,
        evidence: |facts, measured| {
            let count = measured.interrupt("LOC", facts.cpu())?;
            let busy = measured.busy(facts.cpu()).map_or_else(|why| why, |busy| format!("{:.0} % busy", busy * 100.0));
            Ok(format!("{count} local timer interrupts in {}, core {busy}", measured.length()))
        },
    },
    Rule {
        name: "interrupts",
        expected: "no interrupt but the timer's",
        why: "each takes the core away for microseconds despite the settings",
        source: "/proc/interrupts, differences",
        judge: interrupts,
        evidence: |facts, measured| arrived("interrupts", known(&measured.interrupts)?, facts, measured, |_| true),
    },
    Rule {
        name: "softirqs",
        expected: "no softirq",
        why: "softirqs are work that the kernel still finds to do on the core",
        source: "/proc/softirqs, differences",
        judge: softirqs,
        evidence: |facts, measured| arrived("softirqs", known(&measured.softirqs)?, facts, measured, |_| true),
    },
    Rule {
        name: "irq_effective",
        expected: "no interrupt line is sent to the core",
        why: "every interrupt of such a line stops the core",
        source: "kernel core-api/irq/irq-affinity: effective_affinity",
        judge: irq_effective,
        evidence: |facts, measured| {
            arrived("device interrupts", known(&measured.interrupts)?, facts, measured, is_line)
        },
    },
    Rule {
        name: "irq_allowed",
        expected: "no interrupt line may move to the core",
        why: "the kernel and irqbalance may send a line to any core that its affinity names; if the write is refused the \
              line places itself, and isolcpus=managed_irq keeps it off",
        source: "kernel core-api/irq/irq-affinity: smp_affinity_list",
        judge: irq_allowed,
        evidence: |_, _| Err("a line that may move has not moved yet; irq_effective shows those that have".to_owned()),
    },
    Rule {
        name: "irq_default",
        expected: "new interrupt lines keep off the core",
        why: "a device that is plugged in or restarted takes its affinity from here",
        source: "kernel core-api/irq/irq-affinity: default_smp_affinity",
        judge: irq_default,
        evidence: |_, _| Err("it takes effect for lines requested from now on".to_owned()),
    },
    Rule {
        name: "irqbalance",
        expected: "irqbalance does not run, or keeps off the core",
        why: "irqbalance undoes affinities that were set by hand, every ten seconds",
        source: "irqbalance(1): IRQBALANCE_BANNED_CPULIST, IRQBALANCE_BANNED_CPUS",
        judge: irqbalance,
        evidence: |facts, _| match &facts.settings.irqbalance.environment {
            Some(environment) if environment.is_empty() => {
                Ok("the running one has no ban in its environment".to_owned())
            }
            Some(environment) => Ok(format!("the running one has {}", environment.replace('\n', ", "))),
            None => Err("no running irqbalance whose environment this user may read".to_owned()),
        },
    },
];

fn is_line(label: &str) -> bool {
    label.bytes().all(|byte| byte.is_ascii_digit())
}

/// What rose of a table, as evidence.
fn arrived(
    what: &str,
    table: &surefoot_hostfs::interrupts::Interrupts,
    facts: &Facts<'_>,
    measured: &Measured,
    wanted: impl Fn(&str) -> bool,
) -> Known<String> {
    if !table.cpus.contains(&facts.cpu()) {
        return Err(format!("core {} has no column", facts.cpu()));
    }
    let rose: Vec<_> = Measured::rose(table, facts.cpu()).into_iter().filter(|row| wanted(row.0)).collect();
    Ok(match rose.len() {
        0 => format!("no {what} arrived on it in {}", measured.length()),
        _ => format!("{what} on it in {}: {}", measured.length(), rows_text(&rose)),
    })
}

fn rows_text(rows: &[(&str, &str, u64)]) -> String {
    let shootdowns = rows.iter().find(|row| row.0 == "TLB").map(|row| row.2);
    listed(rows.iter().filter(|row| counts_interrupts(row.0)).map(|&(label, name, count)| match (label, shootdowns) {
        ("CAL", Some(shootdowns)) => format!("CAL {count} (TLB shootdowns {shootdowns})"),
        _ if is_line(label) => format!("{label} {name} {count}"),
        _ => format!("{label} {count}"),
    }))
}

fn who(facts: &Facts<'_>) -> String {
    format!("surefoot stall who --cpu {}", facts.cpu())
}

fn tick(facts: &Facts<'_>) -> Known<Judgement> {
    let measured = facts.measured()?;
    let cpu = facts.cpu();
    let per_s = measured.interrupt("LOC", cpu)? as f64 / measured.duration.as_secs_f64().max(1e-3);
    let value = format!("{per_s:.0} a second");
    if per_s > TICKS_PER_S_MOST {
        let command = match &facts.settings.nohz_full {
            Ok(cores) if cores.contains(&cpu) => format!("find what holds the tick: {}", who(facts)),
            Ok(cores) => facts.for_audited(cores, |list| format!("only a boot option helps: nohz_full={list}")),
            Err(_) => "this kernel cannot stop the tick of a busy core: one built with CONFIG_NO_HZ_FULL can, and one \
                       with a lower CONFIG_HZ ticks less often"
                .to_owned(),
        };
        return fix(value, command);
    }
    let busy = measured.busy(cpu)?;
    if busy < BUSY_LEAST {
        return Err(format!(
            "{value}, but the core was only {:.0} % busy, and an idle core stops its tick in any case: audit while the \
             workload runs",
            busy * 100.0
        ));
    }
    fine(value)
}

fn interrupts(facts: &Facts<'_>) -> Known<Judgement> {
    let measured = facts.measured()?;
    count_rows(facts, known(&measured.interrupts)?, "LOC")
}

fn softirqs(facts: &Facts<'_>) -> Known<Judgement> {
    let measured = facts.measured()?;
    count_rows(facts, known(&measured.softirqs)?, "")
}

fn count_rows(facts: &Facts<'_>, table: &surefoot_hostfs::interrupts::Interrupts, but: &str) -> Known<Judgement> {
    if !table.cpus.contains(&facts.cpu()) {
        return Err(format!("core {} came or went while it was measured", facts.cpu()));
    }
    let rose = Measured::rose(table, facts.cpu());
    let count = rose
        .iter()
        .filter(|row| row.0 != but && counts_interrupts(row.0))
        .fold(0u64, |sum, row| sum.saturating_add(row.2));
    let value = format!("{count} in {}", facts.measured()?.length());
    if count == 0 { fine(value) } else { fix(value, format!("find who raises them: {}", who(facts))) }
}

/// The lines that somebody handles; all when no name is known.
fn handled<'a>(facts: &Facts<'a>) -> Known<Vec<&'a InterruptLine>> {
    let lines = known(&facts.settings.lines)?;
    let named: Vec<&InterruptLine> = lines.iter().filter(|line| !line.name.is_empty()).collect();
    Ok(if named.is_empty() { lines.iter().collect() } else { named })
}

fn lines_text(lines: &[&InterruptLine]) -> String {
    listed(lines.iter().map(|line| format!("{} {}", line.number, line.name).trim_end().to_owned()))
}

fn numbers(lines: &[&InterruptLine]) -> String {
    lines.iter().map(|line| line.number.to_string()).collect::<Vec<_>>().join(" ")
}

/// How to get lines off the core: those that may be moved by hand, and those that place themselves.
fn move_lines(facts: &Facts<'_>, lines: &[&InterruptLine]) -> String {
    let (by_hand, themselves): (Vec<&InterruptLine>, Vec<&InterruptLine>) = lines.iter().partition(|line| line.movable);
    let mut commands = Vec::new();
    if !by_hand.is_empty() {
        commands.push(facts.to_housekeeping(|list, _| {
            format!("for irq in {}; do echo {list} > /proc/irq/$irq/smp_affinity_list; done", numbers(&by_hand))
        }));
    }
    if !themselves.is_empty() {
        commands.push(format!(
            "# IRQ {} cannot be moved by hand: isolcpus=managed_irq keeps them off while an ordinary core shares the queue; \
             otherwise give the device fewer queues",
            numbers(&themselves)
        ));
    }
    commands.join("\n")
}

fn irq_effective(facts: &Facts<'_>) -> Known<Judgement> {
    let lines = handled(facts)?;
    let told = lines.iter().filter(|line| line.effective.is_ok()).count();
    if told == 0 {
        let first = lines.iter().find_map(|line| line.effective.as_ref().err()).cloned();
        return Err(first.unwrap_or_else(|| "there is no interrupt line".to_owned()));
    }
    let here: Vec<&InterruptLine> = lines
        .iter()
        .copied()
        .filter(|line| line.effective.as_ref().is_ok_and(|cores| cores.contains(&facts.cpu())))
        .collect();
    if here.is_empty() {
        return fine(format!("none of {told} lines"));
    }
    fix(format!("{} of {told} lines: {}", here.len(), lines_text(&here)), move_lines(facts, &here))
}

fn irq_allowed(facts: &Facts<'_>) -> Known<Judgement> {
    let lines = handled(facts)?;
    let told = lines.iter().filter(|line| line.allowed.is_ok()).count();
    if told == 0 {
        let first = lines.iter().find_map(|line| line.allowed.as_ref().err()).cloned();
        return Err(first.unwrap_or_else(|| "there is no interrupt line".to_owned()));
    }
    let on_it = |cores: &Known<Vec<CpuId>>| cores.as_ref().is_ok_and(|cores| cores.contains(&facts.cpu()));
    let may: Vec<&InterruptLine> =
        lines.iter().copied().filter(|line| line.movable && on_it(&line.allowed) && !on_it(&line.effective)).collect();
    if may.is_empty() {
        return fine(format!("none of {told} lines"));
    }
    fix(format!("{} of {told} lines: {}", may.len(), lines_text(&may)), move_lines(facts, &may))
}

fn irq_default(facts: &Facts<'_>) -> Known<Judgement> {
    let cores = known(&facts.settings.default_affinity)?;
    let value = format!("cores {}", cores_text(cores));
    if !cores.contains(&facts.cpu()) {
        return fine(value);
    }
    fix(value, facts.to_housekeeping(|_, mask| format!("echo {mask} > /proc/irq/default_smp_affinity")))
}

fn irqbalance(facts: &Facts<'_>) -> Known<Judgement> {
    let tasks = known(&facts.settings.tasks)?;
    if !tasks.tasks.iter().any(|task| task.name == "irqbalance") {
        return fine("it does not run");
    }
    let about = &facts.settings.irqbalance;
    let configured = about.configuration.as_ref();
    // What the running one was started with is in force; the file is only what it would be started with.
    let (origin, text) = match (&about.environment, configured) {
        (Some(environment), _) => ("its environment", environment.as_str()),
        (None, Some((path, text))) => (path.as_str(), text.as_str()),
        (None, None) => ("no configuration", ""),
    };
    let banned = banned(text)?;
    let value = match &banned {
        Some(cores) => format!("{origin} bans cores {}", cores_text(cores)),
        None => format!("{origin} bans no core, so it keeps off isolated and nohz_full cores"),
    };
    let default = || {
        let mut cores = facts.settings.isolated.clone().unwrap_or_default();
        cores.extend(facts.settings.nohz_full.clone().unwrap_or_default());
        cores
    };
    let cores = banned.clone().unwrap_or_else(default);
    if cores.contains(&facts.cpu()) {
        return fine(value);
    }
    let path = configured.map_or("/etc/default/irqbalance", |(path, _)| path);
    let restart = match facts.settings.host.has_systemd {
        true => "systemctl restart irqbalance",
        false => "then restart irqbalance",
    };
    fix(
        value,
        facts.for_audited(&cores, |list| {
            format!(
                "sed -i '/^IRQBALANCE_BANNED_CPU/d' {path}; echo IRQBALANCE_BANNED_CPULIST={list} >> {path}; {restart}"
            )
        }),
    )
}

/// The cores that a file of settings or an environment bans; the list goes before the mask.
fn banned(text: &str) -> Known<Option<Vec<CpuId>>> {
    let value = |name: &str| {
        let lines = text.lines().map(|line| line.trim().trim_start_matches("export "));
        let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        values
            .next_back()
            .map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
            .filter(|value| !value.is_empty())
    };
    if let Some(list) = value("IRQBALANCE_BANNED_CPULIST") {
        return parse_list(&list).map(Some).map_err(|error| format!("IRQBALANCE_BANNED_CPULIST: {error}"));
    }
    value("IRQBALANCE_BANNED_CPUS")
        .map(|mask| parse_mask(&mask))
        .transpose()
        .map_err(|error| format!("IRQBALANCE_BANNED_CPUS: {error}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::testing::{Try, good, measured, task};
    use surefoot_testkit::HostTree;

    const QUIET: &str = "LOC: 5 5 2 5 Local timer interrupts\nRES: 9 9 0 0 Rescheduling interrupts\n";

    #[test]
    fn tick() {
        let try_it = Try::new("tick");
        let found = try_it.ok_with(&good(), &measured(QUIET, "", 1.0));
        assert_eq!(
            (found.actual.as_str(), found.evidence.as_str()),
            ("1 a second", "2 local timer interrupts in 2.0 s, core 100 % busy")
        );
        let ticking = measured("LOC: 5 5 2000 5 Local timer interrupts\n", "", 1.0);
        let found = try_it.fix_with(&good(), &ticking);
        assert_eq!(
            (found.actual.as_str(), found.fix.as_str()),
            ("1000 a second", "find what holds the tick: surefoot stall who --cpu 2")
        );
        let found = try_it.fix_with(&good().file("sys/devices/system/cpu/nohz_full", "\n"), &ticking);
        assert_eq!(found.fix, "only a boot option helps: nohz_full=2-3");
        let found = try_it.fix_with(&good().without("sys/devices/system/cpu/nohz_full"), &ticking);
        assert!(found.fix.starts_with("this kernel cannot stop") && !found.fix.contains("nohz_full="), "{}", found.fix);
        let found = try_it.cannot_with(&good(), &measured(QUIET, "", 0.1));
        assert!(found.actual.contains("only 10 % busy"), "{}", found.actual);
        assert_eq!(try_it.cannot(&good()).actual, "recorded tree: not measured");
        try_it.cannot_with(&good(), &measured("", "", 1.0));
    }

    #[test]
    fn interrupts() {
        let try_it = Try::new("interrupts");
        try_it.ok_with(&good(), &measured(QUIET, "", 1.0));
        let found = try_it.fix_with(
            &good(),
            &measured(
                "36: 0 0 7 0 PCI-MSIX 1-edge nvme0q1\nCAL: 0 0 6 0 Function call interrupts\nTLB: 0 0 5 0 TLB shootdowns\n",
                "",
                1.0,
            ),
        );
        assert_eq!(
            (found.actual.as_str(), found.fix.as_str()),
            ("13 in 2.0 s", "find who raises them: surefoot stall who --cpu 2"),
            "the shootdowns are five of the six calls"
        );
        assert_eq!(found.evidence, "interrupts on it in 2.0 s: 36 nvme0q1 7, CAL 6 (TLB shootdowns 5)");
    }

    #[test]
    fn softirqs() {
        let try_it = Try::new("softirqs");
        try_it.ok_with(&good(), &measured("", "RCU: 4 4 0 0\n", 1.0));
        let found = try_it.fix_with(&good(), &measured("", "RCU: 4 4 6 0\n", 1.0));
        assert_eq!((found.actual.as_str(), found.evidence.as_str()), ("6 in 2.0 s", "softirqs on it in 2.0 s: RCU 6"));
    }

    fn line(tree: HostTree, number: u32, allowed: &str, effective: &str) -> HostTree {
        tree.file(format!("proc/irq/{number}/smp_affinity_list"), allowed)
            .file(format!("proc/irq/{number}/effective_affinity_list"), effective)
    }

    #[test]
    fn irq_effective() {
        let try_it = Try::new("irq_effective");
        try_it.ok(&good());
        let found = try_it.fix(&line(good(), 36, "0-3", "2"));
        assert_eq!(
            (found.actual.as_str(), found.fix.as_str()),
            ("1 of 1 lines: 36 nvme0q1", "for irq in 36; do echo 0-1 > /proc/irq/$irq/smp_affinity_list; done")
        );
        let managed = line(good(), 36, "2", "2").mode("proc/irq/36/smp_affinity_list", 0o444);
        assert!(try_it.fix(&managed).fix.starts_with("# IRQ 36 cannot be moved by hand"));
        // A line that nobody handles does not count; one whose effective cores are not told cannot.
        try_it.ok(&line(good(), 7, "0-3", "2"));
        try_it.cannot(&good().without("proc/irq/36/effective_affinity_list"));
    }

    #[test]
    fn irq_allowed() {
        let try_it = Try::new("irq_allowed");
        try_it.ok(&good());
        try_it.ok(&line(good(), 36, "0-3", "2"));
        let found = try_it.fix(&line(good(), 36, "0-3", "1"));
        assert_eq!(found.actual, "1 of 1 lines: 36 nvme0q1");
        // Nobody can move it, so it stays where it is.
        try_it.ok(&line(good(), 36, "0-3", "1").mode("proc/irq/36/smp_affinity_list", 0o444));
        try_it.cannot(&good().without("proc/irq/36/smp_affinity_list"));
    }

    #[test]
    fn irq_default() {
        let try_it = Try::new("irq_default");
        assert_eq!(try_it.ok(&good()).actual, "cores 0-1");
        let found = try_it.fix(&good().file("proc/irq/default_smp_affinity", "f\n"));
        assert_eq!(found.fix, "echo 3 > /proc/irq/default_smp_affinity");
        assert!(
            try_it.cannot(&good().file("proc/irq/default_smp_affinity", "?\n")).actual.contains("not a mask of cores")
        );
    }

    #[test]
    fn irqbalance() {
        let try_it = Try::new("irqbalance");
        assert_eq!(try_it.ok(&good()).actual, "it does not run");
        let runs = || task(good(), 50, "irqbalance", false, false, "0-1");
        assert!(try_it.ok(&runs()).actual.contains("keeps off isolated"));
        let file = |text: &str| runs().file("etc/default/irqbalance", text);
        try_it.ok(&file("# a comment\nIRQBALANCE_BANNED_CPULIST=\"2-3\"\n"));
        try_it.ok(&file("IRQBALANCE_BANNED_CPUS=0000000c\n"));
        let found = try_it.fix(&file("IRQBALANCE_BANNED_CPUS=8\n"));
        assert_eq!(found.actual, "/etc/default/irqbalance bans cores 3");
        assert!(found.fix.contains("echo IRQBALANCE_BANNED_CPULIST=2-3 >> /etc/default/irqbalance;"), "{}", found.fix);
        assert!(try_it.cannot(&file("IRQBALANCE_BANNED_CPULIST=all\n")).actual.contains("'all'"));
        // The file was changed, the daemon was not restarted.
        let stale =
            file("IRQBALANCE_BANNED_CPULIST=2-3\n").file("proc/50/environ", "PATH=/\0IRQBALANCE_BANNED_CPUS=8\0");
        assert_eq!(try_it.fix(&stale).actual, "its environment bans cores 3");
        let elsewhere = runs().file("etc/sysconfig/irqbalance", "IRQBALANCE_BANNED_CPULIST=1\n");
        assert!(try_it.fix(&elsewhere).fix.contains("/etc/sysconfig/irqbalance"));
    }
}
