//! Reads what a request for campaigns asks for.

use axum::http::Uri;
use surefoot_http::{ApiError, parameters};
use surefoot_nic::campaign::Outcome;
use surefoot_nic::campaign::fault::Stack;
use surefoot_rooms::nic::campaign::reports::Key;
use surefoot_rooms::nic::campaign::view::Question;

/// Faults of one answer, unless it asks for fewer.
const FAULTS_SHOWN_MAX: usize = 200;
const FAULTS_SHOWN: usize = 50;

/// The faults and the table that a request asks for.
pub(super) fn of(uri: &Uri) -> Result<Question, ApiError> {
    let mut question = Question { limit: FAULTS_SHOWN, ..Question::default() };
    let mut of_list = None;
    for (name, value) in parameters(uri, &["table", "outcome", "offset", "limit"])? {
        let number = |most: usize| match value.parse::<usize>() {
            Ok(number) if number <= most => Ok(number),
            _ => Err(ApiError::bad_parameter(&name, &value, &format!("whole numbers up to {most}"))),
        };
        match name.as_str() {
            "table" => question.table = Some(key_of(&value)?),
            "outcome" => question.outcome = Some(outcome_of(&value)?),
            "offset" => question.offset = number(u32::MAX as usize)?,
            _ => question.limit = number(FAULTS_SHOWN_MAX)?,
        }
        if name != "table" {
            of_list = Some(name);
        }
    }
    match of_list.filter(|_| question.table.is_none()) {
        Some(name) => Err(ApiError::bad_request(format!(
            "'{name}' is of the faults of one table; add table=EXPERIMENT:BUILD:SEED"
        ))),
        None => Ok(question),
    }
}

fn key_of(text: &str) -> Result<Key, ApiError> {
    let parts: Vec<&str> = text.split(':').collect();
    let key = match parts[..] {
        [experiment, build, seed] => {
            build.parse::<Stack>().ok().zip(seed.parse().ok()).map(|(stack, seed)| (experiment.to_owned(), stack, seed))
        }
        _ => None,
    };
    key.ok_or_else(|| ApiError::bad_parameter("table", text, "EXPERIMENT:BUILD:SEED, such as send-chunk:tolerant:1"))
}

fn outcome_of(text: &str) -> Result<Outcome, ApiError> {
    Outcome::named(text).ok_or_else(|| {
        let names: Vec<&str> = Outcome::ALL.into_iter().map(Outcome::name).collect();
        ApiError::bad_parameter("outcome", text, &names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{CampaignFile, Files, answer};
    use super::*;
    use serde_json::Value;
    use std::io::Write;
    use std::sync::Arc;

    fn line(id: &str, outcome: &str) -> String {
        let (experiment, build) = (id.split(':').next().unwrap(), id.split(':').nth(1).unwrap());
        format!(
            r#"{{"type":"fault","id":"{id}","experiment":"{experiment}","build":"{build}","space":"code","location":16,"place":"0x10","bit":1,"stuck_at":null,"at_instruction":7,"function":"send","outcome":"{outcome}","standard":"detected","detected_by":"watchdog","finding":null,"detected_on":0,"detection_ns":5,"recovery_ns":6,"recovery_count":1,"given_up":false,"pruned":false,"struck_ns":1}}"#
        ) + "\n"
    }

    fn ask(text: &str, query: &str) -> Result<Value, ApiError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let mut files = Files::new(&[Arc::new(CampaignFile::open(file.path()).unwrap())]);
        let uri: Uri = format!("/api/v1/nic/campaign{query}").parse().unwrap();
        let text = answer(files.read_on(), &of(&uri)?, None)?;
        Ok(serde_json::from_slice(&text).unwrap())
    }

    #[test]
    fn what_is_of_no_campaign_is_counted_and_the_rest_is_shown() {
        let good = line("code:tolerant:1:code:0x10:0@7", "hang");
        let other = line("code:tolerant:1:code:0x10:0@7", "dma");
        let liar = line("code:tolerant:1:code:0x10:1@7", "hang").replace("watchdog", "\u{1b}[2J");
        let foreign = line("code:tolerant:1:code:0x10:2@7", "melted");
        let text = ["\u{0}\n", &good, &other, &liar, &foreign, "{}\n", "{\"torn"].concat();
        let answer = ask(&text, "").unwrap();
        let file = &answer["files"][0];
        let counts = [&file["fault_count"], &file["bad_count"], &answer["tables"][0]["fault_count"]];
        assert_eq!(counts.map(Value::as_u64), [Some(1), Some(5), Some(1)]);
        let problem = file["problem"].as_str().unwrap();
        assert!(problem.starts_with("line 1: not of a campaign"), "{problem}");
        assert!(answer["list"].is_null());
    }

    #[test]
    fn what_cannot_be_asked_says_why() {
        let text = line("code:plain:1:code:0x10:0@7", "hang");
        for (query, why) in [
            ("?outcome=hang", "add table="),
            ("?table=code", "EXPERIMENT:BUILD:SEED"),
            ("?table=code:best:1", "EXPERIMENT:BUILD:SEED"),
            ("?table=code:plain:1&outcome=melted", "hang, send_receive"),
            ("?table=code:plain:1&limit=201", "up to 200"),
            ("?table=code:plain:1&offset=-1", "whole numbers"),
            ("?table=code:plain:2", "no file has the campaign code:plain:2; see tables; did you mean 'code:plain:1'?"),
            ("?table=registers:plain:1", "no file has the campaign registers:plain:1; see tables\""),
            ("?fault=1", "unknown parameter"),
        ] {
            let error = format!("{:?}", ask(&text, query).unwrap_err());
            assert!(error.contains(why), "{query}: {error}");
        }
    }
}
