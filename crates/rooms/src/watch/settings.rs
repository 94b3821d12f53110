//! What is to be said of the settings of a watch that runs. Pure.

use super::rules;
use surefoot_model::{Finding, Severity, Subject};
use surefoot_settings::Reload;

/// A reload in words.
pub fn said(reload: &Reload) -> String {
    if let Some(problem) = &reload.problem {
        return not_read(problem);
    }
    let mut sentences = match reload.changed.as_slice() {
        [] => vec!["The settings were read again; nothing that is in use changed.".to_owned()],
        changed => vec![format!("The settings were read again; changed: {}.", changed.join(", "))],
    };
    if !reload.waiting.is_empty() {
        sentences.push(waiting(&reload.waiting));
    }
    sentences.join(" ")
}

/// The finding about the last reload, while it is not all in use.
pub fn finding(reload: &Reload) -> Option<Finding> {
    // Values and paths of the file are root's to know.
    let of = |severity, sentence: String, public: &str| {
        let public = rules::SETTINGS.finding(Subject::host(), severity, public);
        Some(rules::SETTINGS.finding(Subject::host(), severity, sentence).with_public(&public))
    };
    match &reload.problem {
        Some(problem) => of(Severity::Warning, not_read(problem), "The settings are wrong; those from before hold."),
        None if reload.waiting.is_empty() => None,
        None => of(
            Severity::Notice,
            waiting(&reload.waiting),
            "Settings were changed that take effect when the watch starts again.",
        ),
    }
}

fn not_read(problem: &str) -> String {
    let end = if problem.ends_with('?') { "" } else { "." };
    format!("The settings are wrong, and those from before hold: {problem}{end}")
}

fn waiting(waiting: &[String]) -> String {
    format!("Start the watch again for: {}.", waiting.join(", "))
}
