//! What the kernel logged of its own accounting: storms, and records that it lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use surefoot_hostfs::Root;
use surefoot_model::Digits;

/// The kernel's own buffer is rarely larger.
const LOG_BYTES_MAX: usize = 16 << 20;
/// A log that is written faster than it is read is not read to its end.
const OVERWRITTEN_MAX: u32 = 100;
/// Banks in a storm at once that are told apart.
const STORMS_MAX: usize = 1024;
/// Memory controllers whose driver is kept.
const CONTROLLERS_MAX: usize = 1024;
/// A line is shown up to here.
const LINE_MAX: usize = 120;

/// What stands in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelLog {
    /// Storms that have not subsided: `CPU3 BANK7`, or the empty text for all of the host on kernels before 6.8.
    pub storms: BTreeSet<String>,
    /// Storms that came, subsided or not.
    pub storm_count: u64,
    /// Lines that say that records were lost, the last of them, and how many there are.
    pub lost: Option<(String, u64)>,
    /// Lines that were read.
    pub lines: u64,
    /// The driver of each memory controller by its number, and whether it polls, as the kernel says when it hands it over.
    pub drivers: BTreeMap<u32, (String, Option<bool>)>,
}

/// The kernel's log from the beginning, without waiting for more. In a recorded tree `dev/kmsg` is a file in the same form.
fn text(root: &Root) -> Result<String, String> {
    let path = root.dev("kmsg");
    let mut file = root.open_plain(&path).map_err(|error| {
        if error.is_absent() {
            return format!("there is no {}; give `dmesg` or journalctl's log to `memory import`", path.display());
        }
        format!("{}: {}", path.display(), crate::read::reason(&error))
    })?;
    let mut text = Vec::new();
    let mut buffer = vec![0; 16 << 10];
    let mut overwritten = 0;
    while text.len() < LOG_BYTES_MAX && overwritten < OVERWRITTEN_MAX {
        match file.read(&mut buffer) {
            Ok(0) => break,
            // The device gives one record for each reading.
            Ok(length) => text.extend_from_slice(&buffer[..length]),
            // Records were overwritten before they were read: the next reading goes on behind them.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => overwritten += 1,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The lines of the kernel itself: facility 0. Others may write what they like.
pub(crate) fn messages(root: &Root) -> Result<Vec<String>, String> {
    let text = text(root)?;
    Ok(text.lines().filter_map(own_message).map(str::to_owned).collect())
}

/// `6,339,5140900,-;message`; lines that begin with a blank belong to the one before.
fn own_message(line: &str) -> Option<&str> {
    let (head, message) = line.split_once(';').filter(|_| !line.starts_with(' '))?;
    let level: Option<u32> = head.split(',').next()?.digits();
    (level? < 8).then_some(message)
}

impl KernelLog {
    /// Reads it from the beginning, without waiting for more.
    pub(super) fn read(root: &Root) -> Result<Self, String> {
        Ok(Self::parse(&text(root)?))
    }

    fn parse(text: &str) -> Self {
        let mut found = KernelLog::default();
        for line in text.lines().filter(|line| !line.starts_with(' ') && line.contains(';')) {
            found.lines += 1;
            own_message(line).into_iter().for_each(|message| found.take(message));
        }
        found
    }

    fn take(&mut self, message: &str) {
        let shown = || message.chars().take(LINE_MAX).collect::<String>();
        let subject =
            |mark: &str| message.split(mark).next().unwrap_or_default().trim_start_matches("mce: ").trim().to_owned();
        if let Some(said) = message.strip_prefix("EDAC MC") {
            self.take_driver(said);
        }
        const BEGUN: &str = "CMCI storm detected";
        const ENDED: &str = "CMCI storm subsided";
        if message.contains(BEGUN) {
            self.storm_count += 1;
            if self.storms.len() < STORMS_MAX {
                self.storms.insert(subject(BEGUN));
            }
        } else if message.contains(ENDED) {
            self.storms.remove(&subject(ENDED));
        } else if message.contains("MCE records pool full")
            || (message.contains("Lost ") && message.contains(" memory errors"))
        {
            let count = self.lost.take().map_or(0, |(_, count)| count);
            self.lost = Some((shown(), count + 1));
        }
    }
}

impl KernelLog {
    /// `0: Giving out device to module M controller C: DEV D (POLLED)` or `(INTERRUPT)`; before 3.13 `to 'M' 'C': DEV D`, which says
    /// neither. `Removed device 0 for M C: DEV D`.
    fn take_driver(&mut self, said: &str) {
        let Some((number, said)) = said.split_once(": ") else { return };
        if let Some(rest) = said.strip_prefix("Removed device ") {
            let number = rest.split(' ').next().and_then(|number| number.digits().or_else(|| mc_number(number)));
            number.and_then(|number: u32| self.drivers.remove(&number));
            return;
        }
        let Some(rest) = said.strip_prefix("Giving out device to ") else { return };
        let rest = rest.strip_prefix("module ").unwrap_or(rest);
        let module = rest.split(' ').next().unwrap_or_default().trim_matches('\'').trim_end_matches(".c");
        let is_polled = match rest.rsplit_once('(').map(|(_, state)| state.trim_end()) {
            Some("POLLED)") => Some(true),
            Some("INTERRUPT)") => Some(false),
            _ => None,
        };
        if let Some(number) = number.digits().filter(|_| self.drivers.len() < CONTROLLERS_MAX) {
            self.drivers.insert(number, (module.chars().take(LINE_MAX).collect(), is_polled));
        }
    }
}

/// `mc0`.
fn mc_number(name: &str) -> Option<u32> {
    name.strip_prefix("mc").or_else(|| name.strip_prefix("MC"))?.digits()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_lasts_until_it_has_subsided() {
        let log = KernelLog::parse(
            "4,1,10,-;mce: CPU3 BANK7 CMCI storm detected\n SUBSYSTEM=x\n4,2,11,-;mce: CPU4 BANK7 CMCI storm detected\n\
             4,3,12,-;mce: CPU3 BANK7 CMCI storm subsided\n",
        );
        assert_eq!(log.storms, BTreeSet::from(["CPU4 BANK7".to_owned()]));
        assert_eq!((log.storm_count, log.lines), (2, 3));
        let old = KernelLog::parse("4,1,10,-;CMCI storm detected: switching to poll mode\n");
        assert_eq!(old.storms, BTreeSet::from([String::new()]));
    }

    #[test]
    fn users_cannot_make_up_storms() {
        let log = KernelLog::parse("12,1,10,-;mce: CPU3 BANK7 CMCI storm detected\nno record\n");
        assert_eq!((log.storm_count, log.lines), (0, 1));
    }

    /// From public logs of kernels of several ages.
    #[test]
    fn the_kernel_says_which_driver_polls() {
        let of = |message: &str| KernelLog::parse(&format!("6,1,1,-;{message}\n")).drivers;
        let one = |module: &str, is_polled| BTreeMap::from([(0, (module.to_owned(), is_polled))]);
        for (message, drivers) in [
            (
                "EDAC MC0: Giving out device to module amd64_edac controller F19h_M60h: DEV 0000:00:18.3 (INTERRUPT)",
                one("amd64_edac", Some(false)),
            ),
            (
                "EDAC MC0: Giving out device to module ghes_edac.c controller ghes_edac: DEV ghes (INTERRUPT)",
                one("ghes_edac", Some(false)),
            ),
            (
                "EDAC MC0: Giving out device to module x38_edac controller x38: DEV 0000:00:00.0 (POLLED)",
                one("x38_edac", Some(true)),
            ),
            ("EDAC MC0: Giving out device to 'i82875p_edac' 'i82875p': DEV 0000:00:00.0", one("i82875p_edac", None)),
            // Of PCI, and of what is no memory controller.
            ("EDAC PCI0: Giving out device to module 'x' controller 'y': DEV 'z' (POLLED)", BTreeMap::new()),
            ("EDAC DEVICE0: Giving out device to module x controller y: DEV z (INTERRUPT)", BTreeMap::new()),
        ] {
            assert_eq!(of(message), drivers, "{message}");
        }
        let given = "6,1,1,-;EDAC MC0: Giving out device to module x_edac controller x: DEV d (POLLED)\n";
        let removed = "6,2,2,-;EDAC MC: Removed device 0 for x_edac x: DEV d\n";
        assert_eq!(KernelLog::parse(&format!("{given}{removed}")).drivers, BTreeMap::new());
        assert_eq!(KernelLog::parse(&given.replace("6,", "14,")).drivers, BTreeMap::new(), "of a program");
    }

    #[test]
    fn lost_records_are_counted() {
        let log = KernelLog::parse("3,1,1,-;MCE records pool full!\n3,2,2,-;EDAC sbridge: Lost 7 memory errors\n");
        assert_eq!(log.lost, Some(("EDAC sbridge: Lost 7 memory errors".into(), 2)));
    }
}
