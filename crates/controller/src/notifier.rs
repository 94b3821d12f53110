//! The thread that speaks with an Alertmanager, by its API of version 2: it asks for silences, and tells the findings of agents, so that people
//! see and silence them where they see everything else. Each push tells all that holds, so that one that is lost or comes twice changes
//! nothing, and what is told no more ends there by itself.

use super::book::Book;
use super::silences::{self, Silences};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use surefoot_http::lock;
use surefoot_http::own_files::secret;
use surefoot_model::{Alert, Severity};
use surefoot_outside::http::{self, Answer, Identity, NoAnswer, Request, Trust};
use surefoot_remedy::Casebook;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is new, and what is over, is told in each turn; all that holds in every third.
const TURNS_PER_PUSH: u32 = 3;
/// What is told holds so many pushes without being told again.
const PUSHES_LASTING: u32 = 10;
/// The longest answer: silences that are over are told for days, too, each with some 500 bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Findings that are told, the worst; and those of one message.
const FINDINGS_MAX: usize = 5_000;
const FINDINGS_AT_ONCE: usize = 200;

/// An Alertmanager.
#[derive(Debug, Clone)]
pub struct Notifier {
    /// Its address, such as `http://127.0.0.1:9093`.
    pub url: String,
    /// The file with the bearer token that is shown to it, read anew for each request: somebody may replace it.
    pub token_file: Option<PathBuf>,
    /// Whom it is believed by.
    pub trust: Trust,
    /// How often it is asked for silences; findings are told as often.
    pub period: Duration,
}

/// How it goes, for metrics and people.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) is_up: AtomicBool,
    pub(super) pushed: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Findings of the last push that had no room, and silences that are not understood or had none.
    pub(super) left_out: AtomicU64,
    pub(super) silences_left_out: AtomicU64,
    /// Why it does not answer.
    pub(super) error: Mutex<Option<String>>,
}

/// What its answers and its questions share.
pub(super) struct Link {
    pub(super) silences: Arc<Silences>,
    pub(super) counts: Arc<Counts>,
}

impl Link {
    pub(super) fn new() -> Link {
        Link { silences: Arc::new(Silences::new()), counts: Arc::default() }
    }

    /// What the thread runs until `stop` is set.
    pub(super) fn work(
        &self,
        notifier: Notifier,
        book: Book,
        stop: Arc<AtomicBool>,
    ) -> impl FnOnce() + Send + 'static + use<> {
        let (silences, counts) = (Arc::clone(&self.silences), Arc::clone(&self.counts));
        let mut work = Work { notifier, book, silences, counts, stop, told: BTreeMap::new() };
        move || work.run()
    }
}

struct Work {
    notifier: Notifier,
    book: Book,
    silences: Arc<Silences>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    /// What the last push told, by its labels: what holds no more is told as ended, once.
    told: BTreeMap<BTreeMap<String, String>, u64>,
}

impl Work {
    fn run(&mut self) {
        let mut turn = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let mut said = self.ask();
            if said.is_ok() {
                said = self.push(turn == 0);
            }
            turn = (turn + 1) % TURNS_PER_PUSH;
            self.note(said);
            while begun.elapsed() < self.notifier.period && !self.stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(100).min(self.notifier.period));
            }
        }
    }

    fn note(&self, said: Result<(), String>) {
        self.counts.is_up.store(said.is_ok(), Ordering::Relaxed);
        self.counts.failed.fetch_add(u64::from(said.is_err()), Ordering::Relaxed);
        *lock(&self.counts.error) = said.err();
    }

    fn ask(&mut self) -> Result<(), String> {
        let told = match self.request("GET", "/api/v2/silences", String::new()) {
            // A proxy before it says so where nobody is behind it.
            Ok(answer) if matches!(answer.status, 502..=504) => return taken(answer).map(drop),
            Ok(answer) => taken(answer).and_then(|text| silences::read(&text)),
            Err(NoAnswer::Away(why)) => return Err(why),
            Err(unread) => Err(unread.to_string()),
        };
        let (silences, left_out) = told.map_err(|why| {
            self.silences.set_unread();
            format!("its silences cannot be read: {why}")
        })?;
        self.counts.silences_left_out.store(left_out, Ordering::Relaxed);
        self.silences.set(silences);
        Ok(())
    }

    fn push(&mut self, is_whole: bool) -> Result<(), String> {
        let mut findings =
            self.book.with(|store| store.firing_findings(FINDINGS_MAX + 1)).map_err(|error| error.to_string())?;
        let left_out = findings.len().saturating_sub(FINDINGS_MAX);
        findings.truncate(FINDINGS_MAX);
        self.counts.left_out.store(left_out as u64, Ordering::Relaxed);
        let now_ns = self.book.now_realtime_ns().map_err(|error| error.to_string())?;
        let lasting = self.notifier.period.saturating_mul(TURNS_PER_PUSH * PUSHES_LASTING).max(Duration::from_secs(60));
        let until_ns = now_ns.saturating_add(u64::try_from(lasting.as_nanos()).unwrap_or(u64::MAX / 4));
        // What is only to be known is no alert, as in the rules.
        let holds = findings.iter().filter(|alert| alert.severity >= Severity::Warning);
        let holding: Vec<(BTreeMap<String, String>, &Alert)> =
            holds.map(|alert| (silences::labels_of(alert), alert)).collect();
        let mut messages: Vec<Value> = Vec::new();
        for (labels, since_ns) in &self.told {
            if !holding.iter().any(|(holding, _)| holding == labels) {
                messages.push(json!({"labels": labels, "startsAt": at(*since_ns), "endsAt": at(now_ns)}));
            }
        }
        let is_told = |labels: &BTreeMap<String, String>| !is_whole && self.told.contains_key(labels);
        let news = holding.iter().filter(|(labels, _)| !is_told(labels));
        messages.extend(news.map(|(labels, alert)| message(labels, alert, until_ns)));
        for piece in messages.chunks(FINDINGS_AT_ONCE) {
            let body = Value::from(piece.to_vec()).to_string();
            self.request("POST", "/api/v2/alerts", body).map_err(|why| why.to_string()).and_then(taken)?;
            self.counts.pushed.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
        self.told = holding.into_iter().map(|(labels, alert)| (labels, alert.since_realtime_ns)).collect();
        Ok(())
    }

    fn request(&self, method: &'static str, path: &str, body: String) -> Result<Answer, NoAnswer> {
        self.notifier.request(method, path, body, &self.stop)
    }
}

impl Notifier {
    /// Asks for something: the whole answer, or why there is none.
    pub(super) fn ask(
        &self,
        method: &'static str,
        path: &str,
        body: String,
        stop: &AtomicBool,
    ) -> Result<String, String> {
        self.request(method, path, body, stop).map_err(|why| why.to_string()).and_then(taken)
    }

    fn request(&self, method: &'static str, path: &str, body: String, stop: &AtomicBool) -> Result<Answer, NoAnswer> {
        let identity = match &self.token_file {
            Some(file) => Identity::Token(secret(file).map_err(NoAnswer::Away)?),
            None => Identity::None,
        };
        let request = Request {
            method,
            url: format!("{}{path}", self.url.trim_end_matches('/')),
            headers: vec!["Content-Type: application/json".into()],
            body,
            identity,
            trust: self.trust.clone(),
            socket: None,
        };
        http::ask_up_to(ANSWER_BYTES_MAX, &request, PATIENCE, stop)
    }
}

/// What was said, where it was not refused.
fn taken(answer: Answer) -> Result<String, String> {
    match answer.is_success() {
        true if answer.is_web_page() => {
            Err("it answers with a web page: a login page or a proxy is in its place".into())
        }
        // A part of them is not all of them.
        true if answer.status == 206 || answer.header("content-range").is_some() || has_next(&answer) => {
            Err("it answers with a part of what was asked for".into())
        }
        true => Ok(answer.body),
        false => Err(format!("it answers with {}", answer.status_text())),
    }
}

/// Whether there is another page, by RFC 8288.
fn has_next(answer: &Answer) -> bool {
    let links = answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("link"));
    let is_next = |link: &str| {
        link.split(';').skip(1).any(|word| word.to_ascii_lowercase().replace([' ', '"'], "") == "rel=next")
    };
    links.flat_map(|(_, value)| value.split(',')).any(is_next)
}

fn message(labels: &BTreeMap<String, String>, alert: &Alert, until_ns: u64) -> Value {
    let annotations = json!({"summary": alert.sentence, "evidence": alert.evidence.join("\n")});
    json!({"labels": labels, "annotations": annotations, "startsAt": at(alert.since_realtime_ns), "endsAt": at(until_ns)})
}

fn at(realtime_ns: u64) -> String {
    let time = OffsetDateTime::from_unix_timestamp_nanos(realtime_ns.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    // A time within these years always has its form.
    time.format(&Rfc3339).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_part_of_an_answer_is_none() {
        let answer = |status, name: &str, value: &str| Answer {
            status,
            headers: vec![(name.to_owned(), value.to_owned())],
            body: "[]".into(),
        };
        assert!(taken(answer(200, "Link", "</api>; rel=\"self\"")).is_ok());
        for part in [
            answer(206, "Date", "x"),
            answer(200, "content-range", "items 0-9/20"),
            answer(200, "link", "</api>; rel=\"self\", </api?page=2>; rel=\"next\""),
            answer(200, "LINK", "</api?page=2>; rel = next"),
        ] {
            assert!(taken(part.clone()).is_err(), "{part:?}");
        }
    }

    /// Whoever is there and refuses may have silences; nobody behind a proxy has none.
    #[test]
    fn a_refusal_is_waited_for_and_an_empty_place_is_not() {
        for (status, is_waited_for) in [(401, true), (500, true), (200, true), (503, false)] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let answers = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]).unwrap();
                let text = format!("HTTP/1.1 {status} Status\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
                stream.write_all(text.as_bytes()).unwrap();
            });
            let address = surefoot_store::cases::Address::Sqlite("/nonexistent/cases".into());
            let notifier = Notifier { url, token_file: None, trust: Trust::System, period: Duration::from_secs(1) };
            let (silences, counts, stop) = (Arc::new(Silences::new()), Arc::default(), Arc::default());
            let book = Book::new(address, None);
            let mut work =
                Work { notifier, book, silences: Arc::clone(&silences), counts, stop, told: BTreeMap::new() };
            assert!(work.ask().is_err(), "{status}");
            answers.join().unwrap();
            assert_eq!(silences.is_unread(), is_waited_for, "{status}");
        }
    }
}
