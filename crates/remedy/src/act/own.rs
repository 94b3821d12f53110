//! Steps that Surefoot's own commands do on the host that this runs on: they look first, hold their own limits and write down what they did.

use super::shown::{cut, last_words};
use super::{Order, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_foreign::said;
use surefoot_hostfs::Root;
use surefoot_model::{Deed, Observed};
use surefoot_sys::program::{self, Ended};
use surefoot_sys::run_lock::{REPORTING, RunLock};

/// How long a command may take: an interface that comes back, an interval whose effect is waited for.
const PATIENCE: Duration = Duration::from_secs(600);

/// `reset-interface`: recovers an interface that hangs, from what disturbs least.
pub fn reset_interface(surefoot: &Path, name: &str, order: &Order, stop: &AtomicBool) -> Outcome {
    let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
    // The alert is about `interface NAME`.
    let name = if name.is_empty() { order.subject.strip_prefix("interface ").unwrap_or_default() } else { name };
    if !is_interface(name) {
        return failed(format!("'{}' is no name of an interface", cut(name)), false);
    }
    match own(surefoot, &["nic", "health", "--interface", name, "--recover", "--yes", "--json"], stop) {
        Ok(ended) if ended.code <= 1 => match steps_of(&ended) {
            Err(why) => failed(format!("surefoot nic health: {why}"), false),
            // It ends with 0 where the interface is well at its end.
            Ok(Some(steps)) if ended.code == 0 => {
                Outcome::done(Observed::Effect { evidence: format!("{name} does not hang any more; {steps}") }, "")
            }
            Ok(None) if ended.code == 0 && order.may_be_done() => {
                let evidence = format!("{name} does not hang; an earlier attempt may have recovered it");
                Outcome::done(Observed::Effect { evidence }, "")
            }
            Ok(None) if ended.code == 0 => Outcome::NotNeeded { detail: format!("{name} does not hang") },
            Ok(steps) => failed(steps.unwrap_or_else(|| "it is not ok, and no step is possible now".to_owned()), true),
        },
        Ok(ended) => failed(last_words(&ended.complaint), false),
        Err(why) => failed(why, true),
    }
}

/// What was done for the interface, by the command's own lines; `None` for nothing. A line that cannot be read may be any step.
fn steps_of(ended: &Ended) -> Result<Option<String>, String> {
    let text = String::from_utf8_lossy(&ended.output);
    let mut steps = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("its line is not JSON: {error}"))?;
        if line["type"] == "deed" {
            let deed: Deed =
                serde_json::from_value(line).map_err(|error| format!("a step of it cannot be read: {error}"))?;
            steps.push(cut(&deed.words()));
        }
    }
    Ok((!steps.is_empty()).then(|| steps.join("; ")))
}

/// Linux' own rule for the names of interfaces.
fn is_interface(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':');
    !name.is_empty()
        && name.len() <= 15
        && !name.starts_with('-')
        && name != "."
        && name != ".."
        && name.bytes().all(is_plain)
}

/// A file that held another value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Setting {
    path: PathBuf,
    from: String,
    to: String,
}

/// `tune-reporting:TIME`: sets the interval of polling for corrected errors; what was set is remembered at the first call.
pub fn tune_reporting(surefoot: &Path, interval: Duration, order: &Order, stop: &AtomicBool) -> Outcome {
    let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
    let time = format!("{}s", interval.as_secs());
    let mut arguments = vec!["memory", "tune", "--shortest", &time, "--longest", &time, "--apply", "--json"];
    let is_first = order.memo.is_empty();
    if !is_first {
        arguments.push("--yes");
    }
    let ended = match own(surefoot, &arguments, stop) {
        Ok(ended) if ended.code == 0 => ended,
        Ok(ended) => return failed(last_words(&ended.complaint), false),
        Err(why) => return failed(why, true),
    };
    let text = String::from_utf8_lossy(&ended.output);
    let settings = match settings_of(&text) {
        Ok(settings) => settings,
        Err(why) => return failed(format!("surefoot memory tune: {why}"), false),
    };
    match (is_first, settings.first()) {
        (true, None) => Outcome::NotNeeded { detail: format!("the interval is {time} already") },
        (false, None) => match order.remembered::<Vec<Setting>>() {
            Ok(before) => {
                // What the first call remembered is what an attempt before this one set.
                let names: Vec<PathBuf> = before.unwrap_or_default().into_iter().map(|setting| setting.path).collect();
                read_back(&names, &format!("the interval is {time} already"), order)
            }
            Err(failed) => failed,
        },
        (true, Some(first)) => Outcome::GoesOn {
            detail: format!("{} holds {}", first.path.display(), cut(&first.from)),
            memo: serde_json::to_string(&settings).unwrap_or_default(),
            again_in_ns: 0,
        },
        (false, Some(_)) => {
            let names: Vec<PathBuf> = settings.iter().map(|setting| setting.path.clone()).collect();
            read_back(&names, "", order)
        }
    }
}

/// The settings that lines of `surefoot memory tune --json` name. That there is none is said by the choice, the
/// last line; without it, or with a step that cannot be read, nothing is known.
fn settings_of(text: &str) -> Result<Vec<Setting>, String> {
    let mut settings = Vec::new();
    let mut is_whole = false;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).map_err(|error| format!("its line is no JSON: {error}"))?;
        is_whole |= line["type"] == "choice";
        if line["type"] == "step" {
            settings.push(serde_json::from_value(line).map_err(|error| format!("its step cannot be read: {error}"))?);
        }
    }
    if is_whole { Ok(settings) } else { Err("it tells no choice".into()) }
}

/// Whether a file is one of those that `surefoot memory tune` writes.
fn is_reporting(path: &Path) -> bool {
    const EDAC: [&str; 2] =
        ["/sys/module/edac_core/parameters/edac_mc_poll_msec", "/sys/module/edac_core/parameters/edac_mc_log_ce"];
    let core = path.to_str().and_then(|path| path.strip_prefix("/sys/devices/system/machinecheck/machinecheck"));
    let core = core.and_then(|rest| rest.strip_suffix("/check_interval"));
    EDAC.iter().any(|file| path == Path::new(file))
        || core.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Writes back what `tune-reporting` remembered.
pub fn restore_reporting(order: &Order) -> Outcome {
    let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
    if order.memo.is_empty() {
        return Outcome::NotNeeded { detail: "nothing had been changed".to_owned() };
    }
    let settings = match serde_json::from_str::<Vec<Setting>>(&order.memo) {
        Ok(settings) => settings,
        Err(error) => return failed(format!("the record of the old settings cannot be read: {error}"), false),
    };
    // The memo comes by way of the controller: nothing else is written than what this step sets.
    let is_value = |text: &str| text.len() <= 20 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if let Some(Setting { path, .. }) = settings.iter().find(|one| !is_reporting(&one.path) || !is_value(&one.from)) {
        return failed(format!("{} is not a setting of error reporting", cut(&path.display().to_string())), false);
    }
    let _alone = match RunLock::take(&Root::host(), REPORTING) {
        Ok(alone) => alone,
        Err(why) => return failed(format!("nothing was written: {why}"), true),
    };
    for Setting { path, from, .. } in &settings {
        let written = OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(from.as_bytes()));
        if let Err(error) = written {
            return failed(format!("{}: {}", path.display(), said(&error)), true);
        }
    }
    // The kernel takes some values and keeps another.
    for Setting { path, from, .. } in &settings {
        let (is, path) = (Root::host().read(path), path.display());
        match is.map(|text| text.trim().to_owned()) {
            Ok(text) if text == *from || is_same_switch(&text, from) => {}
            Ok(text) => return failed(format!("{path} took {from} and now holds {}", cut(&text)), false),
            Err(error) => return failed(format!("{path} took {from}; what it holds cannot be read: {error}"), true),
        }
    }
    let names: Vec<PathBuf> = settings.iter().map(|setting| setting.path.clone()).collect();
    read_back(&names, "as it was before the case", order)
}

/// Done, with what these files hold now.
fn read_back(paths: &[PathBuf], remark: &str, order: &Order) -> Outcome {
    let mut values = BTreeMap::new();
    for path in paths {
        match Root::host().read(path) {
            Ok(text) => drop(values.insert(cut(&path.display().to_string()), cut(text.trim()))),
            Err(error) => {
                let detail = format!("{} was written and cannot be read back: {error}", path.display());
                return Outcome::Failed { detail, memo: order.memo.clone(), is_passing: true };
            }
        }
    }
    let observed = Observed::Settings { values, in_force: true };
    Outcome::Done { observed, remark: remark.to_owned(), memo: order.memo.clone() }
}

/// Whether two words are the same to a parameter of a module that is on or off.
fn is_same_switch(one: &str, other: &str) -> bool {
    let is_on = |word: &str| match word {
        "1" | "Y" | "y" => Some(true),
        "0" | "N" | "n" => Some(false),
        _ => None,
    };
    is_on(one).is_some() && is_on(one) == is_on(other)
}

fn own(surefoot: &Path, arguments: &[&str], stop: &AtomicBool) -> Result<Ended, String> {
    let mut command = Command::new(surefoot);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .current_dir("/");
    program::run(command, b"", PATIENCE, stop).map_err(|broken| format!("surefoot {}: {broken}", arguments[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_step_is_said_by_a_whole_answer_alone() {
        let choice = r#"{"type":"choice"}"#;
        let step = r#"{"type":"step","path":"/sys/a","from":"1","to":"2","why":"w"}"#;
        assert_eq!(settings_of(choice), Ok(Vec::new()));
        assert_eq!(settings_of(&format!("{choice}\n{step}")).unwrap().len(), 1);
        for (text, words) in [
            ("", "no choice"),
            (step, "no choice"),
            ("{\"type\":\"step\",\"path\":7}\n{\"type\":\"choice\"}", "cannot be read"),
            ("rubbish", "no JSON"),
        ] {
            assert!(settings_of(text).unwrap_err().contains(words), "{text}");
        }
        assert!(is_same_switch("Y", "1") && is_same_switch("N", "0") && !is_same_switch("Y", "0"));
        assert!(!is_same_switch("30", "30000"));
    }

    /// What a repeat sees is what the attempt before it left, whose answer was lost.
    #[test]
    fn a_repeated_recovery_does_not_say_that_it_was_not_needed() {
        let of = |token: &str, is_begun_again| {
            let order = Order { token: token.into(), is_begun_again, ..Order::default() };
            // A command that finds no interface that hangs, and does nothing.
            reset_interface(Path::new("/bin/true"), "eth0", &order, &AtomicBool::new(false))
        };
        assert_eq!(of("case-7-0-1-19aab", false), Outcome::NotNeeded { detail: "eth0 does not hang".into() });
        for outcome in [of("case-7-0-2-19aab", false), of("case-7-0-1-19aab", true)] {
            assert!(
                matches!(&outcome, Outcome::Done { .. } if outcome.words().contains("earlier attempt")),
                "{outcome:?}"
            );
        }
    }

    /// An agent does what it is told as root: a memo that names another file of the kernel would be as good as a shell.
    #[test]
    fn nothing_is_restored_but_the_settings_of_the_reporting() {
        for path in [
            "/sys/kernel/uevent_helper",
            "/sys/module/edac_core/parameters/../../../kernel/uevent_helper",
            "/sys/devices/system/machinecheck/machinecheck/check_interval",
            "/sys/devices/system/machinecheck/machinecheck0/../../../kernel/check_interval",
            "/etc/passwd",
        ] {
            let memo = format!(r#"[{{"path":"{path}","from":"1","to":"2"}}]"#);
            let outcome = restore_reporting(&Order { memo, ..Order::default() });
            assert!(matches!(outcome, Outcome::Failed { is_passing: false, .. }), "{path}: {outcome:?}");
        }
        for path in [
            "/sys/devices/system/machinecheck/machinecheck0/check_interval",
            "/sys/module/edac_core/parameters/edac_mc_log_ce",
        ] {
            assert!(is_reporting(Path::new(path)), "{path}");
        }
    }
}
