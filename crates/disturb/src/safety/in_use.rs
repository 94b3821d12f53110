//! Whether a host looks as if others needed it: the one place where that is decided.
//!
//! Each row is something that a person would look at, and is told in words. None of them proves anything; together with a
//! switch they keep somebody from stopping the wrong machine. What cannot be read is a row too: the busiest hosts have the longest tables.

use std::collections::BTreeSet;
use surefoot_hostfs::namespaces::{Kind, Namespace, Namespaces};
use surefoot_hostfs::tasks::{self, TaskStat};
use surefoot_hostfs::{Root, cpus};
use surefoot_model::Digits;

/// Programs that run where others rely on the machine, and what they say.
const PROGRAMS: &[(&str, &str)] = &[
    ("kubelet", "it is a node of Kubernetes"),
    ("slurmd", "it is a node of Slurm"),
    ("slurmstepd", "a job of Slurm runs"),
    ("pbs_mom", "it is a node of PBS"),
    ("sge_execd", "it is a node of Grid Engine"),
    ("corosync", "it is a node of a cluster"),
    ("ceph-osd", "it stores data for others"),
    ("libvirtd", "it runs virtual machines"),
    ("qemu-system-x86", "it runs virtual machines"),
    ("mysqld", "it is a database server"),
    ("mariadbd", "it is a database server"),
    ("postgres", "it is a database server"),
    ("mongod", "it is a database server"),
    ("redis-server", "it is a database server"),
    ("nginx", "it is a web server"),
    ("apache2", "it is a web server"),
    ("httpd", "it is a web server"),
    ("haproxy", "it is a load balancer"),
    ("etcd", "it keeps the state of a cluster"),
];
/// Users other than the one who asks, whose processes run.
const OTHER_USERS_MAX: usize = 1;
/// Numbers of people's accounts: below are those of services, above those of containers.
const PEOPLE: std::ops::RangeInclusive<u32> = 1_000..=59_999;
/// The load for each core, over one minute, from which on it is at work.
const LOAD_PER_CORE: f64 = 0.7;
/// Connections from elsewhere to ports that this host serves.
const SERVED_MAX: usize = 4;
/// The longest table of connections that is read: about 100,000 of them.
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// What says that this host is in use, each in words; nothing where nothing does.
pub fn evidence(root: &Root, own_user: u32) -> Vec<String> {
    let mut found = Vec::new();
    match tasks::processes(root) {
        Ok((processes, may_be_more)) => {
            programs(&processes, &mut found);
            users(root, &processes, own_user, &mut found);
            if may_be_more {
                found.push(format!("it has more processes than the {} that are looked at", processes.len()));
            }
        }
        Err(error) => found.push(format!("its processes are not seen: {error}")),
    }
    load(root, &mut found);
    served(root, &mut found);
    if root.is_host() {
        unseen(Namespaces::of_this_process(), &mut found);
    }
    found
}

/// What of the host cannot be seen from here, where others may need it.
fn unseen(namespaces: &Namespaces, found: &mut Vec<String>) {
    if !namespaces.pids_are_the_kernels() {
        found.push("from this PID namespace the host's other processes are not seen".to_owned());
    }
    if let Namespace::Other(_) = namespaces.place(Kind::Network) {
        found.push("from this network namespace the host's connections are not seen".to_owned());
    }
}

fn programs(processes: &[(u32, TaskStat)], found: &mut Vec<String>) {
    let names: BTreeSet<&str> = processes.iter().map(|(_, stat)| stat.name.as_str()).collect();
    let told = PROGRAMS.iter().filter(|(program, _)| names.contains(program));
    found.extend(told.map(|(program, words)| format!("{program} runs: {words}")));
}

fn users(root: &Root, processes: &[(u32, TaskStat)], own_user: u32, found: &mut Vec<String>) {
    let users: BTreeSet<u32> = processes
        .iter()
        .filter_map(|(pid, _)| tasks::user(root, *pid))
        .filter(|user| PEOPLE.contains(user) && *user != own_user)
        .collect();
    if users.len() > OTHER_USERS_MAX {
        found.push(format!("{} other users have processes", users.len()));
    }
}

fn load(root: &Root, found: &mut Vec<String>) {
    let text = root.read(root.proc("loadavg"));
    let Some(load) = text.ok().and_then(|text| text.split(' ').next()?.real()) else {
        found.push("its load cannot be read from /proc/loadavg".to_owned());
        return;
    };
    let cores = cpus::online(root).map_or(1, |cores| cores.len().max(1));
    if load > LOAD_PER_CORE * cores as f64 {
        found.push(format!("the load is {load:.1} on {cores} core{}", if cores == 1 { "" } else { "s" }));
    }
}

/// Connections of others to ports that listen, as /proc/net/tcp lists them.
fn served(root: &Root, found: &mut Vec<String>) {
    const ESTABLISHED: &str = "01";
    const LISTENS: &str = "0A";
    let text = ["net/tcp", "net/tcp6"].map(|file| match root.read_up_to(root.proc(file), TABLE_BYTES_MAX) {
        Ok(text) => text,
        // A kernel without IPv6 has no table of it.
        Err(error) if error.is_absent() => String::new(),
        Err(error) => {
            found.push(format!("its connections are not all seen: {error}"));
            String::new()
        }
    });
    // Address and port of both ends, and the state.
    let rows = || {
        text.iter().flat_map(|text| text.lines().skip(1)).filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            let (own, other, state) = (words.next()?, words.next()?, words.next()?);
            Some((own.rsplit_once(':')?.1, other.rsplit_once(':')?.0, state))
        })
    };
    let ports: BTreeSet<&str> = rows().filter(|row| row.2 == LISTENS).map(|row| row.0).collect();
    let is_served = |row: &(&str, &str, &str)| row.2 == ESTABLISHED && ports.contains(row.0) && !is_loopback(row.1);
    let count = rows().filter(is_served).count();
    if count > SERVED_MAX {
        found.push(format!("{count} connections from other hosts are served"));
    }
}

/// Addresses are hexadecimal, in the host's order of bytes for each 32 bits.
fn is_loopback(address: &str) -> bool {
    let is_of_127 =
        |word: &str| if cfg!(target_endian = "little") { word.ends_with("7F") } else { word.starts_with("7F") };
    match address.len() {
        8 => is_of_127(address),
        32 => {
            ["00000000000000000000000001000000", "00000000000000000000000000000001"].contains(&address)
                || address[16..24] == *"0000FFFF" && is_of_127(&address[24..])
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    fn process(tree: HostTree, pid: u32, name: &str, user: u32) -> HostTree {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        tree.file(format!("proc/{pid}/stat"), format!("{pid} ({name}) S {}\n", fields.join(" ")))
            .file(format!("proc/{pid}/status"), format!("Name:\t{name}\nUid:\t{user}\t{user}\t{user}\t{user}\n"))
    }

    fn quiet() -> HostTree {
        let tree = HostTree::new().file("proc/loadavg", "0.30 0.2 0.1 1/100 7\n");
        process(tree.file("sys/devices/system/cpu/online", "0-1\n"), 1, "systemd", 0)
    }

    #[test]
    fn a_quiet_host_has_nothing_that_says_it_is_in_use() {
        let tree = process(process(quiet(), 10, "bash", 1_000), 11, "vim", 1_001);
        assert_eq!(evidence(&Root::at(tree.path()), 1_000), Vec::<String>::new(), "one other user");
    }

    #[test]
    fn what_a_namespace_hides_counts_as_in_use() {
        let words = |tree: HostTree| {
            let mut found = Vec::new();
            unseen(&Namespaces::read(&Root::at(tree.path())), &mut found);
            found.join("; ")
        };
        let place = |pid: u64, net: u64| {
            HostTree::new()
                .file("proc/self/status", "NSpid:\t7\n")
                .link("proc/self/ns/pid", format!("pid:[{pid}]"))
                .link("proc/self/ns/net", format!("net:[{net}]"))
        };
        assert_eq!(words(place(4_026_531_836, 4_026_531_833)), "");
        assert!(words(place(4_026_532_300, 4_026_531_833)).contains("PID namespace"));
        let elsewhere = place(4_026_531_836, 4_026_532_300).link("proc/2/ns/net", "net:[4026531833]");
        assert!(words(elsewhere).contains("network namespace"));
        assert!(words(HostTree::new()).contains("PID namespace"), "unknown is not alone");
    }

    #[test]
    fn each_kind_of_evidence_is_told_in_words() {
        let tree = process(quiet(), 10, "kubelet", 0);
        assert_eq!(evidence(&Root::at(tree.path()), 0), ["kubelet runs: it is a node of Kubernetes"]);
        let tree = process(process(quiet(), 10, "bash", 1_000), 11, "vim", 1_001);
        assert_eq!(evidence(&Root::at(tree.path()), 0), ["2 other users have processes"]);
        let tree = quiet().file("proc/loadavg", "1.50 0.2 0.1 1/100 7\n");
        assert_eq!(evidence(&Root::at(tree.path()), 0), ["the load is 1.5 on 2 cores"]);
    }

    #[test]
    fn connections_of_others_to_a_served_port_count_and_own_ones_do_not() {
        let table = |other: &str| {
            let row =
                |local: &str, other: &str, state: &str| format!("   0: {local} {other} {state} 0:0 0:0 0 0 0 1\n");
            let of = |port: u32| row("0500A8C0:1F90", &format!("{other}:{port:04X}"), "01");
            let rows: String = (0..6).map(of).collect();
            format!("  sl  local_address\n{}{rows}", row("00000000:1F90", "00000000:0000", "0A"))
        };
        let served = |other: &str| {
            let tree = quiet().file("proc/net/tcp", table(other));
            evidence(&Root::at(tree.path()), 0)
        };
        // More than 16 MiB: the busiest host must not look like an idle one.
        let tree = quiet().file("proc/net/tcp6", table("0600A8C0").repeat(60_000));
        let said = evidence(&Root::at(tree.path()), 0);
        assert!(said.len() == 1 && said[0].contains("not all seen") && said[0].contains("tcp6"), "{said:?}");
        let unread = quiet().file("proc/loadavg", "?");
        assert_eq!(evidence(&Root::at(unread.path()), 0), ["its load cannot be read from /proc/loadavg"]);
        let said = evidence(&Root::at(HostTree::new().path()), 0);
        assert!(said[0].starts_with("its processes are not seen"), "{said:?}");
        assert_eq!(served("0600A8C0"), ["6 connections from other hosts are served"]);
        assert_eq!(served("0100007F"), Vec::<String>::new());
    }
}
