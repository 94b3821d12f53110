//! Holds JSON lines to their promises.

use serde_json::Value;
use std::collections::BTreeSet;

/// The lines of this type.
pub fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// A field that must be a whole number of nanoseconds, bytes or events.
pub fn number(line: &Value, field: &str) -> u64 {
    line[field].as_u64().unwrap_or_else(|| panic!("{field} is not a whole number in {line}"))
}

/// The names of an object's fields.
pub fn fields(line: &Value) -> BTreeSet<&str> {
    line.as_object().unwrap_or_else(|| panic!("no object: {line}")).keys().map(String::as_str).collect()
}

/// Holds an object to having these fields and, apart from `more`, no others.
pub fn has_fields(line: &Value, promised: &[&str], more: &[&str]) {
    let found = fields(line);
    for field in promised {
        assert!(found.contains(field), "no field {field} in {line}");
    }
    let strange: Vec<_> = found.iter().filter(|field| !promised.contains(field) && !more.contains(field)).collect();
    assert!(strange.is_empty(), "fields nobody knows, {strange:?}, in {line}");
}

/// Holds a `core` line to its fields and to its sum, to the nanosecond.
pub fn core_line_sums_up(line: &Value) {
    has_fields(
        line,
        &["type", "cpu", "wall_ns", "idle_ns", "user_ns", "kernel_ns", "lost", "unexplained_ns"],
        &["lost_to_others_ns", "waiting"],
    );
    let mut sum_ns = number(line, "lost_to_others_ns");
    for part in ["idle_ns", "user_ns", "kernel_ns", "unexplained_ns"] {
        sum_ns += number(line, part);
    }
    for row in line["lost"].as_array().unwrap() {
        has_fields(row, &["kind", "name", "count", "total_ns", "max_ns"], &["while_idle_ns", "p50_ns", "p99_ns"]);
        sum_ns += number(row, "total_ns");
        assert!(number(row, "while_idle_ns") <= number(row, "total_ns"), "{row}");
    }
    assert_eq!(sum_ns, number(line, "wall_ns"), "{line}");
    assert!(number(line, "wall_ns") > 0, "{line}");
}

/// Holds a `gap` line to its fields and to its sum.
pub fn gap_line_sums_up(line: &Value) {
    has_fields(
        line,
        &["type", "cpu", "start_ns", "duration_ns", "causes", "unexplained_ns", "verdict", "certainty"],
        &["source", "evidence"],
    );
    let mut sum_ns = number(line, "unexplained_ns");
    for cause in line["causes"].as_array().unwrap() {
        has_fields(cause, &["kind", "name", "duration_ns"], &[]);
        sum_ns += number(cause, "duration_ns");
    }
    assert_eq!(sum_ns, number(line, "duration_ns"), "{line}");
}
