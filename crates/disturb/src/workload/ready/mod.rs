//! Ready-made workloads: a command, and the numbers that it prints, for each kind of work that the SMI slides and ICPE'20 disturb.
//!
//! Tools that distributions keep do the work; what none of them measures is [`crate::workload::own`]. A workload that needs
//! namespaces makes them for its own processes alone, without a name: the kernel removes them, with the interfaces, queues and
//! files in them, when the last of these processes ends, in whatever way that comes about.

mod command;
mod tools;

use crate::plan::{Compared, Measure};
use crate::workload::Metric;
use std::time::Duration;
use surefoot_model::CpuId;
use tools::Need;

/// What the commands depend on.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The cores that are online; none if they are unknown, and then no workload can be run.
    pub cores: Vec<CpuId>,
    /// Runs are as short as makes sense.
    pub is_quick: bool,
}

/// A workload that is ready to be run.
#[derive(Debug, Clone)]
pub struct Ready {
    /// Its name.
    pub name: &'static str,
    /// What it measures, and with which tool.
    pub about: &'static str,
    /// For the shell.
    pub command: String,
    /// Its numbers, the most important one first.
    pub measures: Vec<Measure>,
    /// About how long a run takes.
    pub lasts: Duration,
    /// Why this host cannot run it, with what to install.
    pub unsupported: Option<String>,
}

/// What is known of one before the host is.
struct Kind {
    name: &'static str,
    about: &'static str,
    needs: &'static [Need],
    /// Each with its metric and whether it is a share or count that may be 0.
    measures: &'static [(&'static str, &'static str, Compared)],
    command: fn(&Setting) -> String,
    /// Seconds of a quick run and of a full one, with what comes before and after.
    lasts_s: (f64, f64),
}

const SYSBENCH: Need = Need::Program("sysbench", "sysbench");
const STRESS: Need = Need::Program("stress-ng", "stress-ng");
const TASKSET: Need = Need::Program("taskset", "util-linux");
const NAMESPACES: [Need; 4] = [
    Need::Program("unshare", "util-linux"),
    Need::Program("nsenter", "util-linux"),
    Need::Program("ip", "iproute2"),
    Need::Root("creating network namespaces"),
];
const PERL: Need = Need::Program("perl", "perl");
const TWO: Need = Need::Cores(2);

use Compared::{Difference, Ratio};

const EVENTS: (&str, &str, Compared) = ("events_per_s", r"regex:events per second:\s+([0-9.]+)", Ratio);
const BOGO: (&str, &str, Compared) = ("bogo_ops_per_s", r"regex:\] cpu(?:\s+[0-9.]+){4}\s+([0-9.]+)", Ratio);
const MIB: (&str, &str, Compared) = ("mib_per_s", r"regex:\(([0-9.]+) MiB/sec\)", Ratio);
const COMPILE: (&str, &str, Compared) = ("compile_ns", "json:compile_ns", Ratio);
const COLLECTIVES: [(&str, &str, Compared); 4] = [
    ("barrier_us", "json:barrier_us", Ratio),
    ("allreduce_us", "json:allreduce_us", Ratio),
    ("alltoall_us", "json:alltoall_us", Ratio),
    ("ring_us", "json:ring_us", Ratio),
];
const MPI: [Need; 8] = [
    Need::Program("mpicc", "libopenmpi-dev"),
    Need::Program("mpirun", "openmpi-bin"),
    NAMESPACES[0],
    NAMESPACES[1],
    NAMESPACES[2],
    NAMESPACES[3],
    TASKSET,
    TWO,
];
const LINK: [Need; 8] = [
    Need::Program("iperf3", "iperf3"),
    Need::Program("tc", "iproute2"),
    NAMESPACES[0],
    NAMESPACES[1],
    NAMESPACES[2],
    NAMESPACES[3],
    TASKSET,
    TWO,
];
const RING: [Need; 9] =
    [Need::Program("ethtool", "ethtool"), LINK[0], LINK[1], LINK[2], LINK[3], LINK[4], LINK[5], LINK[6], LINK[7]];
const TCP: [(&str, &str, Compared); 2] = [
    ("received_bit_per_s", "json:end.sum_received.bits_per_second", Ratio),
    ("retransmits", "json:end.sum_sent.retransmits", Difference),
];
const BUILD: [Need; 6] = [
    Need::File("/usr/src/googletest", "googletest"),
    Need::Program("make", "make"),
    Need::Program("c++", "g++"),
    NAMESPACES[0],
    NAMESPACES[3],
    TASKSET,
];

static KINDS: [Kind; 20] = [
    Kind {
        name: "cpu-integer",
        about: "primes on one core (sysbench cpu)",
        needs: &[SYSBENCH, TASKSET],
        measures: &[EVENTS],
        command: |setting| command::sysbench_cpu(setting, false),
        lasts_s: (2.1, 10.1),
    },
    Kind {
        name: "cpu-integer-all",
        about: "primes on all cores (sysbench cpu)",
        needs: &[SYSBENCH],
        measures: &[EVENTS],
        command: |setting| command::sysbench_cpu(setting, true),
        lasts_s: (2.1, 10.1),
    },
    Kind {
        name: "cpu-float",
        about: "double-precision arithmetic on one core (stress-ng --cpu-method double)",
        needs: &[STRESS, TASKSET],
        measures: &[BOGO],
        command: |setting| command::stress_float(setting, false),
        lasts_s: (2.2, 10.2),
    },
    Kind {
        name: "cpu-float-all",
        about: "double-precision arithmetic on all cores (stress-ng --cpu-method double)",
        needs: &[STRESS],
        measures: &[BOGO],
        command: |setting| command::stress_float(setting, true),
        lasts_s: (2.2, 10.2),
    },
    Kind {
        name: "memory",
        about: "writes to memory from one core, in blocks of 1 MiB (sysbench memory)",
        needs: &[SYSBENCH, TASKSET],
        measures: &[MIB],
        command: |setting| command::sysbench_memory(setting, false),
        lasts_s: (2.1, 10.1),
    },
    Kind {
        name: "memory-all",
        about: "writes to memory from all cores, in blocks of 1 MiB (sysbench memory)",
        needs: &[SYSBENCH],
        measures: &[MIB],
        command: |setting| command::sysbench_memory(setting, true),
        lasts_s: (2.1, 10.1),
    },
    Kind {
        name: "compile",
        about: "files of googletest compiled on one core (make -j1)",
        needs: &BUILD,
        measures: &[COMPILE],
        command: |setting| command::compile(setting, false),
        lasts_s: (3.0, 15.0),
    },
    Kind {
        name: "compile-all",
        about: "files of googletest compiled on all cores (make -jN)",
        needs: &BUILD,
        measures: &[COMPILE],
        command: |setting| command::compile(setting, true),
        lasts_s: (3.0, 10.0),
    },
    Kind {
        name: "tcp",
        about: "TCP over a link of 1 Gbit/s between two namespaces, one core each (iperf3)",
        needs: &LINK,
        measures: &TCP,
        command: |setting| command::link(setting, "", false),
        lasts_s: (3.3, 10.5),
    },
    Kind {
        name: "tcp-ring",
        about: "8 streams of TCP over such a link to a receiver with a ring of 256 packets, as a network card has, that loses what finds it full (iperf3)",
        needs: &RING,
        measures: &TCP,
        command: |setting| command::link(setting, "-P 8", true),
        lasts_s: (3.5, 10.7),
    },
    Kind {
        name: "udp",
        about: "300 Mbit/s of UDP over a link of 1 Gbit/s between two namespaces, one core each, to a receiver with a ring of 256 packets (iperf3)",
        needs: &RING,
        measures: &[
            ("offered_bit_per_s", "json:end.sum.bits_per_second", Ratio),
            ("lost_percent", "json:end.sum.lost_percent", Difference),
        ],
        command: |setting| command::link(setting, "-u -b 300M", true),
        lasts_s: (3.3, 10.5),
    },
    Kind {
        name: "connect",
        about: "TCP connections over the loopback of a namespace, one after the other",
        needs: &NAMESPACES,
        measures: &[("connections_per_s", "json:per_s", Ratio), ("p99_us", "json:p99_us", Ratio)],
        command: |setting| command::own(setting, "connect", true),
        lasts_s: (1.7, 5.2),
    },
    Kind {
        name: "process",
        about: "processes that are started and end at once (/bin/true), one after the other",
        needs: &[],
        measures: &[("processes_per_s", "json:per_s", Ratio), ("p99_us", "json:p99_us", Ratio)],
        command: |setting| command::own(setting, "process", false),
        lasts_s: (1.6, 5.1),
    },
    Kind {
        name: "pipe-latency",
        about: "a byte to and fro between two processes through pipes (perf bench sched pipe)",
        needs: &[Need::Program("perf", "linux-perf")],
        measures: &[("seconds", r"regex:([0-9]+\.[0-9]+)", Ratio)],
        command: |setting| {
            format!("exec perf bench -f simple sched pipe -l {}", if setting.is_quick { 60_000 } else { 300_000 })
        },
        lasts_s: (1.5, 5.0),
    },
    Kind {
        name: "pipe-bandwidth",
        about: "blocks of 64 KiB through a pipe from one thread to another",
        needs: &[],
        measures: &[("mib_per_s", "json:mib_per_s", Ratio)],
        command: |setting| command::own(setting, "pipe", false),
        lasts_s: (1.6, 5.1),
    },
    Kind {
        name: "mpi-2",
        about: "collectives of Open MPI between 2 machines, each a namespace on a core",
        needs: &MPI,
        measures: &COLLECTIVES,
        command: |setting| command::collectives(setting, 2),
        lasts_s: (6.0, 16.0),
    },
    Kind {
        name: "mpi-4",
        about: "collectives of Open MPI between 4 machines, each a namespace; with fewer cores some share one",
        needs: &MPI,
        measures: &COLLECTIVES,
        command: |setting| command::collectives(setting, 4),
        lasts_s: (7.0, 18.0),
    },
    Kind {
        name: "mpi-8",
        about: "collectives of Open MPI between 8 machines, each a namespace; with fewer cores some share one",
        needs: &MPI,
        measures: &COLLECTIVES,
        command: |setting| command::collectives(setting, 8),
        lasts_s: (9.0, 20.0),
    },
    Kind {
        name: "deadline",
        about: "500 requests a second that come whether or not the last was answered, with a deadline of 50 ms",
        needs: &[TWO],
        measures: &[
            ("on_time_share", "json:on_time_share", Ratio),
            ("late_percent", "json:late_percent", Difference),
            ("p99_ms", "json:p99_ms", Ratio),
        ],
        command: |setting| command::own(setting, "deadline", false),
        lasts_s: (4.2, 10.2),
    },
    Kind {
        name: "unseen",
        about: "a long benchmark (Perl: words, hashes, expressions) beside the stall ledger",
        needs: &[PERL, NAMESPACES[0], NAMESPACES[3]],
        measures: &[("rate", "json:rate", Ratio), ("ledger_gaps", "json:ledger_gaps", Difference)],
        command: command::unseen,
        lasts_s: (13.0, 61.0),
    },
];

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// The workload of a name, for this host.
pub fn named(name: &str, setting: &Setting) -> Option<Ready> {
    let kind = KINDS.iter().find(|kind| kind.name == name)?;
    let measure = |(name, metric, compared): &(&str, &str, Compared)| {
        let metric = metric.parse::<Metric>().ok()?;
        Some(Measure { name: (*name).to_owned(), metric, compared: *compared })
    };
    let seconds = if setting.is_quick { kind.lasts_s.0 } else { kind.lasts_s.1 };
    Some(Ready {
        name: kind.name,
        about: kind.about,
        command: if setting.cores.is_empty() { String::new() } else { (kind.command)(setting) },
        measures: kind.measures.iter().filter_map(measure).collect(),
        lasts: Duration::from_secs_f64(seconds),
        unsupported: tools::missing(kind.needs, setting),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(cores: u32, is_quick: bool) -> Setting {
        Setting { cores: (0..cores).map(CpuId).collect(), is_quick }
    }

    #[test]
    fn every_metric_is_one_and_every_command_is_a_shells() {
        for quick in [true, false] {
            for name in names() {
                let ready = named(name, &setting(2, quick)).unwrap();
                let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
                assert_eq!(ready.measures.len(), kind.measures.len(), "{name}");
                // Read, and not run.
                let checked =
                    std::process::Command::new("/bin/sh").args(["-n", "-c", &ready.command]).output().unwrap();
                assert!(checked.status.success(), "{name}: {checked:?}");
            }
        }
        assert!(named("melt", &setting(2, true)).is_none());
    }

    #[test]
    fn without_known_cores_every_workload_is_unsupported() {
        for name in names() {
            let ready = named(name, &setting(0, true)).unwrap();
            assert!(ready.unsupported.is_some_and(|why| why.contains("online cores are unknown")), "{name}");
            assert_eq!(ready.command, "", "{name}");
        }
    }

    #[test]
    fn what_the_tools_print_is_found() {
        let value = |name: &str, place: usize, printed: &str| {
            named(name, &setting(2, true)).unwrap().measures[place].metric.number(1, printed).unwrap()
        };
        assert_eq!(value("cpu-integer", 0, "    events per second: 21771.96\n"), 21_771.96);
        assert_eq!(value("memory", 0, "13684.00 MiB transferred (13657.19 MiB/sec)"), 13_657.19);
        let stress = "stress-ng: metrc: [1] stressor       bogo ops real time  usr time  sys time   bogo ops/s\n\
                      stress-ng: metrc: [18832] cpu                 805      1.12      0.38      0.02       719.95        2007.41\n";
        assert_eq!(value("cpu-float", 0, stress), 719.95);
        assert_eq!(value("pipe-latency", 0, "0.107\n"), 0.107);
        let iperf = r#"{"end":{"sum_received":{"bits_per_second":9.5e8},"sum_sent":{"retransmits":0}}}"#;
        assert_eq!([value("tcp", 0, iperf), value("tcp", 1, iperf)], [9.5e8, 0.0]);
    }

    #[test]
    fn a_host_that_lacks_something_says_what_to_install() {
        let one = named("deadline", &setting(1, true)).unwrap().unsupported.unwrap();
        assert!(one.contains("2 cores") && one.contains("1 core"), "{one}");
        assert_eq!(named("process", &setting(1, true)).unwrap().unsupported, None);
    }
}
