//! Which machine a host name belongs to. Two machines with one name, such as a cloned image, or an old machine that still runs beside its
//! replacement, must not share the orders of the name.
//!
//! A name belongs to the machine that reported under it first. Another one is refused while that one reports, and takes the name when the
//! first has been silent for [`MachineLimits::silent_ns_max`] while this one asked for it; a time in which no controller ran is no silence.
//! A person hands the name over at once with [`CaseStore::release`].

use super::sql::{Answer, Row, Sql, Value, in_pieces};
use super::trail::add;
use super::{CaseStore, alerts, parts};
use crate::Result;
use std::collections::{BTreeMap, HashMap};
use surefoot_model::{AuditEntry, KnownMachine, MachineId, did_you_mean};

/// A machine that goes on reporting is noted this often.
const SEEN_AGAIN_NS: u64 = 300_000_000_000;
/// How often the store notes a machine that keeps being refused, and how often the audit trail repeats it.
const REFUSED_AGAIN_NS: u64 = 30_000_000_000;
const TOLD_AGAIN_NS: u64 = 3_600_000_000_000;
/// Machines beyond the second one of a name that are remembered as noted in the trail. With more of them some are noted again.
const OTHERS_MAX: usize = 1_024;
/// Names that are looked through for one that is near.
const NAMES_MAX: u64 = 100_000;
/// Names with two machines that are listed.
const RIVALS_MAX: u64 = 16;
const COLUMNS: &str = "hardware, system, address, seen_ns, rival_hardware, rival_system, rival_address, rival_since_ns, rival_ns, rival_told_ns, took_over_ns";

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
    took_over_ns: u64,
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
            took_over_ns: row.number(first + 10),
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
                    // A time to come was written while the clock was ahead.
                    || now_ns.abs_diff(self.seen_ns) >= SEEN_AGAIN_NS
                    || self.seen_ns > now_ns
                    || self.took_over_ns > now_ns;
                (!is_news).then_some(Claimed::Own)
            }
            Some(false) => None,
        }
    }

    /// Since when a rival has asked for the name without a gap; `None` where another one does, which comes first.
    fn asked_since_ns(&self, claim: &Claim, now_ns: u64, limits: &MachineLimits) -> Option<u64> {
        let goes_on = self.rival.is_known() && now_ns.abs_diff(self.rival_ns) <= limits.gap_ns_max;
        match self.rival.is(&claim.machine) {
            Some(true) if goes_on && self.rival_since_ns <= now_ns => Some(self.rival_since_ns),
            Some(true) => Some(now_ns),
            _ if goes_on => None,
            _ => Some(now_ns),
        }
    }

    /// How long its machine has told nothing while somebody else asked. A time of its last report that is still to come was written while the
    /// clock was ahead, and would have been mended by a report.
    fn silent_ns(&self, asked_since_ns: u64, now_ns: u64) -> u64 {
        let seen_ns = if self.seen_ns > now_ns { 0 } else { self.seen_ns };
        now_ns.saturating_sub(asked_since_ns.max(seen_ns))
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
                     address = CASE WHEN excluded.address = '' THEN old.address ELSE excluded.address END,
                     took_over_ns = CASE WHEN old.took_over_ns > excluded.seen_ns THEN excluded.seen_ns ELSE old.took_over_ns END
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
        let others_told = &mut self.others_told;
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
                    let silent_ns = asked_since_ns.map(|since_ns| known.silent_ns(since_ns, now_ns));
                    if known.seen_ns == 0 || silent_ns.is_some_and(|silent_ns| silent_ns > limits.silent_ns_max) {
                        let why = format!("{} no longer reports", known.name());
                        take_over(sql, claim, &format!("agent {}", claim.host), &why, now_ns)?;
                        return Ok(Claimed::Own);
                    }
                    match asked_since_ns {
                        Some(asked_since_ns) => refuse(sql, claim, &known, asked_since_ns, now_ns, limits)?,
                        None => tell_of_another(sql, others_told, claim, &known, now_ns)?,
                    }
                    Ok(Claimed::Refused { why: refusal(claim, &known, limits) })
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
                let words = "SELECT host FROM remedy_machine ORDER BY host LIMIT $1";
                let hosts = sql.rows(words, &[NAMES_MAX.into()])?;
                let meant = did_you_mean(host, hosts.iter().map(|row| row.text(0)));
                let now_ns = sql.now_ns()?;
                add(sql, vec![line(actor, "released", host, "no machine is known to have it".to_owned())], now_ns)?;
                return Ok(format!(
                    "no machine is known to have the name {host}: the next one that reports has it{meant}"
                ));
            };
            let now_ns = sql.now_ns()?;
            let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            let why = format!("the name was taken from {}{because}", known.name());
            if known.rival.is_known() && now_ns.abs_diff(known.rival_ns) <= limits.silent_ns_max {
                let (host, address) = (host.to_owned(), known.rival_address.clone());
                let claim = Claim { host, machine: known.rival.clone(), address };
                take_over(sql, &claim, actor, &why, now_ns)?;
                return Ok(format!("{} is {} now", claim.host, named(&claim.machine, &claim.address)));
            }
            sql.run("UPDATE remedy_machine SET seen_ns = 0 WHERE host = $1", &[host.into()])?;
            end_orders(sql, host, now_ns)?;
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

    /// What the agent of a host said of its machine; `None` where no agent did.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn machine_of(&mut self, host: &str) -> Result<Option<KnownMachine>> {
        let hosts = vec![vec![host.into()]];
        self.connected.ask("looking for a machine", |sql| Ok(machines_of(sql, hosts)?.remove(host)))
    }

    /// When the name of a host came from one machine to another, `CLOCK_REALTIME`; 0 for never.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn taken_over_ns(&mut self, host: &str) -> Result<u64> {
        let words = "SELECT took_over_ns FROM remedy_machine WHERE host = $1";
        let rows = self.connected.ask("looking for a machine", |sql| sql.rows(words, &[host.into()]))?;
        Ok(rows.first().map_or(0, |row| row.number(0)))
    }

    /// Whether something could be written now.
    ///
    /// # Errors
    /// [`crate::Error::Cases`] with why not.
    pub fn ready(&mut self) -> Result<()> {
        self.connected.transaction("asking whether the store takes something", false, |_| Ok(()))
    }

    /// Writes something, which a full disk refuses.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn writes(&mut self) -> Result<()> {
        self.connected.transaction("trying to write", false, |sql| {
            let now_ns = sql.now_ns()?;
            let words = "INSERT INTO remedy_meta (name, number) VALUES ('tried_ns', $1)
                         ON CONFLICT (name) DO UPDATE SET number = excluded.number";
            sql.run(words, &[now_ns.into()]).map(drop)
        })
    }

    /// Names under which two machines report now, a sentence each, at most 16.
    ///
    /// # Errors
    /// [`crate::Error::Cases`].
    pub fn rivals(&mut self, limits: &MachineLimits) -> Result<Vec<String>> {
        self.connected.ask("looking for rivals", |sql| {
            let now_ns = sql.now_ns()?;
            let since_ns = now_ns.saturating_sub(limits.silent_ns_max);
            let words = format!(
                "SELECT host, {COLUMNS} FROM remedy_machine WHERE rival_ns > 0 AND rival_ns BETWEEN $1 AND $3
                 ORDER BY host LIMIT $2"
            );
            let until_ns = now_ns.saturating_add(limits.silent_ns_max);
            let rows = sql.rows(&words, &[since_ns.into(), RIVALS_MAX.into(), until_ns.into()])?;
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

/// What agents said of the machines of these hosts.
pub(super) fn machines_of(sql: &mut dyn Sql, hosts: Vec<Vec<Value>>) -> Answer<BTreeMap<String, KnownMachine>> {
    let known = known(sql, hosts)?.into_iter();
    // One that was released may be any machine's.
    let known = known.filter(|(_, known)| known.seen_ns != 0);
    Ok(known.map(|(host, Known { machine, address, .. })| (host, KnownMachine { machine, address })).collect())
}

/// A row, which nobody else changes until the transaction ends.
fn locked(sql: &mut dyn Sql, host: &str) -> Answer<Option<Known>> {
    let words = format!("UPDATE remedy_machine SET host = host WHERE host = $1 RETURNING {COLUMNS}");
    Ok(sql.rows(&words, &[host.into()])?.first().map(|row| Known::of(row, 0)))
}

/// Notes that a machine has the name and reports.
fn give(sql: &mut dyn Sql, claim: &Claim, machine: &MachineId, now_ns: u64) -> Answer<()> {
    let words = "UPDATE remedy_machine SET hardware = $1, system = $2, seen_ns = $4, address = $3,
        took_over_ns = CASE WHEN took_over_ns > $4 THEN $4 ELSE took_over_ns END WHERE host = $5";
    let MachineId { hardware, system } = machine;
    let values = [text(hardware), text(system), (*claim.address).into(), now_ns.into(), (*claim.host).into()];
    sql.run(words, &values).map(drop)
}

/// Gives the name to another machine, and ends what was the first one's: its orders, its agent's findings, the stays of its parts.
fn take_over(sql: &mut dyn Sql, claim: &Claim, actor: &str, why: &str, now_ns: u64) -> Answer<()> {
    give(sql, claim, &claim.machine, now_ns)?;
    let words =
        "UPDATE remedy_machine SET took_over_ns = $1, rival_hardware = '', rival_system = '', rival_address = '',
        rival_since_ns = 0, rival_ns = 0, rival_told_ns = 0 WHERE host = $2";
    sql.run(words, &[now_ns.into(), (*claim.host).into()])?;
    let orders = match end_orders(sql, &claim.host, now_ns)? {
        0 => String::new(),
        1 => ", and 1 order of it ends".to_owned(),
        many => format!(", and {many} orders of it end"),
    };
    let alerts = match alerts::end_findings(sql, &claim.host, now_ns)? {
        0 => String::new(),
        1 => "; 1 finding of the first machine ends".to_owned(),
        many => format!("; {many} findings of the first machine end"),
    };
    parts::end_stays(sql, &claim.host, now_ns)?;
    let reason = format!("{} has the name now: {why}{orders}{alerts}", named(&claim.machine, &claim.address));
    // In each open case, too: what it goes on with is done to the other machine.
    let open = sql.rows("SELECT id FROM remedy_case WHERE host = $1 AND is_open = 1", &[(*claim.host).into()])?;
    let of_case = |case: u64| AuditEntry { case, ..line(actor, "machine_changed", &claim.host, reason.clone()) };
    add(sql, [0].into_iter().chain(open.iter().map(|row| row.number(0))).map(of_case).collect(), now_ns)
}

/// Ends the orders of a host that were given for a machine that does not have the name any more; how many.
fn end_orders(sql: &mut dyn Sql, host: &str, now_ns: u64) -> Answer<u64> {
    let words =
        "UPDATE remedy_order SET state = CASE WHEN state = 'fetched' THEN 'displaced_fetched' ELSE 'displaced' END,
        changed_ns = $1 WHERE host = $2 AND state IN ('waiting', 'fetched')";
    sql.run(words, &[now_ns.into(), host.into()])
}

/// Notes a machine that is refused.
fn refuse(
    sql: &mut dyn Sql,
    claim: &Claim,
    known: &Known,
    asked_since_ns: u64,
    now_ns: u64,
    limits: &MachineLimits,
) -> Answer<()> {
    let host = &claim.host;
    let is_same = known.rival.is(&claim.machine) == Some(true);
    let is_told = is_same && now_ns.abs_diff(known.rival_told_ns) < TOLD_AGAIN_NS;
    if !is_told || now_ns.abs_diff(known.rival_ns) >= REFUSED_AGAIN_NS.min(limits.gap_ns_max) {
        let told_ns = if is_told { known.rival_told_ns } else { now_ns };
        let words =
            "UPDATE remedy_machine SET rival_hardware = $1, rival_system = $2, rival_address = $3, rival_since_ns = $4,
            rival_ns = $5, rival_told_ns = $6 WHERE host = $7";
        let MachineId { hardware, system } = &claim.machine;
        let times = [asked_since_ns.into(), now_ns.into(), told_ns.into()];
        let values = [text(hardware), text(system), (*claim.address).into()].into_iter().chain(times);
        sql.run(words, &values.chain([(**host).into()]).collect::<Vec<_>>())?;
    }
    if is_told { Ok(()) } else { note_refused(sql, claim, known, now_ns) }
}

/// Notes in the audit trail that one more machine is refused, while another one is next for the name.
fn tell_of_another(
    sql: &mut dyn Sql,
    others_told: &mut HashMap<(String, MachineId), u64>,
    claim: &Claim,
    known: &Known,
    now_ns: u64,
) -> Answer<()> {
    let key = (claim.host.clone(), claim.machine.clone());
    if others_told.get(&key).is_some_and(|told_ns| now_ns.abs_diff(*told_ns) < TOLD_AGAIN_NS) {
        return Ok(());
    }
    others_told.retain(|_, told_ns| now_ns.abs_diff(*told_ns) < TOLD_AGAIN_NS);
    note_refused(sql, claim, known, now_ns)?;
    if others_told.len() < OTHERS_MAX {
        others_told.insert(key, now_ns);
    }
    Ok(())
}

fn note_refused(sql: &mut dyn Sql, claim: &Claim, known: &Known, now_ns: u64) -> Answer<()> {
    let reason = format!("{} reports by the name of {}", named(&claim.machine, &claim.address), known.name());
    add(sql, vec![line(&format!("agent {}", claim.host), "machine_refused", &claim.host, reason)], now_ns)
}

/// Why a machine is refused, for its agent.
fn refusal(claim: &Claim, known: &Known, limits: &MachineLimits) -> String {
    let (own, host) = (named(&claim.machine, &claim.address), &claim.host);
    let minutes = limits.silent_ns_max / 60_000_000_000;
    format!(
        "host {host} is {}, and this report is of {own}: two machines have one name, and nothing of it was taken. Rename one of them \
         (--host), or end the other agent: the name is free {minutes} min later, or at once by `surefoot remedy release {host} --server CONTROLLER`",
        known.name()
    )
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MIN_NS: u64 = 60_000_000_000;

    struct Desk {
        store: CaseStore,
        _home: tempfile::TempDir,
    }

    impl Desk {
        fn new() -> Desk {
            let home = tempfile::tempdir().unwrap();
            let address = format!("sqlite:{}", home.path().join("cases.db").display());
            Desk { store: CaseStore::open(&address.parse().unwrap(), None).unwrap(), _home: home }
        }

        /// Whether this machine has the name when it asks.
        fn has(&mut self, letter: &str) -> bool {
            let part = |kind: &str| Some(format!("{kind}-{letter}"));
            let machine = MachineId { hardware: part("hw"), system: part("sys") };
            let claim = Claim { host: "n1".into(), machine, address: String::new() };
            self.store.claim(&[claim], &MachineLimits::default()).unwrap() == [Claimed::Own]
        }

        /// Lets time pass: every time that was written is earlier by so much, or later where the clock goes back.
        fn pass(&mut self, minutes: i64) {
            let ns = minutes * MIN_NS as i64;
            let earlier = |name: &str| format!("{name} = CASE WHEN {name} = 0 THEN 0 ELSE {name} - ({ns}) END");
            let all = ["seen_ns", "rival_since_ns", "rival_ns", "rival_told_ns", "took_over_ns"].map(earlier);
            let words = format!("UPDATE remedy_machine SET {}", all.join(", "));
            self.store.connected.sql.run(&words, &[]).unwrap();
            self.store.others_told.values_mut().for_each(|told_ns| *told_ns = told_ns.saturating_sub(ns as u64));
        }

        fn refused_count(&mut self) -> usize {
            self.store.trail(0, 1_000).unwrap().iter().filter(|line| line.action == "machine_refused").count()
        }
    }

    #[test]
    fn of_several_machines_that_ask_the_first_one_gets_the_name_of_a_silent_one() {
        let mut desk = Desk::new();
        assert!(desk.has("a") && !desk.has("b") && !desk.has("c"));
        let mut minutes = 0;
        let owner = loop {
            desk.pass(4);
            minutes += 4;
            // The others ask in either order.
            let asking = if minutes % 8 == 0 { ["c", "b"] } else { ["b", "c"] };
            if let Some(owner) = asking.into_iter().find(|letter| desk.has(letter)) {
                break owner;
            }
            assert!(minutes < 60, "nobody has the name");
        };
        assert_eq!((owner, minutes), ("b", 16));
        // Each of them is in the trail, and not with each question.
        assert_eq!(desk.refused_count(), 2);
        assert!(!desk.has("c") && !desk.has("a"));
    }

    /// Whoever prunes forgets machines that have told nothing for long, and a released name is such a one at once.
    #[test]
    fn a_released_name_is_known_to_have_been_another_machine_s_while_its_case_is_open() {
        let mut desk = Desk::new();
        assert!(desk.has("a"));
        let began_ns = desk.store.now_realtime_ns().unwrap();
        desk.store.order("token", "n1", "do it", began_ns).unwrap();
        let fetched = |desk: &mut Desk, letter: &str| {
            let part = |kind: &str| Some(format!("{kind}-{letter}"));
            let machine = MachineId { hardware: part("hw"), system: part("sys") };
            desk.store.fetch_orders("n1", &machine, 10).unwrap().len()
        };
        assert_eq!(fetched(&mut desk, "a"), 1);
        let words =
            "INSERT INTO remedy_case (host, service, alert_key, state, is_open, state_since_ns, revision, lease_fence,
            lease_until_ns, body) VALUES ('n1', '', 'k', 'running', 1, 1, 1, 0, 0, '')";
        desk.store.connected.sql.batch(words).unwrap();
        desk.store.release("n1", "user anna", "", &MachineLimits::default()).unwrap();
        let state = desk.store.order_of("token").unwrap().unwrap().state;
        assert_eq!(state, crate::cases::OrderState::DisplacedFetched);
        desk.pass(60);
        desk.store.prune(&crate::cases::Limits::default()).unwrap();
        assert!(desk.has("b"));
        assert_eq!(fetched(&mut desk, "b"), 0);
        let next = desk.store.order("next", "n1", "do it", began_ns).unwrap();
        assert_eq!(next.state, crate::cases::OrderState::Displaced, "its case began at the other machine");
        let trail = desk.store.trail(0, 100).unwrap();
        assert!(trail.iter().any(|line| line.action == "machine_changed"), "{trail:?}");
        // Without anything open the name is forgotten.
        desk.store.connected.sql.batch("UPDATE remedy_case SET is_open = 0").unwrap();
        desk.pass(8 * 24 * 60);
        desk.store.prune(&crate::cases::Limits::default()).unwrap();
        let rows = desk.store.connected.sql.rows("SELECT count(*) FROM remedy_machine", &[]).unwrap();
        assert_eq!(rows[0].number(0), 0);
    }

    #[test]
    fn the_trail_names_each_machine_that_is_refused_once_an_hour() {
        let mut desk = Desk::new();
        assert!(desk.has("a"));
        for _ in 0..11 {
            assert!(desk.has("a") && !desk.has("b") && !desk.has("c"));
            desk.pass(5);
        }
        assert_eq!(desk.refused_count(), 2);
        desk.pass(5);
        assert!(desk.has("a") && !desk.has("b") && !desk.has("c"));
        assert_eq!(desk.refused_count(), 4);
    }

    #[test]
    fn a_clock_that_was_ahead_keeps_no_name_for_a_machine_that_is_gone() {
        let mut desk = Desk::new();
        assert!(desk.has("a"));
        // A year.
        desk.pass(-365 * 24 * 60);
        assert!(!desk.has("b"));
        for _ in 0..3 {
            desk.pass(4);
            assert!(!desk.has("b"), "it has not waited for long enough");
        }
        desk.pass(4);
        assert!(desk.has("b"));
        // A machine that goes on reporting keeps its name, and its time is mended.
        desk.pass(-365 * 24 * 60);
        for _ in 0..6 {
            assert!(desk.has("b") && !desk.has("a"));
            desk.pass(5);
        }
        let took_over_ns = took_over_ns(&mut *desk.store.connected.sql, "n1").unwrap();
        assert!(took_over_ns <= desk.store.now_realtime_ns().unwrap(), "orders would end undone for a year");
    }
}
