use crate::keep::run_directory::{Readers, RunDirectory};
use crate::rooms::Room;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use surefoot_http::json;
use surefoot_model::{Finding, Headline, Health, Part, RoomHealth};
use surefoot_rooms::moment::{Findings, Moment};

/// The host's health as the findings of a moment say it. Other programs act on it, so that it takes the word of the host
/// and of users whose word is `trusted`, and nobody else's.
pub(crate) fn of(
    findings: &Findings,
    trusted: &BTreeSet<u32>,
    rooms: &[Arc<dyn Room>],
    moment: &Moment,
    updated_realtime_ns: u64,
) -> Health {
    let is_trusted = |finding: &&Finding| finding.uid.is_none_or(|uid| trusted.contains(&uid));
    // Everybody may read the file.
    let told: Vec<Finding> = findings.all.iter().filter(is_trusted).cloned().map(Finding::for_everybody).collect();
    let of_room = |room: surefoot_model::Room| {
        let own: Vec<Finding> = told.iter().filter(|finding| finding.room == room).cloned().collect();
        (room, RoomHealth::of(own))
    };
    // A room that looks at nothing here says nothing of the host.
    let watching = rooms.iter().filter(|room| room.why_not_watched(moment).is_none());
    let (parts, parts_left_out) = Part::told_apart(rooms.iter().flat_map(|room| room.parts()).collect());
    Health {
        version: Health::VERSION,
        updated_realtime_ns,
        host: moment.host.as_ref().map(|host| host.hostname.clone()).unwrap_or_default(),
        headline: Headline::of(&told),
        data_age_ns: moment.age_ns,
        lost: rooms.iter().find_map(|room| room.lost(moment)),
        rooms: watching.map(|room| of_room(room.room())).collect::<BTreeMap<_, _>>(),
        parts,
        parts_left_out,
    }
}

/// The same health is written again after this time, long before readers take its writer for dead: a file that is
/// replaced costs every reader of its directory something, and a disk's journal a write.
const RENEW_NS: u64 = 20_000_000_000;

/// The file in the run directory, which one process at a time publishes.
#[derive(Debug)]
pub(crate) struct HealthFile {
    directory: Arc<RunDirectory>,
    written: Option<Health>,
}

/// What became of health that was to be published.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// The file was replaced.
    Written,
    /// The file says it already.
    Unchanged,
    /// Another process publishes here.
    ByAnother,
}

impl HealthFile {
    pub(crate) fn new(directory: Arc<RunDirectory>) -> Self {
        HealthFile { directory, written: None }
    }

    /// Publishes this health, if it is another than the file says or the file would soon be too old.
    pub(crate) fn write(&mut self, health: &Health) -> io::Result<Published> {
        if !self.directory.is_ours()? {
            return Ok(Published::ByAnother);
        }
        if self.written.as_ref().is_some_and(|written| is_said_by(written, health)) {
            return Ok(Published::Unchanged);
        }
        self.written = None;
        self.directory.replace(Health::FILE_NAME, &text(health)?, Readers::All)?;
        self.written = Some(health.clone());
        Ok(Published::Written)
    }
}

/// Whether a file that says the one says the other as well, and is young enough for its readers.
///
/// The age of the data moves all the time and says nothing while there are some: once they are old, a finding says so. What was lost moves
/// as well, and where it matters a finding says so.
fn is_said_by(written: &Health, now: &Health) -> bool {
    let is_young = now.updated_realtime_ns.abs_diff(written.updated_realtime_ns) < RENEW_NS;
    let Health { updated_realtime_ns, data_age_ns, lost, .. } = *now;
    let same = Health { updated_realtime_ns, data_age_ns, lost, ..written.clone() };
    let is_known = |health: &Health| (health.data_age_ns.is_some(), health.lost.is_some());
    is_young && is_known(written) == is_known(now) && same == *now
}

/// The file's text; evidence goes, and then findings, then parts, until it is as short as readers take it.
fn text(health: &Health) -> io::Result<Vec<u8>> {
    let mut health = health.clone();
    loop {
        let mut text = json::to_vec(&health)?;
        text.push(b'\n');
        if text.len() as u64 <= Health::FILE_BYTES_MAX {
            return Ok(text);
        }
        let Some(room) = health.rooms.values_mut().max_by_key(|room| weight(room)) else { return Err(too_long()) };
        if room.findings.iter().any(|finding| !finding.evidence.is_empty()) {
            let lines = room.findings.iter_mut().map(|finding| std::mem::take(&mut finding.evidence).len());
            room.evidence_left_out += lines.sum::<usize>() as u64;
        } else if room.findings.pop().is_some() {
            room.findings_left_out += 1;
        } else if !health.parts.is_empty() {
            health.parts_left_out += std::mem::take(&mut health.parts).len() as u64;
        } else {
            return Err(too_long());
        }
    }
}

fn too_long() -> io::Error {
    io::Error::other("the health file is too long even without findings")
}

fn weight(room: &RoomHealth) -> usize {
    let texts = |finding: &Finding| {
        finding.key.len() + finding.sentence.len() + finding.evidence.iter().map(String::len).sum::<usize>() + 200
    };
    room.findings.iter().map(texts).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use surefoot_model::{Part, Severity, Subject, SubjectKind};

    fn file_in(path: &Path) -> HealthFile {
        HealthFile::new(Arc::new(RunDirectory::open(path).unwrap()))
    }

    fn health(updated_s: u64, sentence: &str, data_age_ns: Option<u64>) -> Health {
        let headline = Headline::new(Severity::Notice, sentence);
        let (version, updated_realtime_ns) = (Health::VERSION, updated_s * 1_000_000_000);
        Health {
            version,
            updated_realtime_ns,
            host: String::new(),
            headline,
            data_age_ns,
            lost: None,
            rooms: BTreeMap::new(),
            parts: Vec::new(),
            parts_left_out: 0,
        }
    }

    #[test]
    fn a_file_that_would_say_the_same_is_replaced_only_before_it_is_too_old() {
        use std::os::unix::fs::MetadataExt;
        let home = tempfile::tempdir().unwrap();
        let mut file = file_in(home.path());
        let mut write = |health: &Health| {
            let published = file.write(health).unwrap();
            (published, fs::metadata(home.path().join(Health::FILE_NAME)).unwrap().ino())
        };
        let (first, inode) = write(&health(100, "a", Some(5)));
        assert_eq!(first, Published::Written);
        for second in 101..120 {
            assert_eq!(write(&health(second, "a", Some(second))), (Published::Unchanged, inode), "{second}");
        }
        let renewed = write(&health(120, "a", Some(5)));
        assert!(renewed.0 == Published::Written && renewed.1 != inode);
        const { assert!(RENEW_NS * 2 < Health::STALE_NS, "no reader takes it for dead in between") };
        assert_eq!(write(&health(121, "b", Some(5))).0, Published::Written, "another sentence");
        assert_eq!(write(&health(122, "b", None)).0, Published::Written, "the data are gone");
        assert_eq!(write(&health(95, "b", None)).0, Published::Written, "the clock was set back");
    }

    #[test]
    fn a_second_process_in_the_same_directory_touches_nothing_until_the_first_has_ended() {
        let home = tempfile::tempdir().unwrap();
        let mut first = file_in(home.path());
        assert_eq!(first.write(&health(1, "first", None)).unwrap(), Published::Written);
        let mut second = file_in(home.path());
        assert_eq!(second.write(&health(1, "second", None)).unwrap(), Published::ByAnother);
        second.directory.close(&[Health::FILE_NAME]);
        let said = || fs::read_to_string(home.path().join(Health::FILE_NAME)).unwrap_or_default();
        assert!(said().contains("first"), "{}", said());
        let mut third = file_in(home.path());
        first.directory.close(&[Health::FILE_NAME]);
        assert_eq!(third.write(&health(2, "third", None)).unwrap(), Published::Written);
        assert!(said().contains("third"));
    }

    #[test]
    fn a_health_file_is_never_longer_than_its_readers_take() {
        let finding = |number: usize| {
            let subject = Subject::new(SubjectKind::Job, format!("{number}"));
            let room = surefoot_model::Room::Checkpoint;
            Finding::new(room, "stale", subject, Severity::Warning, "x".repeat(6_000))
                .with_evidence(vec!["y".repeat(5_000)])
        };
        let findings: Vec<Finding> = (0..20).map(finding).collect();
        let rooms = BTreeMap::from([(surefoot_model::Room::Checkpoint, RoomHealth::of(findings))]);
        let headline = Headline::new(Severity::Warning, "");
        let (version, host) = (Health::VERSION, String::new());
        let part = |number: usize| Part {
            kind: SubjectKind::Dimm,
            name: format!("S{number}"),
            place: "p".repeat(500),
            serial: format!("S{number}"),
            model: String::new(),
        };
        let parts: Vec<Part> = (0..200).map(part).collect();
        let health = Health {
            version,
            updated_realtime_ns: 1,
            host,
            headline,
            data_age_ns: None,
            lost: None,
            rooms,
            parts,
            parts_left_out: 0,
        };
        let text = text(&health).unwrap();
        assert!(text.len() as u64 <= Health::FILE_BYTES_MAX);
        let read: Health = serde_json::from_slice(&text).unwrap();
        let room = &read.rooms[&surefoot_model::Room::Checkpoint];
        assert_eq!((room.findings.len() as u64 + room.findings_left_out, room.evidence_left_out), (20, 20));
        assert_eq!((room.severity, read.parts.len(), read.parts_left_out), (Severity::Warning, 0, 200));
    }
}
