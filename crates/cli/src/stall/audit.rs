//! `surefoot stall audit`.

use crate::args::AuditOptions;
use crate::stall::report;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_hostfs::cpus::format_list;
use surefoot_hostfs::{Root, Unsupported};
use surefoot_model::CpuId;
use surefoot_stall::audit::{self, Finding, State};
use surefoot_sys::signals;

/// What stands before a boot option in a finding's fix.
const BOOT_OPTION: &str = "boot option";

/// A line of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "check")]
pub struct CheckLine<'a> {
    cpu: CpuId,
    name: &'a str,
    state: &'a str,
    /// What is there now; when it cannot be checked, the reason.
    actual: &'a str,
    expected: &'a str,
    /// Why that is expected.
    why: &'a str,
    /// Commands for a root shell, or the boot option; empty when nothing is to be done.
    fix: &'a str,
    evidence: &'a str,
    source: &'a str,
}

impl<'a> From<&'a Finding> for CheckLine<'a> {
    fn from(finding: &'a Finding) -> Self {
        CheckLine {
            cpu: finding.cpu,
            name: finding.name,
            state: finding.state.as_str(),
            actual: &finding.actual,
            expected: &finding.expected,
            why: finding.why,
            fix: &finding.fix,
            evidence: &finding.evidence,
            source: finding.source,
        }
    }
}

pub fn run(options: &AuditOptions) -> anyhow::Result<Outcome> {
    report::check_duration(options.duration)?;
    let root = match &options.root {
        None => Root::host(),
        Some(folder) => {
            anyhow::ensure!(folder.is_dir(), "--root {}: there is no such folder", folder.display());
            Root::at(folder)
        }
    };
    let stop = signals::stop_flag()?;
    if root.is_host() && !options.json && io::stderr().is_terminal() {
        surefoot_console::tell!("measuring for {:?}; Ctrl-C ends it early", options.duration);
    }
    let findings = audit::run(&root, &options.cpu.0, options.duration, stop)?;
    let mut out = output::patient();
    if options.json {
        output::stream(&mut out, "stall audit")?;
        findings.iter().try_for_each(|finding| output::line(&mut out, &CheckLine::from(finding)))?;
    } else {
        out.write_all(text(&findings).as_bytes())?;
    }
    out.flush()?;
    outcome(&findings)
}

fn outcome(findings: &[Finding]) -> anyhow::Result<Outcome> {
    if findings.iter().any(|finding| finding.state == State::Fix) {
        return Ok(Outcome::Found);
    }
    if findings.iter().any(|finding| finding.state == State::Ok) {
        return Ok(Outcome::Done);
    }
    let remedy = "audit a host, or a tree that holds its proc and sys";
    Err(Unsupported::new("nothing can be checked here: none of the files that the checks read is there", remedy).into())
}

/// One check, over the cores that it was made on.
struct Check<'a> {
    findings: Vec<&'a Finding>,
}

impl Check<'_> {
    fn name(&self) -> &'static str {
        self.findings.first().map_or("", |finding| finding.name)
    }

    fn cores(&self) -> String {
        cores_text(self.findings.iter().map(|finding| finding.cpu))
    }

    /// A field that may differ from core to core: each text once, with its cores where there are several.
    fn each(&self, field: impl Fn(&Finding) -> &str) -> Vec<String> {
        let mut texts: Vec<(&str, Vec<CpuId>)> = Vec::new();
        for finding in &self.findings {
            let text = field(finding);
            match texts.iter_mut().find(|known| known.0 == text) {
                Some((_, cores)) => cores.push(finding.cpu),
                None => texts.push((text, vec![finding.cpu])),
            }
        }
        if let [(text, _)] = texts.as_slice() {
            return vec![(*text).to_owned()];
        }
        texts.into_iter().map(|(text, cores)| format!("{}: {text}", cores_text(cores.into_iter()))).collect()
    }

    /// A field on one line. Texts that differ only in the core's own number in a path are given once, with an N.
    fn alike(&self, field: impl Fn(&Finding) -> &str) -> String {
        let general = |finding: &Finding| {
            let cpu = finding.cpu;
            let text = field(finding).replace(&format!("/cpu{cpu}/"), "/cpuN/");
            text.replace(&format!("/machinecheck{cpu}/"), "/machinecheckN/")
        };
        let first = self.findings.first().map(|finding| general(finding)).unwrap_or_default();
        if self.findings.len() > 1 && self.findings.iter().all(|finding| general(finding) == first) {
            return first;
        }
        self.each(field).join("; ")
    }

    /// The commands, each once, ready to be copied.
    fn commands(&self) -> Vec<&str> {
        let mut commands: Vec<&str> = Vec::new();
        for finding in &self.findings {
            for command in finding.fix.lines() {
                if !commands.contains(&command) {
                    commands.push(command);
                }
            }
        }
        commands
    }
}

fn cores_text(cores: impl Iterator<Item = CpuId>) -> String {
    let cores: Vec<CpuId> = cores.collect();
    let word = if cores.len() == 1 { "core" } else { "cores" };
    format!("{word} {}", format_list(&cores))
}

/// The checks of one state, in the order in which they were made on a core.
fn of_state(findings: &[Finding], state: State) -> Vec<Check<'_>> {
    let of_check = |name| Check {
        findings: findings.iter().filter(|finding| finding.name == name && finding.state == state).collect(),
    };
    names(findings).into_iter().map(of_check).filter(|check| !check.findings.is_empty()).collect()
}

/// The names of all checks, each once.
fn names(findings: &[Finding]) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for finding in findings {
        if !names.contains(&finding.name) {
            names.push(finding.name);
        }
    }
    names
}

/// The whole audit for people: what is to be fixed first.
fn text(findings: &[Finding]) -> String {
    let mut cores: Vec<CpuId> = findings.iter().map(|finding| finding.cpu).collect();
    cores.dedup();
    let fixes = of_state(findings, State::Fix);
    let unknown = of_state(findings, State::CannotBeChecked);
    let fine = of_state(findings, State::Ok);
    let mut text = format!("Isolation of {}: ", cores_text(cores.into_iter()));
    let all = names(findings).len();
    text += &format!("{all} checks, {} with something to fix, {} that cannot be made\n", fixes.len(), unknown.len());
    for check in &fixes {
        text += &format!("\nFIX {} ({})\n", check.name(), check.cores());
        let first = check.findings[0];
        field(&mut text, "actual", &check.each(|finding| &finding.actual));
        field(&mut text, "expected", &check.each(|finding| &finding.expected));
        field(&mut text, "why", &[first.why.to_owned()]);
        field(&mut text, "evidence", &check.each(|finding| &finding.evidence));
        field(&mut text, "source", &[first.source.to_owned()]);
        field(&mut text, "fix", &check.commands());
    }
    if !unknown.is_empty() {
        text += "\nCannot be checked:\n";
        unknown.iter().for_each(|check| short(&mut text, check, false));
    }
    if !fine.is_empty() {
        text += "\nOk:\n";
        fine.iter().for_each(|check| short(&mut text, check, true));
    }
    text + &closing(&fixes)
}

fn field(text: &mut String, name: &str, lines: &[impl AsRef<str>]) {
    for (index, line) in lines.iter().enumerate() {
        let name = if index == 0 { name } else { "" };
        *text += &format!("  {name:<9} {}\n", line.as_ref());
    }
}

fn short(text: &mut String, check: &Check<'_>, with_evidence: bool) {
    *text += &format!("  {} ({}): {}\n", check.name(), check.cores(), check.alike(|finding| &finding.actual));
    let evidence = check.alike(|finding| &finding.evidence);
    if with_evidence && evidence != audit::RECORDED {
        *text += &format!("      {evidence}\n");
    }
}

/// How to use the commands, and all boot options in one line.
fn closing(fixes: &[Check<'_>]) -> String {
    if fixes.is_empty() {
        return String::new();
    }
    let mut options: Vec<&str> = Vec::new();
    for command in fixes.iter().flat_map(Check::commands) {
        if let Some((before, option)) = command.split_once(": ")
            && before.contains(BOOT_OPTION)
            && !options.contains(&option)
        {
            options.push(option);
        }
    }
    let mut text =
        "\nCommands are for a root shell; settings below /proc and /sys last until the next boot.\n".to_owned();
    if !options.is_empty() {
        text += "Boot options go into GRUB_CMDLINE_LINUX of /etc/default/grub (then update-grub or grub2-mkconfig, and a \
                 restart). All together:\n";
        text += &format!("  {}\n", options.join(" "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(cpu: u32, name: &'static str, state: State, actual: &str, fix: &str) -> Finding {
        Finding {
            cpu: CpuId(cpu),
            name,
            state,
            actual: actual.to_owned(),
            expected: "0".to_owned(),
            why: "because",
            fix: fix.to_owned(),
            evidence: format!("{actual} seen"),
            source: "a manual",
        }
    }

    #[test]
    fn findings_of_several_cores_are_merged_and_fixes_come_first() {
        let found = [
            finding(1, "ksm", State::Ok, "0", ""),
            finding(1, "nohz_full", State::Fix, "none", "only a boot option helps: nohz_full=1-3"),
            finding(1, "idle", State::Fix, "C6", "echo 1 > a"),
            finding(2, "nohz_full", State::Fix, "none", "only a boot option helps: nohz_full=1-3"),
            finding(2, "idle", State::Fix, "C1E", "echo 1 > b"),
            finding(3, "idle", State::CannotBeChecked, "no such file", ""),
        ];
        let text = text(&found);
        assert_eq!(
            text,
            "Isolation of cores 1-3: 3 checks, 2 with something to fix, 1 that cannot be made\n\
             \n\
             FIX nohz_full (cores 1-2)\n  \
             actual    none\n  \
             expected  0\n  \
             why       because\n  \
             evidence  none seen\n  \
             source    a manual\n  \
             fix       only a boot option helps: nohz_full=1-3\n\
             \n\
             FIX idle (cores 1-2)\n  \
             actual    core 1: C6\n            \
             core 2: C1E\n  \
             expected  0\n  \
             why       because\n  \
             evidence  core 1: C6 seen\n            \
             core 2: C1E seen\n  \
             source    a manual\n  \
             fix       echo 1 > a\n            \
             echo 1 > b\n\
             \n\
             Cannot be checked:\n  \
             idle (core 3): no such file\n\
             \n\
             Ok:\n  \
             ksm (core 1): 0\n      \
             0 seen\n\
             \n\
             Commands are for a root shell; settings below /proc and /sys last until the next boot.\n\
             Boot options go into GRUB_CMDLINE_LINUX of /etc/default/grub (then update-grub or grub2-mkconfig, and a \
             restart). All together:\n  \
             nohz_full=1-3\n"
        );
    }

    #[test]
    fn the_outcome_is_the_exit_code() {
        let only = |state| [finding(1, "ksm", state, "", "")];
        assert_eq!(outcome(&only(State::Fix)).ok(), Some(Outcome::Found));
        assert_eq!(outcome(&only(State::Ok)).ok(), Some(Outcome::Done));
        let error = outcome(&only(State::CannotBeChecked)).err();
        assert!(error.is_some_and(|error| error.downcast_ref::<Unsupported>().is_some()));
    }
}
