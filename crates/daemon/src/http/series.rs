//! The series of one scrape: every room's, and no more than the budget of the host.
//!
//! A row without a claim is of the host as a whole. There are a bounded number of these, whatever the machine has, and they are always told. A
//! row with a claim is of one thing among many: a core, a DIMM, an interface, a job. Things are told while there is room, those that
//! matter most first and the rooms in turn, each with all of its rows or with none. What finds no room is counted by room in
//! `surefoot_watch_series_left_out`. No sum is made of what is told: sums over all things have families of their own, so that they are right
//! whatever is left out.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Error;
use surefoot_http::metrics::Label;
use surefoot_model::Room;

/// The smallest budget: what is told of the host as a whole has room in it.
pub const SERIES_MIN: usize = 250;
/// The largest budget.
pub const SERIES_MAX: usize = 1_000_000;

/// How finely lost time is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Sums over all cores.
    #[default]
    Host,
    /// Also of each core, by kind of cause, and of each source and program of the watch.
    Core,
    /// Also of each core by each cause's name.
    Cause,
}

impl Detail {
    /// Every detail, the coarsest first.
    pub const ALL: [Detail; 3] = [Detail::Host, Detail::Core, Detail::Cause];

    /// The word in options and settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Detail::Host => "host",
            Detail::Core => "core",
            Detail::Cause => "cause",
        }
    }

    /// The budget unless another is set.
    pub fn series_max(self) -> usize {
        match self {
            Detail::Host => 300,
            Detail::Core => 10_000,
            Detail::Cause => 100_000,
        }
    }
}

/// How much a scrape tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// How finely.
    pub detail: Detail,
    /// How many series at most; `None` for that of the detail.
    pub series_max: Option<usize>,
    /// Also the counts of memory errors under the names of node_exporter's collector `edac`.
    pub edac: bool,
}

impl Extent {
    /// The budget.
    pub fn series_max(self) -> usize {
        self.series_max.unwrap_or(self.detail.series_max())
    }
}

/// One thing of a room among many: its place in the order of that room, 0 for what matters most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Claim(pub(crate) usize);

/// The families of a scrape.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) extent: Extent,
    /// The room that writes now.
    room: Room,
    families: Vec<Family>,
}

/// One family, under a name without `surefoot_`, its unit and `_total`.
#[derive(Debug)]
pub(crate) struct Family {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    kind: MetricType,
    /// Whose things come before those of all rooms.
    is_first: bool,
    /// Whose series are told under the name of another program.
    is_alias: bool,
    room: Room,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    claim: Option<Claim>,
    labels: Vec<(&'static str, String)>,
    value: Value,
}

/// The value of a series.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Count(u64),
    Number(f64),
    Info,
    Histogram { sum: f64, count: u64, buckets: Vec<(f64, u64)> },
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Value::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(holds: bool) -> Self {
        Value::Count(u64::from(holds))
    }
}

impl Value {
    fn series(&self) -> usize {
        match self {
            Value::Histogram { buckets, .. } => buckets.len() + 2,
            _ => 1,
        }
    }
}

impl Family {
    /// A row of the host as a whole.
    pub(crate) fn add(&mut self, labels: &[Label<'_>], value: impl Into<Value>) {
        self.push(None, labels, value.into());
    }

    /// A row of one thing among many.
    pub(crate) fn of(&mut self, claim: Claim, labels: &[Label<'_>], value: impl Into<Value>) {
        self.push(Some(claim), labels, value.into());
    }

    fn push(&mut self, claim: Option<Claim>, labels: &[Label<'_>], value: Value) {
        let labels = labels.iter().map(|&(name, value)| (name, value.to_owned())).collect();
        self.rows.push(Row { claim, labels, value });
    }
}

impl Series {
    pub(crate) fn new(extent: Extent) -> Self {
        Series { extent, room: Room::Watch, families: Vec::new() }
    }

    /// What follows is of this room.
    pub(crate) fn of_room(&mut self, room: Room) {
        self.room = room;
    }

    /// Whether things of this detail are told.
    pub(crate) fn tells(&self, detail: Detail) -> bool {
        self.extent.detail >= detail
    }

    pub(crate) fn counter(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, None, MetricType::Counter)
    }

    pub(crate) fn gauge(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, None, MetricType::Gauge)
    }

    pub(crate) fn info(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, None, MetricType::Info)
    }

    pub(crate) fn seconds_counter(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Some(Unit::Seconds), MetricType::Counter)
    }

    pub(crate) fn seconds(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Some(Unit::Seconds), MetricType::Gauge)
    }

    pub(crate) fn bytes_counter(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Some(Unit::Bytes), MetricType::Counter)
    }

    pub(crate) fn bytes(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Some(Unit::Bytes), MetricType::Gauge)
    }

    pub(crate) fn ratio(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Some(Unit::Other("ratio".to_owned())), MetricType::Gauge)
    }

    pub(crate) fn seconds_histogram(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        self.family(name, help, Some(Unit::Seconds), MetricType::Histogram)
    }

    /// The family of findings, which come before all other things.
    pub(crate) fn findings(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        let family = self.gauge(name, help);
        family.is_first = true;
        family
    }

    /// A family of counters under the full name of another program's.
    pub(crate) fn alias(&mut self, name: &'static str, help: &'static str) -> &mut Family {
        let family = self.family(name, help, None, MetricType::Counter);
        family.is_alias = true;
        family
    }

    fn family(&mut self, name: &'static str, help: &'static str, unit: Option<Unit>, kind: MetricType) -> &mut Family {
        let room = self.room;
        let at = self.families.iter().position(|family| family.name == name).unwrap_or_else(|| {
            self.families.push(Family {
                name,
                help,
                unit,
                kind,
                is_first: false,
                is_alias: false,
                room,
                rows: Vec::new(),
            });
            self.families.len() - 1
        });
        &mut self.families[at]
    }

    /// Leaves out what the budget has no room for, and says how much that is.
    pub(crate) fn within_budget(mut self) -> Self {
        let limit = self.extent.series_max();
        self.of_room(Room::Watch);
        let mut left_out = self.take_doubles();
        // Findings first, then the first thing of each room, then the second.
        let mut claimed: BTreeMap<(bool, Claim, Room), usize> = BTreeMap::new();
        let mut told = 2 + Room::ALL.len();
        for family in &self.families {
            for row in &family.rows {
                match row.claim {
                    Some(claim) => {
                        *claimed.entry((!family.is_first, claim, family.room)).or_default() += row.value.series()
                    }
                    None => told += row.value.series(),
                }
            }
        }
        let mut ends: BTreeMap<(bool, Room), Claim> = BTreeMap::new();
        for ((is_later, claim, room), series) in claimed {
            // What matters less than a thing that is left out is left out as well.
            if ends.contains_key(&(is_later, room)) || told + series > limit {
                ends.entry((is_later, room)).or_insert(claim);
                *left_out.entry(room).or_default() += series as u64;
            } else {
                told += series;
            }
        }
        for family in &mut self.families {
            let end = ends.get(&(!family.is_first, family.room)).copied();
            family.rows.retain(|row| row.claim.is_none_or(|claim| end.is_none_or(|end| claim < end)));
        }
        self.gauge("watch_series", "Series of this scrape.").add(&[], told as u64);
        self.gauge("watch_series_limit", "The most series of a scrape.").add(&[], limit as u64);
        let family = self.gauge("watch_series_left_out", "Series without room in this scrape, by room.");
        for room in Room::ALL {
            family.add(&[("room", room.as_str())], left_out.get(&room).copied().unwrap_or(0));
        }
        self
    }

    /// Leaves out a series that is there already: two things whose names differ only in what no label holds would be two values of one
    /// series, and a scraper takes either. How many, by room.
    fn take_doubles(&mut self) -> BTreeMap<Room, u64> {
        let mut left_out = BTreeMap::new();
        for family in &mut self.families {
            let mut seen = HashSet::new();
            let room = family.room;
            family.rows.retain(|row| {
                let is_new = seen.insert(row.labels.clone());
                if !is_new {
                    *left_out.entry(room).or_default() += row.value.series() as u64;
                }
                is_new
            });
        }
        left_out
    }
}

impl Collector for Series {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), Error> {
        self.families.iter().filter(|family| !family.rows.is_empty()).try_for_each(|family| {
            let name = if family.is_alias { family.name.to_owned() } else { format!("surefoot_{}", family.name) };
            let mut metric = encoder.encode_descriptor(&name, family.help, family.unit.as_ref(), family.kind)?;
            family.rows.iter().try_for_each(|row| encode(&mut metric, family.kind, row))
        })
    }
}

fn encode(metric: &mut MetricEncoder<'_>, kind: MetricType, row: &Row) -> Result<(), Error> {
    let labels: Vec<Label<'_>> = row.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let labels = labels.as_slice();
    if let Value::Info = row.value {
        return metric.encode_info(&labels);
    }
    if labels.is_empty() {
        return encode_value(metric, kind, &row.value);
    }
    encode_value(&mut metric.encode_family(&labels)?, kind, &row.value)
}

fn encode_value(metric: &mut MetricEncoder<'_>, kind: MetricType, value: &Value) -> Result<(), Error> {
    match (value, kind) {
        (Value::Count(count), MetricType::Counter) => metric.encode_counter::<NoLabelSet, _, f64>(count, None),
        (Value::Number(number), MetricType::Counter) => metric.encode_counter::<NoLabelSet, _, f64>(number, None),
        (Value::Count(count), _) => metric.encode_gauge(count),
        (Value::Number(number), _) => metric.encode_gauge(number),
        (Value::Histogram { sum, count, buckets }, _) => {
            metric.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
        }
        (Value::Info, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that differ only in a byte that no label holds are one label.
    #[test]
    fn no_series_is_told_twice_and_what_is_left_out_is_counted() {
        let mut series = Series::new(Extent::default());
        series.of_room(Room::Nic);
        for (place, value) in [1u64, 2].into_iter().enumerate() {
            series.gauge("nic_packets", "Packets.").of(Claim(place), &[("interface", "e?a")], value);
        }
        series.gauge("nic_packets", "Packets.").of(Claim(2), &[("interface", "e?b")], 3u64);
        let series = series.within_budget();
        let told: Vec<(&str, u64)> =
            series.families.iter().map(|family| (family.name, family.rows.len() as u64)).collect();
        assert_eq!(told[0], ("nic_packets", 2));
        let left_out = series.families.iter().find(|family| family.name == "watch_series_left_out");
        let of_nic = left_out.and_then(|family| family.rows.iter().find(|row| row.labels[0].1 == "nic"));
        assert!(of_nic.is_some_and(|row| matches!(row.value, Value::Count(1))), "{of_nic:?}");
    }
}
