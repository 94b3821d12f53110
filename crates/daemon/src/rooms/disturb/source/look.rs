//! One look at the journals of experiments.

use super::journal::{Journal, clipped};
use super::names::{Directory, is_trusted};
use crate::rooms::turns::in_turn;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use surefoot_foreign::About;
use surefoot_hostfs::clock;
use surefoot_model::{DisturbEvent, ExperimentBegan, ExperimentLook, one_line};

/// Entries of directories that one look reads; the looks after it read the rest.
const ENTRIES_MAX: usize = 1 << 16;
/// Bytes of journals that one look reads, some more at most; the looks after it read the rest. What they say has to find room in the
/// queue of a watch.
const BYTES_MAX: u64 = 3 << 20;
/// Journals that are read.
pub(super) const JOURNALS_MAX: usize = surefoot_rooms::disturb::state::EXPERIMENTS_MAX;
/// Users of whom it is told how many journals are left out.
const USERS_TOLD: usize = 8;
/// Problems that are told.
const PROBLEMS_MAX: usize = 32;

/// The journals of some directories.
pub(in crate::rooms) struct Experiments {
    directories: Vec<Directory>,
    journals: Journals,
    /// Entries of directories that one look reads.
    entries_max: usize,
    /// Whether somebody named the directories: then one that does not exist is none without experiments.
    are_named: bool,
}

impl Default for Experiments {
    fn default() -> Self {
        Experiments {
            directories: Vec::new(),
            journals: Journals::default(),
            entries_max: ENTRIES_MAX,
            are_named: false,
        }
    }
}

/// How far journals were read, by the names of their experiments.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(in crate::rooms) struct Journals(BTreeMap<String, Journal>);

impl Journals {
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Removes those in this directory of which this holds, and tells that they are gone.
    fn remove_of(&mut self, directory: &Path, is_gone: impl Fn(&str) -> bool, events: &mut Vec<DisturbEvent>) {
        self.0.retain(|name, journal| {
            let is_there = !journal.is_in(directory) || !is_gone(name);
            if !is_there {
                events.push(DisturbEvent::Gone { experiment: name.clone() });
            }
            is_there
        });
    }
}

impl Experiments {
    /// Of directories that somebody named, or of those where experiments are kept.
    pub(in crate::rooms) fn in_directories(are_named: bool) -> Self {
        Experiments { are_named, ..Experiments::default() }
    }

    /// Looks into these directories from now on, and reads on from there.
    pub(in crate::rooms) fn look_into(&mut self, directories: Vec<PathBuf>, known: Option<Journals>) {
        if !self.directories.iter().map(|directory| &directory.path).eq(&directories) {
            self.directories = directories.iter().map(|path| Directory::of(path)).collect();
        }
        if let Some(known) = known {
            self.journals = known;
        }
    }

    /// How far they were read.
    pub(in crate::rooms) fn journals(&self) -> Journals {
        self.journals.clone()
    }

    pub(super) fn count(&self) -> usize {
        self.journals.count()
    }

    /// What there is to tell, and last the look itself. `begins` is told the number of a directory before anything is asked for
    /// there.
    pub(in crate::rooms) fn look(&mut self, begins: &mut dyn FnMut(usize)) -> Vec<DisturbEvent> {
        let (begun, now_ns, now_realtime_ns) = (Instant::now(), clock::monotonic_ns(), clock::realtime_ns());
        let mut look = ExperimentLook { looked_realtime_ns: now_realtime_ns, ..ExperimentLook::default() };
        let mut events = Vec::new();
        let found = self.find(&mut look, begins, &mut events);
        let chosen = self.choose(found, &mut look, &mut events);
        let mut room = BYTES_MAX;
        for one in chosen {
            begins(one.at);
            let path = self.directories[one.at].path.join(ExperimentBegan::journal(&one.name));
            let name = one.name;
            let journal =
                self.journals.0.entry(name.clone()).or_insert_with(|| Journal::of(&self.directories[one.at].path));
            match journal.open(&path) {
                // It was removed since its name was read.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => problem(&mut look, &path, &error.to_string()),
                Ok(()) => {}
            }
            if room > 0 {
                room = room.saturating_sub(journal.read_on(&name, (now_ns, now_realtime_ns), room, &mut events));
            }
            if let Some(why) = &journal.problem {
                problem(&mut look, &path, why);
            }
            // Its process may not have come to lock it yet: it is opened again at the next look.
            if journal.has_nothing() {
                self.journals.0.remove(&name);
            }
        }
        look.at_ns = clock::monotonic_ns();
        look.look_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        events.push(DisturbEvent::Look(look));
        events
    }

    /// The journals in the directories, those that are read already included. Of these the ones that were removed are told.
    fn find(
        &mut self,
        look: &mut ExperimentLook,
        begins: &mut dyn FnMut(usize),
        events: &mut Vec<DisturbEvent>,
    ) -> Vec<Candidate> {
        let mut found = Vec::new();
        let entries_max = self.entries_max.div_ceil(self.directories.len().max(1));
        for (at, directory) in self.directories.iter_mut().enumerate() {
            begins(at);
            // No file in it is asked for by its path, and none has to answer: a user can mount a file system over a file of theirs.
            let held = match held(&directory.path) {
                Ok(held) => held,
                Err(error) => {
                    let is_gone = error.kind() == ErrorKind::NotFound;
                    if is_gone {
                        self.journals.remove_of(&directory.path, |_| true, events);
                    }
                    // Without a name it is where experiments are kept once somebody has made one.
                    if !is_gone || self.are_named {
                        problem(look, &directory.path, &error.to_string());
                        look.directories_unread += 1;
                    }
                    continue;
                }
            };
            look.directories.push(one_line(&directory.path.to_string_lossy()));
            self.journals.remove_of(&directory.path, |name| is_gone(&held, name), events);
            match directory.read_on(&held, entries_max) {
                Ok(true) => {}
                Ok(false) => {
                    let why = format!(
                        "more than {entries_max} entries; new experiments are found late; remove the other files"
                    );
                    problem(look, &directory.path, &why);
                }
                Err(error) => problem(look, &directory.path, &error.to_string()),
            }
            for (uid, name) in directory.newest() {
                let known = self.journals.0.get(&name).filter(|known| known.is_in(&directory.path));
                found.push(Candidate {
                    is_known: known.is_some(),
                    is_running: known.is_some_and(Journal::is_running),
                    at,
                    uid,
                    name,
                });
            }
        }
        self.add_known(&mut found);
        found
    }

    /// Adds the journals that are read and that a reading has not come to, or whose users have newer ones.
    fn add_known(&self, found: &mut Vec<Candidate>) {
        let known: BTreeSet<String> = found.iter().filter(|one| one.is_known).map(|one| one.name.clone()).collect();
        for (name, journal) in self.journals.0.iter().filter(|(name, _)| !known.contains(*name)) {
            if let Some(at) = self.directories.iter().position(|directory| journal.is_in(&directory.path)) {
                let (uid, is_running) = (journal.uid(), journal.is_running());
                found.push(Candidate { name: name.clone(), at, uid, is_known: true, is_running });
            }
        }
    }

    /// Those that are read: root's and this process's user's have half of the room for themselves, and other users take turns. Of
    /// two with one name, root's or this process's user's counts, and the other is a problem.
    fn choose(
        &mut self,
        mut found: Vec<Candidate>,
        look: &mut ExperimentLook,
        events: &mut Vec<DisturbEvent>,
    ) -> Vec<Candidate> {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for (uid, count) in self.directories.iter().flat_map(Directory::counts) {
            *counts.entry(uid).or_default() += count;
        }
        found.sort_by_key(|one| (!is_trusted(one.uid), one.uid != 0, !one.is_known, one.at));
        let mut names = BTreeSet::new();
        found.retain(|one| {
            let is_first = !self.is_taken(one) && names.insert(one.name.clone());
            if !is_first {
                let path = self.directories[one.at].path.join(ExperimentBegan::journal(&one.name));
                problem(look, &path, "another journal has this name; this one is not read");
                counts.entry(one.uid).and_modify(|count| *count = count.saturating_sub(1));
            }
            is_first
        });
        let chosen = shared_out(found, self.room());
        for one in &chosen {
            counts.entry(one.uid).and_modify(|count| *count = count.saturating_sub(1));
        }
        self.leave_out(&chosen, events);
        tell_left_out(&counts, look);
        look.left_out_count += self.directories.iter().map(Directory::others).sum::<u64>();
        chosen
    }

    /// Whether a journal of this name is known in a directory that does not answer. Root's own takes its place.
    fn is_taken(&self, by: &Candidate) -> bool {
        let known = self.journals.0.get(&by.name).filter(|known| self.is_elsewhere(known));
        known.is_some_and(|known| is_trusted(known.uid()) || !is_trusted(by.uid))
    }

    fn is_elsewhere(&self, journal: &Journal) -> bool {
        !self.directories.iter().any(|directory| journal.is_in(&directory.path))
    }

    /// Room for journals in the directories that answer: half of it at least, whatever is known of the others.
    fn room(&self) -> usize {
        let elsewhere = self.journals.0.values().filter(|journal| self.is_elsewhere(journal)).count();
        JOURNALS_MAX.saturating_sub(elsewhere).max(JOURNALS_MAX / 2)
    }

    /// Forgets the journals that others took the room of. Nothing is known of them any more; they are not gone.
    fn leave_out(&mut self, chosen: &[Candidate], events: &mut Vec<DisturbEvent>) {
        let places: BTreeMap<&str, usize> = chosen.iter().map(|one| (one.name.as_str(), one.at)).collect();
        let directories = &self.directories;
        self.journals.0.retain(|name, journal| {
            let at = directories.iter().position(|directory| journal.is_in(&directory.path));
            let place = places.get(name.as_str());
            let is_kept = if at.is_some() { place == at.as_ref() } else { place.is_none() };
            if !is_kept {
                events.push(DisturbEvent::LeftOut { experiment: name.clone() });
            }
            is_kept
        });
    }
}

/// Counts the journals that are not read, and names the users who have the most of them.
fn tell_left_out(left_out: &BTreeMap<u32, u64>, look: &mut ExperimentLook) {
    look.left_out_count += left_out.values().sum::<u64>();
    let mut of_users: Vec<(u64, u32)> = left_out
        .iter()
        .filter(|(uid, count)| **count > 0 && !is_trusted(**uid))
        .map(|(uid, count)| (*count, *uid))
        .collect();
    of_users.sort_unstable_by_key(|(count, uid)| (Reverse(*count), *uid));
    for (count, uid) in of_users.into_iter().take(USERS_TOLD) {
        push(look, format!("user {uid}: journals left out: {count}; all users share room for {JOURNALS_MAX}"));
    }
}

/// At most this many of them, the newest and those that run first.
fn shared_out(mut found: Vec<Candidate>, room: usize) -> Vec<Candidate> {
    found.sort_by(|one, other| (!one.is_running, &other.name).cmp(&(!other.is_running, &one.name)));
    let (mut trusted, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| is_trusted(one.uid));
    let mut others = in_turn(others, |one| one.uid);
    let half = room / 2;
    let trusted_rest = trusted.split_off(half.min(trusted.len()));
    let others_rest = others.split_off(half.min(others.len()));
    [trusted, others, trusted_rest, others_rest].into_iter().flatten().take(room).collect()
}

/// Whether nothing has this name in a directory any more.
fn is_gone(held: &File, name: &str) -> bool {
    let about = About::in_directory(held, ExperimentBegan::journal(name).as_ref());
    about.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// A journal that could be read.
struct Candidate {
    name: String,
    /// The number of its directory.
    at: usize,
    uid: u32,
    /// It is being read.
    is_known: bool,
    /// It was held by its process at the last look.
    is_running: bool,
}

/// A directory, to ask for names in it; nothing is opened for reading.
fn held(directory: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(directory)
}

pub(super) fn problem(look: &mut ExperimentLook, path: &Path, why: &str) {
    push(look, format!("{}: {why}", path.display()));
}

fn push(look: &mut ExperimentLook, text: String) {
    match look.problems.len() < PROBLEMS_MAX {
        true => look.problems.push(clipped(&text)),
        false => look.problems_left_out += 1,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rooms::disturb::source::journal::LETTERS_MAX;
    use std::fs;
    use std::io::Write;
    use std::time::Duration;
    use surefoot_model::ExperimentOutcome;
    use surefoot_testkit::experiments::told;

    fn experiments(directory: &Path) -> Experiments {
        Experiments { directories: vec![Directory::of(directory)], ..Experiments::default() }
    }

    impl Experiments {
        fn events(&mut self) -> Vec<DisturbEvent> {
            self.look(&mut |_| ())
        }
    }

    fn line(event: &DisturbEvent) -> String {
        serde_json::to_string(event).unwrap() + "\n"
    }

    fn words(events: &[DisturbEvent]) -> Vec<String> {
        let word = |event: &DisturbEvent| match event {
            DisturbEvent::Look(look) => format!("look {}", look.problems.len()),
            DisturbEvent::Began(began) => format!("began {} {:?}", began.experiment, began.uid),
            DisturbEvent::Stalls { stalls, .. } => format!("{} stalls", stalls.len()),
            DisturbEvent::Run { .. } => "run".into(),
            DisturbEvent::Row { .. } => "row".into(),
            DisturbEvent::Ended(ended) => format!("ended {}", ended.outcome.as_str()),
            DisturbEvent::Gone { experiment } => format!("gone {experiment}"),
            DisturbEvent::LeftOut { experiment } => format!("left out {experiment}"),
        };
        events.iter().map(word).collect()
    }

    const NAME: &str = "20261125T120000-7-0";

    #[test]
    fn empty_journals_keep_no_other_from_being_read() {
        let home = tempfile::tempdir().unwrap();
        for number in 0..JOURNALS_MAX + 5 {
            fs::write(home.path().join(format!("z{number}.jsonl")), "").unwrap();
        }
        let journal: String = told(NAME, None).iter().map(line).collect();
        fs::write(home.path().join(ExperimentBegan::journal(NAME)), journal).unwrap();
        let words = words(&experiments(home.path()).events());
        assert!(words.iter().any(|word| word.starts_with("began")), "{words:?}");
    }

    #[test]
    fn a_journal_is_told_as_it_grows_and_its_end_once() {
        let home = tempfile::tempdir().unwrap();
        let mut source = experiments(home.path());
        assert_eq!(words(&source.events()), ["look 0"]);
        let mut file = File::create(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        file.lock().unwrap();
        let lines: Vec<String> = told(NAME, Some(ExperimentOutcome::Failed)).iter().map(line).collect();
        file.write_all(lines[0].as_bytes()).unwrap();
        let own = surefoot_hostfs::privilege::effective_user();
        assert_eq!(words(&source.events()), [format!("began {NAME} Some({own})"), "look 0".into()]);
        assert_eq!(words(&source.events()), ["look 0"]);
        file.write_all((lines[1].clone() + &lines[2] + &lines[3]).as_bytes()).unwrap();
        drop(file);
        assert_eq!(words(&source.events()), ["2 stalls", "run", "ended failed", "look 0"]);
        assert_eq!(words(&source.events()), ["look 0"]);
        fs::remove_file(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        assert_eq!(words(&source.events()), [format!("gone {NAME}"), "look 0".into()]);
    }

    #[test]
    fn journals_that_ended_are_not_kept_open() {
        let home = tempfile::tempdir().unwrap();
        let mut source = experiments(home.path());
        for number in 0..20 {
            let name = format!("20261125T1200{number:02}-7-0");
            let lines: String = told(&name, Some(ExperimentOutcome::Finished)).iter().map(line).collect();
            fs::write(home.path().join(ExperimentBegan::journal(&name)), lines).unwrap();
            fs::write(home.path().join(ExperimentBegan::journal(&format!("{name}-empty"))), "").unwrap();
        }
        source.events();
        assert_eq!(source.journals.0.values().filter(|one| one.is_open()).count(), 0);
        assert_eq!(source.events().len(), 1, "each is told once");
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let of_home = open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(home.path())));
        assert_eq!(of_home.count(), 0);
    }

    fn candidate(uid: u32, at: usize, name: impl Into<String>) -> Candidate {
        Candidate { name: name.into(), at, uid, is_known: false, is_running: false }
    }

    /// What is chosen of these by a watch of two directories, and what is told of the others.
    fn chosen(source: &mut Experiments, found: Vec<Candidate>) -> (Vec<Candidate>, ExperimentLook, Vec<String>) {
        let (mut look, mut events) = (ExperimentLook::default(), Vec::new());
        for one in &found {
            source.directories[one.at].add(one.uid, &one.name);
        }
        let chosen = source.choose(found, &mut look, &mut events);
        (chosen, look, words(&events))
    }

    fn of_two_directories() -> Experiments {
        Experiments {
            directories: ["/0", "/1"].map(|path| Directory::of(Path::new(path))).into(),
            ..Experiments::default()
        }
    }

    #[test]
    fn one_users_journals_keep_no_others_from_being_read() {
        let mut found: Vec<Candidate> =
            (0..300).map(|number| candidate(1000, 1, format!("9999-{number:03}"))).collect();
        found.extend((0..10).map(|number| candidate(0, 0, format!("2026-{number}"))));
        found.push(candidate(1000, 1, "2026-3"));
        let (chosen, look, _) = chosen(&mut of_two_directories(), found);
        assert_eq!(chosen.len(), JOURNALS_MAX);
        for number in 0..10 {
            let name = format!("2026-{number}");
            assert!(chosen.iter().any(|one| one.name == name && one.uid == 0 && one.at == 0), "root's journal counts");
        }
        assert!(look.problems[0].contains("another journal has this name"), "{look:?}");
        assert_eq!(look.problems[1], "user 1000: journals left out: 182; all users share room for 128");
        assert_eq!(look.left_out_count + chosen.len() as u64 + 1, 311);
    }

    #[test]
    fn very_many_users_leave_root_half_of_the_room_and_roots_journals_leave_half_to_them() {
        let mut found: Vec<Candidate> =
            (0..200).map(|number| candidate(100_000 + number, 1, format!("9999-{number:03}"))).collect();
        found.extend((0..100).map(|number| candidate(0, 0, format!("2026-{number:02}"))));
        let (of_all, look, _) = chosen(&mut of_two_directories(), found);
        let of_root: Vec<&str> = of_all.iter().filter(|one| one.uid == 0).map(|one| one.name.as_str()).collect();
        assert_eq!((of_all.len(), of_root.len(), of_root[0], of_root[63]), (128, 64, "2026-99", "2026-36"));
        assert_eq!(look.left_out_count, 200 + 100 - 128);
        let users = look.problems.iter().filter(|problem| problem.starts_with("user ")).count();
        assert_eq!(users, USERS_TOLD);
        let mut directory = Directory::of(Path::new("/0"));
        (0..300).for_each(|number| directory.add(100_000 + number, "9999"));
        directory.add(0, "2026");
        assert_eq!((directory.newest().len(), directory.others()), (257, 44), "users are counted, too");
        // What one does not need is for the other.
        let found = (0..100).map(|number| candidate(0, 0, format!("2026-{number:02}"))).collect();
        assert_eq!(chosen(&mut of_two_directories(), found).0.len(), 100);
    }

    #[test]
    fn a_forged_name_in_another_directory_does_not_replace_roots_journal() {
        let mut source = of_two_directories();
        source.journals.0.insert(NAME.into(), Journal::of(Path::new("/1")));
        let forged = Candidate { is_known: true, is_running: true, ..candidate(1000, 1, NAME) };
        let (chosen, look, events) = chosen(&mut source, vec![forged, candidate(0, 0, NAME)]);
        assert_eq!(chosen.iter().map(|one| (one.uid, one.at)).collect::<Vec<_>>(), [(0, 0)]);
        assert!(look.problems[0].starts_with("/1/"), "{look:?}");
        assert_eq!(events, [format!("left out {NAME}")], "what was told of the other one ends");
    }

    #[test]
    fn what_is_known_where_nothing_answers_keeps_its_name_and_takes_half_of_the_room() {
        let mut source = of_two_directories();
        for number in 0..JOURNALS_MAX {
            source.journals.0.insert(format!("{number:03}"), Journal::of_user(1000, Path::new("/silent")));
        }
        source.journals.0.insert("127".into(), Journal::of_user(0, Path::new("/silent")));
        let mut found: Vec<Candidate> = (0..100).map(|number| candidate(0, 0, format!("2026-{number:02}"))).collect();
        found.extend([candidate(1001, 1, "000"), candidate(0, 0, "001"), candidate(0, 0, "127")]);
        let (chosen, look, events) = chosen(&mut source, found);
        assert_eq!((chosen.len(), look.problems.len()), (JOURNALS_MAX / 2, 2), "{look:?}");
        assert!(look.problems.iter().all(|problem| problem.contains("/000") || problem.contains("/127")), "{look:?}");
        assert!(events.is_empty(), "root's own of the name 001 is older than its others: {events:?}");
        let (_, _, events) = self::chosen(&mut source, vec![candidate(0, 0, "001")]);
        assert_eq!(events, ["left out 001"]);
    }

    #[test]
    fn one_that_runs_keeps_its_place_among_newer_ones_and_is_not_gone() {
        let mut source = of_two_directories();
        for name in ["0001", "0002"] {
            source.journals.0.insert(name.into(), Journal::of(Path::new("/1")));
        }
        let known = |name, is_running| Candidate { is_known: true, is_running, ..candidate(1000, 1, name) };
        let mut found = vec![known("0001", true), known("0002", false)];
        found.extend((0..200).map(|number| candidate(1000, 1, format!("9999-{number:03}"))));
        let (chosen, _, events) = chosen(&mut source, found);
        assert!(chosen.iter().any(|one| one.name == "0001"));
        assert_eq!(events, ["left out 0002"]);
    }

    #[test]
    fn a_look_reads_a_part_of_many_journals_and_the_next_ones_the_rest() {
        let home = tempfile::tempdir().unwrap();
        let names: Vec<String> = (0..4).map(|number| format!("20261125T120000-7-{number}")).collect();
        for name in &names {
            let events = told(name, Some(ExperimentOutcome::Finished));
            let runs = line(&events[2]).repeat(6000);
            let journal: String = [line(&events[0]), runs, line(&events[3])].concat();
            assert!(
                journal.len() as u64 > BYTES_MAX / 3 && (journal.len() as u64) < ExperimentBegan::JOURNAL_BYTES_MAX
            );
            fs::write(home.path().join(ExperimentBegan::journal(name)), journal).unwrap();
        }
        let mut source = experiments(home.path());
        let bytes = |events: &[DisturbEvent]| events.iter().map(|event| line(event).len() as u64).sum::<u64>();
        let (mut all, mut looks) = (Vec::new(), 0);
        while looks < 8 {
            let events = source.events();
            assert!(bytes(&events) < BYTES_MAX * 2, "{}", bytes(&events));
            looks += 1;
            all.extend(words(&events));
            assert!(looks > 1 || all.iter().filter(|word| word.starts_with("began")).count() < 4, "all in one look");
        }
        let count = |word: &str| all.iter().filter(|said| said.starts_with(word)).count();
        assert_eq!([count("began"), count("run"), count("ended finished"), count("ended")], [4, 24_000, 4, 4]);
    }

    #[test]
    fn a_directory_of_many_entries_is_read_in_several_looks_and_nothing_in_it_is_gone_meanwhile() {
        let home = tempfile::tempdir().unwrap();
        let mut source = experiments(home.path());
        let mut file = File::create(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        file.lock().unwrap();
        file.write_all(line(&told(NAME, None)[0]).as_bytes()).unwrap();
        assert_eq!(source.events().len(), 2);
        for number in 0..50 {
            fs::write(home.path().join(format!("x{number}")), "").unwrap();
        }
        source.entries_max = 10;
        let next = NAME.replace("-7-", "-8-");
        let journal: String = told(&next, None).iter().map(line).collect();
        fs::write(home.path().join(ExperimentBegan::journal(&next)), journal).unwrap();
        let mut all = Vec::new();
        for _ in 0..12 {
            all.extend(source.events());
        }
        let of_looks = |event: &&DisturbEvent| matches!(event, DisturbEvent::Look(look) if look.problems.len() == 1);
        assert_eq!(all.iter().filter(of_looks).count(), 10, "{all:?}");
        let all: Vec<String> = words(&all).into_iter().filter(|word| !word.starts_with("look")).collect();
        assert_eq!(all.len(), 4, "the new one is found once: {all:?}");
        assert!(all[0].starts_with(&format!("began {next}")) && all[3] == "ended vanished", "{all:?}");
        drop(file);
        fs::remove_file(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        assert_eq!(words(&source.events())[0], format!("gone {NAME}"));
    }

    #[test]
    fn one_whose_process_is_gone_without_a_word_has_vanished() {
        let home = tempfile::tempdir().unwrap();
        let mut file = File::create(home.path().join(ExperimentBegan::journal(NAME))).unwrap();
        file.lock().unwrap();
        file.write_all(line(&told(NAME, None)[0]).as_bytes()).unwrap();
        let mut source = experiments(home.path());
        assert_eq!(source.events().len(), 2);
        drop(file);
        let events = source.events();
        assert_eq!(words(&events), ["ended vanished", "look 0"]);
        // A watch that begins later finds the same end: it is in the history once.
        std::thread::sleep(Duration::from_millis(20));
        let later = experiments(home.path()).events();
        let at = |events: &[DisturbEvent]| {
            let ended = events.iter().find_map(|event| match event {
                DisturbEvent::Ended(ended) => Some(ended.at_realtime_ns),
                _ => None,
            });
            ended.unwrap()
        };
        assert_eq!(at(&events), at(&later));
        assert_eq!(words(&source.events()), ["look 0"]);
    }

    #[test]
    fn what_no_journal_says_is_a_problem_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(ExperimentBegan::journal(NAME));
        let of_another = line(&told("20261125T120000-8-0", None)[0]);
        let gone = line(&DisturbEvent::Gone { experiment: NAME.into() });
        fs::write(&path, format!("nothing\n{of_another}{gone}")).unwrap();
        std::os::unix::fs::symlink(&path, home.path().join(ExperimentBegan::journal("20261125T120000-9-0"))).unwrap();
        fs::write(home.path().join("other.txt"), "x").unwrap();
        let events = experiments(home.path()).events();
        let [DisturbEvent::Look(look)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(look.problems.len(), 2, "{look:?}");
        assert!(look.problems[1].contains("line 1: not of a journal"), "{look:?}");
    }

    #[test]
    fn times_to_come_and_controls_are_not_believed() {
        let home = tempfile::tempdir().unwrap();
        let mut events = told(NAME, Some(ExperimentOutcome::Finished));
        if let DisturbEvent::Began(began) = &mut events[0] {
            began.workload = format!("a\u{1b}[2J{}", "x".repeat(2 * LETTERS_MAX));
            (began.at_ns, began.at_realtime_ns, began.uid) = (u64::MAX, u64::MAX, Some(0));
        }
        if let DisturbEvent::Run { run, .. } = &mut events[2] {
            (run.start_ns, run.wall_ns) = (u64::MAX, u64::MAX);
        }
        let text: String = events.iter().map(line).collect();
        fs::write(home.path().join(ExperimentBegan::journal(NAME)), text).unwrap();
        let before_ns = clock::monotonic_ns();
        let found = experiments(home.path()).events();
        let DisturbEvent::Began(began) = &found[0] else { panic!("{found:?}") };
        assert!(began.workload.starts_with("a?[2J") && began.workload.chars().count() == LETTERS_MAX);
        assert!(began.at_ns >= before_ns && began.at_ns <= clock::monotonic_ns());
        assert_eq!(began.uid, Some(surefoot_hostfs::privilege::effective_user()));
        let DisturbEvent::Run { run, .. } = &found[2] else { panic!("{found:?}") };
        assert_eq!(run.wall_ns, 0);
    }
}
