//! `/api/v1/history`: what the history kept of a stretch of the past.

use crate::config::Mode;
use crate::keep::shared::Shared;
use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use surefoot_hostfs::clock;
use surefoot_http::{ApiError, json, parameters};
use surefoot_model::{ClockChange, Finding, Headline, JournalEntry, Room, SCHEMA, Severity, Subject};
use surefoot_rooms::stall::view::{PastGapView, PastWindowView};
use surefoot_rooms::viewer::Viewer;
use surefoot_rooms::viewer::{Confidential, Public, Seen};
use surefoot_store::history::{GapFilter, KeptClockChange, KeptFinding, KeptRecord, Resolution, View};

/// The windows of one answer, as JSON.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The gaps of one answer: the longest ones.
const ANSWER_GAPS_MAX: usize = 200;
/// The notices of one answer: the newest ones.
const ANSWER_NOTICES_MAX: usize = 100;
/// The findings and records of one answer: the newest ones.
const ANSWER_FINDINGS_MAX: usize = 1_000;
const ANSWER_RECORDS_MAX: usize = 2_000;
/// The range of an answer that names none.
const RANGE_S_DEFAULT: i64 = 3_600;
/// Later times have no nanoseconds in 64 bits.
const TIME_S_MAX: i64 = 9_000_000_000;

/// Answers `/api/v1/history`, which reads a file.
pub(crate) fn answer(shared: &Shared, viewer: Viewer, uri: &Uri) -> Result<Seen<Bytes>, ApiError> {
    let question = Question::of(uri)?;
    let Some(history) = &shared.history else {
        let text =
            "no history is kept; start with: surefoot watch --history FILE (a recording that is replayed has none)";
        return Err(ApiError::new(StatusCode::NOT_FOUND, text));
    };
    let all = (Confidential::new(history), Public((question, shared.moment().mode, shared.access.view(viewer))));
    let answer = viewer.show(all, |(history, Public((question, mode, access)))| {
        let history = history.shown().ok_or_else(|| ApiError::new(StatusCode::FORBIDDEN, access.why))?;
        let text = history.read(|view| question.answer(view, &mode));
        text.unwrap_or_else(|why| Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, why))).map(Bytes::from)
    });
    answer.transpose()
}

/// What a client wants to know about the past.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Question {
    from_s: i64,
    to_s: i64,
    resolution: Resolution,
}

impl Question {
    fn of(uri: &Uri) -> Result<Self, ApiError> {
        let (mut from_s, mut to_s, mut resolution) = (None, None, Resolution::Minute);
        for (name, value) in parameters(uri, &["from_s", "to_s", "resolution"])? {
            match name.as_str() {
                "from_s" => from_s = Some(time_s(&name, &value)?),
                "to_s" => to_s = Some(time_s(&name, &value)?),
                _ => resolution = resolution_of(&value)?,
            }
        }
        // Windows are asked for by their beginning; one second more includes the newest.
        let now_s = clock::realtime_ns() / 1_000_000_000;
        let to_s = to_s.unwrap_or(i64::try_from(now_s).unwrap_or(TIME_S_MAX).saturating_add(1));
        let from_s = from_s.unwrap_or(to_s.saturating_sub(RANGE_S_DEFAULT).max(0));
        if from_s >= to_s {
            let allowed = format!("a time before to_s, which is {to_s}");
            return Err(ApiError::bad_parameter("from_s", &from_s.to_string(), &allowed));
        }
        Ok(Question { from_s, to_s, resolution })
    }

    fn range_ns(&self) -> Range<i64> {
        self.from_s.saturating_mul(1_000_000_000)..self.to_s.saturating_mul(1_000_000_000)
    }

    /// The answer as JSON. Windows become text one by one, so that a long range needs no more memory than its answer.
    fn answer(&self, view: &View, mode: &Mode) -> Result<String, ApiError> {
        let (windows, unknown_windows) = self.windows(view)?;
        let of_store = |error: surefoot_store::Error| unreadable(&error.to_string());
        let filter = GapFilter { range: Some(self.range_ns()), limit: ANSWER_GAPS_MAX, ..GapFilter::default() };
        let gaps = view.gaps(&filter).map_err(of_store)?;
        let notices = view.notices(self.range_ns()).map_err(of_store)?;
        let clock = view.clock_changes(self.range_ns()).map_err(of_store)?;
        let findings = view.findings(self.range_ns()).map_err(of_store)?;
        let records = view.records(self.range_ns(), None).map_err(of_store)?;
        let held = newest(&findings.rows, ANSWER_FINDINGS_MAX);
        let answer = PastAnswer {
            schema: SCHEMA,
            headline: mode.worded(headline_of(held)),
            from_s: self.from_s,
            to_s: self.to_s,
            resolution: self.resolution.into(),
            gaps: gaps.rows.iter().map(|kept| PastGapView::of(kept.start_ns, &kept.gap)).collect(),
            notices: newest(&notices, ANSWER_NOTICES_MAX).iter().map(PastNoticeView::of).collect(),
            clock_changes: newest(&clock.rows, ANSWER_NOTICES_MAX).iter().map(PastClockChangeView::of).collect(),
            findings: held.iter().map(PastFindingView::of).collect(),
            records: newest(&records.rows, ANSWER_RECORDS_MAX).iter().map(PastRecordView::of).collect(),
            unknown_count: unknown_windows + gaps.unknown_count + findings.unknown_count + records.unknown_count,
            windows: Vec::new(),
        };
        let mut text = json::to_string(&answer).map_err(|error| unreadable(&error.to_string()))?;
        // The list of windows is the last member; what was read of them goes between its brackets.
        text.truncate(text.len() - "]}".len());
        Ok(text + &windows + "]}")
    }

    /// The windows as the inside of a JSON list, and how many rows of them this release does not know.
    fn windows(&self, view: &View) -> Result<(String, u64), ApiError> {
        let mut windows = String::new();
        let mut whole = Ok(());
        let unknown_count = view
            .for_each_window(self.range_ns(), self.resolution, |window| {
                if windows.len() > ANSWER_BYTES_MAX {
                    whole = Err(self.too_long());
                    return ControlFlow::Break(());
                }
                if !windows.is_empty() {
                    windows.push(',');
                }
                match json::to_string(&PastWindowView::of(
                    (window.start_ns, window.end_ns),
                    &window.cores,
                    &window.faulty,
                )) {
                    Ok(text) => windows.push_str(&text),
                    Err(error) => whole = Err(unreadable(&error.to_string())),
                }
                if whole.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
            .map_err(|error| unreadable(&error.to_string()))?;
        whole.map(|()| (windows, unknown_count))
    }

    fn too_long(&self) -> ApiError {
        let text = format!(
            "the answer would be longer than {} MiB; ask for a shorter time between from_s and to_s{}",
            ANSWER_BYTES_MAX >> 20,
            if self.resolution == Resolution::Second { ", or for resolution=minute" } else { "" }
        );
        ApiError::bad_request(text)
    }
}

/// What the history has of a range.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PastAnswer<'a> {
    schema: u32,
    /// The worst of these findings in a sentence.
    headline: Headline,
    /// The range, seconds since 1970.
    from_s: i64,
    to_s: i64,
    resolution: PastResolution,
    /// The longest gaps.
    gaps: Vec<PastGapView<'a>>,
    /// The newest.
    notices: Vec<PastNoticeView<'a>>,
    /// When the wall clock was set or the machine slept; the newest. Times before and after one are as the clock showed them.
    clock_changes: Vec<PastClockChangeView<'a>>,
    /// What held at any time in the range; the newest.
    findings: Vec<PastFindingView<'a>>,
    /// What rooms wrote down; the newest.
    records: Vec<PastRecordView<'a>>,
    /// Rows that another release wrote and this one does not know.
    unknown_count: u64,
    /// Oldest first. They stand at the end, because each becomes text as soon as it is read.
    windows: Vec<PastWindowView<'a>>,
}

/// The headline of findings of the past, each counted once however often it came and went.
fn headline_of(held: &[KeptFinding]) -> Headline {
    let each: BTreeMap<&str, &KeptFinding> = held.iter().fold(BTreeMap::new(), |mut each, one| {
        let worst = each.entry(&*one.finding.key).or_insert(one);
        if one.finding.severity > worst.finding.severity {
            *worst = one;
        }
        each
    });
    if each.is_empty() {
        let sentence = "The history has no findings in this range.".to_owned();
        return Headline::new(Severity::Notice, sentence);
    }
    let findings: Vec<Finding> = each.into_values().map(|one| one.finding.clone()).collect();
    Headline::of(&findings)
}

/// The length of the windows of a range.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PastResolution {
    Second,
    Minute,
}

impl From<Resolution> for PastResolution {
    fn from(resolution: Resolution) -> Self {
        match resolution {
            Resolution::Second => PastResolution::Second,
            Resolution::Minute => PastResolution::Minute,
        }
    }
}

/// The end of a list that begins with the oldest.
fn newest<T>(rows: &[T], rows_max: usize) -> &[T] {
    &rows[rows.len().saturating_sub(rows_max)..]
}

fn unreadable(why: &str) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the history cannot be read: {why}"))
}

fn time_s(name: &str, text: &str) -> Result<i64, ApiError> {
    match text.parse::<i64>() {
        Ok(time_s) if (0..=TIME_S_MAX).contains(&time_s) => Ok(time_s),
        _ => {
            let allowed = format!("whole seconds since 1970 (UTC), from 0 to {TIME_S_MAX}");
            Err(ApiError::bad_parameter(name, text, &allowed))
        }
    }
}

fn resolution_of(text: &str) -> Result<Resolution, ApiError> {
    [Resolution::Second, Resolution::Minute]
        .into_iter()
        .find(|&resolution| word(resolution) == text)
        .ok_or_else(|| ApiError::bad_parameter("resolution", text, "second or minute"))
}

fn word(resolution: Resolution) -> &'static str {
    match resolution {
        Resolution::Second => "second",
        Resolution::Minute => "minute",
    }
}

/// A notice of the history.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PastNotice")]
struct PastNoticeView<'a> {
    at_realtime_ns: i64,
    text: &'a str,
}

impl<'a> PastNoticeView<'a> {
    fn of((at_realtime_ns, text): &'a (i64, String)) -> Self {
        PastNoticeView { at_realtime_ns: *at_realtime_ns, text }
    }
}

/// A change of the wall clock.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PastClockChange")]
struct PastClockChangeView<'a> {
    /// When, by the clock after it.
    at_realtime_ns: i64,
    /// The same moment by the clock before it.
    former_realtime_ns: i64,
    change: &'a ClockChange,
    /// The change in a sentence.
    text: String,
}

impl<'a> PastClockChangeView<'a> {
    fn of(kept: &'a KeptClockChange) -> Self {
        let KeptClockChange { at_realtime_ns, former_realtime_ns, change } = kept;
        let text = change.to_string();
        PastClockChangeView { at_realtime_ns: *at_realtime_ns, former_realtime_ns: *former_realtime_ns, change, text }
    }
}

/// A finding and how long it held.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PastFinding")]
struct PastFindingView<'a> {
    finding: &'a Finding,
    /// Whether it asked somebody to act.
    needs_action: bool,
    /// When it came with this severity and certainty.
    from_realtime_ns: i64,
    /// When it was last seen to hold, within ten seconds.
    last_seen_realtime_ns: i64,
    /// When it went; `null` while it holds.
    until_realtime_ns: Option<i64>,
}

impl<'a> PastFindingView<'a> {
    fn of(kept: &'a KeptFinding) -> Self {
        PastFindingView {
            finding: &kept.finding,
            needs_action: kept.finding.severity.needs_action(),
            from_realtime_ns: kept.from_realtime_ns,
            last_seen_realtime_ns: kept.last_seen_realtime_ns,
            until_realtime_ns: kept.until_realtime_ns,
        }
    }
}

/// What a room wrote down.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PastRecord")]
struct PastRecordView<'a> {
    room: Room,
    /// What happened, in one word of the room's.
    kind: &'a str,
    subject: &'a Subject,
    at_realtime_ns: i64,
    /// A warning where a line of a checkpoint journal says that something failed.
    severity: Severity,
    /// The whole of it: of a checkpoint a `JournalEntry`, of the watch a `SourceReport`.
    body: &'a serde_json::Value,
}

impl<'a> PastRecordView<'a> {
    fn of(kept: &'a KeptRecord) -> Self {
        PastRecordView {
            room: kept.room,
            kind: &kept.kind,
            subject: &kept.subject,
            at_realtime_ns: kept.at_realtime_ns,
            severity: severity_of(kept),
            body: &kept.body,
        }
    }
}

fn severity_of(kept: &KeptRecord) -> Severity {
    let entry = (kept.room == Room::Checkpoint).then(|| JournalEntry::deserialize(&kept.body).ok()).flatten();
    let is_failure = entry.is_some_and(|entry| entry.event.is_failure());
    if is_failure { Severity::Warning } else { Severity::Ok }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn held(key: &str, severity: Severity) -> KeptFinding {
        let finding = Finding::new(Room::Stall, key, Subject::host(), severity, format!("It is {key}."));
        KeptFinding { finding, from_realtime_ns: 1, last_seen_realtime_ns: 2, until_realtime_ns: None }
    }

    #[test]
    fn the_headline_of_the_past_counts_a_finding_once() {
        assert_eq!(headline_of(&[]).severity, Severity::Notice);
        let all = [
            held("lost", Severity::Warning),
            held("worn", Severity::Notice),
            held("lost", Severity::Critical),
            held("worn", Severity::Warning),
        ];
        let headline = headline_of(&all);
        assert_eq!((headline.severity, &*headline.sentence), (Severity::Critical, "It is lost. One more finding."));
    }

    #[test]
    fn a_failure_in_a_journal_of_the_past_is_a_warning() {
        let of = |room, body| {
            let (kind, subject) = ("journal".to_owned(), Subject::host());
            severity_of(&KeptRecord { room, kind, subject, at_realtime_ns: 1, body })
        };
        let restart = |outcome: &str| json!({"realtime_ns": 1, "event": "restart", "generation": null, "report": "", "outcome": outcome});
        assert_eq!(of(Room::Checkpoint, restart("failed")), Severity::Warning);
        assert_eq!(of(Room::Checkpoint, restart("no_checkpoint")), Severity::Ok);
        assert_eq!(of(Room::Watch, restart("failed")), Severity::Ok);
    }
}
