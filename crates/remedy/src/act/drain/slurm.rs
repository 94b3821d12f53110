//! Slurm: nodes are drained and resumed by `scontrol`, and their state is read from `scontrol show node`.
//!
//! The reason names the case, `surefoot case 17: memory/rate`, so that `sinfo -R` tells people who did it. A node that somebody else has
//! drained is left as it is: it is not ours to resume.

use super::super::shown::{cut, last_words};
use super::super::{Order, Outcome};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_hostfs::program;

/// How long `scontrol` may take: it waits for a controller that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a node that still has work is looked at.
const LOOK_AGAIN_NS: u64 = 5_000_000_000;
/// What every reason of ours begins with.
const REASON: &str = "surefoot case ";

/// A cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slurm {
    /// Its slurm.conf; `None` for the default.
    pub configuration: Option<PathBuf>,
    /// Jobs that run on the node are requeued, not waited for.
    pub requeues_jobs: bool,
}

/// What Slurm says of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    /// Words such as `IDLE`, `MIXED`, `DRAIN`.
    states: Vec<String>,
    reason: String,
}

impl Node {
    fn is_drained(&self) -> bool {
        self.states.iter().any(|word| word == "DRAIN")
    }

    /// Whether work still runs there: `ALLOCATED`, `MIXED` and `COMPLETING` do.
    fn is_busy(&self) -> bool {
        self.states.iter().any(|word| matches!(word.as_str(), "ALLOCATED" | "MIXED" | "COMPLETING"))
    }

    fn is_ours(&self) -> bool {
        self.reason.starts_with(REASON)
    }
}

impl Slurm {
    /// What draining would do.
    pub fn dry_run(&self, order: &Order) -> String {
        let jobs = if self.requeues_jobs { "requeue its jobs" } else { "wait for its jobs" };
        format!("scontrol update nodename={} state=drain reason='{}', then {jobs}", order.host, reason(order))
    }

    /// Drains the node, and waits until nothing runs there.
    pub fn drain(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        let found = match self.node(&order.host, stop) {
            Ok(node) => node,
            Err(failed) => return failed,
        };
        let why = reason(order);
        if !found.is_drained() || (found.is_ours() && found.reason != why) {
            let update = [format!("nodename={}", order.host), "state=drain".to_owned(), format!("reason={why}")];
            if let Err(failed) = self.scontrol("update", &update, stop) {
                return failed;
            }
        } else if !found.is_ours() {
            let detail =
                format!("somebody else has drained it already ('{}'), and it stays drained", cut(&found.reason));
            return Outcome::Done { detail, memo: "foreign".to_owned() };
        }
        let requeued =
            if self.requeues_jobs && found.is_busy() { self.requeue(&order.host, stop) } else { String::new() };
        match self.node(&order.host, stop) {
            Ok(node) if !node.is_drained() => {
                failed(format!("Slurm took the order, and the node is {}", words(&node)), true)
            }
            Ok(node) if node.is_busy() => Outcome::GoesOn {
                detail: format!("drained, and its jobs still run ({}){requeued}", words(&node)),
                memo: String::new(),
                again_in_ns: LOOK_AGAIN_NS,
            },
            Ok(node) => Outcome::Done { detail: format!("Slurm says {}{requeued}", words(&node)), memo: String::new() },
            Err(failed) => failed,
        }
    }

    /// Resumes the node, where this case drained it.
    pub fn restore(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        let found = match self.node(&order.host, stop) {
            Ok(node) => node,
            Err(failed) => return failed,
        };
        if !found.is_drained() {
            return super::done("Slurm has it in service already");
        }
        if found.reason != reason(order) {
            let detail = format!("it stays drained, as somebody else wants it: '{}'", cut(&found.reason));
            return Outcome::Done { detail, memo: String::new() };
        }
        let update = [format!("nodename={}", order.host), "state=resume".to_owned()];
        if let Err(failed) = self.scontrol("update", &update, stop) {
            return failed;
        }
        match self.node(&order.host, stop) {
            Ok(node) if node.is_drained() => {
                failed(format!("Slurm took the order, and the node is {}", words(&node)), true)
            }
            Ok(node) => Outcome::Done { detail: format!("Slurm says {}", words(&node)), memo: String::new() },
            Err(failed) => failed,
        }
    }

    /// Requeues what runs on the node; what happened, in words.
    fn requeue(&self, host: &str, stop: &AtomicBool) -> String {
        let mut command = self.command("squeue");
        command.args(["--noheader", "--states=running", "--format=%A", "--nodelist", host]);
        let Ok(ended) = program::run(command, b"", PATIENCE, stop) else {
            return "; its jobs could not be listed".into();
        };
        let jobs: Vec<String> = String::from_utf8_lossy(&ended.output)
            .lines()
            .map(str::trim)
            .filter(|job| !job.is_empty() && job.bytes().all(|byte| byte.is_ascii_digit()))
            .take(1_000)
            .map(str::to_owned)
            .collect();
        if jobs.is_empty() {
            return String::new();
        }
        let count = jobs.len();
        match self.scontrol("requeue", &[jobs.join(",")], stop) {
            Ok(()) => format!("; {count} jobs requeued"),
            Err(Outcome::Failed { detail, .. }) => format!("; jobs were not requeued: {detail}"),
            Err(_) => String::new(),
        }
    }

    fn node(&self, host: &str, stop: &AtomicBool) -> Result<Node, Outcome> {
        if !is_node_name(host) {
            return Err(failed(format!("'{}' is no name of a Slurm node", cut(host)), false));
        }
        let mut command = self.command("scontrol");
        command.args(["show", "node", host]);
        let ended =
            program::run(command, b"", PATIENCE, stop).map_err(|broken| failed(format!("scontrol: {broken}"), true))?;
        if ended.code != 0 {
            let said = last_words(if ended.complaint.is_empty() { &ended.output } else { &ended.complaint });
            // A controller that is away comes back; a node that it does not know does not.
            let is_passing = !said.contains("not found");
            return Err(failed(format!("scontrol show node: {said}"), is_passing));
        }
        parse(&String::from_utf8_lossy(&ended.output))
            .ok_or_else(|| failed(format!("scontrol shows no state of node {host}"), true))
    }

    fn scontrol(&self, verb: &str, words: &[String], stop: &AtomicBool) -> Result<(), Outcome> {
        let mut command = self.command("scontrol");
        command.arg(verb).args(words);
        match program::run(command, b"", PATIENCE, stop) {
            Ok(ended) if ended.code == 0 => Ok(()),
            Ok(ended) => Err(failed(format!("scontrol {verb}: {}", last_words(&ended.complaint)), true)),
            Err(broken) => Err(failed(format!("scontrol {verb}: {broken}"), true)),
        }
    }

    fn command(&self, name: &str) -> Command {
        // Where it is not installed, starting it says so.
        let mut command = Command::new(program::find(name).unwrap_or_else(|| PathBuf::from(name)));
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C").current_dir("/");
        if let Some(file) = &self.configuration {
            command.env("SLURM_CONF", file);
        }
        command
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

fn failed(detail: String, is_passing: bool) -> Outcome {
    Outcome::Failed { detail, memo: String::new(), is_passing }
}

fn words(node: &Node) -> String {
    node.states.join("+").to_lowercase()
}

/// A name alone: no list, no range, no option.
fn is_node_name(host: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    // `all` is every node of the cluster.
    let is_one = !host.eq_ignore_ascii_case("all");
    is_one && !host.is_empty() && host.len() <= 255 && !host.starts_with('-') && host.bytes().all(is_plain)
}

/// What `scontrol show node` says: words `Name=value`, of which `Reason` goes to the end of its line but for `[user@time]`.
fn parse(text: &str) -> Option<Node> {
    let value = |name: &str| text.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let states =
        value("State")?.trim_end_matches('*').split('+').map(|word| word.trim_end_matches('*').to_owned()).collect();
    let reason = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("Reason="))
        .map(|line| line.rsplit_once(" [").map_or(line, |(reason, _)| reason).trim().to_owned());
    Some(Node { states, reason: reason.unwrap_or_default() })
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
        let node = parse(DRAINED).unwrap();
        assert_eq!(node.states, ["MIXED", "DRAIN"]);
        assert_eq!(node.reason, "surefoot case 17: memory/rate");
        assert!(node.is_drained() && node.is_busy() && node.is_ours());
        assert_eq!(parse("no node"), None);
        assert!(!parse("State=IDLE").unwrap().is_drained());
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
