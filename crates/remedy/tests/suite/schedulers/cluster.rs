//! A made-up Slurm cluster: what its commands say, what they say wrongly, and what people do to it meanwhile.

use crate::suite::faults::random::Random;
use std::collections::{BTreeMap, BTreeSet};

/// Which of its answers is wrong now. One source lies at a time: if all of them agreed on a lie, nobody could tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lie {
    None,
    /// `scontrol show node` says idle of a node with jobs.
    State,
    /// It says that no CPU is allocated.
    Cpus,
    /// `squeue` lists no job.
    Queue,
    /// A state that nobody knows.
    UnknownNode,
    UnknownJob,
    /// Nothing, with a good end.
    Silence,
    /// It does not answer.
    Away,
    /// An update is taken and not done.
    Ignores,
    /// An update is taken, and done a while later.
    Lags,
}

const LIES: [Lie; 9] = [
    Lie::State,
    Lie::Cpus,
    Lie::Queue,
    Lie::UnknownNode,
    Lie::UnknownJob,
    Lie::Silence,
    Lie::Away,
    Lie::Ignores,
    Lie::Lags,
];

#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The reason of its drain; `None` while it takes jobs.
    pub drained: Option<String>,
    /// Its jobs, and whether each is suspended.
    pub jobs: BTreeMap<u64, bool>,
}

pub struct Cluster {
    pub nodes: BTreeMap<String, Node>,
    pub random: Random,
    pub lie: Lie,
    /// Updates that were taken and are not done yet.
    late: Vec<(String, Option<String>)>,
    job_count: u64,
    /// What a remedy must never do to a node of someone else.
    pub violation: Option<String>,
    /// What happened, by name.
    pub seen: BTreeSet<&'static str>,
}

impl Cluster {
    pub fn new(hosts: u64, seed: u64) -> Self {
        let nodes = (0..hosts).map(|host| (format!("h{host}"), Node::default())).collect();
        let (random, lie, late, violation, seen) = (Random::new(seed), Lie::None, Vec::new(), None, BTreeSet::new());
        Cluster { nodes, random, lie, late, job_count: 0, violation, seen }
    }

    /// What one of Slurm's commands says.
    pub fn answer(&mut self, name: &str, words: &[&str]) -> Result<String, (String, bool)> {
        match self.lie {
            Lie::Away => return Err(("Unable to contact slurm controller".into(), true)),
            Lie::Silence => return Ok(String::new()),
            _ => {}
        }
        match (name, words[0]) {
            ("scontrol", "show") => Ok(self.show(words[2])),
            ("scontrol", "update") => {
                self.update(words);
                Ok(String::new())
            }
            ("scontrol", "requeue") => {
                for job in words[1].split(',').map(|job| job.parse::<u64>().unwrap()) {
                    let (host, node) = self.nodes.iter_mut().find(|(_, node)| node.jobs.contains_key(&job)).unwrap();
                    if node.drained.as_ref().is_some_and(|reason| !is_ours(reason)) {
                        self.violation = Some(format!("a job of {host} was requeued, which someone else drained"));
                    }
                    node.jobs.remove(&job);
                }
                Ok(String::new())
            }
            ("squeue", _) => Ok(self.queue(words.last().unwrap())),
            _ => panic!("{name} {words:?}"),
        }
    }

    fn show(&self, host: &str) -> String {
        let node = &self.nodes[host];
        let running = node.jobs.values().filter(|is_suspended| !**is_suspended).count();
        let base = if running > 0 && self.lie != Lie::State { "MIXED" } else { "IDLE" };
        let cpus = if self.lie == Lie::Cpus { 0 } else { running };
        let drain = if node.drained.is_some() { "+DRAIN" } else { "" };
        let odd = if self.lie == Lie::UnknownNode { "+DREAMING" } else { "" };
        let reason =
            node.drained.as_ref().map_or(String::new(), |reason| format!("   Reason={reason} [root@2026-11-30]\n"));
        format!("NodeName={host} Arch=x86_64\n   CPUAlloc={cpus} CPUTot=8\n   State={base}{drain}{odd}\n{reason}")
    }

    fn queue(&self, host: &str) -> String {
        let node = &self.nodes[host];
        let mut text = "JOBID|STATE\n".to_owned();
        let hides = self.lie == Lie::Queue && node.jobs.values().any(|is_suspended| !is_suspended);
        for (job, is_suspended) in node.jobs.iter().filter(|_| !hides) {
            let state = match (self.lie == Lie::UnknownJob, is_suspended) {
                (true, _) => "DREAMING",
                (false, true) => "SUSPENDED",
                (false, false) => "RUNNING",
            };
            text.push_str(&format!("{job}|{state}\n"));
        }
        text
    }

    fn update(&mut self, words: &[&str]) {
        let word = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)).map(str::to_owned);
        let host = word("nodename=").unwrap();
        let foreign = self.nodes[&host].drained.clone().filter(|reason| !is_ours(reason));
        if let Some(reason) = foreign {
            self.violation = Some(format!("{words:?} of {host}, which someone else drained ({reason})"));
        }
        let drained = match word("state=").unwrap().as_str() {
            "drain" => Some(word("reason=").unwrap()),
            "resume" => None,
            other => panic!("{other}"),
        };
        match self.lie {
            Lie::Ignores => {}
            Lie::Lags => self.late.push((host, drained)),
            _ => self.nodes.get_mut(&host).unwrap().drained = drained,
        }
    }

    /// A while passes: what was late is done, jobs begin and end, people drain, resume, submit, suspend. Without faults nothing lies, and
    /// work ends.
    pub fn pass(&mut self, is_faulty: bool) {
        for (host, drained) in std::mem::take(&mut self.late) {
            let node = self.nodes.get_mut(&host).unwrap();
            // A person who came between has the last word.
            if node.drained.as_ref().is_none_or(|reason| is_ours(reason)) {
                node.drained = drained;
            }
        }
        self.lie = if is_faulty && self.random.permille(150) { *self.random.of(&LIES) } else { Lie::None };
        for node in self.nodes.values_mut() {
            let is_ours = node.drained.as_ref().is_some_and(|reason| is_ours(reason));
            if self.random.permille(if is_faulty { 60 } else { 300 }) {
                node.jobs.pop_first();
            }
            if !is_faulty {
                continue;
            }
            if self.random.permille(40)
                && let Some(mut job) = node.jobs.last_entry()
            {
                *job.get_mut() = !*job.get();
            }
            match &node.drained {
                None if self.random.permille(60) => {
                    self.job_count += 1;
                    node.jobs.insert(self.job_count, false);
                }
                None if self.random.permille(8) => {
                    self.seen.insert(if node.jobs.is_empty() { "person drained" } else { "person drained under jobs" });
                    node.drained = Some("fans".into());
                }
                Some(_) if self.random.permille(if is_ours { 10 } else { 25 }) => {
                    self.seen.insert(if is_ours { "person resumed our drain" } else { "person resumed" });
                    node.drained = None;
                }
                _ => {}
            }
        }
    }
}

pub fn is_ours(reason: &str) -> bool {
    reason.starts_with("surefoot case ")
}
