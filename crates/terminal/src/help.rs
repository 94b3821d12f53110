//! The legend: keys, and the words of the columns.

use surefoot_console::lost_time::{LOST, UNEXPLAINED, UNTRACED, WAITED, WHILE_IDLE};

/// Each line of the help; those that end with a colon are headings.
pub(crate) const HELP: &[&str] = &[
    "Keys:",
    "Tab, arrows    next pane; Shift-Tab or Left: the previous one; 1 to 9: by number",
    "Up, Down    scroll; also PageUp, PageDown, Home, End, k, j, space, b, g, G",
    "/    filter rows by words; Enter keeps the filter, Escape clears it",
    "s    sort by the next column",
    "p    pause the display; collection continues",
    "t    go to a past time: 14:05, -10m, yesterday 03:00, 2026-11-21 03:00",
    ", and .    one second back or forward; older data come from the history",
    "l    back to live",
    "Ctrl-L    redraw",
    "?    this help; the same keys scroll it, any other key closes it",
    "q, Ctrl-C    quit; Ctrl-Z suspends",
    "",
    "Words:",
    LOST,
    WHILE_IDLE,
    UNEXPLAINED,
    WAITED,
    UNTRACED,
    "idle, user, kernel    the rest of a core's time. With lost, while idle and unexplained it adds up to wall",
    "wall    how long the core was watched in the range shown",
    "p50, p99, max    length of single occurrences: half are shorter, 99 of 100 are shorter, the longest",
    "gap    a stretch in which a core made no progress; verdict says what took it, certainty how sure that is",
    "-    not measured here, which is not 0",
    "",
    "Severities:",
    "ok    checked, no problem found",
    "notice    worth knowing; no action needed",
    "warning    act within days",
    "critical    act now: data or work are at stake",
    "",
    "The range is the last minute while it is live, and one second (from older history one minute) at a past moment. Times are UTC. \
     \"N more\" sums the rows that are not shown.",
];

/// The keys as text for a command's help, a line each.
pub fn keys() -> String {
    let lines = HELP.iter().take_while(|line| !line.is_empty()).skip(1);
    let line = |line: &&str| {
        let (keys, meaning) = line.split_once("    ").unwrap_or((line, ""));
        format!("  {keys:<11}  {meaning}\n")
    };
    format!("Keys in the terminal:\n{}", lines.map(line).collect::<String>())
}
