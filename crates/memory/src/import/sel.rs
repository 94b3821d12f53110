//! Event logs of a management controller as ipmitool prints them (tried: ipmitool 1.8.19 with ipmi_sim 2.0.33).
//!
//! `sel list` and `sel elist`: `   1 | 11/23/26 | 08:14:46 UTC | Memory #0x01 | Correctable ECC | Asserted`; with `-c` commas instead.
//! `-v sel list`: a block of `Name : value` for each record, with the bytes of the event.
//!
//! Counts are lower bounds: firmware logs from a threshold on, and stops when it has logged enough.

use super::{Line, Sink, time};
use surefoot_model::{DramLocation, ErrorReport, ErrorSeverity, Fidelity, MemorySource, one_line};

/// What an event of a memory sensor says; IPMI 2.0, table 42-3, sensor type 0Ch.
enum Event {
    Error(ErrorSeverity),
    /// Firmware stops to log corrected errors: what follows is not counted.
    LimitReached,
    /// The log is full of them and is switched off.
    LoggingDisabled,
    Other,
}

fn event(words: &str) -> Event {
    let words = words.to_ascii_lowercase();
    let starts = |text: &str| words.starts_with(text);
    if starts("correctable ecc logging limit reached") {
        Event::LimitReached
    } else if starts("correctable ecc") || starts("correctable memory error") && !words.contains("logging disabled") {
        Event::Error(ErrorSeverity::Corrected)
    } else if starts("uncorrectable ecc") || starts("uncorrectable memory error") || starts("parity") {
        Event::Error(ErrorSeverity::Uncorrected)
    } else if starts("correctable memory error logging disabled") {
        Event::LoggingDisabled
    } else {
        Event::Other
    }
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
    split(line).is_some() || line.starts_with("SEL Record ID ")
}

/// The fields of a line of a list; at least number, date, time, sensor and event.
fn split(line: &str) -> Option<Vec<&str>> {
    let separator = if line.contains('|') { '|' } else { ',' };
    let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
    let is_number = fields.first().is_some_and(|number| {
        !number.is_empty() && number.len() <= 5 && number.bytes().all(|digit| digit.is_ascii_hexdigit())
    });
    let has_date = fields.get(1).is_some_and(|date| date.split('/').count() == 3 || is_pre_init(date));
    (fields.len() >= 4 && is_number && has_date).then_some(fields)
}

/// Before the controller's clock was set; ipmitool puts the seconds since then in the place of the time.
fn is_pre_init(date: &str) -> bool {
    date.starts_with("Pre-Init")
}

/// A reader of such a log.
#[derive(Debug, Default)]
pub(super) struct Sel {
    /// The block of `-v` that is open.
    open: Option<Record>,
    /// Its lines so far.
    lines: u64,
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
        let (sensor_type, sensor) = sensor_of(field(3));
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
        take(&record, sink)
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
                // 1.8.19 prints the date twice and no time of day with -v; others print both.
                let mut words = value.split_whitespace();
                open.date = words.next().unwrap_or_default().to_owned();
                open.time = words.next().unwrap_or_default().to_owned();
            }
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
        match take(&open, sink) {
            Line::OfReport => {}
            Line::Other => {
                sink.totals.of_report_count = sink.totals.of_report_count.saturating_sub(self.lines);
                sink.totals.other_count += self.lines;
            }
            Line::NotUnderstood(why) => sink.totals.record_not_understood(open.line, why, &open.event),
        }
    }

    pub fn end(&mut self, sink: &mut Sink<'_>) {
        self.close(sink);
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

fn take(record: &Record, sink: &mut Sink<'_>) -> Line {
    let is_memory = record.sensor_type == "Memory" || record.sensor_type.starts_with("Event Logging");
    if !is_memory {
        return Line::Other;
    }
    let severity = match event(&record.event) {
        Event::Error(severity) => severity,
        Event::LimitReached => {
            sink.totals.note(
                "The event log says that its limit of corrected errors was reached: firmware has stopped to log them, and what \
                 came after is not counted.",
            );
            ErrorSeverity::Corrected
        }
        Event::LoggingDisabled => {
            sink.totals.note("The event log says that the logging of corrected errors was switched off.");
            return Line::Other;
        }
        Event::Other => return Line::Other,
    };
    if record.direction.starts_with("Deassert") {
        return Line::Other;
    }
    let at_realtime_ns = if is_pre_init(&record.date) { Some(0) } else { time::sel(&record.date, &record.time) };
    // A block of 1.8.19 has no time of day.
    let at_realtime_ns = at_realtime_ns.or_else(|| time::sel(&record.date, "00:00:00"));
    let Some(at_realtime_ns) = at_realtime_ns else {
        return Line::NotUnderstood("its time is none that ipmitool writes");
    };
    let mut detail = record.event.clone();
    if !record.data.is_empty() {
        detail += &format!("; event data {}", record.data);
    }
    if record.data.is_empty() && record.sensor.starts_with("#0x") && in_parentheses(&record.event).is_none() {
        sink.totals.note(
            "This list names sensors and no modules: export it with -v (ipmitool -v sel list), where the bytes of each event name \
             the module.",
        );
    }
    sink.report(ErrorReport {
        at_realtime_ns,
        at_ns: None,
        source: MemorySource::EventLog,
        severity,
        dimm: None,
        label: label(record),
        count: 1,
        fidelity: Fidelity::LowerBound,
        location: DramLocation::default(),
        detail: one_line(&detail).chars().take(crate::reports::TEXT_CHARACTERS_MAX).collect(),
    });
    Line::OfReport
}

/// The module: what stands in parentheses behind the event, the sensor's name, or its number with the module's in the last byte
/// of the event (IPMI 2.0, table 42-3: the module relative to the sensor's entity; ff where it is not told).
fn label(record: &Record) -> String {
    let text = match in_parentheses(&record.event) {
        Some(inner) => inner.trim_start_matches('@').to_owned(),
        None if record.sensor.starts_with("#0x") => {
            let module =
                record.data.get(4..6).and_then(|byte| u8::from_str_radix(byte, 16).ok()).filter(|&byte| byte != 0xff);
            let sensor = record.sensor.trim_start_matches('#');
            module.map_or(format!("sensor {sensor}"), |module| format!("sensor {sensor} module {module}"))
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
    use crate::import::{Clock, Format, Import};

    fn notes(text: &str) -> Vec<String> {
        let mut import = Import::new(Format::Sel, Clock::default());
        let mut reports = Vec::new();
        text.lines().for_each(|line| import.line(line, &mut reports));
        let notes = import.end(&mut reports).notes;
        assert!(!reports.is_empty());
        notes
    }

    #[test]
    fn a_list_without_modules_says_how_to_get_them() {
        let line = "   1 | 11/23/26 | 08:14:46 UTC | Memory #0x01 | Correctable ECC | Asserted";
        let bare = notes(&format!("{line}\n{line}"));
        assert!(bare.len() == 1 && bare[0].contains("export it with -v"), "{bare:?}");
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
