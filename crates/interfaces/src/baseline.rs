//! What round trips usually are: kept in a file between runs, or learned from the first rounds of a watch.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use surefoot_hostfs::Root;
use surefoot_model::{InterfaceProbe, ProbeKind, RoundTrips};

/// The longest file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Neighbours that are kept.
const ENTRIES_MAX: usize = 1024;
/// The first line of the format.
const FORMAT: u32 = 1;
/// Rounds of a watch that are learned from.
const ROUNDS: usize = 3;
/// Answers that a baseline rests on at least.
const ANSWERS_MIN: u64 = 10;

/// What is usual of each neighbour, by interface, kind and address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Baselines {
    usual: BTreeMap<String, RoundTrips>,
    learning: BTreeMap<String, Vec<RoundTrips>>,
    is_changed: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    round_trips: BTreeMap<String, RoundTrips>,
}

fn key(interface: &str, probe: &InterfaceProbe) -> String {
    let kind = match probe.kind {
        ProbeKind::Packet => "packet",
        ProbeKind::Arp => "arp",
        ProbeKind::Icmp => "icmp",
    };
    format!("{interface} {kind} {}", probe.peer)
}

impl Baselines {
    /// Reads a file; one that is not there yet holds none.
    ///
    /// # Errors
    /// [`Error::File`] where it is damaged or of another kind.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let bad = |why: String| Error::File {
            path: path.to_path_buf(),
            why: format!("not a baseline file ({why}); name another file, or remove this one to start over"),
        };
        let text = match Root::host().read_up_to(path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.is_absent() => return Ok(Baselines::default()),
            Err(error) => return Err(error.into()),
        };
        let file: File = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if file.format != FORMAT || file.round_trips.len() > ENTRIES_MAX {
            return Err(bad(format!("format {}, {} neighbours", file.format, file.round_trips.len())));
        }
        Ok(Baselines { usual: file.round_trips, ..Baselines::default() })
    }

    /// Writes the file anew, if anything was learned.
    ///
    /// # Errors
    /// [`Error::File`] where it cannot be written; it then is what it was.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        if !self.is_changed {
            return Ok(());
        }
        let file = File { format: FORMAT, round_trips: self.usual.clone() };
        let written = || -> io::Result<()> {
            let text = serde_json::to_string_pretty(&file)?;
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}.new", std::process::id()));
            let new = Path::new(&name);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let mut out = options.open(new)?;
            let done =
                out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).and_then(|()| fs::rename(new, path));
            if done.is_err() {
                // What is left of a half-written file helps nobody.
                let _ = fs::remove_file(new);
            }
            done
        };
        written().map_err(|error| Error::File { path: path.to_path_buf(), why: format!("cannot be written: {error}") })
    }

    /// Whether this neighbour is known to answer.
    pub fn knows(&self, interface: &str, kind: ProbeKind, peer: &str) -> bool {
        let probe = InterfaceProbe {
            peer: peer.to_owned(),
            kind,
            sent_count: 0,
            refused_count: 0,
            answered_count: 0,
            wait_ns: 0,
            round_trips: None,
            baseline: None,
            has_answered: false,
            other_version_count: 0,
        };
        self.usual.contains_key(&key(interface, &probe))
    }

    /// Puts what is usual beside what was seen, and learns from it as long as too little is known.
    pub fn apply(&mut self, interface: &str, probe: &mut InterfaceProbe) {
        let key = key(interface, probe);
        if let Some(usual) = self.usual.get(&key) {
            probe.baseline = Some(*usual);
            return;
        }
        let is_whole = probe.answered_count == probe.sent_count && probe.answered_count >= ANSWERS_MIN;
        let Some(seen) = probe.round_trips.filter(|_| is_whole) else { return };
        if self.usual.len() + self.learning.len() >= ENTRIES_MAX && !self.learning.contains_key(&key) {
            return;
        }
        let rounds = self.learning.entry(key).or_default();
        if rounds.len() < ROUNDS {
            rounds.push(seen);
        }
    }

    /// Ends the learning of each neighbour of which there are enough rounds; of a single run, one is enough.
    pub fn learned(&mut self, is_last: bool) {
        let enough = if is_last { 1 } else { ROUNDS };
        let done: Vec<String> =
            self.learning.iter().filter(|(_, rounds)| rounds.len() >= enough).map(|(key, _)| key.clone()).collect();
        for key in done {
            let Some(mut rounds) = self.learning.remove(&key) else { continue };
            // The round in the middle: the first may have been slowed by whatever starts a watch.
            rounds.sort_by_key(|round| round.p50_ns);
            self.usual.insert(key, rounds[rounds.len() / 2]);
            self.is_changed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn probe(answered_count: u64, p50_ns: u64) -> InterfaceProbe {
        InterfaceProbe {
            peer: "192.0.2.7".into(),
            kind: ProbeKind::Icmp,
            sent_count: 20,
            refused_count: 0,
            answered_count,
            wait_ns: 1,
            round_trips: Some(RoundTrips { p50_ns, p99_ns: p50_ns, max_ns: p50_ns, count: answered_count }),
            baseline: None,
            has_answered: true,
            other_version_count: 0,
        }
    }

    #[test]
    fn a_watch_learns_from_its_first_whole_rounds_and_no_more() {
        let mut baselines = Baselines::default();
        for (answered, p50) in [(20, 900), (19, 5_000), (20, 100), (20, 120), (20, 9_000)] {
            let mut seen = probe(answered, p50);
            baselines.apply("eth0", &mut seen);
            baselines.learned(false);
        }
        let mut seen = probe(20, 9_000);
        baselines.apply("eth0", &mut seen);
        assert_eq!(seen.baseline.unwrap().p50_ns, 120, "that in the middle of the first three whole ones");
        let mut at_the_end = Baselines::default();
        (1..=9).for_each(|p50| at_the_end.apply("eth0", &mut probe(20, p50)));
        at_the_end.learned(true);
        at_the_end.apply("eth0", &mut seen);
        assert_eq!(seen.baseline.unwrap().p50_ns, 2, "no more rounds are kept");
        let mut other = probe(20, 1);
        baselines.apply("eth1", &mut other);
        assert_eq!(other.baseline, None, "another interface is another way");
    }

    #[test]
    fn what_was_learned_is_there_in_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("usual.json");
        let mut baselines = Baselines::load(&path).unwrap();
        baselines.save(&path).unwrap();
        assert!(!path.exists(), "nothing was learned");
        baselines.apply("eth0", &mut probe(20, 100));
        baselines.learned(true);
        baselines.save(&path).unwrap();
        let mut again = Baselines::load(&path).unwrap();
        assert!(again.knows("eth0", ProbeKind::Icmp, "192.0.2.7") && !again.knows("eth0", ProbeKind::Arp, "192.0.2.7"));
        let mut seen = probe(20, 500);
        again.apply("eth0", &mut seen);
        assert_eq!(seen.baseline.unwrap().p50_ns, 100);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_of_another_kind_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "{}", "{\"format\":2,\"round_trips\":{}}", "{\"format\":1,\"round_trips\":{},\"more\":1}"] {
            let path = folder.path().join("other");
            fs::write(&path, text).unwrap();
            let error = Baselines::load(&path).unwrap_err().to_string();
            assert!(error.contains("other: not a baseline file"), "{error}");
        }
    }
}
