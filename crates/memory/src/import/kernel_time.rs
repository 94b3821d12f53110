//! What stands before the words of the kernel, in the forms of `dmesg`, `journalctl` and syslog.
//!
//! | who | what |
//! |---|---|
//! | `dmesg`, `journalctl -o short-monotonic` | `[   12.345678] `, with `-d` also `[   12.345678 <    0.000012>] ` |
//! | `dmesg -T` | `[Mon Nov 23 08:00:00 2026] `, local time |
//! | `dmesg -e`, `-H` | `[Nov23 08:00] ` for a new minute, otherwise `[  +0.000012] ` since the line before |
//! | `dmesg --time-format iso`, `journalctl -o short-iso` | `2026-11-23T08:00:00,123456+00:00 ` |
//! | syslog, `journalctl` | `Nov 23 08:00:00 host kernel: `, local time |
//! | `journalctl -o short-full` | `Mon 2026-11-23 08:00:00 UTC host kernel: ` |
//! | `journalctl -o short-unix` | `1795420800.123456 host kernel: ` |
//! | rsyslog, RFC 5424 | `<6>1 2026-11-23T08:00:00.123456+00:00 host kernel - - - ` |
//! | BusyBox | `Nov 23 08:00:00 host kern.warn kernel: ` |
//! | `dmesg -x`, `-r` | `kern  :warn  : `, `<4>` before the stamp |
//!
//! Another stamp, and one that tells only how long after another line this one came, dates nothing.
//!
//! Syslog and the journal hold lines of every program, so a line with one of their stamps is the kernel's only if its tag is `kernel`.
//! journalctl indents the further lines of a message. Such a line is of a program, even if it looks like a line of its own.

use surefoot_hostfs::stamp::{
    Clock, SECOND_NS, at_offset, iso, month_of, nanoseconds, nanoseconds_of_fraction, of_day, offset_s, without_year,
};
use surefoot_model::Digits;

/// When a line was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct At {
    /// Nanoseconds since 1970; 0 where the line does not tell.
    pub realtime_ns: u64,
    /// It is a local time whose zone is not told, and was read as UTC.
    pub is_local: bool,
    /// The line tells only how long after another one it came.
    pub is_relative: bool,
    /// The line tells seconds since boot, which only the time of that boot dates.
    pub is_since_boot: bool,
}

/// Who wrote a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The kernel, as far as the form of the line tells.
    Kernel,
    /// A program, or it is not known who.
    Program,
    /// Syslog itself, which says how many times the line before came.
    Syslog,
}

/// Reads stamps line by line.
#[derive(Debug)]
pub(super) struct Stamps {
    clock: Clock,
    /// A line had the stamp of syslog or the journal: lines of programs are between those of the kernel.
    is_shared: bool,
    /// A line with a stamp began at the left margin: an indented one goes on with the message above it.
    is_flush_left: bool,
    /// The minute that `dmesg -e` told last.
    minute: Option<At>,
    /// The last time since boot.
    since_boot_ns: u64,
    /// The times since boot began anew: what follows is of another boot than the one that is named.
    has_rebooted: bool,
}

impl Stamps {
    pub fn new(clock: Clock) -> Stamps {
        Stamps { clock, is_shared: false, is_flush_left: false, minute: None, since_boot_ns: 0, has_rebooted: false }
    }

    /// Whether lines of another boot than the named one go undated.
    pub fn leaves_a_boot_out(&self) -> bool {
        self.has_rebooted && self.clock.booted_realtime_ns.is_some()
    }

    /// Whether the log is one that programs write to as well.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// When a line was written, by whom, and its words.
    pub fn take<'a>(&mut self, line: &'a str) -> (At, Origin, &'a str) {
        let is_indented = line.starts_with([' ', '\t']);
        if is_indented && self.is_flush_left {
            return (At::default(), Origin::Program, line.trim_start());
        }
        let line = undecorated(line);
        // Without a stamp a line may begin with a bracket of its own: `[Hardware Error]`.
        if let Some((stamp, words)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            && let Some(at) = self.bracket(stamp.trim())
        {
            self.is_flush_left |= !is_indented;
            return (at, Origin::Kernel, without_host(without_caller(words)));
        }
        // journalctl and syslog write a point where `dmesg` has a comma.
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if first.contains(',')
            && let Some(realtime_ns) = iso(&first.replace(',', "."))
        {
            self.is_flush_left |= !is_indented;
            return (At { realtime_ns, ..At::default() }, Origin::Kernel, without_host(without_caller(rest)));
        }
        if let Some((at, tag, words)) = stamped(line, &self.clock) {
            self.is_flush_left |= !is_indented;
            self.is_shared = true;
            return match tag {
                "kernel" => (at, Origin::Kernel, without_since_boot(words)),
                "" if words.starts_with("last message repeated ") => (at, Origin::Syslog, words),
                _ => (at, Origin::Program, words),
            };
        }
        (At::default(), if self.is_shared { Origin::Program } else { Origin::Kernel }, line)
    }

    /// What stands in brackets; `None` for what is no stamp.
    fn bracket(&mut self, stamp: &str) -> Option<At> {
        if let Some(delta) = stamp.strip_prefix('+') {
            // Within the minute that was told last, and within none where the text begins later.
            let at = At { is_relative: true, ..self.minute.unwrap_or_default() };
            return seconds(delta.trim()).map(|_| at);
        }
        if let Some(delta) = stamp.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')) {
            return seconds(delta.trim()).map(|_| At { is_relative: true, ..At::default() });
        }
        // The time since the line before stands behind the time itself.
        let stamp = stamp.split_once('<').map_or(stamp, |(stamp, _)| stamp.trim_end());
        if let Some(since_boot) = seconds(stamp) {
            // Processors that write at the same time may do it out of order, by less than this.
            self.has_rebooted |= since_boot.saturating_add(SECOND_NS) < self.since_boot_ns;
            self.since_boot_ns = since_boot;
            let booted = self.clock.booted_realtime_ns.filter(|_| !self.has_rebooted);
            let realtime_ns = booted.and_then(|booted| booted.checked_add(since_boot)).unwrap_or(0);
            return Some(At { realtime_ns, is_since_boot: true, ..At::default() });
        }
        let at = ctime(stamp).or_else(|| self.minute(stamp))?;
        self.minute = Some(at);
        Some(at)
    }

    /// `Nov23 08:00` or `Nov 3 08:00`.
    fn minute(&self, stamp: &str) -> Option<At> {
        let (month, rest) = stamp.split_at_checked(3)?;
        let (day, time) = rest.trim_start().split_once(' ')?;
        let (month, day, (second, _)) = (month_of(month)?, day.digits()?, of_day(&format!("{}:00", time.trim()))?);
        let realtime_ns = without_year(month, day, second, &self.clock).unwrap_or(0);
        Some(At { realtime_ns, is_local: true, ..At::default() })
    }
}

/// A line of syslog or the journal: when it was written, its tag, which is empty where there is none, and its words.
pub(super) fn stamped<'a>(line: &'a str, clock: &Clock) -> Option<(At, &'a str, &'a str)> {
    let known = |realtime_ns| At { realtime_ns, ..At::default() };
    let (first, rest) = line.split_once(' ')?;
    if let Some(at_ns) = iso(first).or_else(|| unix(first)) {
        let (tag, words) = tagged(rest);
        return Some((known(at_ns), tag, words));
    }
    let of_protocol = line.strip_prefix("1 ").and_then(|rest| rest.split_once(' '));
    if let Some((at_ns, rest)) = of_protocol.and_then(|(stamp, rest)| Some((iso(stamp)?, rest))) {
        let (tag, words) = tagged_by_protocol(rest);
        return Some((known(at_ns), tag, words));
    }
    let (at, rest) = short_full(line).or_else(|| syslog(line, clock))?;
    let (tag, words) = tagged(rest);
    Some((at, tag, words))
}

/// The name of the host behind the stamp; `None` where there is none.
pub(super) fn host(line: &str) -> Option<&str> {
    let line = undecorated(line);
    let is_word = |host: &str| !host.is_empty() && !host.contains([' ', ':']);
    let before_kernel = |words| without_caller(words).split_once(" kernel: ").map(|(host, _)| host);
    if let Some((stamp, words)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && is_stamp(stamp)
    {
        return before_kernel(words).filter(|host| is_word(host));
    }
    let (first, rest) = line.split_once(' ')?;
    if first.contains(',') && iso(&first.replace(',', ".")).is_some() {
        return before_kernel(rest).filter(|host| is_word(host));
    }
    let of_protocol = line.strip_prefix("1 ").and_then(|rest| rest.split_once(' ')).filter(|(at, _)| iso(at).is_some());
    let rest = match of_protocol {
        Some((_, rest)) => rest,
        None if iso(first).or_else(|| unix(first)).is_some() => rest,
        None => short_full(line).or_else(|| syslog(line, &Clock::default()))?.1,
    };
    let host = rest.trim_start().split(' ').next()?;
    // A dash stands for no name.
    (is_word(host) && host != "-" && !is_priority(host)).then_some(host)
}

/// `Nov 23 08:00:00 `.
fn syslog<'a>(line: &'a str, clock: &Clock) -> Option<(At, &'a str)> {
    let (month, rest) = line.split_once(' ')?;
    let (day, rest) = rest.trim_start().split_once(' ')?;
    let (time, rest) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
    let (month, day, (second, fraction)) = (month_of(month)?, day.digits()?, of_day(time)?);
    let at_ns = without_year(month, day, second, clock);
    let realtime_ns = at_ns.map_or(0, |ns| ns.saturating_add(fraction));
    Some((At { realtime_ns, is_local: true, ..At::default() }, rest))
}

/// Whether a text in brackets is a stamp of the kernel's log.
pub(super) fn is_stamp(text: &str) -> bool {
    Stamps::new(Clock::default()).bracket(text.trim()).is_some()
}

/// Without what `dmesg` puts around a stamp: colours, `<4>`, `kern  :warn  : `.
fn undecorated(line: &str) -> &str {
    let mut line = line.trim_start();
    while let Some(rest) = line.strip_prefix("\u{1b}[") {
        let Some((_, rest)) = rest.split_once('m').filter(|(code, _)| code.len() <= 16) else { break };
        line = rest.trim_start();
    }
    if let Some((level, rest)) = line.strip_prefix('<').and_then(|rest| rest.split_once('>'))
        && level.digits::<u16>().is_some()
    {
        return rest.trim_start();
    }
    let decoded = line.split_once(':').and_then(|(facility, rest)| Some((facility, rest.split_once(": ")?)));
    match decoded {
        Some((facility, (level, rest)))
            if FACILITIES.contains(&facility.trim_end()) && LEVELS.contains(&level.trim_end()) =>
        {
            rest.trim_start()
        }
        _ => line,
    }
}

/// `dmesg -x`.
const FACILITIES: [&str; 12] =
    ["kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp"];
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"];

/// Without `[    T1]` or `[    C0]`, which kernels with `CONFIG_PRINTK_CALLER` print behind the stamp.
fn without_caller(words: &str) -> &str {
    let words = words.trim_start();
    let Some((caller, rest)) = words.strip_prefix('[').and_then(|rest| rest.split_once(']')) else { return words };
    let number = caller.trim().strip_prefix(['T', 'C']);
    if number.is_some_and(|number| number.digits::<u32>().is_some()) { rest.trim_start() } else { words }
}

/// Without `host kernel: ` behind a stamp in brackets.
fn without_host(words: &str) -> &str {
    match words.split_once(" kernel: ") {
        Some((host, rest)) if !host.contains([' ', ':']) => rest.trim_start(),
        _ => words,
    }
}

/// `12.345678` as nanoseconds.
fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    let fraction = if fraction.is_empty() { return None } else { nanoseconds_of_fraction(fraction)? };
    whole.digits::<u64>()?.checked_mul(SECOND_NS)?.checked_add(fraction)
}

/// `1795420800.123456`.
fn unix(text: &str) -> Option<u64> {
    let is_long = text.split_once('.').is_some_and(|(whole, _)| whole.len() >= 9);
    is_long.then(|| seconds(text)).flatten()
}

/// `Mon Nov 23 08:00:00 2026`.
fn ctime(stamp: &str) -> Option<At> {
    let words: Vec<&str> = stamp.split_whitespace().collect();
    let &[weekday, month, day, time, year] = words.as_slice() else { return None };
    if weekday.len() != 3 || year.len() != 4 {
        return None;
    }
    let (month, (second, _)) = (month_of(month)?, of_day(time)?);
    // A day that no month has is a stamp that dates nothing.
    let realtime_ns = nanoseconds(year.digits()?, month, day.digits()?, second).unwrap_or(0);
    Some(At { realtime_ns, is_local: true, ..At::default() })
}

/// `Mon 2026-11-23 08:00:00 UTC `. Where the zone has several meanings the line dates nothing.
fn short_full(line: &str) -> Option<(At, &str)> {
    let (weekday, rest) = line.split_once(' ')?;
    let stamp = rest.get(..19).filter(|_| weekday.len() == 3)?;
    let at_ns = iso(stamp)?;
    let (zone, rest) = rest[19..].strip_prefix(' ')?.split_once(' ')?;
    let realtime_ns = offset_s(zone).and_then(|east_s| at_offset(at_ns, 0, east_s)).unwrap_or(0);
    Some((At { realtime_ns, ..At::default() }, rest))
}

/// The tag and the words behind `host tag: ` or `tag: `.
fn tagged(rest: &str) -> (&str, &str) {
    let rest = rest.trim_start();
    let (first, behind) = rest.split_once(' ').unwrap_or((rest, ""));
    // Without a name of the host (`journalctl --no-hostname`) the line begins with the tag.
    let rest = if first.ends_with(':') { rest } else { behind.trim_start() };
    let rest = rest.split_once(' ').filter(|(word, _)| is_priority(word)).map_or(rest, |(_, behind)| behind);
    let tag = rest.split_once(": ").filter(|(tag, _)| !tag.contains(' '));
    tag.map_or(("", rest), |(tag, words)| (tag, words.trim_start()))
}

/// What BusyBox writes before the tag.
fn is_priority(word: &str) -> bool {
    word.split_once('.').is_some_and(|(facility, level)| FACILITIES.contains(&facility) && LEVELS.contains(&level))
}

/// The same of RFC 5424: host, program, process, message id, and structured data, of which the kernel's lines have but the program.
fn tagged_by_protocol(rest: &str) -> (&str, &str) {
    let behind_host = rest.split_once(' ').map_or("", |(_, behind)| behind);
    let program = behind_host.split_once(" - - - ").filter(|(program, _)| !program.contains(' '));
    program.map_or(("", behind_host), |(program, words)| (program, words.trim_start()))
}

/// Without the seconds since boot and the caller, which rsyslog leaves in.
pub(super) fn without_since_boot(words: &str) -> &str {
    let words = without_caller(words);
    match words.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((stamp, after)) if seconds(stamp.trim()).is_some() => without_caller(after),
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    // `date -u -d '2026-11-23 08:00:00' +%s`.
    const AT: u64 = 1_795_420_800 * SECOND_NS;

    fn clock() -> Clock {
        Clock { now_realtime_ns: AT + 3600 * SECOND_NS, booted_realtime_ns: Some(AT - 100 * SECOND_NS) }
    }

    #[test]
    fn only_seconds_since_boot_need_the_time_of_the_boot() {
        let is_since_boot = |line: &str| Stamps::new(Clock::default()).take(line).0.is_since_boot;
        assert!(is_since_boot("[  100.000000] words"));
        for line in ["words", "[  +0.000012] words", "Nov 23 08:00:00 host kernel: words"] {
            assert!(!is_since_boot(line), "{line}");
        }
    }

    fn one(line: &str, clock: Clock) -> (u64, &str) {
        let (at, _, words) = Stamps::new(clock).take(line);
        (at.realtime_ns, words)
    }

    #[test]
    fn every_way_to_write_a_time_is_read() {
        for line in [
            "[  100.000000] words",
            "[  100.000000 <    0.000012>] words",
            "[  100.000000][    T1] words",
            "[  100.000000] [  C12] words",
            "[  100.000000] host kernel: words",
            "\u{1b}[32m[  100.000000] words",
            "<4>[  100.000000] words",
            "[Mon Nov 23 08:00:00 2026] words",
            "[Nov23 08:00] words",
            "Nov 23 08:00:00 host kernel: words",
            "Nov 23 08:00:00 host kernel: [   99.123456] words",
            "2026-11-23T08:00:00+0000 host kernel: words",
            "2026-11-23T08:00:00,000000+00:00 words",
            "Mon 2026-11-23 08:00:00 UTC host kernel: words",
            "Mon 2026-11-23 09:00:00 CET host kernel: words",
            "1795420800.000000 host kernel: words",
            "kern  :warn  : [  100.000000] words",
            "daemon:info  : [  100.000000] words",
            "<6>1 2026-11-23T08:00:00.000000+00:00 host kernel - - - [   99.123456] words",
            "Nov 23 08:00:00 host kern.warn kernel: [   99.123456] words",
            "Nov 23 08:00:00 kernel: words",
        ] {
            assert_eq!(one(line, clock()), (AT, "words"), "{line}");
            assert_eq!(Stamps::new(clock()).take(line).1, Origin::Kernel, "{line}");
        }
    }

    /// What `logger` can write: only a tag of `kernel` makes a line of syslog or the journal the kernel's.
    #[test]
    fn a_line_of_syslog_with_another_tag_is_not_the_kernel_s() {
        for header in [
            "Nov 23 08:00:00 host evil[77]:",
            "Nov 23 08:00:00 host evil:",
            "Nov 23 08:00:00 host evil: kernel:",
            "Nov 23 08:00:00 host a kernel:",
            "Nov 23 08:00:00 host kernel[77]:",
            "Nov 23 08:00:00 host mcelog:",
            "Nov 23 08:00:00 host user.notice evil:",
            "Nov 23 08:00:00 evil: kernel:",
            "Nov 23 08:00:00 host",
            "2026-11-23T08:00:00+0000 host evil[77]:",
            "2026-11-23T08:00:00.000000+00:00 host evil:",
            "Mon 2026-11-23 08:00:00 UTC host evil:",
            "1795420800.000000 host evil:",
            "<6>1 2026-11-23T08:00:00.000000+00:00 host evil 77 - -",
        ] {
            let line = format!("{header} EDAC MC0: 1 CE");
            let (at, origin, _) = Stamps::new(clock()).take(&line);
            assert_eq!((at.realtime_ns, origin), (AT, Origin::Program), "{line}");
        }
    }

    /// journalctl indents what stands behind a line feed of a message, and any program can write one.
    #[test]
    fn a_line_that_goes_on_with_a_message_is_not_the_kernel_s() {
        for (first, next) in [
            ("Nov 23 08:00:00 host evil[77]: hello", "    EDAC MC0: 1 CE"),
            ("Nov 23 08:00:00 host evil[77]: hello", "    Nov 23 08:00:00 host kernel: EDAC MC0: 1 CE"),
            ("Nov 23 08:00:00 host evil[77]: hello", "EDAC MC0: 1 CE"),
            ("[  100.000000] host evil[77]: hello", "    [  100.000000] EDAC MC0: 1 CE"),
            ("[  100.000000] host evil[77]: hello", "    EDAC MC0: 1 CE"),
        ] {
            let mut stamps = Stamps::new(clock());
            stamps.take(first);
            assert_eq!(stamps.take(next).1, Origin::Program, "{first} / {next}");
        }
        // A text that was indented as a whole.
        let mut stamps = Stamps::new(clock());
        stamps.take("    [  100.000000] usb 1-1: new device");
        assert_eq!(stamps.take("    [  100.000001] EDAC MC0: 1 CE").1, Origin::Kernel);
    }

    #[test]
    fn a_line_of_december_that_is_read_in_january_is_of_last_year() {
        let january = Clock { now_realtime_ns: iso("2027-01-02T00:00:00Z").unwrap(), booted_realtime_ns: None };
        assert_eq!(one("Dec 31 08:00:00 host kernel: x", january).0, iso("2026-12-31T08:00:00Z").unwrap());
        assert_eq!(one("Jan  1 08:00:00 host kernel: x", january).0, iso("2027-01-01T08:00:00Z").unwrap());
        assert_eq!(one("Feb 29 08:00:00 host kernel: x", january).0, iso("2024-02-29T08:00:00Z").unwrap());
    }

    #[test]
    fn a_time_since_the_line_before_is_no_time_since_boot() {
        for line in ["[  +0.000012] words", "[<    0.000012>] words", "[  +5.1] words"] {
            assert_eq!(one(line, clock()), (0, "words"), "{line}");
        }
        // It is of the minute that stands above it.
        let mut stamps = Stamps::new(clock());
        stamps.take("[Nov23 07:59] words");
        stamps.take("[Nov23 08:00] words");
        assert_eq!(
            stamps.take("[  +0.000012] words"),
            (At { realtime_ns: AT, is_local: true, is_relative: true, is_since_boot: false }, Origin::Kernel, "words")
        );
    }

    #[test]
    fn what_dates_nothing_is_0_and_the_words_stay() {
        assert_eq!(one("[  100.5] words", Clock::default()), (0, "words"));
        assert_eq!(one("Nov 23 08:00:00.5 host kernel: words", Clock::default()), (0, "words"));
        assert_eq!(one("Mon 2026-11-23 08:00:00 CST host kernel: words", clock()), (0, "words"));
        for line in [
            "words",
            "[Hardware Error]: words",
            "[Mo Nov 23 08:00:00 26] words",
            "[ +] x",
            "[1e5.0] x",
            "Nov +3 08:00:00 x",
        ] {
            let words = if line.starts_with('[') { line } else { one(line, clock()).1 };
            assert_eq!(one(line, clock()), (0, words), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_text_does_harm(text in "\\PC*", dates in "[0-9:/TZ.,+<> \\[\\]-]{0,40}") {
            let _ = (one(&text, clock()), one(&dates, clock()));
        }
    }
}
