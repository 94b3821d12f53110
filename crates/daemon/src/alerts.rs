//! Tells an Alertmanager what the watch finds, by its API of version 2, where `[alerts]` names one.
//!
//! Each push says what holds, so that one that is lost or comes twice changes nothing. While Alertmanager does not answer, only what holds
//! now and what it was told before is kept; the rest is counted. So hours without an answer take no more memory, and end with one push.

use crate::keep::board::Findings;
use crate::keep::shared::Shared;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use surefoot_hostfs::clock;
use surefoot_http::lock;
use surefoot_http::own_files::secret;
use surefoot_model::{Finding, Severity, one_line};
use surefoot_outside::http::{self, Answer, Identity, Request, Trust};
use surefoot_remedy::alerts::{alert_name, runbook_anchor};
use surefoot_rooms::moment::Moment;
use surefoot_settings::Alerts;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is new, and what is over, is told at each push; all that holds at every third.
const TURNS_PER_WHOLE: u64 = 3;
/// An alert that is told no more ends after so many pushes, or after a minute.
const PUSHES_LASTING: u32 = 30;
/// Alerts of one message.
const ALERTS_AT_ONCE: usize = 200;
/// Letters of a label's value.
const LABEL_CHARACTERS_MAX: usize = 256;
/// Where a package has the documents.
const DOCS: &str = "file:///usr/share/doc/surefoot";
/// How often the thread looks whether the watch ends.
const REST: Duration = Duration::from_millis(100);

type Labels = BTreeMap<&'static str, String>;

/// A finding as Alertmanager is told of it.
#[derive(Debug, Clone, PartialEq)]
struct Alert {
    since_ns: u64,
    sentence: String,
    evidence: String,
    anchor: String,
}

/// What holds, what Alertmanager knows, and how it goes.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    pub(crate) counts: Counts,
}

#[derive(Debug, Default)]
struct State {
    /// No more than there are findings.
    holding: BTreeMap<Labels, Alert>,
    /// Of what Alertmanager was told since when it holds: no more than it was told at one time.
    told: BTreeMap<Labels, u64>,
}

/// How it goes, for metrics.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) is_up: AtomicBool,
    /// Alerts that Alertmanager took, those that are over and those that are told again included.
    pub(crate) pushed: AtomicU64,
    /// Pushes that failed.
    pub(crate) failed: AtomicU64,
    /// Findings that came and went between two pushes that were taken.
    pub(crate) untold: AtomicU64,
}

impl Outbox {
    /// Takes the findings of a moment, with their whole sentences: who names an Alertmanager in the settings runs the host. Those of users
    /// who are not trusted are left out, as in `health.json`.
    pub(crate) fn offer(&self, moment: &Moment, findings: &Findings, trusted: &BTreeSet<u32>) {
        // A host without a name is not looked at yet.
        let Some(host) = moment.host.as_ref().map(|host| host.hostname.clone()).filter(|name| !name.is_empty()) else {
            return;
        };
        let is_told = |finding: &&Finding| {
            finding.severity >= Severity::Warning && finding.uid.is_none_or(|uid| trusted.contains(&uid))
        };
        self.take(findings.all.iter().filter(is_told).map(|finding| alert(&host, finding)).collect());
    }

    fn take(&self, holding: BTreeMap<Labels, Alert>) {
        let mut state = lock(&self.state);
        let is_lost = |labels: &&Labels| !holding.contains_key(*labels) && !state.told.contains_key(*labels);
        let lost = state.holding.keys().filter(is_lost).count();
        self.counts.untold.fetch_add(lost as u64, Ordering::Relaxed);
        state.holding = holding;
    }

    /// The messages of a push at this time, and what Alertmanager knows once it has taken them.
    fn push(&self, is_whole: bool, docs: &str, now_ns: u64, lasting: Duration) -> (Vec<Value>, BTreeMap<Labels, u64>) {
        let state = lock(&self.state);
        let until_ns = now_ns.saturating_add(u64::try_from(lasting.as_nanos()).unwrap_or(u64::MAX / 4));
        let over = state.told.iter().filter(|(labels, _)| !state.holding.contains_key(*labels));
        let mut messages: Vec<Value> = over
            .map(|(labels, since_ns)| json!({"labels": labels, "startsAt": at(*since_ns), "endsAt": at(now_ns)}))
            .collect();
        let news = state.holding.iter().filter(|(labels, _)| is_whole || !state.told.contains_key(*labels));
        messages.extend(news.map(|(labels, alert)| {
            let annotations = json!({
                "summary": alert.sentence,
                "evidence": alert.evidence,
                "runbook_url": format!("{docs}/findings.md#{}", alert.anchor),
            });
            json!({"labels": labels, "annotations": annotations, "startsAt": at(alert.since_ns), "endsAt": at(until_ns)})
        }));
        (messages, state.holding.iter().map(|(labels, alert)| (labels.clone(), alert.since_ns)).collect())
    }

    /// Alertmanager took a push.
    fn set_told(&self, told: BTreeMap<Labels, u64>) {
        lock(&self.state).told = told;
    }
}

fn alert(host: &str, finding: &Finding) -> (Labels, Alert) {
    let short = |text: String| one_line(&text).chars().take(LABEL_CHARACTERS_MAX).collect::<String>();
    let labels = [
        ("alertname", alert_name(finding.room, finding.severity)),
        ("host", host.to_owned()),
        ("instance", host.to_owned()),
        ("room", finding.room.as_str().to_owned()),
        ("rule", finding.rule.clone()),
        ("subject", finding.subject.to_string()),
        ("severity", finding.severity.as_str().to_owned()),
        ("certainty", finding.certainty.as_str().to_owned()),
        ("surefoot_origin", "watch".to_owned()),
    ];
    let labels = labels.into_iter().map(|(name, value)| (name, short(value))).filter(|(_, value)| !value.is_empty());
    let alert = Alert {
        since_ns: finding.since_realtime_ns,
        sentence: finding.sentence.clone(),
        evidence: finding.evidence.join("\n"),
        anchor: runbook_anchor(finding.room, &finding.rule),
    };
    (labels.collect(), alert)
}

/// What the thread runs until `stop` is set.
pub(crate) fn run(shared: &Shared, stop: &Arc<AtomicBool>) {
    let outbox = &shared.alerts;
    let (mut turn, mut away): (u64, Option<Instant>) = (0, None);
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let settings = shared.settings.now().settings.alerts.clone();
        if let Some(url) = &settings.url {
            // What came meanwhile is told again as a whole: Alertmanager may have been started anew.
            let is_whole = turn % TURNS_PER_WHOLE == 0 || away.is_some();
            turn += 1;
            match push(outbox, url, &settings, is_whole, stop) {
                Ok(()) => {
                    outbox.counts.is_up.store(true, Ordering::Relaxed);
                    if let Some(since) = away.take() {
                        let seconds = since.elapsed().as_secs();
                        let untold = outbox.counts.untold.load(Ordering::Relaxed);
                        shared.notice(format!(
                            "Alertmanager at {url} answers again after {seconds} s and has the current findings. Never sent, because they \
                             ended before it answered: {untold} since the start."
                        ));
                    }
                }
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(why) => {
                    outbox.counts.is_up.store(false, Ordering::Relaxed);
                    outbox.counts.failed.fetch_add(1, Ordering::Relaxed);
                    if away.is_none() {
                        away = Some(begun);
                        shared.notice(format!(
                            "Findings could not be sent to Alertmanager at {url}: {why}. The watch tries again every {:?}; check [alerts] in the \
                             settings.",
                            settings.interval
                        ));
                    }
                }
            }
        }
        while begun.elapsed() < settings.interval && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(REST);
        }
    }
}

/// How long an alert lasts that is told no more.
fn lasting(settings: &Alerts) -> Duration {
    settings.interval.saturating_mul(PUSHES_LASTING).max(Duration::from_secs(60))
}

fn push(outbox: &Outbox, url: &str, settings: &Alerts, is_whole: bool, stop: &AtomicBool) -> Result<(), String> {
    let docs = settings.docs.as_deref().unwrap_or(DOCS).trim_end_matches('/');
    let (messages, told) = outbox.push(is_whole, docs, clock::realtime_ns(), lasting(settings));
    for piece in messages.chunks(ALERTS_AT_ONCE) {
        let request = request(url, settings, Value::from(piece.to_vec()).to_string())?;
        let answer =
            http::ask_up_to(http::ANSWER_BYTES_MAX, &request, PATIENCE, stop).map_err(|why| why.to_string())?;
        taken(&answer)?;
        outbox.counts.pushed.fetch_add(piece.len() as u64, Ordering::Relaxed);
    }
    outbox.set_told(told);
    Ok(())
}

/// What keeps these settings from working, and which of them: an address that cannot be asked, or that would be sent the token in clear text.
///
/// # Errors
/// The setting, and what is wrong with it.
pub fn check_address(settings: &Alerts) -> Result<(), (&'static str, String)> {
    let Some(url) = settings.url.as_deref() else { return Ok(()) };
    if !url.contains("://") {
        return Err(("alerts.url", format!("'{url}' has no scheme: it begins with http:// or https://")));
    }
    if url.trim_end_matches('/').ends_with("/api/v2/alerts") {
        return Err(("alerts.url", format!("'{url}': leave /api/v2/alerts out, it is added")));
    }
    let secret = settings.token_file.as_ref().map_or(Identity::None, |_| Identity::Token("token".into()));
    let request = |identity| Request { identity, ..asked(url, settings, String::new()) };
    http::check(&request(secret)).map_err(|why| ("alerts.url", why))
}

/// As [`check_address`], and whether the files can be read that each push reads.
///
/// # Errors
/// The setting, and what is wrong with it.
pub fn check(settings: &Alerts) -> Result<(), (&'static str, String)> {
    check_address(settings)?;
    if settings.url.is_none() {
        return Ok(());
    }
    if let Some(file) = &settings.token_file {
        secret(file).map_err(|why| ("alerts.token_file", why))?;
    }
    if let Some(file) = &settings.authority {
        std::fs::File::open(file)
            .map_err(|error| ("alerts.authority", format!("{}: {}", file.display(), surefoot_foreign::said(&error))))?;
    }
    Ok(())
}

fn request(url: &str, settings: &Alerts, body: String) -> Result<Request, String> {
    let identity = match &settings.token_file {
        // Read anew each time: somebody may replace it.
        Some(file) => Identity::Token(secret(file)?),
        None => Identity::None,
    };
    Ok(Request { identity, ..asked(url, settings, body) })
}

fn asked(url: &str, settings: &Alerts, body: String) -> Request {
    Request {
        method: "POST",
        url: format!("{}/api/v2/alerts", url.trim_end_matches('/')),
        headers: vec!["Content-Type: application/json".into()],
        body,
        identity: Identity::None,
        trust: settings.authority.as_ref().map_or(Trust::System, |file| Trust::Signer(file.clone())),
        socket: None,
    }
}

/// What these settings come to, for the test that each of them does something.
#[cfg(test)]
pub(crate) fn effect(settings: &Alerts) -> String {
    let request = settings.url.as_deref().map(|url| request(url, settings, String::new()));
    format!("{request:?} {:?} {:?}", lasting(settings), settings.docs.as_deref().unwrap_or(DOCS))
}

fn taken(answer: &Answer) -> Result<(), String> {
    match answer.is_success() {
        true if answer.is_web_page() => Err("a web page answers: a login page or a proxy is in its place".into()),
        true => Ok(()),
        false => Err(format!("it answers with {}", answer.status_text())),
    }
}

fn at(realtime_ns: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(realtime_ns.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    // A time within these years always has its form.
    time.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Certainty, Room, Subject, SubjectKind};

    const S: u64 = 1_000_000_000;

    fn holding(subjects: &[&str]) -> BTreeMap<Labels, Alert> {
        let of = |subject: &&str| {
            let subject = Subject::new(SubjectKind::Source, *subject);
            let finding = Finding {
                key: Finding::key_of(Room::Watch, "source", &subject),
                room: Room::Watch,
                rule: "source".to_owned(),
                subject,
                severity: Severity::Warning,
                certainty: Certainty::Certain,
                sentence: "It failed.".to_owned(),
                evidence: vec!["a".to_owned(), "b".to_owned()],
                since_realtime_ns: S,
                uid: None,
                public: None,
            };
            alert("node17", &finding)
        };
        subjects.iter().map(of).collect()
    }

    fn told(outbox: &Outbox, is_whole: bool) -> Vec<(String, bool)> {
        let (messages, told) = outbox.push(is_whole, "file:///docs", 100 * S, Duration::from_secs(60));
        outbox.set_told(told);
        let of = |message: &Value| {
            let ends = message["endsAt"].as_str().unwrap_or_default().to_owned();
            (message["labels"]["subject"].as_str().unwrap_or_default().to_owned(), ends == at(100 * S))
        };
        messages.iter().map(of).collect()
    }

    #[test]
    fn what_is_new_and_over_is_told_once_and_all_that_holds_now_and_then() {
        let outbox = Outbox::default();
        outbox.take(holding(&["a", "b"]));
        let (messages, _) = outbox.push(true, "file:///docs", 100 * S, Duration::from_secs(60));
        let labels = json!({"alertname": "SurefootWatchWarning", "host": "node17", "instance": "node17", "room": "watch",
            "rule": "source", "subject": "a", "severity": "warning", "certainty": "certain", "surefoot_origin": "watch"});
        let annotations =
            json!({"summary": "It failed.", "evidence": "a\nb", "runbook_url": "file:///docs/findings.md#watchsource"});
        let (starts, ends) = ("1970-01-01T00:00:01Z", "1970-01-01T00:02:40Z");
        assert_eq!(messages[0]["annotations"], annotations);
        assert!(messages[0]["labels"]["subject"].as_str().is_some_and(|subject| subject.ends_with('a')), "{labels}");
        assert_eq!((messages[0]["startsAt"].as_str(), messages[0]["endsAt"].as_str()), (Some(starts), Some(ends)));
        assert_eq!(told(&outbox, false).len(), 2);
        assert_eq!(told(&outbox, false), []);
        outbox.take(holding(&["b", "c"]));
        let news = told(&outbox, false);
        assert_eq!(news.iter().map(|one| one.1).collect::<Vec<_>>(), [true, false], "a is over, c is new: {news:?}");
        assert_eq!(told(&outbox, true).len(), 2);
        assert_eq!(outbox.counts.untold.load(Ordering::Relaxed), 0);
    }

    /// Nothing is told in all that time, and the first push after it is no longer than what holds and what was told before.
    #[test]
    fn hours_without_alertmanager_are_counted_and_end_in_one_push() {
        let outbox = Outbox::default();
        outbox.take(holding(&["old"]));
        told(&outbox, true);
        for number in 0..10_000 {
            outbox.take(holding(&[&format!("short {number}"), "stays"]));
        }
        let after = told(&outbox, true);
        assert_eq!(after.iter().filter(|one| one.1).count(), 1, "the old one is over: {after:?}");
        assert_eq!(after.len(), 3, "and what holds is told: {after:?}");
        assert_eq!(outbox.counts.untold.load(Ordering::Relaxed), 9_999);
    }
}
