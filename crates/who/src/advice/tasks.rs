//! What takes the core whole: kernel threads, other tasks, and messages to the console.

use super::evidence::{from, has_kernel, times};
use super::host::HostFacts;
use super::{RestsOn, Rule, is};
use crate::limit::is_nameless;
use surefoot_hostfs::cpus::parse_list;
use surefoot_model::{CauseKind, CpuId, Interrupt, Intruder, Raiser};

/// What printing a message to the console runs through.
const PRINTING: [&str; 7] = [
    "vprintk_emit",
    "console_unlock",
    "console_flush_all",
    "console_flush_one_record",
    "nbcon_emit_next_record",
    "legacy_kthread_func",
    "nbcon_kthread_func",
];

fn is_thread(interrupt: &Interrupt, names: &[&str]) -> bool {
    is(interrupt, CauseKind::KernelThread) && names.iter().any(|name| interrupt.cause.name.starts_with(name))
}

/// What stands for the raiser of a run that no wake-up began.
pub const NO_WAKEUP: &str = "(no wake-up: it was ready there)";

/// What stands for the raiser of a move that the scheduler made by itself.
pub const SCHEDULER: &str = "(scheduler)";

/// What a raiser that started a task did.
const NEW_TASK: &str = "new task";

/// Whether a raiser brought a task here, and is told apart from others.
fn is_known(raiser: &Raiser) -> bool {
    raiser.comm != NO_WAKEUP && !is_nameless(raiser)
}

/// How often it ran, and who brought it most.
fn ran(interrupt: &Interrupt) -> String {
    let name = if interrupt.cause.name.is_empty() { "it" } else { &interrupt.cause.name };
    let mut text = format!("{name} ran {}", times(interrupt.count));
    if let Some(raiser) = interrupt.raisers.iter().find(|raiser| is_known(raiser)) {
        let by = from(raiser);
        let by = by.strip_prefix("from ").unwrap_or(&by);
        text += &match raiser.function.as_str() {
            moved if raiser.comm == SCHEDULER => format!(", {} {moved}", times(raiser.count)),
            function if function.starts_with("moved ") => format!(", {} moved here by {by}", times(raiser.count)),
            NEW_TASK => format!(", {} started by {by}", times(raiser.count)),
            _ => format!(", {} woken by {by}", times(raiser.count)),
        };
    }
    text
}

/// How to move what may be moved, by number where numbers are known.
fn move_away(interrupt: &Interrupt, host: &HostFacts) -> String {
    let is_empty = interrupt.intruders.is_empty();
    let movable: Vec<&Intruder> = interrupt.intruders.iter().filter(|intruder| !intruder.is_bound).collect();
    if movable.is_empty() && !is_empty {
        return "the kernel binds it to this core, so only its work can go elsewhere".into();
    }
    // One that could not be asked where it may run had ended: it is there no more to be moved.
    let alive: Vec<&Intruder> = movable.into_iter().filter(|intruder| !intruder.allowed.is_empty()).collect();
    if alive.is_empty() && !is_empty {
        return ended(interrupt);
    }
    let (pinned, free): (Vec<&Intruder>, Vec<&Intruder>) =
        alive.into_iter().partition(|intruder| is_pinned(intruder, interrupt.cpu));
    let mut said: Vec<String> =
        free.iter().take(NAMED_MAX).map(|task| format!("taskset -pc {} {}", host.others(), task.tid)).collect();
    if is_empty {
        said.push(format!("taskset -pc {} TID", host.others()));
    }
    let names: Vec<String> =
        pinned.iter().take(NAMED_MAX).map(|task| format!("{} (thread {})", task.comm, task.tid)).collect();
    match names.as_slice() {
        [] => {}
        [one] => {
            said.push(format!("{one} is pinned to this core alone: leave it if it is the workload (--pid PROCESS)"))
        }
        all => said.push(format!("{} are pinned to this core: keep only the workload (--pid PROCESS)", all.join(", "))),
    }
    said.join("; ")
}

/// Tasks that are named in one sentence.
const NAMED_MAX: usize = 4;

/// Whether its user pinned a task to this core and no other.
fn is_pinned(intruder: &Intruder, cpu: CpuId) -> bool {
    !intruder.is_kernel && parse_list(&intruder.allowed).is_ok_and(|cores| cores == [cpu])
}

/// What is to be done about tasks that are short-lived: nobody can move them, but somebody starts them.
fn ended(interrupt: &Interrupt) -> String {
    match interrupt.raisers.iter().find(|raiser| is_known(raiser) && raiser.function == NEW_TASK) {
        Some(starter) => {
            let by = from(starter);
            format!("they ended, so stop what starts them: {}", by.strip_prefix("from ").unwrap_or(&by))
        }
        None => "they ended before they could be asked, and who starts them was not seen".into(),
    }
}

/// Runs `text` before the command that moves the thread.
fn and_move(interrupt: &Interrupt, host: &HostFacts, text: &str) -> String {
    format!("{text}; keep it off this core: {}", move_away(interrupt, host))
}

fn keep_tasks_off(interrupt: &Interrupt, host: &HostFacts) -> String {
    let (others, watched) = (host.others(), &host.watched);
    let whole = if host.has_systemd {
        format!("systemctl set-property system.slice AllowedCPUs={others}, likewise user.slice and init.scope")
    } else if host.has_cpuset {
        format!("a control group with cpuset.cpus={watched} and cpuset.cpus.partition=isolated for the workload alone")
    } else if host.has_isolation == Some(false) {
        "taskset for everything that is started".into()
    } else {
        format!("boot with isolcpus={watched}")
    };
    format!("keep other tasks off this core. Those seen: {}. All and for good: {whole}", move_away(interrupt, host))
}

fn softirq(interrupt: &Interrupt, host: &HostFacts) -> String {
    let (others, watched) = (host.others(), &host.watched);
    match interrupt.cause.name.as_str() {
        "RCU" => rcu(host),
        "SCHED" if host.has_isolation == Some(false) => {
            "keep a single task on this core, so that there is nothing to balance".into()
        }
        "SCHED" => format!(
            "take this core out of load balancing: isolcpus=domain,{watched} at boot, or in its own cpuset partition"
        ),
        "TIMER" | "HRTIMER" => {
            format!("arm timers on other cores ({others}): pin there what arms them, or what listens to sockets")
        }
        "NET_RX" | "NET_TX" => format!(
            "receive on other cores ({others}): move the interface's lines (/proc/irq/N/smp_affinity_list), and keep this core out \
             of /sys/class/net/*/queues/rx-*/rps_cpus"
        ),
        "BLOCK" | "IRQ_POLL" => {
            format!("do the input and output on other cores ({others}), and move the drive's lines there")
        }
        _ => format!("move the interrupt or driver that raises it to cores {others}"),
    }
}

fn rcu(host: &HostFacts) -> String {
    match host.has_rcu_nocb {
        Some(false) => {
            "this kernel cannot move RCU callbacks (CONFIG_RCU_NOCB_CPU): let what runs here close, unmap and \
                        free less"
                .to_owned()
        }
        _ => format!("let other cores run RCU callbacks (boot with rcu_nocbs={})", host.watched),
    }
}

/// The rule for tasks, whichever they are: one remedy ends all of them.
pub(crate) const OTHER_TASK: &str = "other-task-on-this-core";

pub(super) const RULES: [Rule; 12] = [
    Rule {
        name: "messages-to-the-console",
        rests_on: RestsOn::Raisers(|interrupt, raiser| {
            is(interrupt, CauseKind::Console) || has_kernel(raiser, &PRINTING)
        }),
        remedy: |_, _| {
            "print less to the console: dmesg -n 1 (or loglevel=1 at boot), and take a serial console out of the kernel \
             command line (console=): each character holds the core that prints"
                .into()
        },
        source: "dmesg(1); the kernel's Documentation/core-api/printk-basics.rst",
    },
    Rule {
        name: "softirqs-on-this-core",
        rests_on: RestsOn::Cause(
            |interrupt| is(interrupt, CauseKind::Softirq),
            |interrupt| {
                let raised = interrupt.raisers.iter().find(|raiser| !is_nameless(raiser)).map(|raiser| {
                    let what = if raiser.function.is_empty() { "a task" } else { &raiser.function };
                    format!(", {} raised {what}", times(raiser.count))
                });
                format!("{} ran {}{}", interrupt.cause.name, times(interrupt.count), raised.unwrap_or_default())
            },
        ),
        remedy: softirq,
        source: "the kernel's Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
    },
    Rule {
        name: "console-printing-thread",
        rests_on: RestsOn::Cause(
            |interrupt| is(interrupt, CauseKind::KernelThread) && interrupt.cause.name == "pr",
            ran,
        ),
        remedy: |interrupt, host| {
            and_move(interrupt, host, "print less to the console: dmesg -n 1, or loglevel=1 at boot")
        },
        source: "dmesg(1); the kernel's Documentation/core-api/printk-basics.rst",
    },
    Rule {
        name: "damon",
        rests_on: RestsOn::Cause(|interrupt| is_thread(interrupt, &["kdamond"]), ran),
        remedy: |interrupt, host| {
            let off = match host.damon_off.as_slice() {
                [] => "end what uses DAMON".to_owned(),
                commands => format!("switch DAMON off: {}", commands.join("; ")),
            };
            and_move(interrupt, host, &off)
        },
        source: "the kernel's Documentation/admin-guide/mm/damon",
    },
    Rule {
        name: "memory-daemon",
        rests_on: RestsOn::Cause(|interrupt| is_thread(interrupt, &["kswapd", "khugepaged", "kcompactd", "ksmd"]), ran),
        remedy: |interrupt, host| {
            let text = match interrupt.cause.name.get(..3).unwrap_or_default() {
                "ksw" => {
                    "memory is short: give the programs less, or the machine more, and raise vm.watermark_scale_factor"
                }
                "khu" => {
                    "collapse no pages behind the program's back: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
                }
                "kco" => "compact only on demand: sysctl vm.compaction_proactiveness=0",
                _ => "merge no pages: echo 0 > /sys/kernel/mm/ksm/run",
            };
            and_move(interrupt, host, text)
        },
        source: "the kernel's Documentation/admin-guide/sysctl/vm.rst, admin-guide/mm/transhuge.rst and ksm.rst",
    },
    Rule {
        name: "softirq-thread",
        rests_on: RestsOn::Cause(|interrupt| is_thread(interrupt, &["ksoftirqd"]), ran),
        remedy: |_, host| {
            format!(
                "it takes over when softirqs of this core are too many: move the interrupts that raise them to cores {} \
                 (the rows of device interrupts and softirqs name them)",
                host.others()
            )
        },
        source: "the kernel's Documentation/core-api/irq/irq-affinity.rst",
    },
    Rule {
        name: "stopper-thread",
        rests_on: RestsOn::Cause(
            |interrupt| is_thread(interrupt, &["migration", "cpuhp", "watchdog", "idle_inject"]),
            ran,
        ),
        remedy: |_, _| {
            "it runs when a task is moved by force, a core goes on or off line, or a module is loaded: pin the tasks once, \
             and do the rest before the latency-sensitive work begins"
                .into()
        },
        source: "the kernel's kernel/stop_machine.c; sched_setaffinity(2)",
    },
    Rule {
        name: "rcu-thread",
        rests_on: RestsOn::Cause(|interrupt| is_thread(interrupt, &["rcu"]), ran),
        remedy: |interrupt, host| and_move(interrupt, host, &rcu(host)),
        source: "the kernel's Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
    },
    Rule {
        name: "work-queued-here",
        rests_on: RestsOn::Cause(|interrupt| is_thread(interrupt, &["kworker"]), ran),
        remedy: |interrupt, host| {
            let mask = match host.has_workqueue_mask {
                true => {
                    "work of unbound workqueues goes where /sys/devices/virtual/workqueue/cpumask allows it (and \
                         writeback where its mask below /sys/bus/workqueue/devices does): take this core out of them. "
                }
                false => "",
            };
            let queues: Vec<&str> = queues(interrupt);
            let which = match queues.as_slice() {
                [] => "Work bound to a core is queued by what runs there: run that elsewhere".to_owned(),
                names => format!(
                    "Work of {} that is bound to this core is queued by what runs there: run that elsewhere",
                    names.join(", ")
                ),
            };
            mask.to_owned() + &which
        },
        source: "the kernel's Documentation/core-api/workqueue.rst",
    },
    Rule {
        name: "interrupt-thread",
        rests_on: RestsOn::Cause(|interrupt| is_thread(interrupt, &["irq/"]), ran),
        remedy: |_, host| {
            format!("move its line, which the thread follows: echo {} > /proc/irq/N/smp_affinity_list", host.others())
        },
        source: "the kernel's Documentation/core-api/irq/irq-affinity.rst",
    },
    Rule {
        name: "kernel-thread-on-this-core",
        rests_on: RestsOn::Cause(
            |interrupt| is(interrupt, CauseKind::KernelThread) && interrupt.cause.name != "others",
            ran,
        ),
        remedy: |interrupt, host| format!("keep it off this core: {}", move_away(interrupt, host)),
        source: "taskset(1); the kernel's Documentation/admin-guide/kernel-per-CPU-kthreads.rst",
    },
    Rule {
        name: OTHER_TASK,
        rests_on: RestsOn::Cause(|interrupt| is(interrupt, CauseKind::Preemption), ran),
        remedy: keep_tasks_off,
        source: "taskset(1), cpuset(7); the kernel's Documentation/admin-guide/cgroup-v2.rst (cpuset)",
    },
];

/// The workqueues that its workers worked for: `kworker/1:2-events`, or with a plus sign while they do.
fn queues(interrupt: &Interrupt) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for intruder in &interrupt.intruders {
        let name = intruder.comm.split_once(['-', '+']).map_or("", |(_, queue)| queue);
        if !name.is_empty() && !names.contains(&name) && names.len() < 4 {
            names.push(name);
        }
    }
    names
}
