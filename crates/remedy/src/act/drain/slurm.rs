//! Slurm: nodes are drained and resumed by `scontrol`; their state is read from `scontrol show node`, and their jobs from `squeue`.
//!
//! The reason names the case, `surefoot case 17: memory/rate`, so that `sinfo -R` tells people who did it. Whose drain it is and whether the
//! node is empty are two questions: a node that someone else has drained is waited for like any other, and is not ours to resume. A node that
//! someone resumed after this case drained it is not drained again.

mod states;

use super::super::shown::{cut, last_words, remarked};
use super::super::{Order, Outcome};
use super::with_memo;
use states::State;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_model::Observed;
use surefoot_outside::host_name::is_other_host;
use surefoot_sys::program;

/// How long `scontrol` may take: it waits for a controller that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a node that still has work is looked at.
const LOOK_AGAIN_NS: u64 = 5_000_000_000;
/// What a drain remembers: whose it is.
const OURS: &str = "ours";
const FOREIGN: &str = "foreign";
/// What every reason of ours begins with.
const REASON: &str = "surefoot case ";
/// What squeue writes first: without it nothing was listed, not even no job.
const HEADER: &str = "JOBID|STATE";
/// Jobs that are requeued at once; the others follow with the next look.
const REQUEUED_MAX: usize = 1_000;

/// What runs Slurm's commands: a command and its words, and what it prints, or why not and whether that may pass.
type Answers = dyn Fn(&str, &[&str]) -> Result<String, (String, bool)> + Send + Sync;

/// How Slurm's commands are run.
#[derive(Clone, Default)]
pub struct Commands(Option<Arc<Answers>>);

impl Commands {
    /// Those of a made-up cluster.
    pub fn made_up(answers: impl Fn(&str, &[&str]) -> Result<String, (String, bool)> + Send + Sync + 'static) -> Self {
        Commands(Some(Arc::new(answers)))
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "made up" } else { "installed" })
    }
}

impl PartialEq for Commands {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Eq for Commands {}

/// A cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slurm {
    /// How it is asked: by the installed commands, or by those of a test.
    pub commands: Commands,
    /// Its slurm.conf; `None` for the default.
    pub configuration: Option<PathBuf>,
    /// Jobs that run on the node are requeued, not waited for.
    pub requeues_jobs: bool,
}

/// What Slurm says of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    state: State,
    allocated_cpus: u32,
    reason: String,
    /// Who set the reason, and when, as Slurm writes it: `root@2026-11-25T15:00:00`.
    set_by: String,
}

impl Node {
    fn says(&self) -> String {
        format!("Slurm: {}", self.state.words())
    }

    /// Who drained it, by the reason.
    fn who(&self) -> String {
        let user = self.set_by.split('@').next().filter(|user| !user.is_empty()).unwrap_or("an unknown user");
        format!("{} ('{}')", cut(user), cut(&self.reason))
    }

    fn is_ours(&self) -> bool {
        self.reason.starts_with(REASON)
    }
}

/// A job that holds a node.
struct Job {
    id: String,
    state: String,
}

impl Slurm {
    /// What draining would do.
    pub fn dry_run(&self, order: &Order) -> String {
        let jobs = if self.requeues_jobs { "requeue its jobs" } else { "wait for its jobs" };
        format!("scontrol update nodename={} state=drain reason='{}', then {jobs}", order.host, reason(order))
    }

    /// Drains the node, and waits until nothing runs there.
    pub fn drain(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        self.take_out(order, stop).unwrap_or_else(|failed| with_memo(failed, &order.memo))
    }

    /// Resumes the node, where this case drained it.
    pub fn restore(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        self.bring_back(order, stop).unwrap_or_else(|failed| failed)
    }

    /// Whether the node is still drained and nothing runs there: asked before each step that would stop its work.
    ///
    /// # Errors
    /// The outcome of that step, with what is on the node.
    pub fn still_empty(&self, order: &Order, stop: &AtomicBool) -> Result<(), Outcome> {
        let node = self.node(&order.host, stop)?;
        if !node.state.is_drained {
            return Err(failed(format!("someone put node {} back into service: {}", order.host, node.says()), false));
        }
        match self.work(&node, &order.host, stop)? {
            None => Ok(()),
            Some(work) => Err(failed(format!("node {} is not empty any more: {work}", order.host), true)),
        }
    }

    fn take_out(&self, order: &Order, stop: &AtomicBool) -> Result<Outcome, Outcome> {
        let (found, why) = (self.node(&order.host, stop)?, reason(order));
        if !found.state.is_drained && order.memo == OURS {
            let why = format!("someone resumed the node after this case drained it: {}", found.says());
            return Err(failed(format!("{why}. Drain it by hand and approve the case, or cancel the case"), false));
        }
        // Whose drain it is, and whether the node is empty, are two questions.
        let is_foreign = found.state.is_drained && !found.is_ours();
        if !found.state.is_drained || (!is_foreign && found.reason != why) {
            let update = [format!("nodename={}", order.host), "state=drain".to_owned(), format!("reason={why}")];
            self.scontrol("update", &update, stop)?;
        }
        let requeued = match self.requeues_jobs && !is_foreign {
            true => self.requeue(&order.host, stop)?,
            false => String::new(),
        };
        let node = self.node(&order.host, stop)?;
        if !node.state.is_drained {
            return Err(failed(format!("scontrol accepted the drain, and the node is {}", node.says()), true));
        }
        let memo = if is_foreign { FOREIGN } else { OURS }.to_owned();
        if let Some(work) = self.work(&node, &order.host, stop)? {
            let by = match is_foreign {
                true => format!("drained by {}, not by this case", node.who()),
                false => "drained".to_owned(),
            };
            let detail = remarked(&format!("{by}; not empty yet: {work}"), &requeued);
            return Ok(Outcome::GoesOn { detail, memo, again_in_ns: LOOK_AGAIN_NS });
        }
        let observed = Observed::Empty {
            state: node.says(),
            work_count: 0,
            allocated_cpus: Some(node.allocated_cpus),
            staying_count: 0,
            taken_out_by: if is_foreign { node.who() } else { String::new() },
        };
        Ok(Outcome::Done { observed, remark: requeued, memo })
    }

    /// What is on the node; `None` where Slurm shows that nothing is: no state of work, no CPU allocated, and no job that holds it. A
    /// suspended job has no CPU, and its processes are still there.
    fn work(&self, node: &Node, host: &str, stop: &AtomicBool) -> Result<Option<String>, Outcome> {
        let is_busy = node.state.is_busy || node.allocated_cpus != 0;
        let jobs = match self.jobs(host, stop) {
            // That some run is known without the list.
            Err(Outcome::Failed { detail, .. }) if is_busy => {
                return Ok(Some(format!(
                    "its jobs still run: CPUAlloc {}, {}; {detail}",
                    node.allocated_cpus,
                    node.says()
                )));
            }
            listed => listed?,
        };
        if !is_busy && jobs.is_empty() {
            return Ok(None);
        }
        let first = jobs.first().map_or_else(String::new, |job| {
            let more = if jobs.len() > 1 { ", ..." } else { "" };
            format!(" ({} {}{more})", job.id, job.state.to_lowercase())
        });
        Ok(Some(format!("{} jobs{first}, CPUAlloc {}, {}", jobs.len(), node.allocated_cpus, node.says())))
    }

    fn bring_back(&self, order: &Order, stop: &AtomicBool) -> Result<Outcome, Outcome> {
        let found = self.node(&order.host, stop)?;
        if !found.state.is_drained {
            return self.in_service(&found, order, "it was in service already", stop);
        }
        if found.reason != reason(order) {
            return Ok(Outcome::done(Observed::LeftOut { state: found.says(), taken_out_by: found.who() }, ""));
        }
        self.scontrol("update", &[format!("nodename={}", order.host), "state=resume".to_owned()], stop)?;
        let node = self.node(&order.host, stop)?;
        if node.state.is_drained {
            return Err(failed(format!("scontrol accepted the resume, and the node is {}", node.says()), true));
        }
        self.in_service(&node, order, "", stop)
    }

    /// A node that is not drained, and whether it is in service: one that is down is neither.
    fn in_service(&self, node: &Node, order: &Order, remark: &str, stop: &AtomicBool) -> Result<Outcome, Outcome> {
        if node.state.is_faulty {
            let why = format!("the node is not drained, and takes no jobs until it is repaired: {}", node.says());
            return Err(failed(why, true));
        }
        let work_count = self.jobs(&order.host, stop)?.len() as u64;
        let observed = Observed::InService { state: node.says(), work_count };
        Ok(Outcome::Done { observed, remark: remark.to_owned(), memo: String::new() })
    }

    /// Requeues what runs on the node; what happened, in words.
    fn requeue(&self, host: &str, stop: &AtomicBool) -> Result<String, Outcome> {
        let can_requeue = |job: &&Job| matches!(&*job.state, "RUNNING" | "SUSPENDED");
        let jobs = self.jobs(host, stop)?;
        let jobs: Vec<String> = jobs.iter().filter(can_requeue).take(REQUEUED_MAX).map(|job| job.id.clone()).collect();
        if jobs.is_empty() {
            return Ok(String::new());
        }
        Ok(match self.scontrol("requeue", &[jobs.join(",")], stop) {
            Ok(()) => format!("{} jobs requeued", jobs.len()),
            Err(Outcome::Failed { detail, .. }) => format!("jobs were not requeued: {detail}"),
            Err(_) => String::new(),
        })
    }

    /// The jobs that hold the node: of every partition, those that only some users see included.
    fn jobs(&self, host: &str, stop: &AtomicBool) -> Result<Vec<Job>, Outcome> {
        let words = ["--all", "--local", "--states=all", "--format=%A|%T", "--nodelist", host];
        let text = self.said("squeue", &words, stop)?;
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        if lines.next() != Some(HEADER) {
            return Err(failed(
                format!("squeue lists no jobs of node {host}, and does not say that there are none"),
                true,
            ));
        }
        let mut jobs = Vec::new();
        for line in lines {
            let (id, state) = line.split_once('|').unwrap_or((line, ""));
            if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(failed(format!("squeue writes a job as '{}'", cut(line)), true));
            }
            match states::holds(state) {
                Some(true) => jobs.push(Job { id: id.to_owned(), state: state.to_owned() }),
                Some(false) => {}
                None => {
                    let why = format!(
                        "job {id} of node {host} is in a state that is unknown here, '{}': it may still run there",
                        cut(state)
                    );
                    return Err(failed(why, false));
                }
            }
        }
        Ok(jobs)
    }

    fn node(&self, host: &str, stop: &AtomicBool) -> Result<Node, Outcome> {
        if !is_node_name(host) {
            return Err(failed(format!("'{}' is no name of a Slurm node", cut(host)), false));
        }
        parse(host, &self.said("scontrol", &["show", "node", host], stop)?)
    }

    fn scontrol(&self, verb: &str, words: &[String], stop: &AtomicBool) -> Result<(), Outcome> {
        let words: Vec<&str> = [verb].into_iter().chain(words.iter().map(String::as_str)).collect();
        self.said("scontrol", &words, stop).map(drop)
    }

    /// What one of Slurm's commands says that ends well.
    fn said(&self, name: &str, words: &[&str], stop: &AtomicBool) -> Result<String, Outcome> {
        let what = format!("{name} {}", words.iter().find(|word| !word.starts_with('-')).unwrap_or(&""));
        let what = what.trim_end();
        if let Some(answers) = &self.commands.0 {
            return answers(name, words).map_err(|(why, is_passing)| failed(format!("{what}: {why}"), is_passing));
        }
        // Where it is not installed, starting it says so.
        let mut command = Command::new(program::find(name).unwrap_or_else(|| PathBuf::from(name)));
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C")
            .current_dir("/")
            .args(words);
        if let Some(file) = &self.configuration {
            command.env("SLURM_CONF", file);
        }
        let ended =
            program::run(command, b"", PATIENCE, stop).map_err(|broken| failed(format!("{what}: {broken}"), true))?;
        if ended.code != 0 {
            let said = last_words(if ended.complaint.is_empty() { &ended.output } else { &ended.complaint });
            // A controller that is away comes back; a node that it does not know does not.
            let is_passing = !said.contains("not found") && !said.contains("Invalid node name");
            return Err(failed(format!("{what}: {said} (exit {})", ended.code), is_passing));
        }
        if ended.dropped_bytes > 0 {
            return Err(failed(format!("{what}: it says more than {} bytes", program::ANSWER_BYTES_MAX), true));
        }
        Ok(String::from_utf8_lossy(&ended.output).into_owned())
    }
}

/// It must come back from Slurm as it went there, or the node would be taken for one that somebody else has drained: Slurm cuts quotes at its
/// end, for instance. So it has nothing that any reader of it could take for more than a letter.
fn reason(order: &Order) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '/' | '-' | '_' | '.' | ':');
    let fault: String =
        order.fault.chars().map(|letter| if is_plain(letter) { letter } else { '?' }).take(80).collect();
    format!("{REASON}{}: {fault}", order.case)
}

fn whole_number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

fn failed(detail: String, is_passing: bool) -> Outcome {
    Outcome::Failed { detail, memo: String::new(), is_passing }
}

/// A name alone: no list, no range, no option.
fn is_node_name(host: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    // `all` is every node of the cluster.
    let is_one = !host.eq_ignore_ascii_case("all");
    is_one && !host.is_empty() && host.len() <= 255 && !host.starts_with('-') && host.bytes().all(is_plain)
}

/// What `scontrol show node` says: words `Name=value`, of which `Reason` goes to the end of its line but for `[user@time]`.
fn parse(host: &str, text: &str) -> Result<Node, Outcome> {
    let values = |name: &str| {
        let name = format!("{name}=");
        text.split_whitespace().filter_map(move |word| word.strip_prefix(&*name).map(str::to_owned)).collect::<Vec<_>>()
    };
    let names: Vec<String> = ["NodeName", "NodeHostName", "NodeAddr"].into_iter().flat_map(values).collect();
    if values("NodeName").len() != 1 || !names.iter().any(|name| name.eq_ignore_ascii_case(host)) {
        return Err(failed(format!("scontrol shows node '{}', not {host}", cut(&names.join(" "))), true));
    }
    // A node may have any name; NodeHostName is that of its machine, and NodeAddr only the way to it.
    if let Some(other) = values("NodeHostName").iter().find(|other| is_other_host(other, host)) {
        let why = format!(
            "Slurm's node {} is on the host {} (NodeHostName), not on {host}: draining it would stop another host's work; mend \
             NodeName and NodeHostName in slurm.conf, or the host's name",
            cut(&values("NodeName").join(" ")),
            cut(other)
        );
        return Err(failed(why, false));
    }
    let Some(state) = values("State").into_iter().next() else {
        return Err(failed(format!("scontrol shows no state of node {host}"), true));
    };
    let state = State::read(&state).map_err(|word| {
        // So it is for a moment after the controller has started.
        let is_passing = word == "UNKNOWN";
        let why = format!(
            "node {host} is {}, and what '{}' means for its jobs is unknown here; look with squeue, and drain it by hand",
            cut(&state),
            cut(&word)
        );
        failed(why, is_passing)
    })?;
    let cpus = values("CPUAlloc");
    let Some(allocated_cpus) = cpus.first().and_then(|cpus| whole_number(cpus)).filter(|_| cpus.len() == 1) else {
        let why = format!("scontrol does not show how many CPUs of node {host} are allocated (CPUAlloc)");
        return Err(failed(why, true));
    };
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("Reason=")).unwrap_or_default();
    let (reason, set_by) = line.rsplit_once(" [").unwrap_or((line, ""));
    let (reason, set_by) = (reason.trim().to_owned(), set_by.trim().trim_end_matches(']').to_owned());
    Ok(Node { state, allocated_cpus, reason, set_by })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const DRAINED: &str = "NodeName=n1 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=1 CPUTot=1 CPULoad=0.10
   State=MIXED+DRAIN* ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A
   Reason=surefoot case 17: memory/rate [root@2026-11-25T15:00:00]
";

    #[test]
    fn a_node_is_read_from_what_slurm_shows() {
        let node = parse("n1", DRAINED).unwrap();
        assert_eq!(
            (node.state.words().as_str(), node.reason.as_str()),
            ("mixed+drain*", "surefoot case 17: memory/rate")
        );
        assert!(node.state.is_drained && node.state.is_busy && node.is_ours() && node.allocated_cpus == 1);
        assert_eq!(node.who(), "root ('surefoot case 17: memory/rate')");
        let why = |text: &str| match parse("n1", text) {
            Err(Outcome::Failed { detail, is_passing, .. }) => (detail, is_passing),
            other => panic!("{other:?}"),
        };
        for (text, words, passes) in [
            ("", "shows node ''", true),
            ("No nodes in the system", "shows node ''", true),
            ("NodeName=n2 State=IDLE", "shows node 'n2', not n1", true),
            ("NodeName=n1 State=IDLE NodeName=n2 State=IDLE", "not n1", true),
            ("NodeName=n1 Arch=x86_64", "no state", true),
            ("NodeName=n1 State=IDLE+DRAIN", "how many CPUs of node n1 are allocated", true),
            ("NodeName=n1 State=IDLE+DRAIN CPUAlloc=N/A", "how many CPUs of node n1 are allocated", true),
            ("NodeName=n1 State=IDLE+DRAIN CPUAlloc=0 CPUAlloc=1", "how many CPUs of node n1 are allocated", true),
            ("NodeName=n1 State=IDLE+BURNING", "what 'BURNING' means", false),
            ("NodeName=n1 State=UNKNOWN*", "what 'UNKNOWN' means", true),
        ] {
            let (detail, is_passing) = why(text);
            assert!(detail.contains(words), "{text}: {detail}");
            assert_eq!(is_passing, passes, "{text}");
        }
        assert!(!parse("n1", "NodeName=alias NodeAddr=n1 State=IDLE CPUAlloc=0").unwrap().state.is_drained);
        for text in [
            "NodeName=n1 NodeAddr=n1 NodeHostName=db7 State=IDLE",
            "NodeName=n7 NodeAddr=n1 NodeHostName=n7.example State=IDLE",
        ] {
            let (detail, is_passing) = why(text);
            assert!(
                detail.contains("not on n1: draining it would stop another host's work") && !is_passing,
                "{detail}"
            );
        }
        for name in ["n1", "N1.example", "localhost", "192.0.2.7"] {
            parse("n1", &format!("NodeName=n1 NodeAddr=db7 NodeHostName={name} State=IDLE CPUAlloc=0")).unwrap();
        }
    }

    /// The node's own state says that jobs run, and their list cannot be had.
    #[test]
    fn a_node_whose_state_says_that_jobs_run_is_waited_for_without_their_list() {
        let answer = |name: &str, words: &[&str]| match (name, words[0]) {
            ("scontrol", "show") => Ok(DRAINED.to_owned()),
            ("squeue", _) => Err(("no configuration".to_owned(), true)),
            _ => Ok(String::new()),
        };
        let slurm = Slurm { commands: Commands::made_up(answer), configuration: None, requeues_jobs: false };
        let order = Order { case: 17, host: "n1".into(), fault: "memory/rate".into(), ..Order::default() };
        match slurm.drain(&order, &AtomicBool::new(false)) {
            Outcome::GoesOn { detail, .. } => {
                assert!(detail.contains("its jobs still run") && detail.contains("no configuration"), "{detail}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reason_is_made_of_letters_that_slurm_leaves_as_they_are() {
        let of = |fault: &str| reason(&Order { case: 7, fault: fault.into(), ..Order::default() });
        assert_eq!(of("memory/rate"), "surefoot case 7: memory/rate");
        assert_eq!(of("q\"/'x=y, z [a]\""), "surefoot case 7: q?/?x?y??z??a??");
    }

    #[test]
    fn a_host_that_would_be_more_than_one_node_is_refused() {
        for host in ["", "-n1", "n[1-9]", "n1,n2", "ALL nodes", "all", "ALL", "n1;reboot", "n1 state=down"] {
            assert!(!is_node_name(host), "{host}");
        }
        assert!(is_node_name("node-17.rack_2"));
    }
}
