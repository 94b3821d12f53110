//! The parts of hosts by their serial numbers: where each is and was, and what took its place. Hosts tell of them, and nobody else.
//!
//! A swap is noted by itself: with a line of the audit trail, and in the newest case about the part that went. A part that came to a host
//! with cases of its own is noted, too.

mod compare;

use super::alerts::HostBoard;
use super::decide::update_one;
use super::read::{self, whole};
use super::sql::{Answer, Row, Sql, Trouble, Value, in_pieces};
use super::{CaseStore, trail};
use crate::{Error, Result};
use compare::{Known, Left, compare};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use surefoot_model::{AuditEntry, Case, Part, PartBook, PartStay, Replaced, SubjectKind, UnreadCase};

/// The kinds of parts that are told of.
const KINDS: [SubjectKind; 2] = [SubjectKind::Dimm, SubjectKind::Drive];
/// A place whose part changes more often within [`CHANGES_WITHIN_NS`] is told of by two hosts of one name, or by one that tells anything:
/// what it tells then is left alone until the time is over.
const CHANGES_OF_PLACE_MAX: u64 = 4;
const CHANGES_WITHIN_NS: u64 = 24 * 3_600 * 1_000_000_000;
/// Cases of another host that are named where a part turns up again: the newest.
const CASES_NAMED_MAX: usize = 16;
/// Cases that are read at once: each may hold long memos.
const CASES_AT_ONCE: usize = 50;
/// Stays of one part that are read: the newest. A number that makers give to many is at more hosts than a part ever was.
const STAYS_MAX: u64 = 64;
/// A case that somebody changes at the same time is read anew so often.
const TRIES: usize = 5;

/// Takes in what hosts tell of their parts.
pub(super) fn take(sql: &mut dyn Sql, boards: &[&HostBoard], now_ns: u64) -> Answer<()> {
    let boards: Vec<&&HostBoard> = boards.iter().filter(|board| !board.parts.is_empty()).collect();
    if boards.is_empty() {
        return Ok(());
    }
    let mut known = known_of(sql, boards.iter().map(|board| vec![(*board.host).into()]).collect())?;
    let (mut come, mut lines) = (Vec::new(), Vec::new());
    for board in boards {
        let known = known.remove(&board.host).unwrap_or_default();
        let mut difference = compare(&known, &board.parts);
        if !difference.left.is_empty() {
            let unsteady = unsteady(sql, &board.host, now_ns)?;
            let is_steady = |part: &Part| !unsteady.contains(&(part.kind.as_str().to_owned(), part.place.clone()));
            difference.left.retain(|(known, _)| is_steady(&known.part));
            difference.come.retain(is_steady);
        }
        for (known, is_there) in &difference.seen {
            let words =
                "UPDATE remedy_part SET is_there = $1 WHERE host = $2 AND kind = $3 AND place = $4 AND since_ns = $5";
            let mut values = vec![(*is_there).into()];
            values.extend(key_of(&board.host, known));
            sql.run(words, &values)?;
        }
        for (known, left) in &difference.left {
            let by = if let Left::Swapped { by } = left { by.as_str() } else { "" };
            let words = "UPDATE remedy_part SET until_ns = $1, is_there = 0, replaced_by = $2
                WHERE host = $3 AND kind = $4 AND place = $5 AND since_ns = $6";
            let mut values = vec![now_ns.into(), by.into()];
            values.extend(key_of(&board.host, known));
            sql.run(words, &values)?;
            lines.extend(note(sql, &board.host, &known.part, left, now_ns)?);
        }
        come.extend(difference.come.into_iter().map(|part| (board.host.as_str(), part)));
    }
    lines.extend(seen_before(sql, &come, now_ns)?);
    let row = |(host, part): &(&str, Part)| {
        let texts = [&*part.serial, &*part.name];
        let key = [(*host).into(), part.kind.as_str().into(), (*part.place).into(), now_ns.into()];
        key.into_iter().chain(texts.map(Into::into)).collect()
    };
    in_pieces("$, $, $, $, $, $, 0, 1, ''", come.iter().map(row).collect(), |rows, values| {
        let words =
            "INSERT INTO remedy_part (host, kind, place, since_ns, serial, name, until_ns, is_there, replaced_by)
            VALUES {rows} ON CONFLICT (host, kind, place, since_ns) DO NOTHING";
        sql.run(&words.replace("{rows}", rows), values).map(drop)
    })?;
    trail::add(sql, lines, now_ns)
}

/// Ends the stays of this host's parts: another machine has the name now, so that none of them was replaced by what is there now.
pub(super) fn end_stays(sql: &mut dyn Sql, host: &str, now_ns: u64) -> Answer<()> {
    let words = "UPDATE remedy_part SET until_ns = $1, is_there = 0 WHERE host = $2 AND until_ns = 0";
    sql.run(words, &[now_ns.into(), host.into()]).map(drop)
}

/// The parts that were last told of these hosts.
fn known_of(sql: &mut dyn Sql, hosts: Vec<Vec<Value>>) -> Answer<HashMap<String, Vec<Known>>> {
    let mut known: HashMap<String, Vec<Known>> = HashMap::new();
    in_pieces("$", hosts, |rows, values| {
        let words = format!(
            "SELECT host, kind, place, serial, name, since_ns, is_there FROM remedy_part WHERE until_ns = 0 AND host IN ({rows})"
        );
        for row in sql.rows(&words, values)? {
            let Some(part) = part_of(&row, 1) else { continue };
            let one = Known { part, since_ns: row.number(5), is_there: row.number(6) == 1 };
            known.entry(row.text(0).to_owned()).or_default().push(one);
        }
        Ok(())
    })?;
    Ok(known)
}

/// A part of kind, place, serial number and name, from this column on.
fn part_of(row: &Row, from: usize) -> Option<Part> {
    let kind = KINDS.into_iter().find(|kind| kind.as_str() == row.text(from))?;
    let text = |place: usize| row.text(from + place).to_owned();
    Some(Part { kind, place: text(1), serial: text(2), name: text(3), model: String::new() })
}

fn key_of(host: &str, known: &Known) -> [Value; 4] {
    [host.into(), known.part.kind.as_str().into(), (*known.part.place).into(), known.since_ns.into()]
}

/// Places of a host whose parts change too often, by kind and name.
fn unsteady(sql: &mut dyn Sql, host: &str, now_ns: u64) -> Answer<BTreeSet<(String, String)>> {
    let words = "SELECT kind, place FROM remedy_part WHERE host = $1 AND until_ns >= $2 GROUP BY kind, place HAVING count(*) >= $3";
    let since_ns = now_ns.saturating_sub(CHANGES_WITHIN_NS).max(1);
    let rows = sql.rows(words, &[host.into(), since_ns.into(), CHANGES_OF_PLACE_MAX.into()])?;
    Ok(rows.iter().map(|row| (row.text(0).to_owned(), row.text(1).to_owned())).collect())
}

/// Notes that a part left its place, in the newest case about it where it was swapped; the lines for the audit trail.
fn note(sql: &mut dyn Sql, host: &str, part: &Part, left: &Left, now_ns: u64) -> Answer<Option<AuditEntry>> {
    let line = |case: u64, action: &str, reason: String| AuditEntry {
        at_realtime_ns: now_ns,
        case,
        actor: format!("agent {host}"),
        action: action.to_owned(),
        target: format!("{} in {} of {host}", part.kind.as_str(), part.place),
        reason,
    };
    let serial = &part.serial;
    match left {
        // Names of drives change with each start.
        Left::Gone => Ok(None),
        Left::Moved { .. } if part.kind == SubjectKind::Drive => Ok(None),
        Left::Moved { to } => Ok(Some(line(0, "moved", format!("{serial} is in {to} now")))),
        Left::Swapped { by } => {
            let case = mark(sql, host, part, by, now_ns)?;
            Ok(Some(line(case, "swapped", format!("{serial} is out, and {by} is in its place"))))
        }
    }
}

/// Writes into the newest case about a part that it was replaced; its number, 0 where there is none. What a person said before stands.
fn mark(sql: &mut dyn Sql, host: &str, part: &Part, by: &str, now_ns: u64) -> Answer<u64> {
    for tries_left in (0..TRIES).rev() {
        let Some(case) = newest_about(sql, host, part)? else { return Ok(0) };
        if case.replaced.is_some() {
            return Ok(case.id);
        }
        let replaced = Some(Replaced { at_realtime_ns: now_ns, by: by.to_owned(), tested_good_realtime_ns: 0 });
        match update_one(sql, &Case { replaced, ..case.clone() }) {
            Err(Trouble::Ours(Error::CaseConflict { .. })) if tries_left > 0 => {}
            Err(trouble) => return Err(trouble),
            Ok(()) => return Ok(case.id),
        }
    }
    Ok(0)
}

/// The newest case of a host about this part that did something.
fn newest_about(sql: &mut dyn Sql, host: &str, part: &Part) -> Answer<Option<Case>> {
    let mut newest = None;
    each_case(sql, host, |read| {
        newest = read.ok().filter(|case| is_about(case, part));
        newest.is_none()
    })?;
    Ok(newest)
}

fn is_about(case: &Case, part: &Part) -> bool {
    !case.is_dry_run && case.part.as_ref().is_some_and(|of| of.is_same(part))
}

/// Whether a case may tell something of the part that another one of the same host is about, or of its place. Rows of memory that were
/// repaired count wherever no serial number says that they are of another part.
fn may_tell_of(case: &Case, about: &Case) -> bool {
    match (&case.part, &about.part) {
        (Some(one), Some(other)) => one.is_same(other) || (one.kind, &one.place) == (other.kind, &other.place),
        _ => case.subject == about.subject || case.steps.iter().any(|step| step.step.contains("-repair:")),
    }
}

/// Adds to a book what is asked for of the cases of a host, at most so many of them; further ones are counted.
fn add_cases(
    sql: &mut dyn Sql,
    host: &str,
    limit: usize,
    book: &mut PartBook,
    is_asked: impl Fn(&Case) -> bool,
) -> Answer<()> {
    let mut room = limit;
    each_case(sql, host, |read| {
        match read {
            Ok(case) if !is_asked(&case) => {}
            Ok(_) if room == 0 => book.left_out += 1,
            Ok(case) => {
                book.cases.push(slim(case));
                room -= 1;
            }
            Err(unread) => book.unread.push(unread),
        }
        true
    })
}

/// Goes through all cases of a host that touched it or whose part was replaced, the newest first, until `each` says that it is enough.
fn each_case(
    sql: &mut dyn Sql,
    host: &str,
    mut each: impl FnMut(std::result::Result<Case, UnreadCase>) -> bool,
) -> Answer<()> {
    let words = format!(
        "{} WHERE c.host = $1 AND (c.state <> 'cleared' OR c.body LIKE '%\"replaced\":{{%') AND c.id < $2
        ORDER BY c.id DESC LIMIT $3",
        whole()
    );
    let mut before = u64::MAX;
    loop {
        let rows = sql.rows(&words, &[host.into(), before.into(), (CASES_AT_ONCE as u64).into()])?;
        if !rows.iter().all(|row| each(read::read(row))) || rows.len() < CASES_AT_ONCE {
            return Ok(());
        }
        before = rows.last().map_or(0, |row| row.number(0));
    }
}

/// A case without what its part's history does not need: it may be one of a thousand, each with long texts.
fn slim(mut case: Case) -> Case {
    case.evidence = Vec::new();
    // What was repaired is in the memos of repairs.
    let others = case.steps.iter_mut().filter(|step| !step.step.contains("-repair:"));
    others.for_each(|step| step.memo = String::new());
    case
}

/// Parts that came to a host and have cases of another: the same part turned up again. The lines for the audit trail.
fn seen_before(sql: &mut dyn Sql, come: &[(&str, Part)], now_ns: u64) -> Answer<Vec<AuditEntry>> {
    let serials: BTreeSet<&str> = come.iter().map(|(_, part)| &*part.serial).collect();
    let mut elsewhere: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    in_pieces("$", serials.into_iter().map(|serial| vec![serial.into()]).collect(), |rows, values| {
        // Who still has it is another part of the same number, until its host says otherwise.
        let words = format!("SELECT serial, kind, host FROM remedy_part WHERE is_there = 0 AND serial IN ({rows})");
        for row in sql.rows(&words, values)? {
            let key = (row.text(0).to_owned(), row.text(1).to_owned());
            elsewhere.entry(key).or_default().insert(row.text(2).to_owned());
        }
        Ok(())
    })?;
    let mut lines = Vec::new();
    for (host, part) in come {
        let hosts = elsewhere.get(&(part.serial.clone(), part.kind.as_str().to_owned()));
        for other in hosts.into_iter().flatten().filter(|other| *other != host).take(STAYS_MAX as usize) {
            let mut found = PartBook::default();
            add_cases(sql, other, CASES_NAMED_MAX, &mut found, |case| is_about(case, part))?;
            let mut cases: Vec<String> = found.cases.iter().map(|case| case.id.to_string()).collect();
            cases.extend((found.left_out > 0).then(|| format!("and {} older ones", found.left_out)));
            if cases.is_empty() {
                continue;
            }
            lines.push(AuditEntry {
                at_realtime_ns: now_ns,
                case: 0,
                actor: format!("agent {host}"),
                action: "turned_up".to_owned(),
                target: format!("{} in {} of {host}", part.kind.as_str(), part.place),
                reason: format!("{} was in {other} before (case {})", part.serial, cases.join(", ")),
            });
        }
    }
    Ok(lines)
}

/// Gives cases that are opened the part that they are about, where it is known by its serial number.
pub(super) fn name(sql: &mut dyn Sql, opened: &mut [(Box<Case>, AuditEntry)]) -> Answer<()> {
    let hosts: BTreeSet<String> = opened
        .iter()
        .filter(|(case, _)| KINDS.iter().any(|kind| case.subject.starts_with(kind.as_str())))
        .map(|(case, _)| case.host.clone())
        .collect();
    let known = known_of(sql, hosts.iter().map(|host| vec![(**host).into()]).collect())?;
    for (case, _) in opened.iter_mut().filter(|(case, _)| case.part.is_none()) {
        let parts = known.get(&case.host).into_iter().flatten().map(|known| &known.part);
        let is_its = |part: &&Part| part.subject().to_string() == case.subject;
        // One that is known by its place may have been told before a start that gave its name to another.
        let mut its = parts.filter(is_its);
        case.part = its.next().filter(|_| its.next().is_none()).cloned();
    }
    Ok(())
}

struct Stay {
    stay: PartStay,
    is_there: bool,
    host_seen_ns: u64,
}

impl CaseStore {
    /// What is kept of the part that a case is about, without evidence: of all cases of its host those that touched it and may tell of the
    /// part, the newest first, at most so many; and where the part has a serial number, those of other hosts about it, and where it was. Where two hosts have a part of the number at one time, it
    /// tells none from another, and the other hosts' count for nothing.
    ///
    /// # Errors
    /// [`Error::Cases`].
    pub fn part_book(&mut self, case: &Case, limit: usize) -> Result<PartBook> {
        self.connected.ask("reading the history of a part", |sql| {
            let mut book = PartBook::default();
            add_cases(sql, &case.host, limit, &mut book, |other| may_tell_of(other, case))?;
            let Some(part) = &case.part else { return Ok(book) };
            let stays = stays(sql, part)?;
            let is_one =
                !stays.iter().enumerate().any(|(place, one)| stays[..place].iter().any(|other| twins(one, other)));
            let stays = stays.into_iter().map(|stay| stay.stay);
            book.stays = stays.filter(|stay| is_one || stay.host == case.host).collect();
            book.stays.sort();
            let others: BTreeSet<String> = book.stays.iter().map(|stay| stay.host.clone()).collect();
            for other in others.iter().filter(|other| **other != case.host) {
                add_cases(sql, other, limit, &mut book, |one| is_about(one, part))?;
            }
            Ok(book)
        })
    }
}

fn stays(sql: &mut dyn Sql, part: &Part) -> Answer<Vec<Stay>> {
    let words = "SELECT p.since_ns, p.until_ns, p.host, p.place, p.replaced_by, p.is_there, coalesce(h.seen_ns, 0)
        FROM remedy_part p LEFT JOIN remedy_host h ON h.host = p.host
        WHERE p.serial = $1 AND p.kind = $2 ORDER BY p.since_ns DESC LIMIT $3";
    let rows = sql.rows(words, &[(*part.serial).into(), part.kind.as_str().into(), STAYS_MAX.into()])?;
    let stay = |row: &Row| Stay {
        stay: PartStay {
            since_realtime_ns: row.number(0),
            until_realtime_ns: row.number(1),
            host: row.text(2).to_owned(),
            place: row.text(3).to_owned(),
            replaced_by: row.text(4).to_owned(),
        },
        is_there: row.number(5) == 1,
        host_seen_ns: row.number(6),
    };
    Ok(rows.iter().map(stay).collect())
}

/// Whether two hosts have a part of one number at one time: both told of it, and both were there since.
fn twins(one: &Stay, other: &Stay) -> bool {
    let since_ns = one.stay.since_realtime_ns.max(other.stay.since_realtime_ns);
    one.stay.host != other.stay.host
        && one.is_there
        && other.is_there
        && one.host_seen_ns.min(other.host_seen_ns) > since_ns
}
