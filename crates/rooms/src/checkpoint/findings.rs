//! What the checkpoints come to: a finding or two for each job, and one for each drive that is worn. Pure.

use super::rules;
use super::state::{Job, State};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use surefoot_model::{
    CheckpointLook, CheckpointProblem, CheckpointTier, DriveWear, Finding, Generation, GenerationState, Part, Severity,
    Subject, SubjectKind,
};

/// A finding names no longer name than this.
const NAME_CHARACTERS_MAX: usize = 128;
/// Problems that one finding names.
const PROBLEMS_MAX: usize = 10;

/// Everything that is to be said at a time.
pub fn of(state: &State, now_realtime_ns: u64) -> Vec<Finding> {
    of_set(state, now_realtime_ns, &surefoot_settings::Checkpoint::default())
}

/// As [`of`], with thresholds that are set.
pub fn of_set(state: &State, now_realtime_ns: u64, set: &surefoot_settings::Checkpoint) -> Vec<Finding> {
    let mut findings: Vec<Finding> = state.jobs.values().flat_map(|job| of_job(job, now_realtime_ns)).collect();
    let Some(look) = state.look() else { return findings };
    if state.jobs.is_empty() && look.jobs_left_out == 0 && !look.is_cut {
        let directories: Vec<String> = look.directories.iter().map(|directory| directory.path.clone()).collect();
        let sentence = "No job keeps checkpoints in the directories that are looked at.".to_owned();
        let bare = rules::JOBS.finding(Subject::host(), Severity::Ok, sentence);
        findings.push(bare.clone().with_evidence(directories).with_public(&bare));
    }
    let unreadable =
        look.directories.iter().filter_map(|directory| Some((&directory.path, directory.problem.as_ref()?)));
    let evidence: Vec<String> = unreadable.map(|(path, why)| format!("{path}: {why}")).take(PROBLEMS_MAX).collect();
    if let [first, ..] = &evidence[..] {
        let sentence = match evidence.len() {
            1 => format!(
                "A checkpoint directory cannot be looked at: {first}; create it, or name another with --checkpoints."
            ),
            count => format!("{count} checkpoint directories cannot be looked at."),
        };
        let public = match evidence.len() {
            1 => "A checkpoint directory cannot be looked at.".to_owned(),
            count => format!("{count} checkpoint directories cannot be looked at."),
        };
        let public = rules::DIRECTORY.finding(Subject::host(), Severity::Warning, public);
        let finding = rules::DIRECTORY.finding(Subject::host(), Severity::Warning, sentence).with_evidence(evidence);
        findings.push(finding.with_public(&public));
    }
    findings.extend(problems(look));
    let left_out = look.jobs_left_out.saturating_add(state.jobs_dropped);
    if left_out > 0 || look.is_cut {
        let sentence = match left_out {
            0 => {
                "There is more in the checkpoint directories than one look reads; some jobs may be missing.".to_owned()
            }
            1 => "One more job keeps checkpoints than is shown.".to_owned(),
            _ => format!("{left_out} more jobs keep checkpoints than are shown."),
        };
        findings.push(rules::LEFT_OUT.finding(Subject::host(), Severity::Notice, sentence).of_user(Some(ANYBODY)));
    }
    findings.extend(look.drives.iter().flat_map(|drives| &drives.drives).flat_map(|drive| of_drive(drive, set)));
    findings
}

/// The owner of what was left out. Any user can have so much that something is, so it is no word of the host's: whoever sees
/// everything is told, and `health.json` is not.
const ANYBODY: u32 = u32::MAX;

/// Files that are not as they should be, of each user by himself: only whose files they are can be taken by his word.
fn problems(look: &CheckpointLook) -> Vec<Finding> {
    let mut of_users: BTreeMap<u32, Vec<&CheckpointProblem>> = BTreeMap::new();
    for problem in &look.problems {
        of_users.entry(problem.uid.unwrap_or(0)).or_default().push(problem);
    }
    if look.problems_left_out > 0 {
        of_users.entry(ANYBODY).or_default();
    }
    let of_user = |(uid, problems): (u32, Vec<&CheckpointProblem>)| {
        let left_out = if uid == ANYBODY { look.problems_left_out } else { 0 };
        let lines = problems.iter().take(PROBLEMS_MAX).map(|problem| format!("{}: {}", problem.path, problem.why));
        let whose = match uid {
            0 => String::new(),
            ANYBODY => " that are not listed".to_owned(),
            uid => format!(" of the user with number {uid}"),
        };
        let sentence = match left_out.saturating_add(problems.len() as u64) {
            1 => format!("One file{whose} among the checkpoints is damaged or of another kind."),
            count => format!("{count} files{whose} among the checkpoints are damaged or of another kind."),
        };
        // Root's are the host's, and so everybody is told of them; where they lie and whose job they are is root's to see.
        let bare = match uid {
            0 => rules::PROBLEMS.finding(Subject::host(), Severity::Notice, sentence),
            ANYBODY => rules::PROBLEMS_LEFT_OUT.finding(Subject::host(), Severity::Notice, sentence),
            uid => rules::PROBLEMS_OF_USER.finding_about(&uid.to_string(), Subject::host(), Severity::Notice, sentence),
        };
        let finding = bare.clone().with_evidence(lines.collect()).with_public(&bare);
        finding.of_user((uid != 0).then_some(uid))
    };
    of_users.into_iter().map(of_user).collect()
}

/// What is to be said of one job; at least one finding. `health.json` says it to every user, and names are for some: each finding has a
/// public form with the job's ID, and says that ID to those who see the name.
pub fn of_job(job: &Job, now_realtime_ns: u64) -> Vec<Finding> {
    let says = |job: &Job| {
        let mut findings = vec![durable(job, now_realtime_ns)];
        findings.extend(damaged(job));
        findings.extend(lost(job));
        findings.extend(weak(job));
        findings
    };
    let id = job.id();
    // What the job itself wrote, and where its files are, may hold any name.
    let mut bare = job.clone();
    bare.seen.name.clone_from(&id);
    let public = says(&bare).into_iter().map(|finding| Finding { evidence: Vec::new(), ..finding });
    let public = public.map(|finding| match finding.rule.as_str() {
        rule if rule == rules::REDUNDANCY.name => {
            Finding { sentence: format!("Job '{id}' reports that its redundancy is weak."), ..finding }
        }
        _ => finding,
    });
    let evidence = format!("its ID in health.json: {id}");
    let both = says(job).into_iter().zip(public).map(|(mut finding, public)| {
        // A report or a replay publishes none, and says the same each time.
        if job.has_published_id() {
            finding.evidence.push(evidence.clone());
        }
        finding.with_public(&public).of_user(job.seen.uid)
    });
    both.collect()
}

/// Which checkpoints were there and are there no more.
fn lost(job: &Job) -> Option<Finding> {
    if job.seen.lost.is_empty() {
        return None;
    }
    let (severity, then) = match intact(job) {
        Some(other) => (Severity::Warning, format!("a restart takes number {} {}", other.number, other.tier.place())),
        None => (Severity::Critical, "there is no intact one to restart from".to_owned()),
    };
    let name = clipped(&job.seen.name);
    let sentence = format!("Job '{name}' had checkpoints where none is left; {then}.");
    let evidence = job.seen.lost.iter().take(PROBLEMS_MAX).cloned().collect();
    Some(rules::LOST.finding(subject(job), severity, sentence).with_evidence(evidence))
}

/// The newest checkpoint that is whole, as far as it is here.
fn intact(job: &Job) -> Option<&Generation> {
    let is_whole = |one: &&Generation| matches!(one.state, GenerationState::Complete | GenerationState::Partial);
    job.seen.generations.iter().find(is_whole)
}

/// Which loss the redundancy of the job's newest session does not protect from, as it says.
fn weak(job: &Job) -> Option<Finding> {
    let weakness = job.weakness().filter(|weakness| !weakness.is_empty())?;
    let weakness: String = surefoot_model::one_line(weakness).chars().take(WEAKNESS_CHARACTERS_MAX).collect();
    let sentence = format!("{}: {weakness}.", clipped(&job.seen.name));
    Some(rules::REDUNDANCY.finding(subject(job), Severity::Notice, sentence))
}

/// Characters of a job's word on its redundancy that are shown.
const WEAKNESS_CHARACTERS_MAX: usize = 300;

/// Clocks of machines that share a directory are so far apart without anybody noticing.
const CLOCKS_APART_NS: u64 = 1_000_000_000;

fn subject(job: &Job) -> Subject {
    Subject::new(SubjectKind::Job, clipped(&job.seen.name))
}

/// A name that fits. Two long ones that begin alike stay two, because keys are made of them.
fn clipped(name: &str) -> String {
    if name.chars().count() <= NAME_CHARACTERS_MAX {
        return surefoot_model::one_line(name);
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let beginning: String = name.chars().take(NAME_CHARACTERS_MAX - 17).collect();
    format!("{}~{:016x}", surefoot_model::one_line(&beginning), hasher.finish())
}

/// How old the durable copy is, beside its bound.
fn durable(job: &Job, now_ns: u64) -> Finding {
    let name = clipped(&job.seen.name);
    let from = |then_ns: u64| from(then_ns, now_ns);
    let memory = match job.memory_realtime_ns() {
        Some(taken_ns) => format!("one in memory from {}", from(taken_ns)),
        None => "none in memory".to_owned(),
    };
    let standing = job.standing();
    let bound_s = standing.as_ref().and_then(|standing| standing.staleness_max_s);
    // Its journal says so, and the directory need not be one that is watched.
    let wrote_durable = standing.as_ref().is_some_and(|standing| standing.decided.durable_bytes > 0);
    let since_ns = job.durable_realtime_ns().or(standing.map(|standing| standing.began_realtime_ns));
    let is_running = job.seen.is_running == Some(true);
    let is_late = job.durable_age_s(now_ns).zip(bound_s).is_some_and(|(age_s, bound_s)| age_s > bound_s) && is_running;
    let say = |severity, sentence| rules::DURABLE.finding(subject(job), severity, sentence);
    let Some(taken_ns) = job.durable_realtime_ns() else {
        let severity = if is_late { Severity::Warning } else { Severity::Notice };
        let sentence = match wrote_durable {
            true => format!(
                "Job '{name}' wrote durable checkpoints, and none is in the directories that are watched, {memory}: name its durable \
                 directory with --checkpoints, or look where they went."
            ),
            false => {
                format!("Job '{name}' has no durable checkpoint, {memory}: a power failure now would lose its work.")
            }
        };
        return say(severity, sentence).since(since_ns.unwrap_or(0));
    };
    let copy = format!("Job '{name}' has a durable checkpoint from {}", from(taken_ns));
    match bound_s {
        Some(bound_s) if is_late => {
            let sentence = format!("{copy}, older than its bound of {}; {memory}.", age(bound_s));
            let overdue_ns = (bound_s * 1e9) as u64;
            say(Severity::Warning, sentence).since(taken_ns.saturating_add(overdue_ns))
        }
        Some(bound_s) if is_running => say(Severity::Ok, format!("{copy} (bound {}), {memory}.", age(bound_s))),
        _ => say(Severity::Ok, format!("{copy}, {memory}.")),
    }
}

/// How long ago something was. What lies in the future was taken by a clock that was ahead, and has no age.
fn from(then_ns: u64, now_ns: u64) -> String {
    match then_ns.checked_sub(now_ns) {
        Some(ahead_ns) if ahead_ns > CLOCKS_APART_NS => {
            format!("{} in the future (a clock was set back, or is ahead elsewhere)", age(ahead_ns as f64 / 1e9))
        }
        _ => format!("{} ago", age(now_ns.saturating_sub(then_ns) as f64 / 1e9)),
    }
}

/// Whether the newest checkpoint of a tier is damaged, and what a restart takes instead.
fn damaged(job: &Job) -> Option<Finding> {
    let newest = |is_tier: &dyn Fn(CheckpointTier) -> bool| {
        let of_tier = |one: &&Generation| is_tier(one.tier) && one.state != GenerationState::Unfinished;
        job.seen.generations.iter().find(of_tier)
    };
    let is_memory = |tier| tier == CheckpointTier::Memory;
    let broken = [newest(&is_memory), newest(&|tier| !is_memory(tier))]
        .into_iter()
        .flatten()
        .find(|one| one.state == GenerationState::Damaged)?;
    let (severity, then) = match intact(job) {
        Some(other) => (Severity::Warning, format!("a restart takes number {} {}", other.number, other.tier.place())),
        None => (Severity::Critical, "there is no intact one to restart from".to_owned()),
    };
    let name = clipped(&job.seen.name);
    let (number, place) = (broken.number, broken.tier.place());
    let sentence = format!("The newest checkpoint of job '{name}' {place}, number {number}, is damaged; {then}.");
    let evidence = vec![format!("{}: {}", broken.directory, broken.missing)];
    Some(rules::DAMAGED.finding(subject(job), severity, sentence).with_evidence(evidence))
}

/// The drive as a part; none without a serial number.
pub fn part_of(drive: &DriveWear) -> Option<Part> {
    let name = clipped(&drive.name);
    let serial = drive.serial.clone()?.trim().to_owned();
    let model = clipped(&drive.model);
    Some(Part { kind: SubjectKind::Drive, place: name.clone(), name, serial, model })
}

/// What a drive's own counters say of its end.
fn of_drive(drive: &DriveWear, set: &surefoot_settings::Checkpoint) -> Vec<Finding> {
    let name = clipped(&drive.name);
    let subject = Subject::new(SubjectKind::Drive, name.clone());
    let mut findings = Vec::new();
    if let Some(used) = drive.percent_used.as_ref().filter(|used| used.value >= set.worn_notice_percent) {
        let severity = if used.value >= set.worn_warning_percent { Severity::Warning } else { Severity::Notice };
        let threshold = match severity {
            Severity::Warning => set.worn_warning_percent,
            _ => set.worn_notice_percent,
        };
        let sentence = format!("Drive {name} has used {} % of its rated life (threshold {threshold} %).", used.value);
        findings.push(
            rules::WORN.finding(subject.clone(), severity, sentence).with_evidence(vec![used.source.label().into()]),
        );
    }
    if let Some(source) = drive.critical_warning.as_ref().filter(|bits| bits.value > 0).map(|bits| bits.source) {
        let sentence = format!("Drive {name} warns: {}.", drive.warnings().join("; "));
        let evidence = vec![format!("critical warning of {}", source.label())];
        findings
            .push(rules::DRIVE_WARNING.finding(subject.clone(), Severity::Warning, sentence).with_evidence(evidence));
    }
    if let Some(spare) = drive.spare_percent.as_ref().filter(|spare| spare.value < set.spare_warning_percent) {
        let sentence = {
            let threshold = set.spare_warning_percent;
            format!("Drive {name} has {} % of its spare flash left (threshold {threshold} %).", spare.value)
        };
        let evidence = vec![spare.source.label().into()];
        findings.push(rules::SPARE.finding(subject.clone(), Severity::Warning, sentence).with_evidence(evidence));
    }
    if let Some(errors) = drive.media_error_count.as_ref().filter(|errors| errors.value > 0) {
        let sentence = format!("Drive {name} could not correct {} errors of its medium.", errors.value);
        let evidence = vec![errors.source.label().into()];
        findings.push(rules::MEDIA_ERRORS.finding(subject, Severity::Notice, sentence).with_evidence(evidence));
    }
    findings
}

/// A number of seconds as people say it: two digits or more, in the largest unit that fits.
fn age(seconds: f64) -> String {
    match seconds {
        ..0.9995 => format!("{:.0} ms", seconds * 1e3),
        ..9.95 => format!("{seconds:.1} s"),
        ..119.5 => format!("{seconds:.0} s"),
        ..7_170.0 => format!("{:.0} min", seconds / 60.0),
        ..172_800.0 => format!("{:.0} h", seconds / 3_600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::ids::{Ids, KEY_BYTES};
    use super::*;
    use std::sync::Arc;
    use surefoot_model::{CheckpointEvent, CheckpointJob, Decided, DriveSource, JournalEntry, JournalEvent, Sourced};

    const SECOND_NS: u64 = 1_000_000_000;

    fn generation(number: u64, tier: CheckpointTier, state: GenerationState) -> Generation {
        Generation {
            number,
            nonce: String::new(),
            tier,
            state,
            missing: "rank 0: it is not a manifest".into(),
            taken_realtime_ns: Some(number * SECOND_NS),
            ranks_here: 1,
            ranks: 1,
            payload_bytes: Some(1),
            stored_bytes: 1,
            protection: "shard".into(),
            directory: "/ssd/a".into(),
        }
    }

    fn job(is_running: bool, bound_s: Option<f64>, generations: Vec<Generation>) -> Job {
        let mut state = State::default();
        let (name, is_running) = ("train".to_owned(), Some(is_running));
        let seen = CheckpointJob { name, is_running, generations, ..CheckpointJob::default() };
        state.take(&CheckpointEvent::Job(seen));
        let decided = Decided { staleness_max_s: bound_s, session_s: 50.0, ..Decided::default() };
        let event = JournalEvent::Decision(Box::new(decided));
        let entries = vec![JournalEntry { realtime_ns: 100 * SECOND_NS, lost_count: 0, event }];
        let job = "train".into();
        state.take(&CheckpointEvent::Journal { job, entries, left_out_count: 0, skipped_count: 0, is_another: false });
        state.jobs["train"].clone()
    }

    fn said(job: &Job) -> Vec<(Severity, String)> {
        of_job(job, 200 * SECOND_NS).into_iter().map(|finding| (finding.severity, finding.sentence)).collect()
    }

    /// What these settings come to for drives that are worn more and more.
    fn effect(set: &surefoot_settings::Checkpoint) -> String {
        let wear = |value| Some(surefoot_model::Sourced::new(value, surefoot_model::DriveSource::NvmeHealthLog, ""));
        let drive =
            |used| DriveWear { percent_used: wear(used), spare_percent: wear(100 - used), ..DriveWear::default() };
        format!("{:?}", (0..=100).flat_map(|used| of_drive(&drive(used), set)).collect::<Vec<_>>())
    }

    /// Each of the settings changes what is found.
    #[test]
    fn each_setting_changes_what_is_found() {
        let usual = surefoot_settings::Checkpoint::default();
        let others = [
            surefoot_settings::Checkpoint { worn_notice_percent: 50, ..usual.clone() },
            surefoot_settings::Checkpoint { worn_warning_percent: 95, ..usual.clone() },
            surefoot_settings::Checkpoint { spare_warning_percent: 20, ..usual.clone() },
        ];
        let of_usual = effect(&usual);
        others.iter().for_each(|other| assert_ne!(effect(other), of_usual, "{other:?}"));
    }

    #[test]
    fn the_age_of_the_durable_copy_is_held_against_its_bound() {
        use CheckpointTier::{Durable, Memory};
        use GenerationState::{Complete, Unfinished};
        let both = vec![generation(190, Memory, Complete), generation(140, Durable, Complete)];
        let good = "Job 'train' has a durable checkpoint from 60 s ago (bound 100 s), one in memory from 10 s ago.";
        assert_eq!(said(&job(true, Some(100.0), both.clone())), [(Severity::Ok, good.into())]);
        let late = "Job 'train' has a durable checkpoint from 60 s ago, older than its bound of 30 s; one in memory from 10 s ago.";
        assert_eq!(said(&job(true, Some(30.0), both.clone())), [(Severity::Warning, late.into())]);
        let since = of_job(&job(true, Some(30.0), both.clone()), 200 * SECOND_NS)[0].since_realtime_ns;
        assert_eq!(since, 170 * SECOND_NS, "since the bound passed");
        let ended = "Job 'train' has a durable checkpoint from 60 s ago, one in memory from 10 s ago.";
        assert_eq!(said(&job(false, Some(30.0), both)), [(Severity::Ok, ended.into())]);
        let none = "Job 'train' has no durable checkpoint, none in memory: a power failure now would lose its work.";
        let unfinished = vec![generation(190, Durable, Unfinished)];
        assert_eq!(said(&job(true, Some(200.0), unfinished.clone())), [(Severity::Notice, none.into())]);
        assert_eq!(said(&job(true, Some(100.0), unfinished)), [(Severity::Warning, none.into())]);
    }

    /// A watch that is told of the directory in memory alone sees no durable copy, and the journal says that there are some.
    #[test]
    fn durable_copies_that_are_not_watched_are_not_said_to_be_missing() {
        let mut one = job(true, None, vec![generation(190, CheckpointTier::Memory, GenerationState::Complete)]);
        let decided = Decided { durable_bytes: 9, session_s: 60.0, ..Decided::default() };
        let event = JournalEvent::Decision(Box::new(decided));
        one.entries.push_back(JournalEntry { realtime_ns: 110 * SECOND_NS, lost_count: 0, event });
        let [(severity, sentence)] = &said(&one)[..] else { panic!("one") };
        assert_eq!(*severity, Severity::Notice);
        assert!(
            sentence.contains("none is in the directories that are watched") && !sentence.contains("lose"),
            "{sentence}"
        );
    }

    #[test]
    fn a_checkpoint_from_the_future_is_not_said_to_be_new() {
        use CheckpointTier::{Durable, Memory};
        use GenerationState::Complete;
        let both = vec![generation(200, Memory, Complete), generation(260, Durable, Complete)];
        let words = said(&job(true, None, both));
        let sentence = "Job 'train' has a durable checkpoint from 60 s in the future (a clock was set back, or is ahead elsewhere), one in memory from 0 ms ago.";
        assert_eq!(words, [(Severity::Ok, sentence.into())]);
    }

    #[test]
    fn a_damaged_newest_checkpoint_says_what_a_restart_takes() {
        use CheckpointTier::{Durable, Memory};
        use GenerationState::{Complete, Damaged};
        let older = vec![generation(9, Durable, Damaged), generation(8, Durable, Complete)];
        let words = said(&job(true, None, older));
        let sentence = "The newest checkpoint of job 'train' on the SSD, number 9, is damaged; a restart takes number 8 on the SSD.";
        assert_eq!(words[1], (Severity::Warning, sentence.into()));
        let words = said(&job(true, None, vec![generation(9, Memory, Damaged)]));
        let sentence = "The newest checkpoint of job 'train' in memory, number 9, is damaged; there is no intact one to restart from.";
        assert_eq!(words[1], (Severity::Critical, sentence.into()));
    }

    #[test]
    fn checkpoints_that_were_there_and_are_gone_are_said() {
        use CheckpointTier::Durable;
        use GenerationState::Complete;
        let lost = |generations| {
            let mut job = job(false, None, generations);
            job.seen.lost = vec!["in memory, in /dev/shm/u6/train: the file nodes says so".into()];
            let finding = of_job(&job, 200 * SECOND_NS).into_iter().find(|finding| finding.rule == rules::LOST.name);
            let finding = finding.unwrap();
            (finding.severity, finding.sentence)
        };
        let sentence = "Job 'train' had checkpoints where none is left; there is no intact one to restart from.";
        assert_eq!(lost(Vec::new()), (Severity::Critical, sentence.into()));
        let sentence = "Job 'train' had checkpoints where none is left; a restart takes number 8 on the SSD.";
        assert_eq!(lost(vec![generation(8, Durable, Complete)]), (Severity::Warning, sentence.into()));
    }

    #[test]
    fn no_finding_tells_everybody_a_job_s_name_nor_what_it_wrote() {
        use CheckpointTier::{Durable, Memory};
        use GenerationState::{Complete, Damaged};
        let mut one = job(true, Some(1.0), vec![generation(9, Memory, Damaged), generation(8, Durable, Complete)]);
        one.ids = Arc::new(Ids::published(|| Some([7; KEY_BYTES])));
        one.seen.name = "SECRET".into();
        one.seen.generations.iter_mut().for_each(|generation| generation.directory = "/ssd/SECRET".into());
        let (job, policy, shared) = ("SECRET".into(), String::new(), String::new());
        let weakness = Some("the partner of SECRET is on the same node".into());
        let event = JournalEvent::Opened { job, ranks: 1, policy, shared, weakness, is_repeated: false };
        one.entries.push_back(JournalEntry { realtime_ns: 101 * SECOND_NS, lost_count: 0, event });
        for uid in [None, Some(0), Some(1000)] {
            one.seen.uid = uid;
            let found = of_job(&one, 200 * SECOND_NS);
            let rules: Vec<&str> = found.iter().map(|finding| finding.rule.as_str()).collect();
            assert_eq!(rules, ["durable", "damaged", "redundancy"]);
            let id = one.id();
            for finding in found {
                assert!(
                    finding.sentence.contains("SECRET")
                        && finding.evidence.contains(&format!("its ID in health.json: {id}"))
                );
                let public = finding.for_everybody();
                let text = format!("{public:?}");
                assert!(
                    !text.contains("SECRET") && public.sentence.contains(&id) && public.key.ends_with(&id),
                    "{text}"
                );
                assert_eq!(public.subject, Subject::new(SubjectKind::Job, id.clone()));
            }
        }
        let ids = [None, Some(0), Some(1000)].map(|uid| {
            one.seen.uid = uid;
            one.id()
        });
        assert!(ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
        // What publishes nothing, such as a replay, names no ID: it would be another one each time.
        one.ids = Arc::default();
        assert!(
            of_job(&one, 200 * SECOND_NS)
                .iter()
                .all(|finding| !finding.evidence.iter().any(|said| said.contains("ID")))
        );
    }

    #[test]
    fn problems_and_worn_drives_are_said_once_each() {
        let problem = |path: &str| CheckpointProblem { path: path.into(), why: "it is a link".into(), uid: None };
        let wear = |value| Some(Sourced::new(value, DriveSource::NvmeHealthLog, ""));
        let (percent_used, spare_percent, media_error_count) = (wear(101), wear(9), wear(3));
        let drive = DriveWear {
            name: "nvme0n1".into(),
            percent_used,
            spare_percent,
            media_error_count,
            critical_warning: wear(0b1000_0001),
            ..DriveWear::default()
        };
        let drives = Some(surefoot_model::CheckpointDrives { read_realtime_ns: 1, drives: vec![drive] });
        let problems = vec![problem("/a"), problem("/b")];
        let mut state = State::default();
        state.take(&CheckpointEvent::Look(CheckpointLook { problems, drives, ..CheckpointLook::default() }));
        let found = of(&state, 0);
        let keys: Vec<&str> = found.iter().map(|finding| finding.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "checkpoint/jobs/host",
                "checkpoint/problems/host",
                "checkpoint/worn/drive/nvme0n1",
                "checkpoint/drive-warning/drive/nvme0n1",
                "checkpoint/spare/drive/nvme0n1",
                "checkpoint/media-errors/drive/nvme0n1"
            ]
        );
        assert_eq!(found[1].sentence, "2 files among the checkpoints are damaged or of another kind.");
        assert_eq!(found[1].evidence, ["/a: it is a link", "/b: it is a link"]);
        let warnings = "Drive nvme0n1 warns: its spare flash is below the drive's own limit; bit 7 of its critical warnings, which \
                        Surefoot does not know.";
        assert_eq!(found[3].sentence, warnings);
        assert!(found[2..5].iter().all(|finding| finding.severity == Severity::Warning));
    }

    /// Any user can have more than is looked at.
    #[test]
    fn what_is_left_out_is_no_word_of_the_hosts() {
        let mut state = State::default();
        let look = CheckpointLook { problems_left_out: 82, jobs_left_out: 3, ..CheckpointLook::default() };
        state.take(&CheckpointEvent::Look(look));
        let found = of(&state, 0);
        let of_host: Vec<&str> =
            found.iter().filter(|finding| finding.uid.is_none()).map(|finding| finding.key.as_str()).collect();
        assert!(of_host.is_empty(), "{of_host:?}");
        let sentence = "82 files that are not listed among the checkpoints are damaged or of another kind.";
        assert!(found.iter().any(|finding| finding.sentence == sentence), "{found:?}");
    }

    #[test]
    fn hostile_numbers_and_long_names_make_neither_a_panic_nor_one_of_two() {
        let mut state = State::default();
        let problems = vec![CheckpointProblem { path: "/a".into(), why: "it is a link".into(), uid: None }];
        let (problems_left_out, jobs_left_out) = (u64::MAX, u64::MAX);
        let look = CheckpointLook { problems, problems_left_out, jobs_left_out, ..CheckpointLook::default() };
        state.take(&CheckpointEvent::Look(look));
        let names = [format!("{}a", "M".repeat(300)), format!("{}b", "M".repeat(300))];
        for name in &names {
            assert_eq!(clipped(name).chars().count(), NAME_CHARACTERS_MAX);
            state.take(&CheckpointEvent::Job(CheckpointJob { name: name.clone(), ..CheckpointJob::default() }));
        }
        let found = of(&state, 0);
        let keys: std::collections::BTreeSet<&String> = found.iter().map(|finding| &finding.key).collect();
        assert_eq!(keys.len(), found.len());
        assert!(found.iter().any(|finding| finding.key == "checkpoint/left-out/host"));
    }

    #[test]
    fn ages_keep_two_digits_and_their_unit() {
        let ages: Vec<String> = [0.04, 0.9994, 3.0, 9.96, 119.0, 120.0, 7_200.0, 200_000.0].map(age).into();
        assert_eq!(ages, ["40 ms", "999 ms", "3.0 s", "10 s", "119 s", "2 min", "2 h", "2 days"]);
    }
}
