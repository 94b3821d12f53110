//! Which machine a host name belongs to. Two machines with one name, such as a cloned image, or an old machine that still runs beside its
//! replacement, must not share the orders of the name.
//!
//! A name belongs to the machine that reported under it first. Another one is refused while that one reports, and takes the name when the
//! first has been silent for [`MachineLimits::silent_ns_max`] while this one asked for it; a time in which no controller ran is no silence.
//! A person hands the name over at once with [`CaseStore::release`].

use super::CaseStore;
use super::sql::{Answer, Row, Sql, Value, in_pieces};
use super::trail::add;
use crate::Result;
use std::collections::{BTreeMap, HashMap};
use surefoot_model::{AuditEntry, MachineId};

/// A machine that goes on reporting is noted this often.
const SEEN_AGAIN_NS: u64 = 300_000_000_000;
/// How often the store notes a machine that keeps being refused, and how often the audit trail repeats it.
const REFUSED_AGAIN_NS: u64 = 30_000_000_000;
const TOLD_AGAIN_NS: u64 = 3_600_000_000_000;
/// Names with two machines that are listed.
const RIVALS_MAX: u64 = 16;
const COLUMNS: &str = "hardware, system, address, seen_ns, rival_hardware, rival_system, rival_address, rival_since_ns, rival_ns, rival_told_ns";

/// How long what is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineLimits {
    /// A machine that has told nothing for longer may lose its name to one that asked for it all the while.
    pub silent_ns_max: u64,
    /// A machine that asks less often than this begins to wait anew.
    pub gap_ns_max: u64,
}

impl Default for MachineLimits {
    fn default() -> Self {
        MachineLimits { silent_ns_max: 900_000_000_000, gap_ns_max: 600_000_000_000 }
    }
}

/// A machine that reports under a host name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// The name.
    pub host: String,
    /// The machine, as far as it says.
    pub machine: MachineId,
    /// Where its report came from, for people; empty where unknown.
    pub address: String,
}

/// Whether a name is that of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is.
    Own,
    /// The machine does not say which it is, or nothing that can be compared. `owner` is the known machine of the name, for people.
    Unknown {
        /// `None` where no machine is known to have the name.
        owner: Option<String>,
    },
    /// Another machine has it. Nothing of this one is to be taken.
    Refused {
        /// Both machines, and what to do.
        why: String,
    },
}

/// A row of the table.
struct Known {
    machine: MachineId,
    address: String,
    seen_ns: u64,
    rival: MachineId,
    rival_address: String,
    rival_since_ns: u64,
    rival_ns: u64,
    rival_told_ns: u64,
}

impl Known {
    fn of(row: &Row, first: usize) -> Known {
        let machine = |at: usize| {
            let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            MachineId { hardware: known(row.text(first + at)), system: known(row.text(first + at + 1)) }
        };
        Known {
            machine: machine(0),
            address: row.text(first + 2).to_owned(),
            seen_ns: row.number(first + 3),
            rival: machine(4),
            rival_address: row.text(first + 6).to_owned(),
            rival_since_ns: row.number(first + 7),
            rival_ns: row.number(first + 8),
            rival_told_ns: row.number(first + 9),
        }
    }

    fn name(&self) -> String {
        named(&self.machine, &self.address)
    }

    /// What is answered without a change of the row; `None` where it is to be changed.
    fn settled(&self, claim: &Claim, now_ns: u64) -> Option<Claimed> {
        match self.machine.is(&claim.machine) {
            None => Some(Claimed::Unknown { owner: Some(self.name()) }),
            Some(true) => {
                let is_news = self.machine.with(&claim.machine) != self.machine
                    || !claim.address.is_empty() && claim.address != self.address
                    || now_ns.saturating_sub(self.seen_ns) >= SEEN_AGAIN_NS;
                (!is_news).then_some(Claimed::Own)
            }
            Some(false) => None,
        }
    }

    /// Since when a rival has asked for the name without a gap.
    fn asked_since_ns(&self, claim: &Claim, now_ns: u64, limits: &MachineLimits) -> u64 {
        let is_same = self.rival.is(&claim.machine) == Some(true);
        let goes_on = is_same && now_ns.saturating_sub(self.rival_ns) <= limits.gap_ns_max;
        if goes_on { self.rival_since_ns } else { now_ns }
    }
}

fn named(machine: &MachineId, address: &str) -> String {
    if address.is_empty() { machine.to_string() } else { format!("{machine} ({address})") }
}

fn text(part: &Option<String>) -> Value {
    part.as_deref().unwrap_or_default().into()
}

impl CaseStore {
    /// Decides of each machine whether the name is its own, in the order in which they are given.
    ///
    /// # Errors
    /// [`crate::Error::Cases`]; then they are to ask again.
    pub fn claim(&mut self, claims: &[Claim], limits: &MachineLimits) -> Result<Vec<Claimed>> {
        let hosts: BTreeMap<&str, ()> = claims.iter().map(|claim| (&*claim.host, ())).collect();
        let (known, now_ns) = self.connected.ask("looking for machines", |sql| {
            Ok((known(sql, hosts.into_keys().map(|host| vec![host.into()]).collect())?, sql.now_ns()?))
        })?;
        let settled = |claim: &Claim| match known.get(&claim.host) {
            Some(known) => known.settled(claim, now_ns),
            None if claim.machine.is_known() => None,
            None => Some(Claimed::Unknown { owner: None }),
        };
        let mut answers: Vec<Option<Claimed>> = claims.iter().map(settled).collect();
        // Of most that are to be written, nothing but the time is new, or all of it: a fleet that starts is written by pieces.
        let mut plain: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, claim) in claims.iter().enumerate().filter(|(place, _)| answers[*place].is_none()) {
            let is_plain = known.get(&claim.host).is_none_or(|known| known.machine == claim.machine);
            if is_plain {
                plain.entry(&claim.host).or_insert(place);
            }
        }
        let written = self.write_plain(plain.values().map(|place| &claims[*place]))?;
        for (host, place) in plain {
            if written.contains_key(host) {
                answers[place] = Some(Claimed::Own);
            }
        }
        let decided = answers.into_iter().zip(claims).map(|(answer, claim)| match answer {
            Some(answer) => Ok(answer),
            None => self.decide_claim(claim, limits),
        });
        decided.collect()
    }

    /// Names that no machine has, and names whose machine goes on as it was. Those that were written.
    fn write_plain<'a>(&mut self, claims: impl Iterator<Item = &'a Claim>) -> Result<HashMap<String, ()>> {
        let claims: Vec<&Claim> = claims.collect();
        let mut written = HashMap::new();
        if claims.is_empty() {
            return Ok(written);
        }
        self.connected.transaction("noting machines", false, |sql| {
            let now_ns = sql.now_ns()?;
            let row = |claim: &&Claim| {
                let MachineId { hardware, system } = &claim.machine;
                vec![(*claim.host).into(), text(hardware), text(system), (*claim.address).into(), now_ns.into()]
            };
            in_pieces("$, $, $, $, $", claims.iter().map(row).collect(), |rows, values| {
                let words = format!(
                    "INSERT INTO remedy_machine AS old (host, hardware, system, address, seen_ns) VALUES {rows}
                     ON CONFLICT (host) DO UPDATE SET seen_ns = excluded.seen_ns,
                     address = CASE WHEN excluded.address = '' THEN old.address ELSE excluded.address END
                     WHERE old.hardware = excluded.hardware AND old.system = excluded.system RETURNING host"
                );
                written.extend(sql.rows(&words, values)?.iter().map(|row| (row.text(0).to_owned(), ())));
                Ok(())
            })
        })?;
        Ok(written)
    }

    /// Decides on one, with its row locked.
    fn decide_claim(&mut self, claim: &Claim, limits: &MachineLimits) -> Result<Claimed> {
        self.connected.transaction("deciding which machine has a name", false, |sql| {
            let Some(known) = locked(sql, &claim.host)? else {
                // It was forgotten in between. The next report claims the name.
                return Ok(Claimed::Unknown { owner: None });
            };
            let now_ns = sql.now_ns()?;
            match known.machine.is(&claim.machine) {
                None => Ok(Claimed::Unknown { owner: Some(known.name()) }),
                Some(true) => {
                    let machine = known.machine.with(&claim.machine);
                    give(sql, claim, &machine, now_ns)?;
                    Ok(Claimed::Own)
                }
                Some(false) => {
                    let asked_since_ns = known.asked_since_ns(claim, now_ns, limits);
                    let waited_ns = now_ns.saturating_sub(asked_since_ns.max(known.seen_ns));
                    if known.seen_ns == 0 || waited_ns > limits.silent_ns_max {
                        let why = format!("{} no longer reports", known.name());
                        take_over(sql, claim, &format!("agent {}", claim.host), &why, now_ns)?;
                        return Ok(Claimed::Own);
                    }
                    refuse(sql, claim, &known, asked_since_ns, now_ns, limits)
                }
            }
        })
    }

    /// Takes a name away from its machine: it goes to the one that was refused last, where that asked within the limit, else to the next
    /// that reports. In words, what came of it.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn release(&mut self, host: &str, actor: &str, reason: &str, limits: &MachineLimits) -> Result<String> {
        self.connected.transaction("releasing a name", false, |sql| {
            let Some(known) = locked(sql, host)? else {
                return Ok(format!("no machine is known to have the name {host}: the next one that reports has it"));
            };
            let now_ns = sql.now_ns()?;
            let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            let why = format!("the name was taken from {}{because}", known.name());
            if known.rival.is_known() && now_ns.saturating_sub(known.rival_ns) <= limits.silent_ns_max {
                let (host, address) = (host.to_owned(), known.rival_address.clone());
                let claim = Claim { host, machine: known.rival.clone(), address };
                take_over(sql, &claim, actor, &why, now_ns)?;
                return Ok(format!("{} is {} now", claim.host, named(&claim.machine, &claim.address)));
            }
            sql.run("UPDATE remedy_machine SET seen_ns = 0 WHERE host = $1", &[host.into()])?;
            add(sql, vec![line(actor, "released", host, why)], now_ns)?;
            Ok(format!("{host} is no longer {}: the next machine that reports by this name has it", known.name()))
        })
    }

    /// The machine that has a name, in words, where it is known to be another than this one.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn owner_unlike(&mut self, host: &str, machine: &MachineId) -> Result<Option<String>> {
        let words = format!("SELECT {COLUMNS} FROM remedy_machine WHERE host = $1");
        let rows = self.connected.ask("looking for a machine", |sql| sql.rows(&words, &[host.into()]))?;
        let known = rows.first().map(|row| Known::of(row, 0));
        Ok(known.filter(|known| known.machine.is(machine) == Some(false)).map(|known| known.name()))
    }

    /// Names under which two machines report now, a sentence each, at most 16.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn rivals(&mut self, limits: &MachineLimits) -> Result<Vec<String>> {
        self.connected.ask("looking for rivals", |sql| {
            let since_ns = sql.now_ns()?.saturating_sub(limits.silent_ns_max);
            let words = format!(
                "SELECT host, {COLUMNS} FROM remedy_machine WHERE rival_ns > 0 AND rival_ns >= $1 ORDER BY host LIMIT $2"
            );
            let rows = sql.rows(&words, &[since_ns.into(), RIVALS_MAX.into()])?;
            Ok(rows.iter().map(|row| two(row.text(0), &Known::of(row, 1))).collect())
        })
    }
}

fn two(host: &str, known: &Known) -> String {
    let rival = named(&known.rival, &known.rival_address);
    format!("two machines report as {host}: {} has the name, {rival} is refused", known.name())
}

/// Whether orders of a host may go to this machine: it has the name, or no machine is known to have it.
pub(super) fn may_have_orders(sql: &mut dyn Sql, host: &str, machine: &MachineId) -> Answer<bool> {
    let words = format!("SELECT {COLUMNS} FROM remedy_machine WHERE host = $1");
    let rows = sql.rows(&words, &[host.into()])?;
    Ok(rows.first().is_none_or(|row| Known::of(row, 0).machine.is(machine) == Some(true)))
}

/// When the name came from one machine to another, 0 for never. The row stays locked, so that no takeover comes in between.
pub(super) fn took_over_ns(sql: &mut dyn Sql, host: &str) -> Answer<u64> {
    let words = "UPDATE remedy_machine SET host = host WHERE host = $1 RETURNING took_over_ns";
    Ok(sql.rows(words, &[host.into()])?.first().map_or(0, |row| row.number(0)))
}

/// What is known of hosts.
fn known(sql: &mut dyn Sql, hosts: Vec<Vec<Value>>) -> Answer<HashMap<String, Known>> {
    let mut found = HashMap::new();
    in_pieces("$", hosts, |rows, values| {
        let words = format!("SELECT host, {COLUMNS} FROM remedy_machine WHERE host IN ({rows})");
        let rows = sql.rows(&words, values)?;
        found.extend(rows.iter().map(|row| (row.text(0).to_owned(), Known::of(row, 1))));
        Ok(())
    })?;
    Ok(found)
}

/// A row, which nobody else changes until the transaction ends.
fn locked(sql: &mut dyn Sql, host: &str) -> Answer<Option<Known>> {
    let words = format!("UPDATE remedy_machine SET host = host WHERE host = $1 RETURNING {COLUMNS}");
    Ok(sql.rows(&words, &[host.into()])?.first().map(|row| Known::of(row, 0)))
}

/// Notes that a machine has the name and reports.
fn give(sql: &mut dyn Sql, claim: &Claim, machine: &MachineId, now_ns: u64) -> Answer<()> {
    let words = "UPDATE remedy_machine SET hardware = $1, system = $2, seen_ns = $4, address = $3 WHERE host = $5";
    let MachineId { hardware, system } = machine;
    let values = [text(hardware), text(system), (*claim.address).into(), now_ns.into(), (*claim.host).into()];
    sql.run(words, &values).map(drop)
}

/// Gives the name to another machine, and ends the orders that were the first one's.
fn take_over(sql: &mut dyn Sql, claim: &Claim, actor: &str, why: &str, now_ns: u64) -> Answer<()> {
    give(sql, claim, &claim.machine, now_ns)?;
    let words =
        "UPDATE remedy_machine SET took_over_ns = $1, rival_hardware = '', rival_system = '', rival_address = '',
        rival_since_ns = 0, rival_ns = 0, rival_told_ns = 0 WHERE host = $2";
    sql.run(words, &[now_ns.into(), (*claim.host).into()])?;
    let words =
        "UPDATE remedy_order SET state = CASE WHEN state = 'fetched' THEN 'displaced_fetched' ELSE 'displaced' END,
        changed_ns = $1 WHERE host = $2 AND state IN ('waiting', 'fetched')";
    let ended = sql.run(words, &[now_ns.into(), (*claim.host).into()])?;
    let orders = match ended {
        0 => String::new(),
        1 => ", and 1 order of it ends".to_owned(),
        many => format!(", and {many} orders of it end"),
    };
    let reason = format!("{} has the name now: {why}{orders}", named(&claim.machine, &claim.address));
    add(sql, vec![line(actor, "machine_changed", &claim.host, reason)], now_ns)
}

/// Notes a machine that is refused, and says why.
fn refuse(
    sql: &mut dyn Sql,
    claim: &Claim,
    known: &Known,
    asked_since_ns: u64,
    now_ns: u64,
    limits: &MachineLimits,
) -> Answer<Claimed> {
    let (own, host) = (named(&claim.machine, &claim.address), &claim.host);
    let is_same = known.rival.is(&claim.machine) == Some(true);
    let is_told = is_same && now_ns.saturating_sub(known.rival_told_ns) < TOLD_AGAIN_NS;
    if !is_told || now_ns.saturating_sub(known.rival_ns) >= REFUSED_AGAIN_NS.min(limits.gap_ns_max) {
        let told_ns = if is_told { known.rival_told_ns } else { now_ns };
        let words =
            "UPDATE remedy_machine SET rival_hardware = $1, rival_system = $2, rival_address = $3, rival_since_ns = $4,
            rival_ns = $5, rival_told_ns = $6 WHERE host = $7";
        let MachineId { hardware, system } = &claim.machine;
        let times = [asked_since_ns.into(), now_ns.into(), told_ns.into()];
        let values = [text(hardware), text(system), (*claim.address).into()].into_iter().chain(times);
        sql.run(words, &values.chain([(**host).into()]).collect::<Vec<_>>())?;
    }
    if !is_told {
        let reason = format!("{own} reports by the name of {}", known.name());
        add(sql, vec![line(&format!("agent {host}"), "machine_refused", host, reason)], now_ns)?;
    }
    let minutes = limits.silent_ns_max / 60_000_000_000;
    let why = format!(
        "host {host} is {}, and this report is of {own}: two machines have one name, and nothing of it was taken. Rename one of them \
         (--host), or end the other agent: the name is free {minutes} min later, or at once by `surefoot remedy release {host}`",
        known.name()
    );
    Ok(Claimed::Refused { why })
}

fn line(actor: &str, action: &str, host: &str, reason: String) -> AuditEntry {
    AuditEntry {
        at_realtime_ns: 0,
        case: 0,
        actor: actor.to_owned(),
        action: action.to_owned(),
        target: host.to_owned(),
        reason,
    }
}
