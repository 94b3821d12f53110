//! How an agent writes an [`Outcome`] for its controller, and what controllers read.
//!
//! [`Outcome::NotNeeded`] goes out as `done` with a mark. A controller from before that outcome takes it for done, as it always did; it
//! would refuse an outcome that it does not know, and the case would go to a person.

use super::Outcome;
use serde::{Deserialize, Serialize};
use surefoot_model::Observed;

/// The form of an outcome in JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub(super) enum Answer {
    Done {
        /// All of it in words, for controllers that read nothing else.
        detail: String,
        memo: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_not_needed: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        observed: Option<Observed>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        remark: String,
    },
    /// Only read: some agents wrote it so.
    NotNeeded {
        detail: String,
    },
    Gone {
        detail: String,
    },
    GoesOn {
        detail: String,
        memo: String,
        again_in_ns: u64,
    },
    Waits {
        waits_for: String,
        memo: String,
        again_in_ns: u64,
    },
    Failed {
        detail: String,
        memo: String,
        is_passing: bool,
    },
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Done { detail, is_not_needed: true, .. } | Answer::NotNeeded { detail } => {
                Outcome::NotNeeded { detail }
            }
            Answer::Done { memo, observed: Some(observed), remark, .. } => Outcome::Done { observed, remark, memo },
            Answer::Done { detail, memo, observed: None, .. } => {
                let why = format!("the agent is of an older release and reports no observation, only '{detail}'");
                Outcome::done(Observed::Unobserved { why }, memo)
            }
            Answer::Gone { detail } => Outcome::Gone { detail },
            Answer::GoesOn { detail, memo, again_in_ns } => Outcome::GoesOn { detail, memo, again_in_ns },
            Answer::Waits { waits_for, memo, again_in_ns } => Outcome::Waits { waits_for, memo, again_in_ns },
            Answer::Failed { detail, memo, is_passing } => Outcome::Failed { detail, memo, is_passing },
        }
    }
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done { ref observed, ref remark, ref memo } => Answer::Done {
                detail: outcome.words(),
                memo: memo.clone(),
                is_not_needed: false,
                observed: Some(observed.clone()),
                remark: remark.clone(),
            },
            Outcome::NotNeeded { detail } => {
                Answer::Done { detail, memo: String::new(), is_not_needed: true, observed: None, remark: String::new() }
            }
            Outcome::Gone { detail } => Answer::Gone { detail },
            Outcome::GoesOn { detail, memo, again_in_ns } => Answer::GoesOn { detail, memo, again_in_ns },
            Outcome::Waits { waits_for, memo, again_in_ns } => Answer::Waits { waits_for, memo, again_in_ns },
            Outcome::Failed { detail, memo, is_passing } => Answer::Failed { detail, memo, is_passing },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::RestartProof;

    /// What a controller from before `NotNeeded` knows, as its release wrote it.
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(tag = "outcome", rename_all = "snake_case")]
    enum Before {
        Done { detail: String, memo: String },
        Gone { detail: String },
        GoesOn { detail: String, memo: String, again_in_ns: u64 },
        Waits { waits_for: String, memo: String, again_in_ns: u64 },
        Failed { detail: String, memo: String, is_passing: bool },
    }

    /// Answers as agents of that release sent them.
    const RECORDED: [&str; 5] = [
        r#"{"outcome":"done","detail":"it needed no recovery","memo":""}"#,
        r#"{"outcome":"gone","detail":"no error for an hour"}"#,
        r#"{"outcome":"goes_on","detail":"half of the memory","memo":"7","again_in_ns":5}"#,
        r#"{"outcome":"waits","waits_for":"the agent of n1","memo":"","again_in_ns":1000000000}"#,
        r#"{"outcome":"failed","detail":"eth0: no such device","memo":"","is_passing":true}"#,
    ];

    #[test]
    fn agents_and_controllers_of_either_release_read_each_other() {
        for recorded in &RECORDED[1..] {
            let outcome: Outcome = serde_json::from_str(recorded).unwrap();
            assert_eq!(serde_json::to_string(&outcome).unwrap(), *recorded, "an agent of today writes it as before");
            serde_json::from_str::<Before>(recorded).unwrap();
        }
        // An agent of then says that it is done, and not what it saw.
        let Outcome::Done { observed, .. } = serde_json::from_str(RECORDED[0]).unwrap() else { panic!("not done") };
        assert!(!observed.shows_effect() && observed.to_string().contains("it needed no recovery"), "{observed}");
        let done = Outcome::Done {
            observed: Observed::Restarted { proof: RestartProof::BootId, after_s: 7 },
            remark: "r".into(),
            memo: "m".into(),
        };
        let told = serde_json::to_string(&done).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&told).unwrap(), done);
        let detail = done.words();
        assert_eq!(serde_json::from_str::<Before>(&told).unwrap(), Before::Done { detail, memo: "m".into() });
        let not_needed = Outcome::NotNeeded { detail: "eth0 does not hang".into() };
        let told = serde_json::to_string(&not_needed).unwrap();
        assert_eq!(told, r#"{"outcome":"done","detail":"eth0 does not hang","memo":"","is_not_needed":true}"#);
        assert_eq!(serde_json::from_str::<Outcome>(&told).unwrap(), not_needed);
        let before = Before::Done { detail: "eth0 does not hang".into(), memo: String::new() };
        assert_eq!(serde_json::from_str::<Before>(&told).unwrap(), before);
        // Agents that had an outcome of its own for it.
        let own = r#"{"outcome":"not_needed","detail":"eth0 does not hang"}"#;
        assert_eq!(serde_json::from_str::<Outcome>(own).unwrap(), not_needed);
    }
}
