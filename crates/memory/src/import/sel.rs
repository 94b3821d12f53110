//! Event logs of a management controller as ipmitool prints them (tried: ipmitool 1.8.19 with ipmi_sim 2.0.33).
//!
//! `sel list` and `sel elist`: `   1 | 11/23/26 | 08:14:46 UTC | Memory #0x01 | Correctable ECC | Asserted`; with `-c` commas instead.
//! `-v sel list`: a block of `Name : value` for each record, with the bytes of the event.
//!
//! Counts are lower bounds: firmware logs from a threshold on, and stops when it has logged enough.

use super::{Line, NO_ZONE, Sink};
use surefoot_hostfs::stamp::event_log::{Order, Stamp, Undated, is_date};
use surefoot_model::{Digits, DramLocation, ErrorReport, ErrorSeverity, Fidelity, MemorySource, one_line};

/// What a record of a memory sensor, or of the log itself, says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Error(ErrorSeverity),
    /// A module had more corrected errors than its firmware tolerates.
    RateCrossed,
    /// Firmware stops to log corrected errors: what follows is not counted.
    LimitReached,
    /// A state of memory or of the log that is no error of bits.
    Told(&'static str),
    /// A state in which nothing is wrong.
    Fine,
    Unknown,
}

/// States of a memory sensor (IPMI 2.0, table 42-3, sensor type 0Ch), of the sensor of the log (10h), and of discrete sensors of any
/// kind (table 42-2), in small letters: how the words begin, and what they mean.
const EVENTS: &[(&str, Event)] = &[
    ("correctable ecc logging limit reached", Event::LimitReached),
    ("correctable memory error logging disabled", Event::Told(LOGGING_DISABLED)),
    (
        "all event logging disabled",
        Event::Told("All event logging was disabled for a time: events of that time are missing."),
    ),
    (
        "event type logging disabled",
        Event::Told(
            "Logging of one type of event was disabled. The list does not name the type: memory errors may be missing.",
        ),
    ),
    (
        "event logging disabled",
        Event::Told("Event logging was disabled for a time: memory errors of that time may be missing."),
    ),
    ("log full", Event::Told("The event log says that it was full: what came after is not in it.")),
    ("correctable ecc", Event::Error(ErrorSeverity::Corrected)),
    ("correctable memory error", Event::Error(ErrorSeverity::Corrected)),
    ("uncorrectable ecc", Event::Error(ErrorSeverity::Uncorrected)),
    ("uncorrectable memory error", Event::Error(ErrorSeverity::Uncorrected)),
    ("parity", Event::Error(ErrorSeverity::Uncorrected)),
    ("memory scrub failed", Event::Told("The event log says that scrubbing of memory failed: a bit is stuck.")),
    ("memory device disabled", Event::Told("The event log says that a module of memory was disabled.")),
    ("configuration error", Event::Told("The event log says that memory was not configured as it can run.")),
    ("critical overtemperature", Event::Told("The event log says that memory was too hot.")),
    ("throttled", Event::Told("The event log says that memory was throttled.")),
    ("presence detected", Event::Fine),
    ("spare", Event::Fine),
    ("device present", Event::Fine),
    ("device inserted", Event::Fine),
    ("device enabled", Event::Fine),
    ("state deasserted", Event::Fine),
    ("predictive failure deasserted", Event::Fine),
    ("limit not exceeded", Event::Fine),
    ("fully redundant", Event::Fine),
    ("transition to ok", Event::Fine),
    ("transition to non-critical from more severe", Event::Fine),
    ("transition to critical from non-recoverable", Event::Fine),
    ("monitor", Event::Fine),
    ("informational", Event::Fine),
    ("log area reset", Event::Fine),
    ("log almost full", Event::Fine),
    ("correctable machine check error logging disabled", Event::Fine),
];

const LOGGING_DISABLED: &str =
    "Logging of corrected memory errors was disabled: later ones of that sensor are not in the log.";

/// States of a discrete sensor that mean, of a sensor of corrected errors, that there were too many (Dell's `Mem ECC Warning`).
const CROSSINGS: [&str; 5] = [
    "transition to non-critical from ok",
    "transition to critical from less severe",
    "transition to non-recoverable from less severe",
    "limit exceeded",
    "predictive failure asserted",
];

/// States whose end is the news.
const ENDS_BADLY: [&str; 4] = ["presence detected", "device present", "device enabled", "fully redundant"];

fn begins(words: &str, state: &str) -> bool {
    words.to_ascii_lowercase().starts_with(state)
}

fn event(words: &str, sensor: &str) -> Event {
    let (words, sensor) = (words.to_ascii_lowercase(), sensor.to_ascii_lowercase());
    let counts_corrected = sensor.contains("ecc") && !sensor.contains("uncorr");
    if counts_corrected && CROSSINGS.iter().any(|crossing| words.starts_with(crossing)) {
        return Event::RateCrossed;
    }
    EVENTS.iter().find(|(begins, _)| words.starts_with(begins)).map_or(Event::Unknown, |&(_, event)| event)
}

/// The fields of a record, as far as they matter.
#[derive(Debug, Default)]
struct Record {
    line: u64,
    date: String,
    time: String,
    sensor_type: String,
    sensor: String,
    event: String,
    direction: String,
    data: String,
}

/// Whether a line is one of a list, or of a block.
pub(super) fn is_line(line: &str) -> bool {
    let has_date = |fields: Vec<&str>| fields.get(1).is_some_and(|date| is_date(date));
    split(line).is_some_and(has_date) || line.starts_with("SEL Record ID ")
}

/// The fields of a line of a list; at least number, date, time and sensor, or number and what an OEM record says.
fn split(line: &str) -> Option<Vec<&str>> {
    let separator = if line.contains('|') { '|' } else { ',' };
    let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
    let is_number = fields[0].len() <= 5 && fields[0].hex_digits::<u32>().is_some();
    let is_oem = fields.get(1).is_some_and(|field| field.starts_with("OEM record"));
    (is_number && (fields.len() >= 4 || is_oem)).then_some(fields)
}

/// Records have numbers of 16 bits; so many reports wait at most to be dated.
const WAITING_MAX: usize = 1 << 16;

/// A reader of such a log.
#[derive(Debug, Default)]
pub(super) struct Sel {
    /// The block of `-v` that is open.
    open: Option<Record>,
    /// Its lines so far.
    lines: u64,
    /// How dates are written, once one of them tells.
    order: Option<Order>,
    /// Reports that come before that.
    waiting: Vec<(ErrorReport, Option<Stamp>)>,
}

impl Sel {
    pub fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Line {
        if line.trim().is_empty() {
            return Line::Other;
        }
        if let Some((name, value)) = line.split_once(" : ").filter(|_| !line.contains('|')) {
            return self.of_block(name.trim(), value.trim(), sink);
        }
        let Some(fields) = split(line) else {
            // What ipmitool says of sensors and names that it could not look up is on standard error, which people merge.
            let is_chatter = ["SEL has no entries", "Err in cmd", "SDRR ", "SDR ", "Get SDR", "IANA PEN registry"];
            return if is_chatter.iter().any(|text| line.contains(text)) {
                Line::Other
            } else {
                Line::NotUnderstood("it is no line of ipmitool's event log")
            };
        };
        let field = |place: usize| fields.get(place).copied().unwrap_or_default();
        // "Pre-Init |0000000012| Memory …" has the same fields; the zone is one more word of the time.
        let (sensor_type, sensor) =
            if field(1).starts_with("OEM record") { (field(1).to_owned(), String::new()) } else { sensor_of(field(3)) };
        let record = Record {
            line: sink.totals.line_count,
            date: field(1).to_owned(),
            time: field(2).to_owned(),
            sensor_type,
            sensor,
            event: field(4).to_owned(),
            direction: field(5).to_owned(),
            data: String::new(),
        };
        self.take(&record, sink)
    }

    fn of_block(&mut self, name: &str, value: &str, sink: &mut Sink<'_>) -> Line {
        if name == "SEL Record ID" {
            self.close(sink);
            self.open = Some(Record { line: sink.totals.line_count, ..Record::default() });
            self.lines = 1;
            return Line::OfReport;
        }
        let Some(open) = &mut self.open else { return Line::NotUnderstood("it belongs to no record of the event log") };
        self.lines += 1;
        match name {
            "Timestamp" => {
                let (date, time) = value.split_once(char::is_whitespace).unwrap_or((value, ""));
                (open.date, open.time) = (date.to_owned(), time.trim().to_owned());
            }
            "Record Type" if value.contains("OEM") => open.sensor_type = format!("OEM record {value}"),
            "Sensor Type" => open.sensor_type = value.to_owned(),
            "Sensor Number" => open.sensor = format!("#0x{value}"),
            "Event Direction" => open.direction = value.to_owned(),
            "Event Data" | "Event Data (RAW)" => open.data = value.to_owned(),
            "Description" => open.event = value.to_owned(),
            _ => {}
        }
        Line::OfReport
    }

    fn close(&mut self, sink: &mut Sink<'_>) {
        let Some(open) = self.open.take() else { return };
        match self.take(&open, sink) {
            Line::OfReport => {}
            Line::Other | Line::NotFromKernel => {
                sink.totals.of_report_count = sink.totals.of_report_count.saturating_sub(self.lines);
                sink.totals.other_count += self.lines;
            }
            Line::NotUnderstood(why) => {
                let said = format!("{}: {}", open.sensor_type, open.event);
                sink.totals.record_not_understood(open.line, why, &said);
            }
        }
    }

    pub fn end(&mut self, sink: &mut Sink<'_>) {
        self.close(sink);
        self.hand_out(sink);
    }

    fn take(&mut self, record: &Record, sink: &mut Sink<'_>) -> Line {
        let stamp = Stamp::read(&record.date, &record.time);
        if self.order.is_none()
            && let Some(order) = stamp.ok().and_then(|stamp| stamp.order())
        {
            self.order = Some(order);
            self.hand_out(sink);
        }
        let severity = match severity(record, sink) {
            Ok(severity) => severity,
            Err(line) => return line,
        };
        match &stamp {
            Ok(stamp) if !stamp.has_time_of_day() => sink.totals.note(
                "This list has no times of day: its records are dated to the beginning of their day. `ipmitool sel elist` has times.",
            ),
            Ok(stamp) if !stamp.has_zone() => sink.totals.note(NO_ZONE),
            Err(Undated::Zone) => sink.totals.note(
                "The time zone of this list is a short name that has several meanings or none, so its records are undated: \
                 export it again with TZ=UTC in the environment of ipmitool.",
            ),
            Err(Undated::Form) => sink.totals.note(
                "Some dates of this list are written in a way that is not known, so these records are undated: export it again \
                 with LC_ALL=C TZ=UTC in the environment of ipmitool.",
            ),
            Ok(_) | Err(Undated::NotSet) => {}
        }
        self.waiting.push((report(record, severity), stamp.ok()));
        if self.order.is_some() || self.waiting.len() == WAITING_MAX {
            self.hand_out(sink);
        }
        Line::OfReport
    }

    /// Dates the reports that wait and hands them out.
    fn hand_out(&mut self, sink: &mut Sink<'_>) {
        let order = self.order.unwrap_or(Order::MonthFirst);
        for (mut report, stamp) in std::mem::take(&mut self.waiting) {
            if self.order.is_none() && stamp.is_some_and(|stamp| stamp.needs_order()) {
                sink.totals.note(
                    "No date of this list tells the month from the day: they are read as month/day/year, as ipmitool prints them \
                     without a locale.",
                );
            }
            report.at_realtime_ns = stamp.and_then(|stamp| stamp.realtime_ns(order)).unwrap_or(0);
            sink.report(report);
        }
    }
}

/// `Memory #0x01` or `Memory DIMM_A1`: the type, and the sensor.
fn sensor_of(text: &str) -> (String, String) {
    for kind in ["Memory", "Event Logging Disabled"] {
        if let Some(rest) = text.strip_prefix(kind) {
            return (kind.to_owned(), rest.trim().to_owned());
        }
    }
    (text.to_owned(), String::new())
}

/// How bad the error is that a record tells of; otherwise what else the record is.
fn severity(record: &Record, sink: &mut Sink<'_>) -> Result<ErrorSeverity, Line> {
    let kind = record.sensor_type.as_str();
    if kind.is_empty() || kind.starts_with("OEM") || kind.starts_with("Unknown") {
        return Err(Line::NotUnderstood("a record of a kind whose meaning only the maker of the machine knows"));
    }
    if kind != "Memory" && !kind.starts_with("Event Logging") {
        let words = record.event.to_ascii_lowercase();
        let is_of_memory = ["memory", "dimm", " ecc"].iter().any(|word| words.contains(word));
        return Err(if is_of_memory && !words.contains("memory initialization") {
            Line::NotUnderstood("a sensor of another kind speaks of memory")
        } else {
            Line::Other
        });
    }
    let is_over = match record.direction.to_ascii_lowercase().as_str() {
        "" | "asserted" | "assertion event" => false,
        "deasserted" | "deassertion event" => true,
        _ => return Err(Line::NotUnderstood("its direction is neither asserted nor deasserted")),
    };
    let severity = match event(&record.event, &record.sensor) {
        Event::Unknown => return Err(Line::NotUnderstood("a state of a memory sensor whose meaning is not known")),
        Event::Fine if is_over && ENDS_BADLY.iter().any(|state| begins(&record.event, state)) => {
            return Err(Line::NotUnderstood(
                "a good state of memory ended: a module is missing, disabled or not redundant",
            ));
        }
        _ if is_over => return Err(Line::Other),
        Event::Fine => return Err(Line::Other),
        Event::Told(note) => {
            sink.totals.note(note);
            return Err(Line::Other);
        }
        Event::Error(severity) => severity,
        Event::RateCrossed => {
            sink.totals.note(
                "The event log says that modules had more corrected errors than their firmware tolerates: each of these records \
                 counts as one error and stands for many.",
            );
            ErrorSeverity::Corrected
        }
        Event::LimitReached => {
            sink.totals.note(
                "At least one sensor reached its limit of corrected errors: firmware stopped logging them, and later ones of that \
                 sensor are not counted.",
            );
            ErrorSeverity::Corrected
        }
    };
    if record.data.is_empty() && is_number_or_kind(&record.sensor) && in_parentheses(&record.event).is_none() {
        sink.totals.note(
            "Some records name a sensor and no module: export the log with -v (ipmitool -v sel list), where the bytes of each event \
             name the module.",
        );
    }
    Ok(severity)
}

/// The report of a record, without its time.
fn report(record: &Record, severity: ErrorSeverity) -> ErrorReport {
    let mut detail = record.event.clone();
    if !record.data.is_empty() {
        detail += &format!("; event data {}", record.data);
    }
    ErrorReport {
        at_realtime_ns: 0,
        at_ns: None,
        source: MemorySource::EventLog,
        severity,
        dimm: None,
        label: label(record),
        count: 1,
        fidelity: Fidelity::LowerBound,
        location: DramLocation::default(),
        detail: one_line(&detail).chars().take(crate::reports::TEXT_CHARACTERS_MAX).collect(),
    }
}

/// Whether a sensor's name is its number, or says what it counts, as Dell's `ECC Corr Err` does, and is no module's.
fn is_number_or_kind(sensor: &str) -> bool {
    sensor.starts_with("#0x") || sensor.to_ascii_lowercase().contains("ecc")
}

/// The module: what stands in parentheses behind the event, the sensor's name, or its number with the module's in the last byte
/// of the event (IPMI 2.0, table 42-3: the module relative to the sensor's entity; ff where it is not told).
fn label(record: &Record) -> String {
    let text = match in_parentheses(&record.event) {
        Some(inner) => inner.trim_start_matches('@').to_owned(),
        None if is_number_or_kind(&record.sensor) => {
            let module = record.data.get(4..6).and_then(|byte| byte.hex_digits::<u8>()).filter(|&byte| byte != 0xff);
            let sensor = record.sensor.trim_start_matches('#');
            crate::reports::sensor_label(sensor, module)
        }
        None => record.sensor.clone(),
    };
    one_line(&text).chars().take(crate::reports::TEXT_CHARACTERS_MAX).collect()
}

/// What stands in parentheses behind an event.
fn in_parentheses(event: &str) -> Option<&str> {
    let inner = event.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map(|(inner, _)| inner.trim());
    inner.filter(|inner| !inner.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::import::{Clock, Format, Import, Totals};
    use surefoot_hostfs::stamp::iso;
    use surefoot_model::{ErrorReport, ErrorSeverity};

    fn read(text: &str) -> (Vec<ErrorReport>, Totals) {
        let clock = Clock { now_realtime_ns: iso("2026-12-24T00:00:00Z").unwrap(), booted_realtime_ns: None };
        let mut import = Import::new(Format::Sel, clock);
        let mut reports = Vec::new();
        text.lines().for_each(|line| import.line(line, &mut reports));
        let totals = import.end(&mut reports);
        (reports, totals)
    }

    fn notes(text: &str) -> Vec<String> {
        let (reports, totals) = read(text);
        assert!(!reports.is_empty());
        totals.notes
    }

    fn times(text: &str) -> Vec<u64> {
        read(text).0.iter().map(|report| report.at_realtime_ns).collect()
    }

    #[test]
    fn the_end_of_a_good_state_is_shown_and_that_of_an_error_is_none() {
        let of = |state: &str| read(&format!("1 | 11/20/26 | 08:00:00 UTC | Memory A1 | {state} | Deasserted\n")).1;
        for state in ["Presence detected", "Device Present", "Device Enabled", "Fully Redundant"] {
            assert_eq!((of(state).not_understood_count, of(state).other_count), (1, 0), "{state}");
        }
        for state in ["Correctable ECC", "Log area reset/cleared", "Critical Overtemperature"] {
            assert_eq!((of(state).not_understood_count, of(state).other_count), (0, 1), "{state}");
        }
    }

    #[test]
    fn a_clock_of_twelve_hours_is_read_as_one() {
        let line = |time| format!("   1 | 11/20/2026 | {time} UTC | Memory DIMM_B2 | Correctable ECC | Asserted\n");
        let all: String = ["11:40:35 PM", "12:05:00 AM", "12:05:00 PM", "01:00:00 AM"].map(line).concat();
        let expected =
            ["23:40:35", "00:05:00", "12:05:00", "01:00:00"].map(|time| iso(&format!("2026-11-20T{time}Z")).unwrap());
        assert_eq!(times(&all), expected);
    }

    /// One date that can be read in one way only decides for those above and below it, of whatever sensor it is.
    #[test]
    fn the_order_of_day_and_month_is_that_of_the_list() {
        let list = |dates: &[(&str, &str)]| -> String {
            let line = |(date, kind): &(&str, &str)| {
                format!("1 | {date} | 08:00:00 UTC | {kind} DIMM_B2 | Correctable ECC | Asserted\n")
            };
            dates.iter().map(line).collect()
        };
        let [april, march] = ["2026-04-03T08:00:00Z", "2026-03-04T08:00:00Z"].map(|time| iso(time).unwrap());
        let with = |date| [("04/03/26", "Memory"), (date, "Temperature")];
        assert_eq!(times(&list(&with("04/23/26"))), [april]);
        assert_eq!(times(&list(&with("23/04/26"))), [march]);
        let (reports, totals) = read(&list(&with("05/04/26")));
        assert_eq!(reports[0].at_realtime_ns, april);
        assert!(totals.notes.iter().any(|note| note.contains("tells the month from the day")), "{:?}", totals.notes);
        // A list that contradicts itself has dates in the order that it showed first, and the others are none.
        assert_eq!(times(&list(&[("04/23/26", "Memory"), ("23/04/26", "Memory"), ("03/04/26", "Memory")])).len(), 3);
        assert_eq!(times(&list(&[("04/23/26", "Memory"), ("23/04/26", "Memory")]))[1], 0);
    }

    #[test]
    fn what_cannot_be_dated_counts_and_is_dated_to_nothing() {
        for (date, time, note) in [
            (" Pre-Init ", "0000000012", None),
            ("Unspecified", "Unspecified", None),
            ("S+ 00/001", "00:00:12 UTC", None),
            ("01/01/70", "00:00:12 UTC", Some("was not set")),
            ("11/23/2036", "08:00:00 UTC", Some("was not set")),
            ("11/23/2026", "08:00:00 CST", Some("time zone of this list")),
            ("11/23/2026", "20h00", Some("LC_ALL=C TZ=UTC")),
            ("23. Nov 2026", "08:00:00 UTC", Some("LC_ALL=C TZ=UTC")),
        ] {
            let (reports, totals) =
                read(&format!("1 | {date} | {time} | Memory DIMM_B2 | Correctable ECC | Asserted\n"));
            assert_eq!(reports.iter().map(|one| one.at_realtime_ns).collect::<Vec<_>>(), [0], "{date} {time}");
            assert_eq!(totals.not_understood_count, 0, "{date} {time}");
            match note {
                Some(words) => {
                    assert!(totals.notes.iter().any(|note| note.contains(words)), "{date}: {:?}", totals.notes)
                }
                None => assert!(totals.notes.is_empty(), "{date}: {:?}", totals.notes),
            }
        }
    }

    /// Dell logs a module that crosses its rate of corrected errors as a state of a discrete sensor.
    #[test]
    fn dell_s_warnings_count_and_states_that_are_not_known_are_shown() {
        let line =
            |sensor: &str, event: &str| format!("19 | 12/16/2026 | 03:01:15 UTC | {sensor} | {event} | Asserted\n");
        for event in ["Transition to Non-critical from OK", "Transition to Critical from less severe"] {
            let (reports, totals) = read(&line("Memory Mem ECC Warning", event));
            assert_eq!((reports.len(), totals.other_count), (1, 0), "{event}");
            assert_eq!(
                (reports[0].severity, reports[0].label.as_str()),
                (ErrorSeverity::Corrected, "sensor Mem ECC Warning")
            );
            assert!(totals.notes.iter().any(|note| note.contains("stands for many")), "{:?}", totals.notes);
        }
        for (sensor, event) in [
            ("Memory ECC Uncorr Err", "Transition to Critical from less severe"),
            ("Memory DIMM_A1", "Transition to Critical from less severe"),
            ("Memory DIMM_A1", "State Asserted"),
            ("Memory DIMM_A1", ""),
            ("Event Logging Disabled SEL", "Quantum foam"),
            ("System Firmwares POST", "Unrecoverable system memory failure"),
            ("OEM record c0", "000a1b"),
            ("Unknown #0x2e", "0a1b2c"),
        ] {
            let (reports, totals) = read(&line(sensor, event));
            assert_eq!((reports.len(), totals.not_understood_count), (0, 1), "{sensor} {event}: {totals:?}");
        }
        for (sensor, event) in [
            ("Memory Mem ECC Warning", "Transition to OK"),
            ("Memory DIMM_A1", "Presence Detected"),
            ("Temperature DIMM_A1", "Upper Non-critical going high"),
            ("System Firmwares POST", "Memory initialization"),
        ] {
            let (_, totals) = read(&line(sensor, event));
            assert_eq!((totals.other_count, totals.not_understood_count), (1, 0), "{sensor} {event}");
        }
        let direction = line("Memory DIMM_A1", "Correctable ECC").replace("Asserted", "Sideways");
        assert_eq!(read(&direction).1.not_understood_count, 1);
    }

    #[test]
    fn a_list_without_modules_says_how_to_get_them() {
        let line = "   1 | 11/23/26 | 08:14:46 UTC | Memory #0x01 | Correctable ECC | Asserted";
        let bare = notes(&format!("{line}\n{line}"));
        assert!(bare.len() == 1 && bare[0].contains("export the log with -v"), "{bare:?}");
        // A sensor's name is often the slot's, and some firmware writes the module behind the event.
        assert!(notes(&line.replace("#0x01", "DIMM_A1")).is_empty());
        assert!(notes(&line.replace("Correctable ECC", "Correctable ECC (@DIMM1A(CPU0))")).is_empty());
        assert!(
            notes(include_str!("../../tests/fixtures/import/ipmitool-v-sel-list.txt"))
                .iter()
                .all(|note| !note.contains("-v"))
        );
    }

    #[test]
    fn the_lines_of_a_block_are_counted_by_what_it_is_about() {
        let text = include_str!("../../tests/fixtures/import/ipmitool-v-sel-list.txt");
        let mut import = Import::new(Format::Sel, Clock::default());
        let mut reports = Vec::new();
        text.lines().for_each(|line| import.line(line, &mut reports));
        let totals = import.end(&mut reports);
        // Six records of eleven lines and an empty one each; four are errors of memory.
        assert_eq!((totals.line_count, totals.of_report_count, totals.other_count), (72, 44, 28));
        assert_eq!((reports.len(), reports[0].label.as_str()), (4, "sensor 0x01 module 5"));
    }
}
