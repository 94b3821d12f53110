//! The legend: keys, and the words of the columns.

use surefoot_console::lost_time::{LOST, UNEXPLAINED, UNTRACED, WAITED, WHILE_IDLE};

/// Each line of the help; those that end with a colon are headings.
pub(crate) const HELP: &[&str] = &[
    "Keys:",
    "Tab, arrows    next pane, and with Shift-Tab or Left the pane before; 1 to 9 go to a pane",
    "Up, Down    scroll; also PageUp, PageDown, Home, End, and k, j, space, b, g, G",
    "/    only rows with these words; Enter keeps, Escape forgets them",
    "s    sort by the next column",
    "p    pause: freeze the display; collection goes on",
    "t    go to a past moment: 14:05, 14:05:30, -10m, yesterday 03:00, 2026-11-21 03:00 (UTC)",
    ", and .    one second back and forward, beyond what is in memory through the history",
    "l    live again",
    "Ctrl-L    draw everything again",
    "?    this help; it scrolls with the same keys, and any other key ends it",
    "q, Ctrl-C    end the watch; Ctrl-Z suspends it",
    "",
    "Words:",
    LOST,
    WHILE_IDLE,
    UNEXPLAINED,
    WAITED,
    UNTRACED,
    "idle, user, kernel    the rest of a core's time. With lost, while idle and unexplained it adds up to wall",
    "wall    how long the core was watched in the range that is shown",
    "p50, p99, max    length of single occurrences: half are shorter, 99 of 100 are shorter, the longest",
    "gap    a stretch in which a core made no progress; verdict says what took it, certainty how sure that is",
    "-    not measured here, which is not 0",
    "",
    "Severities:",
    "ok    looked at, and all is well",
    "notice    worth knowing; no action needed",
    "warning    act within days",
    "critical    act now: data or work are at stake",
    "",
    "The range is the last minute while it is live, and one second (from older history one minute) at a past moment. Times are UTC. \
     \"N more\" sums up the rows that are out of sight.",
];

/// The keys as text for a command's help, a line each.
pub fn keys() -> String {
    let lines = HELP.iter().take_while(|line| !line.is_empty()).skip(1);
    let line = |line: &&str| {
        let (keys, meaning) = line.split_once("    ").unwrap_or((line, ""));
        format!("  {keys}\n          {meaning}\n")
    };
    format!("Keys in the terminal:\n{}", lines.map(line).collect::<String>())
}
