use crate::http::json;
use crate::keep::board::Findings;
use crate::keep::stream::Moment;
use crate::rooms::Room;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use surefoot_model::{Finding, Health, RoomHealth};

/// The host's health as the findings of a moment say it.
pub(crate) fn of(findings: &Findings, rooms: &[Arc<dyn Room>], moment: &Moment, updated_realtime_ns: u64) -> Health {
    let of_room = |room: surefoot_model::Room| {
        let own: Vec<Finding> = findings.all.iter().filter(|finding| finding.room == room).cloned().collect();
        (room, RoomHealth::of(own))
    };
    // A room that looks at nothing here says nothing of the host.
    let watching = rooms.iter().filter(|room| room.why_not_watched(moment).is_none());
    Health {
        version: Health::VERSION,
        updated_realtime_ns,
        host: moment.host.as_ref().map(|host| host.hostname.clone()).unwrap_or_default(),
        headline: findings.headline.clone(),
        data_age_ns: moment.age_ns,
        rooms: watching.map(|room| of_room(room.room())).collect::<BTreeMap<_, _>>(),
    }
}

/// The file and the name under which it is prepared, which no other process uses.
#[derive(Debug, Clone)]
pub(crate) struct HealthFile {
    path: PathBuf,
    prepared: PathBuf,
}

impl HealthFile {
    /// # Errors
    /// When the directory cannot be written.
    pub(crate) fn in_directory(directory: &Path) -> io::Result<Self> {
        let prepared = directory.join(format!(".{}.{}", Health::FILE_NAME, std::process::id()));
        let file = HealthFile { path: directory.join(Health::FILE_NAME), prepared };
        // Found out now, while somebody looks at the terminal.
        file.prepare()?;
        fs::remove_file(&file.prepared)?;
        Ok(file)
    }

    /// Replaces the file as a whole. Not forced to the disk: after a crash its content is void anyway.
    pub(crate) fn write(&self, health: &Health) -> io::Result<()> {
        let text = text(health)?;
        let written = self
            .prepare()
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&self.prepared, &self.path));
        if written.is_err() {
            // Half a file would be in the way of nobody, but it would stay for ever.
            let _ = fs::remove_file(&self.prepared);
        }
        written
    }

    /// Creates the file under its own name. What lies there already is not written to: it may be a link or a pipe that
    /// somebody else has put there.
    fn prepare(&self) -> io::Result<fs::File> {
        match fs::remove_file(&self.prepared) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::OpenOptions::new().write(true).create_new(true).open(&self.prepared)
    }

    /// Takes the file away, so that nobody believes in it after the end.
    pub(crate) fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The file's text; evidence goes, and then findings, until it is as short as readers take it.
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
            room.findings.iter_mut().for_each(|finding| finding.evidence.clear());
        } else if room.findings.pop().is_some() {
            room.findings_left_out += 1;
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
    use surefoot_model::{Headline, Severity, Subject, SubjectKind};

    #[test]
    fn a_link_in_the_place_of_the_prepared_file_leads_nowhere() {
        let home = tempfile::tempdir().unwrap();
        let victim = home.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let prepared = home.path().join(format!(".health.json.{}", std::process::id()));
        std::os::unix::fs::symlink(&victim, &prepared).unwrap();
        HealthFile::in_directory(home.path()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
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
        let headline = Headline { severity: Severity::Warning, sentence: String::new() };
        let (version, host) = (Health::VERSION, String::new());
        let health = Health { version, updated_realtime_ns: 1, host, headline, data_age_ns: None, rooms };
        let text = text(&health).unwrap();
        assert!(text.len() as u64 <= Health::FILE_BYTES_MAX);
        let read: Health = serde_json::from_slice(&text).unwrap();
        let room = &read.rooms[&surefoot_model::Room::Checkpoint];
        assert_eq!(room.findings.len() as u64 + room.findings_left_out, 20);
        assert!(room.findings.len() > 5 && room.severity == Severity::Warning);
    }
}
