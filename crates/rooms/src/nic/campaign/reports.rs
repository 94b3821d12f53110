//! What the files of campaigns come to: a table and a list of faults by experiment, build and seed. Every line may be a
//! stranger's: all that is kept has a limit, and what is left out is counted.

use super::lines::FaultLine;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;
use std::sync::Arc;
use surefoot_model::{clipped, one_line};
use surefoot_nic::campaign::fault::Stack;
use surefoot_nic::campaign::table::{Row, Table};
use surefoot_nic::campaign::whole::Whole;
use surefoot_nic::campaign::{Fault, FaultId};

/// Faults of all files together; about 300 bytes of memory each.
const FAULTS_MAX: usize = 200_000;
/// Tables: campaigns that differ in experiment, build or seed.
const TABLES_MAX: usize = 64;
/// Other names of functions and findings than these are not kept.
const NAMES_MAX: usize = 1024;
/// Characters of a name, of a path, and of what is wrong with a line.
const NAME_CHARACTERS_MAX: usize = 80;
const TEXT_CHARACTERS_MAX: usize = 300;
/// Who can detect; another word is of no campaign.
const DETECTORS: [&str; 6] = ["watchdog", "interface", "self_test", "library", "neighbour", "silence"];

/// Which campaign: experiment, build and seed.
pub type Key = (String, Stack, u64);

/// A fault and what came of it.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) fault: Fault,
    pub(super) row: Row,
    pub(super) function: Option<Arc<str>>,
    pub(super) finding: Option<Arc<str>>,
    pub(super) is_given_up: bool,
}

/// One campaign.
#[derive(Debug, Default)]
pub(super) struct Campaign {
    pub(super) table: Table,
    pub(super) whole: Whole,
    /// In the order of the files.
    pub(super) faults: Vec<Kept>,
    /// What the line of each fault said, in short.
    said: HashMap<Fault, u64>,
}

/// How the reading of a file went.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) path: String,
    /// Faults that were taken from it.
    pub(super) fault_count: u64,
    /// Lines that are of no campaign.
    pub(super) bad_count: u64,
    /// Lines that say again what another one has said.
    pub(super) again_count: u64,
    /// Faults for which there was no room.
    pub(super) left_out_count: u64,
    /// What is wrong: the first bad line, or why it is not read on.
    pub(super) problem: Option<String>,
    /// Why it could not be read this time.
    pub(super) silence: Option<String>,
}

/// All campaigns that are shown.
#[derive(Debug, Default)]
pub struct Reports {
    pub(super) sources: Vec<Source>,
    pub(super) campaigns: BTreeMap<Key, Campaign>,
    names: HashMap<String, Arc<str>>,
    fault_count: usize,
}

/// What became of a line.
enum Taken {
    Added,
    Again,
    NoRoom,
}

impl Reports {
    /// Of files with these paths, of which nothing was read yet.
    pub fn new<'a>(paths: impl Iterator<Item = &'a Path>) -> Self {
        let path = |path: &Path| clipped(&path.display().to_string(), TEXT_CHARACTERS_MAX);
        let sources = paths.map(|one| Source { path: path(one), ..Source::default() }).collect();
        Reports { sources, ..Reports::default() }
    }

    /// Takes in a line of the file of this place in the list, or what is wrong with it.
    pub fn take(&mut self, file: usize, number: u64, line: Result<&[u8], &str>) {
        let taken = line.map_err(str::to_owned).and_then(|line| self.add(line));
        let Some(source) = self.sources.get_mut(file) else { return };
        match taken {
            Ok(Taken::Added) => source.fault_count += 1,
            Ok(Taken::Again) => source.again_count += 1,
            Ok(Taken::NoRoom) => source.left_out_count += 1,
            Err(why) => {
                source.bad_count += 1;
                source.problem.get_or_insert_with(|| clipped(&format!("line {number}: {why}"), TEXT_CHARACTERS_MAX));
            }
        }
    }

    /// Notes why a file could not be read this time, or that it could.
    pub fn silent(&mut self, file: usize, why: Option<&str>) {
        if let Some(source) = self.sources.get_mut(file) {
            source.silence = why.map(|why| clipped(why, TEXT_CHARACTERS_MAX));
        }
    }

    /// Notes why nothing more of a file is read.
    pub fn end(&mut self, file: usize, why: &str) {
        if let Some(source) = self.sources.get_mut(file) {
            source.problem = Some(clipped(why, TEXT_CHARACTERS_MAX));
        }
    }

    fn add(&mut self, line: &[u8]) -> Result<Taken, String> {
        let read: FaultLine = serde_json::from_slice(line).map_err(|error| format!("not of a campaign: {error}"))?;
        let (FaultId { experiment, stack, seed, fault }, row) = read.row()?;
        if let Some(by) = row.detected_by.as_deref().filter(|by| !DETECTORS.contains(by)) {
            return Err(format!("'{by}' detects nothing"));
        }
        if experiment.is_empty() || experiment.chars().count() > NAME_CHARACTERS_MAX {
            return Err(format!("an experiment's name has 1 to {NAME_CHARACTERS_MAX} letters"));
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(line.trim_ascii_end());
        let said = hasher.finish();
        let key = (one_line(&experiment), stack, seed);
        if let Some(before) = self.campaigns.get(&key).and_then(|campaign| campaign.said.get(&fault)) {
            let same = "another line says otherwise of this fault: the files are of another sample, or of different versions of the experiment";
            return if *before == said { Ok(Taken::Again) } else { Err(same.to_owned()) };
        }
        let has_table = self.campaigns.contains_key(&key) || self.campaigns.len() < TABLES_MAX;
        if !has_table || self.fault_count >= FAULTS_MAX {
            return Ok(Taken::NoRoom);
        }
        let place = read.place();
        if let Some(campaign) = self.campaigns.get_mut(&key) {
            campaign.whole.add(place)?;
        } else {
            let mut whole = Whole::default();
            whole.add(place)?;
            self.campaigns.insert(key.clone(), Campaign { whole, ..Campaign::default() });
        }
        self.fault_count += 1;
        let function = self.name(read.function.as_deref());
        let finding = self.name(read.finding.as_deref());
        let campaign = self.campaigns.entry(key).or_default();
        campaign.table.add(&row);
        campaign.said.insert(fault, said);
        campaign.faults.push(Kept { fault, row, function, finding, is_given_up: read.given_up });
        Ok(Taken::Added)
    }

    /// A name that many lines share.
    fn name(&mut self, name: Option<&str>) -> Option<Arc<str>> {
        let name = clipped(name?, NAME_CHARACTERS_MAX);
        if let Some(known) = self.names.get(&name) {
            return Some(Arc::clone(known));
        }
        (self.names.len() < NAMES_MAX).then(|| {
            let shared: Arc<str> = name.as_str().into();
            self.names.insert(name, Arc::clone(&shared));
            shared
        })
    }
}
