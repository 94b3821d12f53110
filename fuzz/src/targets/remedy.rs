use std::path::Path;
use std::time::Duration;
use surefoot_controller::{read_alerts, read_findings};
use surefoot_model::{Alert, is_harmful};
use surefoot_remedy::act::debug_mode::Adapter;
use surefoot_remedy::checks::{CheckFile, program};
use surefoot_remedy::engine::{Core, Settings};
use surefoot_remedy::memory_book::MemoryBook;
use surefoot_remedy::policy::Policies;
use surefoot_remedy::{Casebook, Error, Step};
use surefoot_sys::program::Ended;

/// A body of Alertmanager's webhook, as far as the cases that come of it.
pub fn webhook(bytes: &[u8]) {
    match read_alerts(bytes) {
        Ok(alerts) => cases(alerts),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// What an agent tells of its host, as far as the cases that come of it.
pub fn findings(bytes: &[u8]) {
    match read_findings(bytes) {
        Ok(alerts) => cases(alerts),
        Err(why) => assert!(!why.is_empty()),
    }
}

fn cases(alerts: Vec<Alert>) {
    for alert in &alerts {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        assert!(alert.host.bytes().all(is_plain) && !alert.host.starts_with(['-', '.']), "{:?}", alert.host);
        harmless([&alert.service, &alert.fault, &alert.subject, &alert.sentence, &alert.key]);
        harmless(&alert.evidence);
        harmless(alert.labels.iter().flat_map(|(name, value)| [name, value]));
    }
    let Ok(policies) = Policies::parse("[[policy]]\nsteps = [\"drain\", \"return\"]\nhosts_at_once = 1000", "p") else {
        panic!("the policy of this target is none");
    };
    let mut book = MemoryBook::new(std::sync::Arc::new(|| 1_800_000_000_000_000_000));
    if let Err(error) = book.take(&alerts) {
        panic!("{error}");
    }
    let mut core = Core::new(Box::new(book.clone()), "c".into(), Settings::default(), Default::default());
    for _ in 0..3 {
        core.round(&policies, Duration::ZERO);
    }
    for case in book.cases(false, usize::MAX).unwrap_or_default() {
        harmless([&case.host, &case.service, &case.fault, &case.subject, &case.sentence]);
        harmless(&case.evidence);
    }
}

fn harmless<'a>(texts: impl IntoIterator<Item = &'a String>) {
    for text in texts {
        assert!(!text.chars().any(is_harmful), "{text:?}");
    }
}

/// A policy file, and a file of checks; what is wrong is said with its line.
pub fn policy(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Policies::parse(&text, "policy.toml") {
        Ok(policies) => {
            for step in policies.policies.iter().flat_map(|policy| &policy.steps) {
                assert_eq!(step.to_string().parse::<Step>().ok().as_ref(), Some(step), "{step}");
            }
        }
        Err(error) => told(&error),
    }
    if let Err(error) = CheckFile::parse(&text, "checks.toml") {
        told(&error);
    }
}

fn told(error: &Error) {
    let said = error.to_string();
    let has_line = matches!(error, Error::Policy { line, .. } if *line >= 1);
    assert!(has_line && !said.chars().any(|letter| is_harmful(letter) && letter != '\n'), "{said:?}");
}

/// A vendor's adapter of the debug mode.
pub fn adapter(bytes: &[u8]) {
    match Adapter::parse(&String::from_utf8_lossy(bytes)) {
        Ok(adapter) => assert!(!adapter.debug.is_empty()),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// What an executable of a check prints.
pub fn check(bytes: &[u8]) {
    let Some((&code, output)) = bytes.split_first() else { return };
    let ended = Ended {
        code: i32::from(code % 2),
        output: output.to_vec(),
        complaint: output.to_vec(),
        dropped_bytes: 0,
        processor: Duration::ZERO,
    };
    let said = program::understood(Path::new("/check"), &ended);
    assert!(!said.sentence.is_empty());
}
