//! `run:PATH`: an executable of the fleet's own, for what only its owner knows how to do: reimaging, an upgrade of firmware, a repair.
//!
//! It is started without a shell, with one argument (`run` or `find`), an environment that holds nothing but the variables below, and
//! in `/`:
//!
//! | variable | what it holds |
//! |---|---|
//! | `SUREFOOT_CASE`, `SUREFOOT_HOST`, `SUREFOOT_SERVICE`, `SUREFOOT_FAULT`, `SUREFOOT_SUBJECT` | the case |
//! | `SUREFOOT_EVIDENCE` | its evidence, a line each |
//! | `SUREFOOT_TOKEN` | names this attempt for good |
//! | `SUREFOOT_MEMO` | what an earlier attempt left |
//!
//! Exit codes of `run`: 0 done, 75 (EX_TEMPFAIL) try again later, 3 it goes on (called again), any other failed. Its last line on standard output is what is
//! shown; a line that begins with `memo: ` is handed to the next attempt, and one that begins with `seen: ` says what was observed of the effect. Exit codes of `find`: 0 the effect is there, 3 it may be done again,
//! any other nobody can tell.

use super::shown::{beginning, cut, last_words};
use super::{Order, Outcome, PriorAttempt};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_foreign::said;
use surefoot_model::Observed;
use surefoot_sys::program::{self, Broken, Ended};

/// EX_TEMPFAIL of sysexits.h.
const TRY_LATER: i32 = 75;
/// It goes on, or may be done again.
const AGAIN: i32 = 3;
/// When a hook that goes on is called again.
const AGAIN_IN_NS: u64 = 30_000_000_000;
/// How long a hook may look for its effect.
const FIND_PATIENCE: Duration = Duration::from_secs(60);
/// The longest value of a variable; the kernel bears 128 KiB.
const VARIABLE_BYTES_MAX: usize = 16 << 10;
/// What begins the line that says what a hook observed of its effect.
const SEEN: &str = "seen: ";
/// The longest memo.
const MEMO_BYTES_MAX: usize = 4 << 10;

/// What the owner says of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookRule {
    /// It is ended when it takes longer.
    pub time_limit: Duration,
    /// Doing it twice does no harm: after a crash it is done again.
    pub is_repeatable: bool,
    /// It answers `find`.
    pub can_find: bool,
}

impl Default for HookRule {
    fn default() -> Self {
        HookRule { time_limit: Duration::from_secs(3_600), is_repeatable: false, can_find: false }
    }
}

/// Runs the hook.
pub fn run(path: &str, rule: &HookRule, order: &Order, stop: &AtomicBool) -> Outcome {
    let failed = |detail: String, is_passing| Outcome::Failed { detail, memo: order.memo.clone(), is_passing };
    let found = match trusted(Path::new(path)) {
        Ok(found) => found,
        Err(why) => return failed(why, false),
    };
    let ended = match program::run(command(path, &found, "run", order), b"", rule.time_limit, stop) {
        Ok(ended) => ended,
        // Killed half way: the same as after a crash, so that a controller that is stopped in order does nothing twice either.
        Err(broken @ Broken::Stopped) => {
            return match find(path, rule, order) {
                PriorAttempt::Effect { observed, memo } => Outcome::done(observed, memo),
                PriorAttempt::MayRepeat => failed(format!("{path}: {broken}"), true),
                PriorAttempt::Unknown { why } => failed(format!("{path}: {broken}: {why}"), false),
            };
        }
        Err(broken) => return failed(format!("{path}: {broken}"), false),
    };
    let (words, memo) = (words_of(&ended), memo_of(&ended, order));
    match ended.code {
        0 => Outcome::Done { observed: seen_of(&ended), remark: words, memo },
        AGAIN => Outcome::GoesOn { detail: words, memo, again_in_ns: AGAIN_IN_NS },
        code => Outcome::Failed {
            detail: format!("{path} ended with {code}: {words}"),
            memo,
            is_passing: code == TRY_LATER,
        },
    }
}

/// Asks the hook for its effect, where it can answer.
pub fn find(path: &str, rule: &HookRule, order: &Order) -> PriorAttempt {
    if rule.is_repeatable {
        return PriorAttempt::MayRepeat;
    }
    if !rule.can_find {
        let why = format!(
            "{path} was started, its outcome is unknown, and its rule sets neither 'repeatable' nor 'can_find'"
        );
        return PriorAttempt::Unknown { why };
    }
    let found = match trusted(Path::new(path)) {
        Ok(found) => found,
        Err(why) => return PriorAttempt::Unknown { why },
    };
    match program::run(command(path, &found, "find", order), b"", FIND_PATIENCE, &AtomicBool::new(false)) {
        Ok(ended) if ended.code == 0 => {
            // To find is to look.
            PriorAttempt::Effect { observed: Observed::Hook { text: words_of(&ended) }, memo: memo_of(&ended, order) }
        }
        Ok(ended) if ended.code == AGAIN => PriorAttempt::MayRepeat,
        Ok(ended) => {
            PriorAttempt::Unknown { why: format!("{path} find ended with {}: {}", ended.code, words_of(&ended)) }
        }
        Err(broken) => PriorAttempt::Unknown { why: format!("{path} find: {broken}") },
    }
}

/// The file that a path leads to, where nobody but root, or the user who runs this, can change it: neither the file nor a directory above
/// it. That is what is to be run, and not the path: a link on its way may lie where others can replace it.
pub fn trusted(path: &Path) -> Result<PathBuf, String> {
    let found = trusted_file(path)?;
    match fs::metadata(&found) {
        Ok(about) if about.is_file() && about.mode() & 0o111 != 0 => Ok(found),
        _ => Err(format!("{} is no executable file; chmod +x", path.display())),
    }
}

/// As [`trusted`], of a file that is read alone, or of a folder.
pub fn trusted_file(path: &Path) -> Result<PathBuf, String> {
    let me = surefoot_hostfs::privilege::effective_user();
    let shown = path.display();
    let found = fs::canonicalize(path).map_err(|error| format!("{shown} cannot be found: {}", said(&error)))?;
    for part in found.ancestors() {
        let about = fs::metadata(part).map_err(|error| format!("{}: {}", part.display(), said(&error)))?;
        let is_sticky_directory = about.is_dir() && about.mode() & 0o1000 != 0;
        if about.uid() != 0 && about.uid() != me {
            return Err(format!(
                "{shown} is not used: {} belongs to user {}, not to root",
                part.display(),
                about.uid()
            ));
        }
        if about.mode() & surefoot_foreign::way::OTHERS_WRITE != 0 && !is_sticky_directory {
            return Err(format!("{shown} is not used: others may write to {}; chmod go-w", part.display()));
        }
    }
    Ok(found)
}

fn command(path: &str, found: &Path, verb: &str, order: &Order) -> Command {
    let mut command = Command::new(found);
    // Some programs go by the name that they are called by.
    command
        .arg0(path)
        .arg(verb)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .current_dir("/");
    let evidence = order.evidence.join("\n");
    for (name, value) in [
        ("SUREFOOT_CASE", order.case.to_string().as_str()),
        ("SUREFOOT_HOST", &order.host),
        ("SUREFOOT_SERVICE", &order.service),
        ("SUREFOOT_FAULT", &order.fault),
        ("SUREFOOT_SUBJECT", &order.subject),
        ("SUREFOOT_EVIDENCE", &evidence),
        ("SUREFOOT_TOKEN", &order.token),
        ("SUREFOOT_MEMO", &order.memo),
    ] {
        // What strangers wrote holds no NUL, which no variable may hold, and no more than the kernel bears.
        let plain: String = value.chars().filter(|letter| *letter != '\0').collect();
        command.env(name, beginning(&plain, VARIABLE_BYTES_MAX));
    }
    command
}

fn words_of(ended: &Ended) -> String {
    let said = String::from_utf8_lossy(&ended.output);
    let is_words = |line: &&str| !line.is_empty() && !line.starts_with("memo: ") && !line.starts_with(SEEN);
    let line = said.lines().rev().map(str::trim).find(is_words);
    match line {
        Some(line) => cut(line),
        None => last_words(&ended.complaint),
    }
}

/// What the hook says it observed of its effect.
fn seen_of(ended: &Ended) -> Observed {
    let said = String::from_utf8_lossy(&ended.output);
    match said.lines().rev().find_map(|line| line.strip_prefix(SEEN)).map(str::trim).filter(|text| !text.is_empty()) {
        Some(text) => Observed::Hook { text: cut(text) },
        None => Observed::Unobserved { why: "the hook ended with 0 and printed no line 'seen: TEXT'".to_owned() },
    }
}

fn memo_of(ended: &Ended, order: &Order) -> String {
    let said = String::from_utf8_lossy(&ended.output);
    let memo = said.lines().rev().find_map(|line| line.strip_prefix("memo: ")).unwrap_or(&order.memo);
    beginning(memo, MEMO_BYTES_MAX).to_owned()
}
