//! How long a process ran, and how long it was ready to run while another had its core, by the scheduler's own count.
//!
//! The ledger names who took the time; this is what it has to add up to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};
use surefoot_hostfs::Root;
use surefoot_hostfs::namespaces::{Kind, Namespaces, Place};
use surefoot_model::{CauseKind, Digits, Lost, Report};

/// Threads of one look; the rest is counted.
const THREADS_MAX: usize = 65_536;

/// What threads ran and waited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    /// Time on a core, nanoseconds.
    pub ran_ns: u64,
    /// Time in a queue of the scheduler, ready to run; nanoseconds. No thread ran and waited for longer than was looked.
    pub waited_ns: u64,
    /// What was left out of waits that ended meanwhile, because they had begun before; nanoseconds.
    pub waited_before_ns: u64,
    /// Threads that were there at the end.
    pub threads: usize,
    /// Threads that ended in between and took their times with them, or that could not be read: both times are lower bounds
    /// where this is not 0.
    pub lost_threads: usize,
}

/// Who took a workload's time, against how long the scheduler says it waited.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// Tasks that had a core while the workload was ready to run there, the largest first.
    pub takers: Vec<Lost>,
    /// What these took together, nanoseconds.
    pub named_ns: u64,
    /// What the scheduler counted as waiting beyond that, nanoseconds; `None` where it does not say how long that was.
    pub unnamed_ns: Option<u64>,
    /// What interrupts, kernel threads and the hypervisor took from the watched cores, whoever ran there; the largest first.
    pub from_cores: Vec<Lost>,
    /// The longest that one taker had a core at a stretch, nanoseconds, and the longest that any other taker had: what the
    /// longest wait is at least, with the first one and without.
    pub longest: Option<(usize, u64, u64)>,
}

impl Account {
    /// Out of the ledger of a report whose workload it was, and what the scheduler counted meanwhile, if it did.
    pub fn of(report: &Report, took: Option<&Took>) -> Self {
        let (takers, others): (Vec<Lost>, Vec<Lost>) =
            report.causes().into_iter().partition(|lost| lost.cause.kind == CauseKind::Preemption);
        let named_ns = takers.iter().fold(0u64, |sum, lost| sum.saturating_add(lost.total_ns));
        let longest = takers.iter().enumerate().max_by_key(|(_, lost)| lost.max_ns).map(|(first, lost)| {
            let without = takers.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, lost)| lost.max_ns).max();
            (first, lost.max_ns, without.unwrap_or_default())
        });
        Account {
            unnamed_ns: took.map(|took| took.waited_ns.saturating_sub(named_ns)),
            named_ns,
            longest,
            takers,
            from_cores: others.into_iter().filter(|lost| lost.while_busy_ns() > 0).collect(),
        }
    }
}

/// Processes of a unit that are looked at: as many as the programs follow.
const PROCESSES_MAX: usize = 4096;
/// Control groups that are looked through for one.
const GROUPS_MAX: usize = 65_536;

/// The processes of a systemd unit, by the control groups of this name and all below them.
///
/// # Errors
/// There is no such unit, several have this name, it has no process or too many, or its groups cannot be read.
pub fn of_unit(root: &Root, unit: &str) -> Result<Vec<u32>, String> {
    let name = if unit.contains('.') { unit.to_owned() } else { format!("{unit}.service") };
    let top = root.sys("fs/cgroup");
    let mut found = Vec::new();
    let mut open = vec![top.clone()];
    let mut seen = 0;
    while let Some(folder) = open.pop() {
        seen += 1;
        if seen > GROUPS_MAX {
            return Err(format!("this host has more than {GROUPS_MAX} control groups, too many to look through"));
        }
        for group in groups_in(&folder)? {
            match group.file_name().is_some_and(|own| own == name.as_str()) {
                true => found.push(group),
                false => open.push(group),
            }
        }
    }
    let shown = |group: &Path| format!("/{}", group.strip_prefix(&top).unwrap_or(group).display());
    match found.as_slice() {
        [] => Err(match Namespaces::of_this_process().place(Kind::Cgroup) {
            Place::Initial => format!("no control group is called {name}: systemd runs no such unit now"),
            _ => format!("no control group of this cgroup namespace is called {name}; those outside are not seen"),
        }),
        [one] => processes(one),
        // Version 1 has a tree for each controller, with the same groups in each.
        many if many.iter().all(|group| has_same_end(group, &many[0], &top)) => processes(&many[0]),
        many => {
            let listed: Vec<String> = many.iter().take(4).map(|group| shown(group)).collect();
            Err(format!("{} units are called {name}: {}; name a process with --pid", many.len(), listed.join(", ")))
        }
    }
}

/// Whether two groups have the same path below the controllers of version 1.
fn has_same_end(one: &Path, other: &Path, top: &Path) -> bool {
    let below = |group: &Path| -> PathBuf { group.strip_prefix(top).unwrap_or(group).components().skip(1).collect() };
    !top.join("cgroup.controllers").exists() && below(one) == below(other)
}

fn groups_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error: io::Error| format!("{}: {error}", folder.display());
    let mut groups = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_type().map_err(unreadable)?.is_dir() {
            groups.push(entry.path());
        }
    }
    Ok(groups)
}

fn processes(group: &Path) -> Result<Vec<u32>, String> {
    let mut pids = Vec::new();
    let mut open = vec![group.to_owned()];
    while let Some(folder) = open.pop() {
        let path = folder.join("cgroup.procs");
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        for line in text.lines() {
            pids.push(line.digits().ok_or_else(|| format!("{}: '{line}' is no process", path.display()))?);
        }
        open.extend(groups_in(&folder)?);
    }
    // A process of another PID namespace has the number 0.
    pids.retain(|pid| *pid != 0);
    match pids.len() {
        0 => Err(format!("no process runs in {}", group.display())),
        1..=PROCESSES_MAX => Ok(pids),
        many => Err(format!("{many} processes run in {}; at most {PROCESSES_MAX} can be followed", group.display())),
    }
}

/// What each thread of some processes, or of a name, has run and waited since it began.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    threads: BTreeMap<(u32, u32), (u64, u64)>,
    unread: usize,
    /// Whether these are the threads of a name: one that is new may have had another name before.
    is_of_name: bool,
}

impl Counts {
    /// Reads them now. A process that is not there has no threads.
    ///
    /// # Errors
    /// The kernel keeps no such counts, or this user may not list the threads.
    pub fn read(root: &Root, pids: &[u32]) -> io::Result<Self> {
        Counts::of(root, pids, None)
    }

    /// Reads those of all threads that have this name now.
    ///
    /// # Errors
    /// As [`Counts::read`].
    pub fn read_named(root: &Root, comm: &str) -> io::Result<Self> {
        let mut pids = Vec::new();
        for entry in fs::read_dir(root.proc(""))? {
            pids.extend(entry?.file_name().to_str().and_then(str::digits::<u32>));
        }
        Counts::of(root, &pids, Some(comm))
    }

    fn of(root: &Root, pids: &[u32], comm: Option<&str>) -> io::Result<Self> {
        let mut counts = Counts { is_of_name: comm.is_some(), ..Counts::default() };
        for pid in pids {
            let folder = root.proc(format!("{pid}/task"));
            let listed = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(_) if comm.is_some() => continue,
                listed => listed?,
            };
            for thread in listed {
                // Processes that are not looked for may end while their threads are listed.
                let thread = match thread {
                    Err(_) if comm.is_some() => continue,
                    thread => thread?,
                };
                let Some(id) = thread.file_name().to_str().and_then(str::digits::<u32>) else { continue };
                let is_other = |comm: &str| {
                    let name = fs::read(folder.join(id.to_string()).join("comm")).unwrap_or_default();
                    name.strip_suffix(b"\n").unwrap_or(&name) != comm.as_bytes()
                };
                if comm.is_some_and(is_other) {
                    continue;
                }
                if counts.threads.len() >= THREADS_MAX {
                    counts.unread += 1;
                    continue;
                }
                match fs::read_to_string(folder.join(id.to_string()).join("schedstat")) {
                    Ok(text) => {
                        let took =
                            two(&text).ok_or_else(|| io::Error::other(format!("schedstat says '{}'", text.trim())))?;
                        counts.threads.insert((*pid, id), took);
                    }
                    // It ended meanwhile.
                    Err(_) => counts.unread += 1,
                }
            }
        }
        if !counts.threads.is_empty() && counts.threads.values().all(|took| *took == (0, 0)) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the kernel keeps no schedstat (CONFIG_SCHED_INFO)",
            ));
        }
        Ok(counts)
    }
}

/// What threads took since a first look, from look to look.
#[derive(Debug, Clone)]
pub struct Course {
    last: Counts,
    /// What each thread ran and waited since, those that ended included.
    took: BTreeMap<(u32, u32), (u64, u64)>,
    waited_before_ns: u64,
    lost_threads: usize,
}

impl Course {
    /// From this look on.
    pub fn begin(first: Counts) -> Self {
        let took = first.threads.keys().map(|thread| (*thread, (0, 0))).collect();
        Course { last: first, took, waited_before_ns: 0, lost_threads: 0 }
    }

    /// Takes a later look, so long after the first. A thread that is new began at 0; one that is new to a name may have had another one
    /// before, and counts from the next look on.
    ///
    /// The scheduler counts a wait when the thread gets the core, and then all of it. So that a wait that had begun before
    /// the first look counts only from there on, no thread has run and waited for longer than has passed since.
    pub fn look(&mut self, later: Counts, since_first: Duration) {
        let passed_ns = u64::try_from(since_first.as_nanos()).unwrap_or(u64::MAX);
        for (thread, now) in &later.threads {
            if later.is_of_name && !self.last.threads.contains_key(thread) {
                self.lost_threads += 1;
                self.took.entry(*thread).or_default();
                continue;
            }
            let before = self.last.threads.get(thread).copied().unwrap_or_default();
            let rise = now.0.checked_sub(before.0).zip(now.1.checked_sub(before.1));
            // Another thread by the same number began at 0, and that before it has ended.
            self.lost_threads += usize::from(rise.is_none());
            let (ran, waited) = rise.unwrap_or(*now);
            let of_it = self.took.entry(*thread).or_default();
            of_it.0 = of_it.0.saturating_add(ran).min(passed_ns);
            let whole = of_it.1.saturating_add(waited);
            of_it.1 = whole.min(passed_ns - of_it.0);
            self.waited_before_ns = self.waited_before_ns.saturating_add(whole - of_it.1);
        }
        self.lost_threads += self.last.threads.keys().filter(|thread| !later.threads.contains_key(thread)).count();
        self.last = later;
    }

    /// What they took until the last look.
    pub fn took(&self) -> Took {
        let sum = |of: fn(&(u64, u64)) -> u64| self.took.values().map(of).fold(0u64, u64::saturating_add);
        Took {
            ran_ns: sum(|took| took.0),
            waited_ns: sum(|took| took.1),
            waited_before_ns: self.waited_before_ns,
            threads: self.last.threads.len(),
            lost_threads: self.last.unread + self.lost_threads,
        }
    }
}

/// The first two numbers of a line.
fn two(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_ascii_whitespace().map(str::digits);
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn host(threads: &[(u32, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (id, text) in threads {
            let path = folder.path().join(format!("proc/7/task/{id}"));
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("schedstat"), text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    /// After looks at these times.
    fn took<const LOOKS: usize>(first: Counts, looks: [(Counts, u64); LOOKS]) -> Took {
        let mut course = Course::begin(first);
        looks.into_iter().for_each(|(later, at_ns)| course.look(later, Duration::from_nanos(at_ns)));
        course.took()
    }

    /// One thread had waited 20.4 s in 20.1 s: the scheduler counts a wait whole when it ends.
    #[test]
    fn no_thread_waits_for_longer_than_is_looked() {
        let counts = |text: &str| {
            let (_host, root) = host(&[(7, text)]);
            Counts::read(&root, &[7]).unwrap()
        };
        // It gets the core after 5 of 20, having waited for 15, and sleeps for the rest.
        let looks = [(counts("100 50 3\n"), 4), (counts("101 65 4\n"), 6), (counts("101 65 4\n"), 20)];
        let found = took(counts("100 50 3\n"), looks);
        assert_eq!((found.ran_ns, found.waited_ns, found.waited_before_ns), (1, 5, 10));
        // What is waited afterwards counts as ever.
        let looks = [(counts("101 65 4\n"), 6), (counts("102 68 5\n"), 20)];
        let found = took(counts("100 50 3\n"), looks);
        assert_eq!((found.ran_ns, found.waited_ns, found.waited_before_ns), (2, 8, 10));
    }

    /// Of the threads of a name: whatever one took under another name before is no part of it.
    #[test]
    fn threads_are_counted_by_their_name_from_when_they_have_it() {
        let host = |named: &[(u32, &str, &str)]| {
            let threads: Vec<(u32, &str)> = named.iter().map(|(id, _, text)| (*id, *text)).collect();
            let (folder, root) = host(&threads);
            for (id, name, _) in named {
                fs::write(folder.path().join(format!("proc/7/task/{id}/comm")), format!("{name}\n")).unwrap();
            }
            fs::create_dir_all(folder.path().join("proc/self")).unwrap();
            let counts = Counts::read_named(&root, "poller").unwrap();
            drop(folder);
            counts
        };
        let before = host(&[(7, "poller", "100 50 3\n"), (8, "other", "900 900 9\n"), (9, "pollers", "1 1 1\n")]);
        let after = host(&[(7, "poller", "150 80 4\n"), (8, "poller", "950 950 9\n"), (9, "pollers", "9 9 1\n")]);
        let last = host(&[(7, "poller", "150 80 4\n"), (8, "poller", "960 951 9\n")]);
        let took = took(before, [(after, 1_000), (last, 2_000)]);
        assert_eq!((took.ran_ns, took.waited_ns, took.threads, took.lost_threads), (60, 31, 2, 1));
    }

    #[test]
    fn a_unit_is_found_by_its_group_with_what_is_below_it() {
        let folder = tempfile::tempdir().unwrap();
        let group = |path: &str, pids: &str| {
            let path = folder.path().join("sys/fs/cgroup").join(path);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("cgroup.procs"), pids).unwrap();
        };
        group("", "1\n");
        fs::write(folder.path().join("sys/fs/cgroup/cgroup.controllers"), "cpu\n").unwrap();
        group("system.slice/db.service", "10\n");
        group("system.slice/db.service/worker", "11\n12\n");
        group("system.slice/empty.service", "");
        group("user.slice/user-1000.slice/twice.service", "20\n");
        group("system.slice/twice.service", "21\n");
        group("system.slice/odd.service", "x\n");
        let root = Root::at(folder.path());
        for unit in ["db", "db.service"] {
            let mut pids = of_unit(&root, unit).unwrap();
            pids.sort_unstable();
            assert_eq!(pids, [10, 11, 12]);
        }
        let refused = |unit: &str| of_unit(&root, unit).unwrap_err();
        assert!(refused("web").contains("no control group is called web.service"));
        assert!(refused("empty").contains("no process runs in"));
        assert!(refused("odd").contains("'x' is no process"));
        let twice = refused("twice");
        assert!(twice.contains("/system.slice/twice.service") && twice.contains("/user.slice/"), "{twice}");
    }

    #[test]
    fn a_thread_that_ended_is_counted_and_one_that_began_counts_from_nothing() {
        let (_one, before) = host(&[(7, "100 50 3\n"), (8, "10 0 1\n"), (9, "500 500 9\n")]);
        let (_two, after) = host(&[(7, "150 80 4\n"), (10, "7 6 1\n"), (9, "20 1 1\n")]);
        let [before, after] = [before, after].map(|root| Counts::read(&root, &[7]).unwrap());
        let took = took(before, [(after, 1_000)]);
        assert_eq!((took.ran_ns, took.waited_ns, took.threads), (77, 37, 3));
        assert_eq!(took.lost_threads, 2, "8 ended, and 9 is another thread now");
    }

    /// What a thread had taken by the last look at it stays, and it is said that it ended.
    #[test]
    fn a_process_that_ends_has_taken_what_it_took() {
        let (_one, before) = host(&[(7, "100 50 3\n"), (8, "10 10 1\n")]);
        let (_two, later) = host(&[(7, "150 80 4\n"), (8, "20 10 1\n")]);
        let (_three, gone) = host(&[(8, "30 15 1\n")]);
        let [before, later, gone] = [before, later, gone].map(|root| Counts::read(&root, &[7]).unwrap());
        let took = took(before, [(later, 1_000), (gone, 2_000)]);
        assert_eq!((took.ran_ns, took.waited_ns, took.threads, took.lost_threads), (70, 35, 1, 1));
    }

    #[test]
    fn what_the_kernel_does_not_count_is_no_zero() {
        let (_one, silent) = host(&[(7, "0 0 0\n")]);
        assert_eq!(Counts::read(&silent, &[7]).unwrap_err().kind(), io::ErrorKind::Unsupported);
        let (_two, foreign) = host(&[(7, "1.5 many\n")]);
        assert!(Counts::read(&foreign, &[7]).unwrap_err().to_string().contains("many"));
        let (_three, none) = host(&[]);
        let none = Counts::read(&none, &[7]).unwrap();
        assert_eq!(took(Counts::default(), [(none, 1_000)]), Took::default());
    }
}
