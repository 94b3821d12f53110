//! The answer of `/api/v1/nic/campaign`.

use super::lines::TableLine;
use super::reports::{Campaign, Kept, Key, Reports, Source};
use crate::answer::Header;
use schemars::JsonSchema;
use serde::Serialize;
use surefoot_model::did_you_mean;
use surefoot_nic::campaign::{FaultId, Outcome};

/// Characters of a client's own words that an error repeats.
const ECHO_CHARACTERS_MAX: usize = 100;

/// What the files of campaigns come to.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "NicCampaign")]
pub struct Answer {
    /// How it begins.
    #[serde(flatten)]
    header: Header,
    /// The files, in the order in which they were named.
    files: Vec<FileView>,
    /// A table for each experiment, build and seed, as `surefoot nic campaign report` has them.
    tables: Vec<TableLine>,
    /// The faults of the table that was asked for.
    list: Option<ListView>,
}

/// A file of a campaign, and how its reading went.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "CampaignFile")]
struct FileView {
    path: String,
    /// Faults that were taken from it.
    fault_count: u64,
    /// Lines that are of no campaign, or say otherwise of a fault than another line.
    bad_count: u64,
    /// Lines that say again what another one has said.
    again_count: u64,
    /// Faults for which there was no room: 200,000 faults are kept, and 64 tables.
    left_out_count: u64,
    /// What is wrong: the first bad line, or why it is not read on.
    problem: Option<String>,
}

/// Some faults of one table.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "CampaignFaults")]
struct ListView {
    /// The table: `EXPERIMENT:BUILD:SEED`.
    table: String,
    /// Only of this outcome; `null` for all.
    outcome: Option<&'static str>,
    /// Faults of that outcome.
    total_count: u64,
    /// Those before the first one here.
    offset: u64,
    faults: Vec<FaultView>,
}

/// A fault of a list.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "CampaignFault")]
struct FaultView {
    /// From which it is replayed.
    id: String,
    /// code, data, register or stuck.
    space: &'static str,
    /// The location as people call it.
    place: String,
    bit: u8,
    /// When, in instructions of the faulted interface.
    at_instruction: u64,
    /// The function of a bit in code.
    function: Option<String>,
    outcome: &'static str,
    standard: &'static str,
    detected_by: Option<String>,
    /// What the self-test found.
    finding: Option<String>,
    /// From the fault to its detection, virtual time.
    detection_ns: Option<u64>,
    /// From detection until all ports were back, virtual time.
    recovery_ns: Option<u64>,
    /// The daemon found that reloading does not help.
    given_up: bool,
    /// Nobody executes the word after the fault, so it was not run.
    pruned: bool,
}

/// What a client wants to see.
#[derive(Debug, Default, PartialEq)]
pub struct Question {
    /// The table whose faults are listed.
    pub table: Option<Key>,
    /// Only of this outcome; `None` for all.
    pub outcome: Option<Outcome>,
    /// Faults before the first one of the list.
    pub offset: usize,
    /// Faults of the list.
    pub limit: usize,
}

/// No file has the campaign that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no file has the campaign {table}; see tables{meant}")]
pub struct NotThere {
    table: String,
    /// One that is there and much alike, in words.
    meant: String,
}

fn table_of((experiment, stack, seed): &Key) -> String {
    format!("{experiment}:{stack}:{seed}")
}

impl Answer {
    /// The answer; nothing but `why` where there is one.
    ///
    /// # Errors
    /// When no file has the table that is asked for.
    pub fn of(reports: &Reports, question: &Question, why: Option<String>) -> Result<Self, NotThere> {
        let mut answer = Answer { header: Header::new(why), files: Vec::new(), tables: Vec::new(), list: None };
        if answer.header.why.is_some() {
            return Ok(answer);
        }
        answer.files = reports.sources.iter().map(FileView::of).collect();
        let line = |((experiment, stack, seed), campaign): (&Key, &Campaign)| {
            TableLine::of(experiment, &stack.to_string(), *seed, &campaign.table, &campaign.whole)
        };
        answer.tables = reports.campaigns.iter().map(line).collect();
        if let Some(key) = &question.table {
            let campaign = reports.campaigns.get(key);
            let none = || {
                let tables: Vec<String> = reports.campaigns.keys().map(table_of).collect();
                let meant = did_you_mean(&table_of(key), tables.iter().map(String::as_str));
                NotThere { table: table_of(key).chars().take(ECHO_CHARACTERS_MAX).collect(), meant }
            };
            answer.list = Some(ListView::of(key, campaign.ok_or_else(none)?, question));
        }
        Ok(answer)
    }
}

impl FileView {
    fn of(source: &Source) -> Self {
        FileView {
            path: source.path.clone(),
            fault_count: source.fault_count,
            bad_count: source.bad_count,
            again_count: source.again_count,
            left_out_count: source.left_out_count,
            problem: source.silence.clone().or_else(|| source.problem.clone()),
        }
    }
}

impl ListView {
    fn of(key: &Key, campaign: &Campaign, question: &Question) -> Self {
        let is_wanted = |kept: &&Kept| question.outcome.is_none_or(|outcome| kept.row.outcome == outcome);
        let wanted = || campaign.faults.iter().filter(is_wanted);
        ListView {
            table: table_of(key),
            outcome: question.outcome.map(Outcome::name),
            total_count: wanted().count() as u64,
            offset: question.offset as u64,
            faults: wanted().skip(question.offset).take(question.limit).map(|kept| FaultView::of(key, kept)).collect(),
        }
    }
}

impl FaultView {
    fn of((experiment, stack, seed): &Key, kept: &Kept) -> Self {
        let Kept { fault, row, function, finding, is_given_up } = kept;
        let id = FaultId { experiment: experiment.clone(), stack: *stack, seed: *seed, fault: *fault };
        FaultView {
            id: id.to_string(),
            space: fault.space.name(),
            place: fault.place(),
            bit: fault.bit,
            at_instruction: fault.at_instruction,
            function: function.as_deref().map(str::to_owned),
            outcome: row.outcome.name(),
            standard: row.standard.name(),
            detected_by: row.detected_by.clone(),
            finding: finding.as_deref().map(str::to_owned),
            detection_ns: row.detection_ns,
            recovery_ns: row.recovery_ns,
            given_up: *is_given_up,
            pruned: row.is_pruned,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::path::Path;

    fn line(id: &str, outcome: &str) -> String {
        let (experiment, build) = (id.split(':').next().unwrap(), id.split(':').nth(1).unwrap());
        format!(
            r#"{{"type":"fault","id":"{id}","experiment":"{experiment}","build":"{build}","space":"code","location":16,"place":"0x10","bit":1,"stuck_at":null,"at_instruction":7,"function":"send","outcome":"{outcome}","standard":"detected","detected_by":"watchdog","finding":null,"detected_on":0,"detection_ns":5,"recovery_ns":6,"recovery_count":1,"given_up":false,"pruned":false,"struck_ns":1}}"#
        ) + "\n"
    }

    fn reports(files: &[&str]) -> Reports {
        let mut reports = Reports::new(files.iter().map(|_| Path::new("out.jsonl")));
        for (file, text) in files.iter().enumerate() {
            for (number, line) in text.lines().enumerate() {
                reports.take(file, number as u64 + 1, Ok(line.as_bytes()));
            }
        }
        reports
    }

    fn of_table(seed: u64) -> Question {
        let table = Some(("code".to_owned(), "tolerant".parse().unwrap(), seed));
        Question { table, limit: 50, ..Question::default() }
    }

    #[test]
    fn shards_are_one_table_and_its_faults_are_listed_by_outcome_page_by_page() {
        let id = |bit: u8| format!("code:tolerant:1:code:0x10:{bit}@7");
        let first = line(&id(0), "hang") + &line(&id(1), "no_effect") + &line(&id(2), "hang");
        let second = line(&id(2), "hang") + &line(&id(3), "hang") + &line("code:plain:1:code:0x10:3@7", "dma");
        let reports = reports(&[&first, &second]);
        let second_page =
            Question { outcome: Some(Outcome::named("hang").unwrap()), offset: 1, limit: 1, ..of_table(1) };
        let answer = Answer::of(&reports, &second_page, None).unwrap();
        let counts: Vec<(String, u64)> = answer.tables.iter().map(|one| (one.build.clone(), one.fault_count)).collect();
        assert_eq!(counts, [("plain".to_owned(), 1), ("tolerant".to_owned(), 4)]);
        assert_eq!((answer.files[0].fault_count, answer.files[1].fault_count, answer.files[1].again_count), (3, 2, 1));
        let list = answer.list.unwrap();
        assert_eq!((list.total_count, list.offset, list.faults.len()), (3, 1, 1));
        assert_eq!(list.faults[0].id, id(2));
        assert_eq!((list.faults[0].place.as_str(), list.faults[0].function.as_deref()), ("0x0010", Some("send")));
        let all = Answer::of(&reports, &of_table(1), None).unwrap().list.unwrap();
        assert_eq!((all.total_count, all.faults.len(), all.outcome), (4, 4, None));
    }

    #[test]
    fn seeds_without_end_are_counted_and_take_no_room() {
        let text: String = (0..70).map(|seed| line(&format!("code:plain:{seed}:code:0x10:0@7"), "hang")).collect();
        let answer = Answer::of(&reports(&[&text]), &Question::default(), None).unwrap();
        assert_eq!((answer.tables.len(), answer.files[0].left_out_count), (64, 6));
    }

    #[test]
    fn a_campaign_that_no_file_has_is_refused_by_name_and_its_name_is_cut() {
        let reports = reports(&[&line("code:tolerant:1:code:0x10:0@7", "hang")]);
        let refused = |question| Answer::of(&reports, &question, None).unwrap_err().to_string();
        let meant = "did you mean 'code:tolerant:1'?";
        assert_eq!(refused(of_table(2)), format!("no file has the campaign code:tolerant:2; see tables; {meant}"));
        let table = Some(("x".repeat(500), "plain".parse().unwrap(), 1));
        assert!(refused(Question { table, ..Question::default() }).len() < 150);
    }
}
