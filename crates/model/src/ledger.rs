use crate::{Cause, CpuId, Histogram};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::ops::AddAssign;

/// What one cause took from one core in one window.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Lost {
    /// The cause.
    #[serde(flatten)]
    pub cause: Cause,
    /// How often it happened; `null` where the source knows the time alone, as of steal. Recordings of earlier releases say 0 there, as
    /// this does in memory: see [`Lost::known_count`].
    #[serde(deserialize_with = "known_or_0")]
    #[cfg_attr(any(test, feature = "schema"), schemars(with = "Option<u64>"))]
    pub count: u64,
    /// Time taken, nested causes counted once, under the innermost; nanoseconds.
    pub total_ns: u64,
    /// The longest single occurrence, as far as it lies in the window, so never more than `total_ns`; within an eighth where
    /// a longer one came before. Nanoseconds. `null` where the source does not know single ones, as `count`.
    #[serde(deserialize_with = "known_or_0")]
    #[cfg_attr(any(test, feature = "schema"), schemars(with = "Option<u64>"))]
    pub max_ns: u64,
    /// The part of `total_ns` that delayed no task, because no task ran on the core or waited for it: it idled, or a kernel
    /// thread had it for itself. Nanoseconds. Recordings of earlier releases count only the first.
    pub while_idle_ns: u64,
    /// The durations, where the source knows them one by one; each as far as it lies in the window.
    #[serde(default)]
    pub histogram: Histogram,
}

fn known_or_0<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(0))
}

/// What is not known is `null`, and no number.
impl Serialize for Lost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'a> {
            #[serde(flatten)]
            cause: &'a Cause,
            count: Option<u64>,
            total_ns: u64,
            max_ns: Option<u64>,
            while_idle_ns: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            histogram: Option<&'a Histogram>,
        }
        let line = Fields {
            cause: &self.cause,
            count: self.known_count(),
            total_ns: self.total_ns,
            max_ns: self.known_max_ns(),
            while_idle_ns: self.while_idle_ns,
            histogram: Some(&self.histogram).filter(|histogram| !histogram.0.is_empty()),
        };
        line.serialize(serializer)
    }
}

impl Lost {
    /// A row without a histogram, none of it while idle.
    pub fn new(cause: Cause, count: u64, total_ns: u64, max_ns: u64) -> Self {
        Lost { cause, count, total_ns, max_ns, while_idle_ns: 0, histogram: Histogram::default() }
    }

    /// Adds what the same cause took elsewhere, or at another time. Sums stop at the largest number.
    pub fn add(&mut self, other: &Lost) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.while_idle_ns = self.while_idle_ns.saturating_add(other.while_idle_ns);
        self.histogram.merge(&other.histogram);
    }

    /// Cuts single occurrences down to the whole: none lasts longer in a window than all of them together. Says whether one
    /// did.
    pub fn cap(&mut self) -> bool {
        let is_long = self.max_ns > self.total_ns;
        self.max_ns = self.max_ns.min(self.total_ns);
        self.histogram.cap(self.max_ns) || is_long
    }

    /// The length below which this share of the occurrences lies; `None` where the source does not know single ones. The
    /// middle of a bucket may lie above the longest one that was seen in it, which bounds it.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        (self.histogram.count() > 0).then(|| self.histogram.quantile_ns(share).min(self.max_ns))
    }

    /// How often it happened; `None` where the source knows the time alone, as of steal.
    pub fn known_count(&self) -> Option<u64> {
        LostSum::of(self).known_count()
    }

    /// The longest single occurrence; `None` where the source does not know single ones.
    pub fn known_max_ns(&self) -> Option<u64> {
        LostSum::of(self).known_max_ns()
    }

    /// The part of `total_ns` that was taken from a task that ran or waited, nanoseconds.
    pub fn while_busy_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.while_idle_ns)
    }

    /// The rows of each cause summed up, largest first; of equals in the order of causes.
    pub fn by_cause<'a>(rows: impl IntoIterator<Item = &'a Lost>) -> Vec<Lost> {
        let mut sums: BTreeMap<&Cause, Lost> = BTreeMap::new();
        for row in rows {
            match sums.entry(&row.cause) {
                Entry::Occupied(mut sum) => sum.get_mut().add(row),
                Entry::Vacant(place) => {
                    place.insert(row.clone());
                }
            }
        }
        let mut causes: Vec<Lost> = sums.into_values().collect();
        Lost::sort(&mut causes);
        causes
    }

    /// Sorts rows for people: largest first; of equals in the order of causes.
    pub fn sort(rows: &mut [Lost]) {
        rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.cause.cmp(&b.cause)));
    }
}

/// How long user tasks that could run waited for one core in one window.
///
/// It is a sum over tasks: two that wait at once wait twice. A wait counts whole, in the window in which it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Waiting {
    /// Waits that ended with the core.
    pub count: u64,
    /// How long they took, nanoseconds.
    pub total_ns: u64,
    /// How often a task came back that its cgroup's quota had kept from running.
    pub throttled_count: u64,
    /// How long that was, from leaving the core to getting it again; not in `total_ns`. Nanoseconds.
    pub throttled_ns: u64,
    /// Tasks that waited and were moved to another core: how long they had waited until then is not known.
    pub moved_away: u64,
    /// Waits of which it is not known, or not to their beginning, who took the time.
    pub not_followed: u64,
}

impl Waiting {
    /// Adds what was waited elsewhere, or at another time. Sums stop at the largest number.
    pub fn add(&mut self, other: &Waiting) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.throttled_count = self.throttled_count.saturating_add(other.throttled_count);
        self.throttled_ns = self.throttled_ns.saturating_add(other.throttled_ns);
        self.moved_away = self.moved_away.saturating_add(other.moved_away);
        self.not_followed = self.not_followed.saturating_add(other.not_followed);
    }
}

/// Where the time of one core went in one window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct CoreLedger {
    /// The core.
    pub cpu: CpuId,
    /// Length of the window on this core.
    pub wall_ns: u64,
    /// Nothing to run.
    pub idle_ns: u64,
    /// Tasks in user mode.
    pub user_ns: u64,
    /// The kernel on behalf of user tasks.
    pub kernel_ns: u64,
    /// Time taken from the core's work, by cause, largest first.
    pub lost: Vec<Lost>,
    /// Time that no source accounts for. Always shown.
    pub unexplained_ns: u64,
    /// How long tasks waited for this core, where the source knows. No part of the sum: who waits does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

impl CoreLedger {
    /// A ledger of no time at all.
    pub fn empty(cpu: CpuId) -> Self {
        CoreLedger {
            cpu,
            wall_ns: 0,
            idle_ns: 0,
            user_ns: 0,
            kernel_ns: 0,
            lost: Vec::new(),
            unexplained_ns: 0,
            waiting: None,
        }
    }

    /// Adds the times of another window of the same core, but not its causes. Sums stop at the largest number.
    pub fn add_times(&mut self, other: &CoreLedger) {
        self.wall_ns = self.wall_ns.saturating_add(other.wall_ns);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.kernel_ns = self.kernel_ns.saturating_add(other.kernel_ns);
        self.unexplained_ns = self.unexplained_ns.saturating_add(other.unexplained_ns);
        if let Some(waiting) = &other.waiting {
            self.waiting.get_or_insert_default().add(waiting);
        }
    }

    /// Time in which a task ran on the core or waited for it, nanoseconds. What nobody was delayed by is no part of it.
    pub fn busy_ns(&self) -> u64 {
        self.wall_ns.saturating_sub(self.idle_ns).saturating_sub(self.while_idle_ns())
    }

    /// Time of named causes, nanoseconds: what they took from tasks, and what delayed no task.
    pub fn causes_ns(&self) -> u64 {
        self.lost.iter().fold(0, |sum, lost| sum.saturating_add(lost.total_ns))
    }

    /// Time that named causes took from tasks that ran or waited, nanoseconds.
    pub fn lost_ns(&self) -> u64 {
        self.lost.iter().fold(0, |sum, lost| sum.saturating_add(lost.while_busy_ns()))
    }

    /// Time of named causes that delayed no task, nanoseconds.
    pub fn while_idle_ns(&self) -> u64 {
        self.lost.iter().fold(0, |sum, lost| sum.saturating_add(lost.while_idle_ns))
    }

    /// All parts together, nanoseconds.
    pub fn parts_ns(&self) -> u128 {
        let lost_ns = self.lost.iter().map(|lost| lost.total_ns);
        let parts_ns = [self.idle_ns, self.user_ns, self.kernel_ns, self.unexplained_ns].into_iter().chain(lost_ns);
        parts_ns.map(u128::from).sum()
    }

    /// Whether the parts add up to the wall time, to the nanosecond.
    pub fn sums_up(&self) -> bool {
        self.parts_ns() == u128::from(self.wall_ns)
    }

    /// Why these numbers cannot be true, if they cannot. A sum takes no ledger in that has a fault.
    pub fn fault(&self) -> Option<LedgerFault> {
        if !self.sums_up() {
            let parts_ns = u64::try_from(self.parts_ns()).unwrap_or(u64::MAX);
            return Some(LedgerFault::Sum { parts_ns, wall_ns: self.wall_ns });
        }
        let row = self.lost.iter().find(|lost| lost.while_idle_ns > lost.total_ns)?;
        Some(LedgerFault::WhileIdle { while_idle_ns: row.while_idle_ns, total_ns: row.total_ns })
    }
}

/// What one cause took, without the cause itself and without single durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LostSum {
    /// How often it happened.
    pub count: u64,
    /// Time taken, nanoseconds.
    pub total_ns: u64,
    /// The longest single occurrence, nanoseconds.
    pub max_ns: u64,
    /// The part of `total_ns` that delayed no task, nanoseconds.
    pub while_idle_ns: u64,
}

impl LostSum {
    /// The numbers of a row.
    pub fn of(lost: &Lost) -> Self {
        LostSum { count: lost.count, total_ns: lost.total_ns, max_ns: lost.max_ns, while_idle_ns: lost.while_idle_ns }
    }

    /// As [`Lost::known_count`].
    pub fn known_count(&self) -> Option<u64> {
        (self.count > 0 || self.max_ns > 0 || self.total_ns == 0).then_some(self.count)
    }

    /// As [`Lost::known_max_ns`].
    pub fn known_max_ns(&self) -> Option<u64> {
        (self.max_ns > 0 || self.total_ns == 0).then_some(self.max_ns)
    }

    /// The row of this cause.
    pub fn named(self, cause: Cause) -> Lost {
        Lost { while_idle_ns: self.while_idle_ns, ..Lost::new(cause, self.count, self.total_ns, self.max_ns) }
    }
}

/// Sums stop at the largest number.
impl AddAssign<&LostSum> for LostSum {
    fn add_assign(&mut self, other: &LostSum) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.while_idle_ns = self.while_idle_ns.saturating_add(other.while_idle_ns);
    }
}

impl AddAssign<&Lost> for Lost {
    fn add_assign(&mut self, other: &Lost) {
        self.add(other);
    }
}

/// The sum of ledgers of one core. Every sum of ledgers is one of these; they differ in how they tell causes apart (`Key`), in
/// whether they keep single durations (`Row`), and in how many causes they keep, which whoever adds decides.
#[derive(Debug, Clone, PartialEq)]
pub struct LedgerSum<Key: Ord, Row> {
    /// The times. Its own list of causes stays empty.
    pub times: CoreLedger,
    /// The causes.
    pub lost: BTreeMap<Key, Row>,
}

impl<Key: Ord, Row: for<'a> AddAssign<&'a Row>> LedgerSum<Key, Row> {
    /// The sum of no ledger.
    pub fn empty(cpu: CpuId) -> Self {
        LedgerSum { times: CoreLedger::empty(cpu), lost: BTreeMap::new() }
    }

    /// Adds a ledger. `row` gets the causes so far and one of the ledger, and says under which key it is added.
    pub fn add(&mut self, core: &CoreLedger, mut row: impl FnMut(&BTreeMap<Key, Row>, &Lost) -> (Key, Row)) {
        self.times.add_times(core);
        for lost in &core.lost {
            let (key, took) = row(&self.lost, lost);
            self.add_lost(key, took);
        }
    }

    /// Adds what one cause took.
    pub fn add_lost(&mut self, key: Key, took: Row) {
        match self.lost.entry(key) {
            Entry::Occupied(mut sum) => *sum.get_mut() += &took,
            Entry::Vacant(place) => drop(place.insert(took)),
        }
    }
}

impl LedgerSum<Cause, Lost> {
    /// The sum as a ledger, causes largest first.
    pub fn ledger(&self) -> CoreLedger {
        let mut lost: Vec<Lost> = self.lost.values().cloned().collect();
        Lost::sort(&mut lost);
        CoreLedger { lost, ..self.times }
    }
}

/// Why the ledger of a core in a window cannot be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum LedgerFault {
    /// The parts do not add up to the wall time.
    Sum {
        /// The parts.
        parts_ns: u64,
        /// The wall time.
        wall_ns: u64,
    },
    /// A cause took more while nobody was delayed than it took in all.
    WhileIdle {
        /// While nobody was delayed.
        while_idle_ns: u64,
        /// In all.
        total_ns: u64,
    },
    /// The core was watched for far longer than the window lasted.
    Wall {
        /// The wall time of the core.
        wall_ns: u64,
        /// From the start of the window to its end.
        window_ns: u64,
    },
}

impl fmt::Display for LedgerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        match *self {
            LedgerFault::Sum { parts_ns, wall_ns } => {
                write!(f, "its parts add up to {:.3} ms in {:.3} ms of wall time", ms(parts_ns), ms(wall_ns))
            }
            LedgerFault::WhileIdle { while_idle_ns, total_ns } => {
                write!(f, "a cause took {:.3} ms, {:.3} ms of it while idle", ms(total_ns), ms(while_idle_ns))
            }
            LedgerFault::Wall { wall_ns, window_ns } => {
                write!(f, "it has {:.3} ms of wall time in a window of {:.3} ms", ms(wall_ns), ms(window_ns))
            }
        }
    }
}

/// Ledgers of one core that cannot be true, over many windows. They are in no sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct FaultySum {
    /// The core.
    pub cpu: CpuId,
    /// In how many windows.
    pub count: u64,
    /// Why, in the first of them.
    #[serde(flatten)]
    pub fault: LedgerFault,
}

impl FaultySum {
    /// Adds later ones of the same core.
    pub fn add(&mut self, later: &FaultySum) {
        self.count = self.count.saturating_add(later.count);
    }
}

/// A core whose ledger of a window cannot be true. It is in no sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct FaultyCore {
    /// The core.
    pub cpu: CpuId,
    /// Why.
    #[serde(flatten)]
    pub fault: LedgerFault,
}

/// A row of /proc/interrupts that counts but has no tracepoint here: how often is known, how long is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Untimed {
    /// The core.
    pub cpu: CpuId,
    /// The row's label in /proc/interrupts, such as `HYP`.
    pub row: String,
    /// The row's description.
    pub name: String,
    /// How often in the window.
    pub count: u64,
}

/// A row of /proc/interrupts held against what the probes counted, over all watched cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Completeness {
    /// The row's label in /proc/interrupts.
    pub row: String,
    /// By how much the kernel's own counter rose.
    pub kernel_count: u64,
    /// How many the probes saw.
    pub probe_count: u64,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::CauseKind;
    use serde_json::{Value, json};

    /// Steal is a sum: nobody knows of how many occurrences, and 0 is a number.
    #[test]
    fn what_only_the_sum_is_known_of_has_no_count_in_json() {
        let lost =
            |count, total_ns, max_ns| Lost::new(Cause::new(CauseKind::Hypervisor, "steal"), count, total_ns, max_ns);
        let steal = serde_json::to_value(lost(0, 10, 0)).unwrap();
        assert_eq!((&steal["count"], &steal["max_ns"], &steal["total_ns"]), (&Value::Null, &Value::Null, &json!(10)));
        let counted = serde_json::to_value(lost(0, 10, 4)).unwrap();
        assert_eq!((&counted["count"], &counted["max_ns"]), (&json!(0), &json!(4)), "it began before the window");
        let nothing = serde_json::to_value(lost(0, 0, 0)).unwrap();
        assert_eq!((&nothing["count"], &nothing["max_ns"]), (&json!(0), &json!(0)));
        // As earlier releases wrote it.
        let mut old = steal.clone();
        (old["count"], old["max_ns"]) = (json!(0), json!(0));
        assert_eq!(serde_json::from_value::<Lost>(old).unwrap(), lost(0, 10, 0));
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        for number in 0..64_u64 {
            let (count, total_ns, max_ns) = (number % 4, number / 4 % 4, number / 16);
            let mut row = Lost::new(Cause::new(CauseKind::Timer, "t"), count, total_ns, max_ns);
            for _ in 0..2 {
                let text = serde_json::to_string(&row).unwrap();
                assert_eq!(serde_json::from_str::<Lost>(&text).unwrap(), row, "{text}");
                row.while_idle_ns = 1;
                row.histogram.record(max_ns);
            }
        }
    }
}
