//! Errors that were written down: a line each.
//!
//! Two forms, which may not be mixed:
//! - CSV: `seconds,counter,errors`, such as `12.5,0,3`; the counter (0) and the errors (1) may be left out. A first line
//!   with words, and lines that are empty or begin with `#`, are passed over.
//! - JSON lines: `{"at_s": 12.5, "bank": 0, "count": 3}`, or `at_ns` for `at_s`; or error reports, as a recording or
//!   `memory import --json` has them, whose time counts from the first and whose module is its counter.

use super::{Arrival, BANKS_MAX};
use serde_json::Value;
use std::collections::HashMap;
use surefoot_model::Digits;

/// More lines than this are not kept.
pub const LINES_MAX: usize = 10_000_000;
/// Lines that are longer say something else.
pub const LINE_BYTES_MAX: usize = 1 << 16;
/// No counter holds more, and all lines together stay below 2^64.
const COUNT_MAX: u64 = u32::MAX as u64;
/// Names of modules are told apart by so much of them.
const MODULE_LETTERS_MAX: usize = 100;
const NS_PER_S: u64 = 1_000_000_000;

/// Errors of a trace, read line by line.
#[derive(Debug, Default)]
pub struct Trace {
    arrivals: Vec<Arrival>,
    lines: u64,
    /// The moment from which error reports count, and the numbers of their modules.
    first_report_ns: Option<u64>,
    modules: HashMap<String, u32>,
    form: Option<Form>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Csv,
    Json,
    Reports,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Csv => "CSV",
            Form::Json => "JSON",
            Form::Reports => "error reports",
        }
    }
}

impl Trace {
    /// Takes the next line.
    ///
    /// # Errors
    /// What is wrong with it, with its number.
    pub fn line(&mut self, line: &str) -> Result<(), String> {
        self.lines += 1;
        self.take(line.trim()).map_err(|why| format!("line {}: {why}", self.lines))
    }

    fn take(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if self.arrivals.len() >= LINES_MAX {
            return Err(format!("more than {LINES_MAX} errors; split the trace"));
        }
        let (form, arrival) = if line.starts_with('{') {
            match self.json(line)? {
                Some(known) => known,
                None => return Ok(()),
            }
        } else {
            let is_head = self.form.is_none() && line.starts_with(|letter: char| letter.is_ascii_alphabetic());
            if is_head {
                self.form = Some(Form::Csv);
                return Ok(());
            }
            (Form::Csv, csv(line)?)
        };
        if let Some(before) = self.form.filter(|before| *before != form) {
            return Err(format!("{} after {}; a trace has one form", form.name(), before.name()));
        }
        self.form = Some(form);
        if arrival.bank >= BANKS_MAX {
            return Err(format!("counter {}, but they are numbered 0 to {}", arrival.bank, BANKS_MAX - 1));
        }
        if !(1..=COUNT_MAX).contains(&arrival.count) {
            return Err(format!("{} errors, but a line stands for 1 to {COUNT_MAX}", arrival.count));
        }
        self.arrivals.push(arrival);
        Ok(())
    }

    fn json(&mut self, line: &str) -> Result<Option<(Form, Arrival)>, String> {
        let value: Value = serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
        // The first line of our own streams says what they are.
        if value.get("type").is_some_and(|kind| kind == "stream") {
            return Ok(None);
        }
        if value.get("severity").is_some() {
            return self.report(&value).map(|known| known.map(|arrival| (Form::Reports, arrival)));
        }
        let at_ns = match (value.get("at_s"), value.get("at_ns")) {
            (Some(at_s), None) => seconds(&at_s.to_string())?,
            (None, Some(at_ns)) => at_ns.as_u64().ok_or("at_ns is not a whole number from 0 up")?,
            _ => return Err("it needs at_s or at_ns, one of them".into()),
        };
        let bank = number(&value, "bank", 0)?;
        let bank = u32::try_from(bank).map_err(|_| format!("bank {bank} is none"))?;
        Ok(Some((Form::Json, Arrival { at_ns, bank, count: number(&value, "count", 1)? })))
    }

    /// An error report; one that was not corrected came another way, and is passed over.
    fn report(&mut self, value: &Value) -> Result<Option<Arrival>, String> {
        if value["severity"] != "corrected" {
            return Ok(None);
        }
        let time = |name: &str| value.get(name).and_then(Value::as_u64).filter(|at_ns| *at_ns > 0);
        let at_ns = time("at_realtime_ns").or(time("at_ns")).ok_or("a report without at_realtime_ns and at_ns")?;
        let module = match (&value["dimm"], &value["label"]) {
            (Value::String(id), _) => id.clone(),
            (_, label) => label.as_str().unwrap_or_default().to_owned(),
        };
        self.add_report(at_ns, &module, number(value, "count", 1)?)
    }

    /// Takes a corrected error that was recorded, with its module; the time counts from the first one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn recorded(&mut self, at_ns: u64, module: &str, count: u64) -> Result<(), String> {
        self.lines += 1;
        if self.arrivals.len() >= LINES_MAX {
            return Err(format!("more than {LINES_MAX} errors; cut the recording"));
        }
        let arrival = self.add_report(at_ns, module, count)?;
        self.form = Some(Form::Reports);
        self.arrivals.extend(arrival);
        Ok(())
    }

    fn add_report(&mut self, at_ns: u64, module: &str, count: u64) -> Result<Option<Arrival>, String> {
        let module: String = module.chars().take(MODULE_LETTERS_MAX).collect();
        let first_ns = *self.first_report_ns.get_or_insert(at_ns);
        let at_ns = at_ns.checked_sub(first_ns).ok_or("it is earlier than the first report; sort the trace by time")?;
        let next = self.modules.len() as u32;
        if next >= BANKS_MAX && !self.modules.contains_key(&module) {
            return Err(format!("more than {BANKS_MAX} modules"));
        }
        let bank = *self.modules.entry(module).or_insert(next);
        Ok(Some(Arrival { at_ns, bank, count }))
    }

    /// The errors in the order of time.
    ///
    /// # Errors
    /// There are none.
    pub fn finish(mut self) -> Result<Vec<Arrival>, String> {
        if self.arrivals.is_empty() {
            return Err(format!("no error in {} lines", self.lines));
        }
        self.arrivals.sort_by_key(|arrival| (arrival.at_ns, arrival.bank));
        Ok(self.arrivals)
    }
}

fn number(value: &Value, name: &str, otherwise: u64) -> Result<u64, String> {
    match value.get(name) {
        None => Ok(otherwise),
        Some(found) => found.as_u64().ok_or_else(|| format!("{name} is {found}, not a whole number from 0 up")),
    }
}

fn csv(line: &str) -> Result<Arrival, String> {
    const FORM: &str = "write seconds,counter,errors, such as 12.5,0,3";
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() > 3 {
        return Err(format!("{} fields; {FORM}", fields.len()));
    }
    let field = |place: usize, otherwise: u64| match fields.get(place) {
        None | Some(&"") => Ok(otherwise),
        Some(text) => {
            text.digits::<u64>().ok_or_else(|| format!("'{}' is not a whole number from 0 up; {FORM}", cut(text)))
        }
    };
    let bank = field(1, 0)?;
    let bank = u32::try_from(bank).map_err(|_| format!("counter {bank} is none"))?;
    Ok(Arrival { at_ns: seconds(fields[0])?, bank, count: field(2, 1)? })
}

/// Seconds with a point, to the nanosecond; what is finer is cut off.
fn seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{}' is not a time in seconds from 0 up", cut(text));
    if text.contains(['e', 'E']) {
        // JSON may write large and small numbers so.
        let value: f64 = text.parse().map_err(|_| wrong())?;
        return if (0.0..1e10).contains(&value) { Ok((value * 1e9).round() as u64) } else { Err(wrong()) };
    }
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || whole.is_empty() {
        return Err(wrong());
    }
    let digits: String = part.chars().chain("000000000".chars()).take(9).collect();
    let (whole, part) = (whole.digits::<u64>().ok_or_else(wrong)?, digits.digits::<u64>().ok_or_else(wrong)?);
    whole.checked_mul(NS_PER_S).and_then(|ns| ns.checked_add(part)).ok_or_else(wrong)
}

fn cut(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Arrival>, String> {
        let mut trace = Trace::default();
        text.lines().try_for_each(|line| trace.line(line))?;
        trace.finish()
    }

    fn arrival(at_ns: u64, bank: u32, count: u64) -> Arrival {
        Arrival { at_ns, bank, count }
    }

    #[test]
    fn both_forms_are_read_and_sorted() {
        let csv = "seconds,counter,errors\n# a comment\n\n12.5,1,3\n0.000000001\n7,,2\n";
        let expected = [arrival(1, 0, 1), arrival(7_000_000_000, 0, 2), arrival(12_500_000_000, 1, 3)];
        assert_eq!(read(csv).unwrap(), expected);
        let json = "{\"at_s\": 12.5, \"bank\": 1, \"count\": 3}\n{\"at_ns\": 1}\n{\"at_s\": 7, \"count\": 2}\n";
        assert_eq!(read(json).unwrap(), expected);
        assert_eq!(read("{\"at_s\": 1e-9}").unwrap(), [arrival(1, 0, 1)]);
    }

    #[test]
    fn error_reports_count_from_the_first_and_by_module() {
        let line = |at_ns: u64, dimm: &str, severity: &str| {
            format!(
                "{{\"at_realtime_ns\":{at_ns},\"severity\":\"{severity}\",\"dimm\":{dimm},\"label\":\"B2\",\"count\":4}}\n"
            )
        };
        let text = "{\"type\":\"stream\",\"schema\":1}\n".to_owned()
            + &line(100, "\"A1\"", "corrected")
            + &line(150, "null", "uncorrected")
            + &line(160, "null", "corrected")
            + &line(170, "\"A1\"", "corrected");
        assert_eq!(read(&text).unwrap(), [arrival(0, 0, 4), arrival(60, 1, 4), arrival(70, 0, 4)]);
        assert!(read(&(text + &line(99, "\"A1\"", "corrected"))).unwrap_err().contains("line 6: it is earlier"));
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        for (text, said) in [
            ("1\n-2", "line 2: '-2' is not a time"),
            ("1\nx", "line 2: 'x' is not a time"),
            ("1,2,3,4", "line 1: 4 fields"),
            ("1,a", "line 1: 'a' is not a whole number"),
            ("1,9999", "line 1: counter 9999"),
            ("1,0,0", "line 1: 0 errors"),
            ("1,0,18446744073709551615", "line 1: 18446744073709551615 errors"),
            ("1\n{\"at_s\":2}", "line 2: JSON after CSV"),
            ("{\"at_s\":2", "line 1: not JSON"),
            ("{\"bank\":2}", "line 1: it needs at_s or at_ns"),
            ("{\"at_s\":-2}", "line 1: '-2'"),
            ("{\"at_s\":1e99}", "line 1: '"),
            ("{\"at_s\":1,\"count\":1.5}", "line 1: count is 1.5"),
            ("99999999999999999999", "line 1: '9999"),
            ("nan", "no error in 1 lines"),
            ("", "no error in 0 lines"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
