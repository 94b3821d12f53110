//! Lines of `trace_pipe`: who wrote, when, which event, and what it says.
//!
//! A line begins with the name of the task in 16 columns, which any user chooses, so that nothing is looked for in it:
//!
//! ```text
//!     kworker/0:1-123     [000] .....   123.456789: mc_event: 1 Corrected error: memory read error on A1 (mc:0 ...)
//! CPU:1 [LOST 7 EVENTS]
//! ```

use surefoot_model::Digits;

/// Columns that the name of the task takes.
const NAME_COLUMNS: usize = 16;

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// An event.
    Event {
        /// By the clock of the trace, nanoseconds.
        at_ns: u64,
        name: &'a str,
        text: &'a str,
    },
    /// Events that a core's buffer had no room for.
    Lost(u64),
    /// Something else: a heading, or nothing.
    Other,
}

/// Reads one line, without its end.
pub(super) fn read(line: &str) -> Line<'_> {
    if let Some(count) = lost(line) {
        return Line::Lost(count);
    }
    event(line).unwrap_or(Line::Other)
}

fn lost(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix("CPU:")?.split_once(" [LOST ")?;
    rest.split_once(' ')?.0.digits()
}

fn event(line: &str) -> Option<Line<'_>> {
    let after_name = after_name(line)?;
    // `-123     [000] .....   123.456789: mc_event: text`
    let (_, rest) = after_name.split_once('[')?;
    let (cpu, rest) = rest.split_once(']')?;
    cpu.digits::<u32>()?;
    let (head, rest) = rest.split_once(": ")?;
    let time = head.split_whitespace().next_back()?;
    let (name, text) = rest.split_once(": ").or_else(|| rest.strip_suffix(':').map(|name| (name, "")))?;
    Some(Line::Event { at_ns: nanoseconds(time)?, name, text })
}

/// What follows the name of the task: a dash and its number.
fn after_name(line: &str) -> Option<&str> {
    // Columns are bytes to the kernel, and a name may be cut within a letter; it is replaced by one of three bytes then.
    (NAME_COLUMNS..line.len().min(NAME_COLUMNS * 4))
        .filter(|&at| line.is_char_boundary(at))
        .map(|at| &line[at..])
        .find(|rest| rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())))
}

/// `123.456789`, in seconds.
fn nanoseconds(time: &str) -> Option<u64> {
    let (seconds, part) = time.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(seconds) || !is_number(part) || part.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - u32::try_from(part.len()).ok()?);
    seconds.digits::<u64>()?.checked_mul(1_000_000_000)?.checked_add(part.digits::<u64>()? * scale)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_event_has_its_time_name_and_text() {
        let line = "     kworker/0:1-123     [000] .....   123.456789: mc_event: 1 Corrected error: x: y";
        let wanted = Line::Event { at_ns: 123_456_789_000, name: "mc_event", text: "1 Corrected error: x: y" };
        assert_eq!(read(line), wanted);
        let idle = "          <idle>-0       [017] d.h1.   9.000001: mce_record: CPU: 17, MCGc/s: 0/0";
        assert_eq!(read(idle), Line::Event { at_ns: 9_000_001_000, name: "mce_record", text: "CPU: 17, MCGc/s: 0/0" });
    }

    #[test]
    fn no_name_of_a_task_is_taken_for_anything() {
        let forged = "-1 [000] 1.0: a:-77      [003] .....   5.000000: mc_event: text";
        assert_eq!(forged.find(":-77"), Some(NAME_COLUMNS - 1), "the name fills its columns");
        assert_eq!(read(forged), Line::Event { at_ns: 5_000_000_000, name: "mc_event", text: "text" });
    }

    #[test]
    fn what_was_lost_is_counted_and_the_rest_is_left_alone() {
        assert_eq!(read("CPU:3 [LOST 1234 EVENTS]"), Line::Lost(1234));
        for other in
            ["", "# tracer: nop", "CPU:3 [LOST EVENTS]", "CPU:1 [LOST -1 EVENTS]", "      x-1 [000] .. 1: y: z"]
        {
            assert_eq!(read(other), Line::Other, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in "\\PC{0,80}", bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = read(&line);
            let _ = read(&String::from_utf8_lossy(&bytes));
        }
    }
}
