//! What is answered about cases.

use super::words::{self, StateLabel};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use surefoot_model::{AuditEntry, Case, CaseState, CaseWait, Headline, MachineId, Severity, UnreadCase};
use surefoot_remedy::Casebook;
use surefoot_remedy::parts::{self, PartHistory};
use surefoot_store::cases::{Before, CasePage, Counts};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// One case in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename = "case")]
#[schemars(rename = "case")]
pub struct CaseLine {
    /// Its number.
    pub id: u64,
    /// The host.
    pub host: String,
    /// The service; empty where nobody said one.
    pub service: String,
    /// What is wrong, such as `memory/rate`.
    pub fault: String,
    /// What it is about, such as `dimm A1`; empty for the host.
    pub subject: String,
    /// How bad it is.
    pub severity: Severity,
    /// Where it stands.
    pub state: CaseState,
    /// The same in words, with what it is about to become.
    #[serde(default)]
    pub label: String,
    /// Its current step; empty when all are done.
    pub step: String,
    /// Since when it is open, `CLOCK_REALTIME`.
    pub since_ns: u64,
    /// Since when it is in its state, `CLOCK_REALTIME`.
    pub state_since_ns: u64,
    /// What it waits for, in words; empty for nothing.
    pub waits_for: String,
    /// The policy that it follows.
    pub policy: String,
    /// Its ticket; empty for none.
    pub ticket: String,
    /// Whether its steps are only told, and not done.
    #[serde(default)]
    pub is_dry_run: bool,
    /// What it becomes when the steps that are left are done, where that is decided already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_as: Option<CaseState>,
}

impl CaseLine {
    /// The line of a case.
    pub fn of(case: &Case) -> CaseLine {
        CaseLine {
            id: case.id,
            host: case.host.clone(),
            service: case.service.clone(),
            fault: case.fault.clone(),
            subject: case.subject.clone(),
            severity: case.severity,
            state: case.state,
            label: words::label(case.state, case.ends_as),
            step: case.current().map_or_else(String::new, |(_, step)| step.step.clone()),
            since_ns: case.since_realtime_ns,
            state_since_ns: case.state_since_realtime_ns,
            waits_for: case.waits_for.clone(),
            policy: case.policy.clone(),
            ticket: case.ticket.clone(),
            is_dry_run: case.is_dry_run,
            ends_as: case.ends_as,
        }
    }
}

/// Cases, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseList {
    /// The cases.
    pub cases: Vec<CaseLine>,
    /// How many are open, also of those that are left out here and those that cannot be read.
    #[serde(default)]
    pub open_count: u64,
    /// Cases that are asked for, wherever this page begins; `None` from a controller of an older release, which does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Older ones of them, which are left out here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
    /// The number of a case before which the next page begins; absent where nothing is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_before: Option<u64>,
    /// Cases that cannot be read: those of this page, and the first of those that are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unread: Vec<UnreadLine>,
    /// How many open cases cannot be read, also of those that are left out here.
    #[serde(default)]
    pub unread_open_count: u64,
    /// Whether everything is paused.
    #[serde(default)]
    pub is_paused: bool,
    /// The fleet in one sentence, from all open cases; absent from a list of closed ones, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headline: Option<Headline>,
    /// The states, in the order of the board.
    #[serde(default)]
    pub states: Vec<StateLabel>,
    /// What else needs manual action: host names under which two machines report, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

impl CaseList {
    /// A page of cases, whether these are open ones alone, and what the store counts.
    pub fn of(page: &CasePage, open_only: bool, counts: &Counts) -> CaseList {
        let (of_open, unread_open_count) = &counts.unread;
        let unread: BTreeMap<u64, UnreadLine> =
            page.unread.iter().chain(of_open).map(|unread| (unread.id, UnreadLine::of(unread))).collect();
        CaseList {
            cases: page.cases.iter().map(CaseLine::of).collect(),
            open_count: counts.open,
            total: Some(page.total),
            left_out: Some(page.left_out),
            next_before: page.next,
            unread: unread.into_values().rev().collect(),
            unread_open_count: *unread_open_count,
            is_paused: counts.is_paused,
            headline: open_only.then(|| words::headline(&counts.people, counts.open, *unread_open_count)),
            states: StateLabel::all(),
            notices: counts.rivals.clone(),
        }
    }
}

/// A case that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct UnreadLine {
    /// Its number.
    pub id: u64,
    /// The host.
    pub host: String,
    /// Whether it is open: then nothing is begun at its host.
    pub is_open: bool,
    /// What holds, and what to do.
    pub says: String,
}

impl UnreadLine {
    fn of(unread: &UnreadCase) -> UnreadLine {
        let UnreadCase { id, host, is_open, .. } = unread;
        let held = if *is_open { format!("; nothing is begun at {host}") } else { String::new() };
        let says = format!(
            "{}{held}; use the release that wrote it, or close it with `surefoot remedy cancel {id}`",
            unread.says()
        );
        UnreadLine { id: *id, host: host.clone(), is_open: *is_open, says }
    }
}

/// A place in the list of cases, as it is asked for: the number of a case, or a time by RFC 3339. `None` for any other text.
pub fn before(text: &str) -> Option<Before> {
    if let Ok(id) = text.parse() {
        return Some(Before::Case(id));
    }
    let at_ns = OffsetDateTime::parse(text, &Rfc3339).ok()?.unix_timestamp_nanos();
    Some(Before::Time(u64::try_from(at_ns).unwrap_or(if at_ns < 0 { 0 } else { u64::MAX })))
}

/// Lines of the trail of one case.
const TRAIL_MAX: usize = 10_000;
/// Open cases that are looked through for the hosts that are out.
const OPEN_CASES_MAX: usize = 10_000;
/// Cases of a part that its history is made of.
const PART_CASES_MAX: usize = 1_000;

/// One case with everything that was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseStory {
    /// The case as it is now.
    pub case: Case,
    /// Its state in words.
    #[serde(default)]
    pub label: String,
    /// What a person can do about it; absent for one that is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_do: Option<String>,
    /// Its audit trail, oldest first.
    pub trail: Vec<AuditEntry>,
    /// What all cases of its host tell of the part that it is about.
    #[serde(default)]
    pub part: PartStory,
}

/// What is known of a part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PartStory {
    /// Its repairs and replacements.
    #[serde(flatten)]
    pub history: PartHistory,
    /// The same in words, a line each.
    pub says: Vec<String>,
}

impl CaseStory {
    /// Reads it.
    ///
    /// # Errors
    /// What the store says.
    pub fn read(book: &mut impl Casebook, id: u64) -> surefoot_remedy::Result<CaseStory> {
        let case = book.case(id)?;
        let trail = book.trail(id, TRAIL_MAX)?;
        let now_ns = book.now_realtime_ns()?;
        let part_book = book.part_book(&case, PART_CASES_MAX)?;
        let history = PartHistory::of(&part_book, &case, now_ns);
        let mut says = history.says();
        says.extend(
            (part_book.left_out > 0).then(|| format!("{} older cases are not counted here", part_book.left_out)),
        );
        says.extend(parts::reason_unread(&part_book));
        let label = words::label(case.state, case.ends_as);
        let open = if case.wait == CaseWait::Limit { book.cases(true, OPEN_CASES_MAX)? } else { Vec::new() };
        let to_do = words::to_do(&case, &words::out(&case, &open));
        Ok(CaseStory { case, label, to_do, trail, part: PartStory { history, says } })
    }
}

/// Lines of the audit trail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trail {
    /// The lines, oldest first.
    pub trail: Vec<AuditEntry>,
}

/// What a person asks of a case, or of everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// Why; may be empty.
    #[serde(default)]
    pub reason: String,
    /// The step that an approval is of: where the case waits for another by now, it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// The version of what agents and controllers say to each other. A side that gives a field another meaning, or needs a new one to be
/// understood, takes the next number.
pub const PROTOCOL: u32 = 1;

/// The version that a message states. Agents and controllers before it was stated spoke the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Protocol(pub u32);

impl Default for Protocol {
    fn default() -> Self {
        Protocol(PROTOCOL)
    }
}

impl Protocol {
    pub(super) fn first() -> Self {
        Protocol(1)
    }

    fn is_first(&self) -> bool {
        *self == Protocol::first()
    }

    /// Refuses a message of another version, before anything else of it is read.
    ///
    /// # Errors
    /// Which side is to be updated.
    pub(super) fn check(body: &[u8]) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Stated {
            #[serde(default = "Protocol::first")]
            protocol: Protocol,
        }
        // What is no message at all is said by its own reader.
        let Ok(Stated { protocol: Protocol(stated) }) = serde_json::from_slice(body) else { return Ok(()) };
        if stated == PROTOCOL {
            return Ok(());
        }
        let older = if stated > PROTOCOL { "controller" } else { "agent" };
        Err(format!("the agent speaks protocol {stated}, this controller {PROTOCOL}; update the {older}"))
    }
}

/// What came of a message of alerts or findings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    /// The version that the controller speaks.
    #[serde(default = "Protocol::first")]
    pub protocol: Protocol,
    /// Alerts or findings that were taken.
    pub accepted: u64,
    /// Those that were not.
    pub refused: u64,
    /// Why, the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// What the agent is to do, for an agent that asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<HandedOrder>,
}

/// An order as an agent gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOrder {
    /// Names the attempt for good; what was done under it is not done again.
    pub token: String,
    /// What is to be done, JSON of [`surefoot_remedy::Order`].
    pub body: String,
}

/// What an agent answers to an order. POST `/api/v1/answers`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrderAnswer {
    /// The version that the agent speaks; controllers from before it was stated refuse fields that they do not know.
    #[serde(default = "Protocol::first", skip_serializing_if = "Protocol::is_first")]
    pub protocol: Protocol,
    /// The host.
    pub host: String,
    /// Which machine the agent runs on, as in its reports: another one does not answer for this host.
    #[serde(default, skip_serializing_if = "MachineId::is_unknown")]
    pub machine: MachineId,
    /// Of which order.
    pub token: String,
    /// What came of it, JSON of [`surefoot_remedy::Outcome`].
    pub answer: String,
}
