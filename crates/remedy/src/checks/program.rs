//! A check that is an executable of its owner's. It is started without a shell and without arguments, with an empty environment but for
//! `PATH` and `LC_ALL=C`, in `/`, and prints one JSON object on standard output:
//!
//! ```json
//! {"state": "warning", "sentence": "Fan 3 turns slowly.", "evidence": ["fan3: 900 rpm", "limit: 1,200 rpm"]}
//! ```
//!
//! | field | what it holds |
//! |---|---|
//! | `state` | `ok`, `warning`, `critical` or `unknown` |
//! | `sentence` | one sentence for people; may be left out where the state is `ok` |
//! | `evidence` | what it rests on, a list of lines; may be left out |
//!
//! Other fields are passed over. An exit code that is not 0, another state, text that is no such JSON, more than a mebibyte of it, or more
//! time than its limit: the state is `unknown`, and the sentence says why. Like a hook it must belong to root, or to whoever runs it, and
//! nobody else may be able to write to it.

use super::{Said, shortened};
use crate::act::trusted;
use serde::Deserialize;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_model::CheckState;
use surefoot_sys::program::{self, Ended};

#[derive(Deserialize)]
struct Printed {
    state: CheckState,
    #[serde(default)]
    sentence: String,
    #[serde(default)]
    evidence: Vec<String>,
}

/// Runs the executable, and understands what it prints.
pub fn ask(path: &Path, time_limit: Duration, stop: &AtomicBool) -> Said {
    let found = match trusted(path) {
        Ok(found) => found,
        Err(why) => return Said::unknown(why),
    };
    let mut command = Command::new(found);
    command.arg0(path).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C").current_dir("/");
    match program::run(command, b"", time_limit, stop) {
        Ok(ended) => Said { processor: ended.processor, ..understood(path, &ended) },
        Err(broken) => Said::unknown(format!("{}: {broken}", path.display())),
    }
}

/// What it printed.
pub fn understood(path: &Path, ended: &Ended) -> Said {
    let shown = path.display();
    let complaint = String::from_utf8_lossy(&ended.complaint);
    let last = complaint.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(shortened);
    let evidence: Vec<String> = last.into_iter().collect();
    if ended.code != 0 {
        return Said::unknown(format!("{shown} ended with {} instead of 0", ended.code)).with_evidence(evidence);
    }
    if ended.dropped_bytes > 0 && ended.output.len() as u64 >= program::ANSWER_BYTES_MAX {
        return Said::unknown(format!("{shown} printed more than {} bytes", program::ANSWER_BYTES_MAX));
    }
    match serde_json::from_slice::<Printed>(&ended.output) {
        Ok(printed) if printed.sentence.is_empty() && printed.state != CheckState::Ok => {
            Said::unknown(format!("{shown} says '{}' without a sentence", printed.state.as_str()))
        }
        Ok(printed) if printed.sentence.is_empty() => {
            Said::new(CheckState::Ok, "All is well.").with_evidence(printed.evidence)
        }
        Ok(printed) => Said::new(printed.state, printed.sentence).with_evidence(printed.evidence),
        Err(error) => Said::unknown(format!("{shown} printed no JSON of a check: {}", shortened(&error.to_string())))
            .with_evidence(evidence),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32, output: &str) -> Said {
        let ended = Ended {
            code,
            output: output.into(),
            complaint: b"first\nlast\n".to_vec(),
            dropped_bytes: 0,
            processor: Duration::ZERO,
        };
        understood(Path::new("/x"), &ended)
    }

    #[test]
    fn the_documented_json_is_understood_and_nothing_else() {
        let said = of(0, "{\"state\":\"critical\",\"sentence\":\"It burns.\",\"evidence\":[\"90 C\"],\"more\":1}\n");
        assert_eq!((said.state, said.sentence.as_str(), said.evidence.len()), (CheckState::Critical, "It burns.", 1));
        assert_eq!(of(0, "{\"state\":\"ok\"}").sentence, "All is well.");
        for (code, output, why) in [
            (1, "{\"state\":\"ok\"}", "ended with 1"),
            (0, "", "no JSON"),
            (0, "{\"state\":\"fine\"}", "unknown variant `fine`"),
            (0, "{\"state\":\"ok\"} and more", "trailing"),
            (0, "{\"state\":\"warning\"}", "without a sentence"),
        ] {
            let said = of(code, output);
            assert_eq!(said.state, CheckState::Unknown, "{output}");
            assert!(said.sentence.contains(why), "{}", said.sentence);
        }
        assert_eq!(of(1, "").evidence, ["last"]);
    }
}
