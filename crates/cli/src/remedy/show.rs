//! `surefoot remedy show`.

use super::lines::{AuditLine, DetailLine, PartLine};
use super::place::PlaceOptions;
use super::{trail, words};
use clap::Args;
use std::io::{self, Write};
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::Table;
use surefoot_console::units::duration;
use surefoot_controller::CaseStory;
use surefoot_hostfs::clock;
use surefoot_model::{Case, CaseState, CaseStep, StepState, one_line};

#[derive(Args)]
pub struct ShowOptions {
    /// The case's number
    #[arg(value_name = "CASE")]
    id: u64,
    #[command(flatten)]
    place: PlaceOptions,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

pub fn run(options: &ShowOptions) -> anyhow::Result<Outcome> {
    let story = options.place.open_to_read()?.story(options.id)?;
    let place = options.place.words();
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "remedy show")?;
        output::line(&mut out, &DetailLine::of(&story.case))?;
        let history = &story.part.history;
        output::line(
            &mut out,
            &PartLine {
                subject: &history.subject,
                serial: &history.serial,
                repair_count: history.repairs.len(),
                replaced_count: history.replacements.len(),
                tested_good_count: history.tested_good_count(),
                says: &story.part.says,
            },
        )?;
        story.trail.iter().try_for_each(|entry| output::line(&mut out, &AuditLine::of(entry)))?;
    } else {
        out.write_all(text(&story, &place, clock::realtime_ns()).as_bytes())?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

fn text(story: &CaseStory, place: &str, now_ns: u64) -> String {
    let case = &story.case;
    let mut text = format!("Case {}: {}\n", case.id, one_line(&case.sentence));
    for (name, value) in facts(story, place, now_ns) {
        text += &format!("  {name:<12}{}\n", one_line(&value));
    }
    for line in &case.evidence {
        text += &format!("  {:<12}{}\n", "evidence", one_line(line));
    }
    for line in &story.part.says {
        text += &format!("  {:<12}{}\n", "the part", one_line(line));
    }
    let mut steps = Table::new(&["step", "state", "attempts", "took", "approved by", "outcome"], &[0, 1, 4, 5]);
    case.steps.iter().for_each(|step| steps.row(step_row(step)));
    text += &format!("\n{}", steps.text());
    text + &format!("\n{}", trail::text(&story.trail, false))
}

fn facts(story: &CaseStory, place: &str, now_ns: u64) -> Vec<(&'static str, String)> {
    let case = &story.case;
    let fault = match case.subject.as_str() {
        "" => case.fault.clone(),
        subject => format!("{} of {subject}", case.fault),
    };
    let holds = if case.is_firing { "the alert holds" } else { "the alert is over" };
    let ago = |at_ns| format!("{}, {} ago", words::moment(at_ns), words::age(at_ns, now_ns));
    let facts = [
        ("host", case.host.clone()),
        ("service", case.service.clone()),
        ("fault", format!("{fault}, {}; {holds}", case.severity)),
        (
            "state",
            format!(
                "{}, since {}{}",
                surefoot_controller::words::label(case.state, case.ends_as),
                ago(case.state_since_realtime_ns),
                if case.is_firing && case.state == CaseState::Returned { "; the alert still holds" } else { "" }
            ),
        ),
        ("waits for", case.waits_for.clone()),
        ("to do", story.to_do.clone().unwrap_or_default()),
        ("commands", words::commands(case, place)),
        ("policy", format!("{}{}", case.policy, if case.is_dry_run { ", dry run: no step is done" } else { "" })),
        ("opened", ago(case.since_realtime_ns)),
        ("drained", drained(case).to_owned()),
        ("ticket", case.ticket.clone()),
    ];
    facts.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// What is known of the host being out of service; empty where it is not.
fn drained(case: &Case) -> &'static str {
    let is = |state| case.steps.iter().any(|step| step.step == "drain" && step.state == state);
    match case.is_drained {
        false => "",
        true if is(StepState::Failed) => "not known: the drain failed, see below",
        true if is(StepState::Done) => "yes, by this case",
        // A controller died in it, or it is under way.
        true => "not known: no drain was seen to be done, see below",
    }
}

fn step_row(step: &CaseStep) -> Vec<String> {
    let state = match step.state {
        StepState::Pending => "pending",
        StepState::Running => "running",
        StepState::Done => "done",
        StepState::Failed => "failed",
        StepState::Skipped if step.is_not_needed => "not needed",
        StepState::Skipped => "skipped",
        StepState::InDoubt => "in doubt",
    };
    let took = match (step.begun_realtime_ns, step.ended_realtime_ns) {
        (begun, ended) if begun > 0 && ended >= begun => duration(ended - begun),
        _ => "-".to_owned(),
    };
    let approved = if step.approved_by.is_empty() { "-".to_owned() } else { step.approved_by.clone() };
    let outcome = if step.outcome.is_empty() { "-".to_owned() } else { step.outcome.clone() };
    vec![step.step.clone(), state.to_owned(), step.attempt_count.to_string(), took, approved, outcome]
}
