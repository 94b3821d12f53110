//! What agents tell of their hosts.

use super::lines::Protocol;
use super::strangers;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use surefoot_model::{
    Alert, AlertOrigin, Finding, HostFacts, LostRate, MachineId, Part, PartCount, Room, Severity, SubjectKind,
};
use surefoot_store::cases::HostView;

/// The findings of one host that are taken: the worst.
pub(super) const FINDINGS_MAX: usize = 200;
const EVIDENCE_LINES_MAX: usize = 20;
/// The rule of findings about cases, which are of [`Room::Remedy`].
pub(super) const CASE_RULE: &str = "case";
/// The parts of one host that are looked at.
const PARTS_READ_MAX: usize = 512;

/// What is found of a host now. POST `/api/v1/findings`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFindings {
    /// The version that the agent speaks.
    #[serde(default = "Protocol::first")]
    pub protocol: Protocol,
    /// The host.
    pub host: String,
    /// The service that it works for; empty where the agent was told none.
    #[serde(default)]
    pub service: String,
    /// Its findings; none at all where nothing is known: neither a watch nor a check runs.
    #[serde(default)]
    pub findings: Option<Vec<Finding>>,
    /// Whether its watch runs. Without it the findings are those of the agent's own checks, and what was found before holds until one of
    /// them finds the same well (`ok`).
    #[serde(default = "is_watched")]
    pub is_watched: bool,
    /// The rooms that the watch covers, each with the number of its findings that are not in `findings`. Only if that is 0 is an earlier
    /// finding of the room over when it is no longer listed. An agent that does not send this ends nothing by not listing it.
    #[serde(default)]
    pub findings_left_out: Option<BTreeMap<Room, u64>>,
    /// Its parts that are known by their serial numbers: all of each kind that is told of. `None` where nothing is known of them.
    #[serde(default)]
    pub parts: Option<Vec<Part>>,
    /// Which machine the agent runs on; unknown from agents of earlier releases, and where the machine has no ID.
    #[serde(default)]
    pub machine: MachineId,
    /// How many orders the agent takes; 0 for an agent that does nothing to its host.
    #[serde(default)]
    pub orders_max: usize,
    /// What the host runs on.
    #[serde(default)]
    pub facts: HostFacts,
    /// What its cores lost in the last minute; `None` while that is not known.
    #[serde(default)]
    pub lost: Option<LostRate>,
}

fn is_watched() -> bool {
    true
}

/// A host's board as it is taken in.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Board {
    pub(super) host: String,
    pub(super) service: String,
    /// `None` where nothing is known of it.
    pub(super) alerts: Option<Vec<Alert>>,
    /// The rooms of which `alerts` is everything.
    pub(super) whole: BTreeSet<Room>,
    /// Keys of what was looked at and is well.
    pub(super) fine: Vec<String>,
    pub(super) parts: Vec<Part>,
    /// Findings and parts that had no room.
    pub(super) left_out: u64,
    pub(super) orders_max: usize,
    pub(super) machine: MachineId,
    /// What the agent sees.
    pub(super) view: HostView,
    /// Where it came from; empty where that is unknown.
    pub(super) address: String,
}

/// The alerts that come of what an agent tells, as the server takes it; for whoever tries messages.
///
/// # Errors
/// What is wrong with it.
pub fn read_findings(body: &[u8]) -> Result<Vec<Alert>, String> {
    read(body).map(|board| board.alerts.unwrap_or_default())
}

/// Reads what an agent tells.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(body: &[u8]) -> Result<Board, String> {
    Protocol::check(body)?;
    let told: HostFindings =
        serde_json::from_slice(body).map_err(|error| format!("these are no findings of a host: {error}"))?;
    let host =
        strangers::host(&told.host).ok_or_else(|| format!("'{}' is no name of a host", strangers::name(&told.host)))?;
    let service = strangers::name(&told.service);
    let (orders_max, machine) = (told.orders_max, machine_of(told.machine)?);
    let rooms = told.findings_left_out.unwrap_or_default().into_iter().filter(|_| told.is_watched);
    let rooms: BTreeMap<Room, u64> = rooms.collect();
    let mut whole: BTreeSet<Room> =
        rooms.iter().filter(|(_, left_out)| **left_out == 0).map(|(room, _)| *room).collect();
    let mut view = HostView { rooms, facts: facts_of(told.facts), lost: told.lost, parts: Vec::new() };
    let (parts, parts_left_out) = parts_of(told.parts.unwrap_or_default());
    let Some(mut findings) = told.findings else {
        let (fine, left_out) = (Vec::new(), parts_left_out);
        return Ok(Board {
            host,
            service,
            alerts: None,
            whole,
            fine,
            parts,
            left_out,
            orders_max,
            machine,
            view,
            address: String::new(),
        });
    };
    let well = findings.iter().filter(|finding| finding.severity <= Severity::Ok);
    let fine = well.map(|finding| finding.key.clone()).take(FINDINGS_MAX).collect();
    // What is well is nobody's alert, and a case is what comes of one.
    findings.retain(|finding| finding.severity > Severity::Ok && !is_of_case(finding));
    // Any other key could be that of an alert from Alertmanager, which a host must not end, or hide what the alert is about.
    let (mut findings, mut left_out): (Vec<Finding>, Vec<Finding>) = findings
        .into_iter()
        .partition(|finding| finding.key.starts_with(&format!("{}/{}/", finding.room, finding.rule)));
    findings.sort_by(surefoot_model::by_urgency);
    left_out.extend(findings.drain(FINDINGS_MAX.min(findings.len())..));
    for finding in &left_out {
        whole.remove(&finding.room);
        view.rooms.entry(finding.room).and_modify(|count| *count += 1);
    }
    let left_out = left_out.len() as u64 + parts_left_out;
    view.parts = PartCount::of(&parts, &findings);
    let alerts = Some(findings.into_iter().map(|finding| alert(&host, &service, finding)).collect());
    Ok(Board { host, service, alerts, whole, fine, parts, left_out, orders_max, machine, view, address: String::new() })
}

/// The identity of a machine: what is not a hash as agents make it is an error, because two that are cut alike would be one machine.
fn machine_of(told: MachineId) -> Result<MachineId, String> {
    let is_hash = |id: &String| id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if let Some(id) = [&told.hardware, &told.system].into_iter().flatten().find(|id| !is_hash(id)) {
        return Err(format!("'{}' is no ID of a machine: 32 hexadecimal digits, lower case", strangers::name(id)));
    }
    Ok(told)
}

/// The parts that are told apart, and how many are not.
fn parts_of(told: Vec<Part>) -> (Vec<Part>, u64) {
    let is_part = |part: &Part| matches!(part.kind, SubjectKind::Dimm | SubjectKind::Drive);
    let (parts, others): (Vec<Part>, Vec<Part>) = told.into_iter().partition(is_part);
    let clean = |part: Part| Part {
        name: strangers::name(&part.name),
        place: strangers::name(&part.place),
        model: strangers::name(&part.model),
        ..part
    };
    let (parts, left_out) = Part::told_apart(parts.into_iter().take(PARTS_READ_MAX).map(clean).collect());
    (parts, left_out + others.len() as u64)
}

/// The words of a stranger, each of bounded length.
fn facts_of(told: HostFacts) -> HostFacts {
    let clean = |text: String| strangers::name(&text);
    HostFacts { kernel: clean(told.kernel), firmware: clean(told.firmware), product: clean(told.product) }
}

fn is_of_case(finding: &Finding) -> bool {
    finding.room == Room::Remedy && finding.rule == CASE_RULE
}

fn alert(host: &str, service: &str, finding: Finding) -> Alert {
    let fault = format!("{}/{}", finding.room, finding.rule);
    Alert {
        host: host.to_owned(),
        key: strangers::key(&finding.key),
        service: service.to_owned(),
        fault: strangers::name(&fault),
        subject: strangers::name(&finding.subject.to_string()),
        room: Some(finding.room),
        severity: finding.severity,
        sentence: strangers::text(&finding.sentence),
        evidence: finding.evidence.iter().take(EVIDENCE_LINES_MAX).map(|line| strangers::text(line)).collect(),
        labels: Default::default(),
        origin: AlertOrigin::Finding,
        is_firing: true,
        since_realtime_ns: finding.since_realtime_ns,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_model::{Subject, SubjectKind};

    fn finding(name: &str, severity: Severity) -> Finding {
        Finding::new(Room::Memory, "rate", Subject::new(SubjectKind::Dimm, name), severity, "It has errors.")
    }

    #[test]
    fn findings_become_alerts_with_room_and_rule_as_their_fault() {
        let told = HostFindings {
            host: "Node17".into(),
            service: "web".into(),
            findings: Some(vec![
                finding("A1", Severity::Critical),
                finding("A2", Severity::Ok),
                Finding::new(Room::Remedy, "case", Subject::host(), Severity::Warning, "Case 7 waits."),
            ]),
            is_watched: true,
            ..HostFindings::default()
        };
        let board = read(&serde_json::to_vec(&told).unwrap()).unwrap();
        let alerts = board.alerts.unwrap();
        assert_eq!((alerts.len(), board.left_out), (1, 0));
        let alert = &alerts[0];
        assert_eq!((&*alert.host, &*alert.fault, &*alert.subject), ("node17", "memory/rate", "dimm A1"));
        assert_eq!(alert.key, "memory/rate/dimm/A1");
    }

    #[test]
    fn an_agent_of_another_protocol_is_refused_in_words_and_one_that_states_none_is_not() {
        assert_eq!(read(br#"{"host": "n1"}"#).unwrap().host, "n1");
        let told = serde_json::to_string(&HostFindings { host: "n1".into(), ..HostFindings::default() }).unwrap();
        assert!(told.contains("\"protocol\":1"), "{told}");
        for (stated, older) in [(2, "update the controller"), (0, "update the agent")] {
            // Whatever else is in it: another version may write it in another way.
            let why = read(format!(r#"{{"protocol": {stated}, "host": ["n1"]}}"#).as_bytes()).unwrap_err();
            assert!(why.contains(&format!("protocol {stated}")) && why.contains(older), "{why}");
        }
    }

    #[test]
    fn a_host_cannot_speak_in_the_name_of_alertmanager() {
        let mut sly = finding("A1", Severity::Critical);
        sly.key = "alertmanager/00ab".into();
        let mut other_rule = finding("A1", Severity::Critical);
        other_rule.rule = "fault".into();
        let findings = Some(vec![sly, other_rule, finding("A2", Severity::Critical)]);
        let told = HostFindings { host: "a".into(), findings, ..HostFindings::default() };
        let board = read(&serde_json::to_vec(&told).unwrap()).unwrap();
        let keys: Vec<String> = board.alerts.unwrap().into_iter().map(|alert| alert.key).collect();
        assert_eq!((keys, board.left_out), (vec!["memory/rate/dimm/A2".to_owned()], 2));
    }

    #[test]
    fn a_host_that_finds_too_much_tells_the_worst() {
        let mut findings: Vec<Finding> =
            (0..300).map(|number| finding(&number.to_string(), Severity::Notice)).collect();
        findings.push(finding("bad", Severity::Critical));
        let told = HostFindings { host: "a".into(), findings: Some(findings), ..HostFindings::default() };
        let board = read(&serde_json::to_vec(&told).unwrap()).unwrap();
        let alerts = board.alerts.unwrap();
        assert_eq!((alerts.len(), board.left_out, &*alerts[0].subject), (200, 101, "dimm bad"));
        assert_eq!(read(b"{\"host\":\"a\"}").unwrap().alerts, None);
        assert!(read(b"{\"host\":\"../x\"}").unwrap_err().contains("no name of a host"));
        assert!(read(b"{\"findings\":3}").unwrap_err().contains("no findings of a host"));
    }

    #[test]
    fn a_room_is_whole_only_if_the_agent_says_so_and_nothing_of_it_was_cut() {
        let whole = |left_out: Option<&[(Room, u64)]>, findings: Vec<Finding>, is_watched: bool| {
            let findings_left_out = left_out.map(|rooms| rooms.iter().copied().collect());
            let findings = Some(findings);
            let told = HostFindings { host: "a".into(), findings, findings_left_out, is_watched, ..Default::default() };
            read(&serde_json::to_vec(&told).unwrap()).unwrap().whole
        };
        let says: &[_] = &[(Room::Memory, 0), (Room::Nic, 3), (Room::Stall, 0)];
        assert_eq!(whole(Some(says), vec![], true), BTreeSet::from([Room::Memory, Room::Stall]));
        assert_eq!(whole(Some(says), vec![], false), BTreeSet::new());
        // An agent of an earlier version.
        assert_eq!(whole(None, vec![], true), BTreeSet::new());
        let many: Vec<Finding> = (0..201).map(|number| finding(&number.to_string(), Severity::Notice)).collect();
        assert_eq!(whole(Some(says), many[..200].to_vec(), true), BTreeSet::from([Room::Memory, Room::Stall]));
        assert_eq!(whole(Some(says), many, true), BTreeSet::from([Room::Stall]));
        let mut sly = finding("A1", Severity::Critical);
        sly.key = "alertmanager/00ab".into();
        assert_eq!(whole(Some(says), vec![sly], true), BTreeSet::from([Room::Stall]));
    }

    #[test]
    fn parts_of_strangers_are_those_that_are_told_apart() {
        let part = |kind: &str, place: &str, serial: &str| serde_json::json!({ "kind": kind, "name": serial, "place": place, "serial": serial });
        let parts = [
            part("dimm", "A1", "S100"),
            part("dimm", "B1\n\u{1b}[2J", "S200"),
            // Fillers, a number with commands for a terminal, a number twice, and what has no serial numbers.
            part("dimm", "C1", "00000000"),
            part("dimm", "C2", "Unknown"),
            part("dimm", "C3", "S3\u{1b}[2J"),
            part("dimm", "D1", "S400"),
            part("dimm", "D2", "S400"),
            part("job", "x", "S500"),
        ];
        let told = serde_json::json!({ "host": "n1", "findings": [], "parts": parts });
        let board = read(told.to_string().as_bytes()).unwrap();
        let places: Vec<(&str, &str)> = board.parts.iter().map(|part| (&*part.place, &*part.serial)).collect();
        assert_eq!((places, board.left_out), (vec![("A1", "S100"), ("B1??[2J", "S200")], 6));
        assert!(
            read(b"{\"host\":\"n1\",\"parts\":[{\"kind\":\"dimm\"}]}").unwrap_err().contains("no findings of a host")
        );
        assert_eq!(read(b"{\"host\":\"n1\"}").unwrap().parts, []);
    }
}
