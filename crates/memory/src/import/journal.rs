//! Entries of `journalctl -o json`: an object a line, with the kernel's words in `MESSAGE`. Those of `-o export` are made such lines
//! by [`super::export`].
//!
//! | field | what |
//! |---|---|
//! | `_TRANSPORT` | `kernel` for the kernel's own entries; any program can write the others |
//! | `MESSAGE` | the words, or their bytes where they are not UTF-8 |
//! | `__REALTIME_TIMESTAMP`, `__MONOTONIC_TIMESTAMP` | when journald took the entry, microseconds |
//! | `_SOURCE_MONOTONIC_TIMESTAMP` | when the kernel wrote it, microseconds since boot |
//! | `_HOSTNAME`, `_MACHINE_ID` | which host wrote it |
//! | `_BOOT_ID` | in which boot |
//!
//! journald takes what was written before it started only then. So an entry is dated to when the kernel wrote it, as far as the three
//! tell.

use super::host::Host;
use serde_json::Value;
use surefoot_model::Digits;

const REALTIME: &str = "__REALTIME_TIMESTAMP";

/// An entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Of the kernel: when it was written, 0 where that is not told, in which boot, and its words.
    Kernel { at_realtime_ns: u64, boot: Option<String>, message: String },
    /// Of a program.
    OfProgram,
    /// Of a writer that the entry does not name: exported without that field.
    NoTransport,
    /// Cut or damaged.
    Unreadable,
}

/// The text of an entry's object; `None` for a line that is none.
fn object(line: &str) -> Option<&str> {
    // `-o json-seq` and `json-sse`.
    let line = line.trim_start_matches('\u{1e}');
    let line = line.strip_prefix("data: ").unwrap_or(line).trim();
    let is_named = line.contains(&format!("\"{REALTIME}\""));
    // One that was cut before the time has fields whose names begin so.
    let is_cut = || line.starts_with("{\"") && !line.ends_with('}') && line.contains("\"_");
    (line.starts_with('{') && (is_named || is_cut())).then_some(line)
}

/// The host of an entry, empty where it tells none; `None` for a line that is no entry.
pub(super) fn host(line: &str) -> Option<Host> {
    let fields: Value = serde_json::from_str(object(line)?).unwrap_or_default();
    let text = |name: &str| fields[name].as_str().map(str::to_owned).filter(|text| !text.is_empty());
    Some(Host { name: text("_HOSTNAME").unwrap_or_default(), machine: text("_MACHINE_ID") })
}

/// Reads a line; `None` for one that is no entry.
pub(super) fn entry(line: &str) -> Option<Entry> {
    let Ok(Value::Object(fields)) = serde_json::from_str(object(line)?) else { return Some(Entry::Unreadable) };
    match fields.get("_TRANSPORT") {
        None => return Some(Entry::NoTransport),
        Some(transport) if transport != "kernel" => return Some(Entry::OfProgram),
        Some(_) => {}
    }
    let micros = |name: &str| fields.get(name).and_then(Value::as_str).and_then(|text| text.digits::<u64>());
    let since_written = micros("__MONOTONIC_TIMESTAMP")
        .zip(micros("_SOURCE_MONOTONIC_TIMESTAMP"))
        .map(|(taken, written)| taken.saturating_sub(written));
    let at_us = micros(REALTIME).map(|taken| taken.saturating_sub(since_written.unwrap_or(0)));
    let message = match fields.get("MESSAGE") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(bytes)) => {
            let bytes = bytes.iter().map(|byte| byte.as_u64().and_then(|byte| u8::try_from(byte).ok()));
            match bytes.collect::<Option<Vec<u8>>>() {
                Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                None => return Some(Entry::Unreadable),
            }
        }
        // journald leaves out what is too long.
        _ => return Some(Entry::Unreadable),
    };
    let at_realtime_ns = at_us.and_then(|us| us.checked_mul(1_000)).unwrap_or(0);
    let boot = fields.get("_BOOT_ID").and_then(Value::as_str).filter(|boot| !boot.is_empty()).map(str::to_owned);
    Some(Entry::Kernel { at_realtime_ns, boot, message })
}

/// Whether a line is of a form of journalctl in which an entry has many lines (`json-pretty`, `verbose`), which is not read.
pub(super) fn is_of_unread_form(line: &str) -> bool {
    let line = line.trim();
    let is_field = |name: &str| {
        let pretty = line
            .strip_prefix('"')
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with("\" :"));
        pretty || line.strip_prefix(name).is_some_and(|rest| rest.starts_with('='))
    };
    is_field(REALTIME) || is_field("_SOURCE_MONOTONIC_TIMESTAMP")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_dated_to_when_the_kernel_wrote_it() {
        let at = |fields: &str| match entry(&format!("{{{fields}, \"_TRANSPORT\": \"kernel\", \"MESSAGE\": \"x\"}}")) {
            Some(Entry::Kernel { at_realtime_ns, .. }) => at_realtime_ns,
            other => panic!("{fields}: {other:?}"),
        };
        let taken = r#""__REALTIME_TIMESTAMP": "1795420807000000""#;
        assert_eq!(at(taken), 1_795_420_807_000_000_000);
        let both = format!(r#"{taken}, "__MONOTONIC_TIMESTAMP": "9000000", "_SOURCE_MONOTONIC_TIMESTAMP": "2000000""#);
        assert_eq!(at(&both), 1_795_420_800_000_000_000);
        assert_eq!(at(r#""__REALTIME_TIMESTAMP": "+7""#), 0);
    }

    #[test]
    fn only_the_kernel_s_entries_are_read() {
        let of = |fields: &str| entry(&format!(r#"{{"__REALTIME_TIMESTAMP": "1", {fields}}}"#));
        assert_eq!(of(r#""_TRANSPORT": "stdout", "MESSAGE": "EDAC MC0: 1 CE""#), Some(Entry::OfProgram));
        let kernel = |message: &str| Some(Entry::Kernel { at_realtime_ns: 1_000, boot: None, message: message.into() });
        assert_eq!(of(r#""_TRANSPORT": "kernel", "MESSAGE": [69, 255, 67]"#), kernel("E\u{fffd}C"));
        for message in [r#""MESSAGE": null"#, r#""MESSAGE": [256]"#, r#""MESSAGE": "x"#] {
            let unreadable = format!(r#""_TRANSPORT": "kernel", {message}"#);
            assert_eq!(of(&unreadable), Some(Entry::Unreadable), "{unreadable}");
        }
        assert_eq!(of(r#""MESSAGE": "EDAC MC0: 1 CE""#), Some(Entry::NoTransport));
        assert_eq!(entry(r#"{"MESSAGE": "EDAC MC0"}"#), None);
        assert_eq!(entry("[ 1.0] EDAC MC0"), None);
        assert_eq!(entry(r#"{"_TRANSPORT": "kernel", "MESSAGE": "EDAC MC0: 1 U"#), Some(Entry::Unreadable));
    }
}
