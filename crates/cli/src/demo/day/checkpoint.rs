//! A job that keeps checkpoints: where each goes is decided by the real controller; the drain of the host ends it, and the next session
//! restores its newest checkpoint, two pages of which are rebuilt.

use super::clock::{DRAINED, H, JOB_RESTARTS, MIN, S, at, real};
use std::collections::BTreeMap;
use surefoot_checkpoint::controller::{Controller, Drive, Place, Policy, Situation, Surefoot, YEAR_S};
use surefoot_model::{
    CheckpointDirectory, CheckpointDrives, CheckpointEvent, CheckpointJob, CheckpointLook, CheckpointTier, Decided,
    DriveSource, DriveWear, Event, Generation, GenerationState, JournalEntry, JournalEvent, RestartOutcome, Sourced,
};
use surefoot_rooms::CHART_POINTS_MAX;

pub const JOB: &str = "weather-demo";
const RANKS: u32 = 8;
/// What all ranks save, and what it takes with its protection.
const PAYLOAD: u64 = 24 << 30;
const STORED: u64 = PAYLOAD / 16 * 19;
const STEP_S: u64 = 60;
const BOUND_S: f64 = 1_800.0;
const MEMORY_S: f64 = 4.6;
const DRAIN_S: f64 = 52.0;
const DRIVE_BYTES: u64 = 7_680_000_000_000;
const MEMORY_DIRECTORY: &str = "/dev/shm/surefoot/weather-demo";
const DURABLE_DIRECTORY: &str = "/scratch/checkpoints/weather-demo";

/// A session of the job.
struct Session {
    began_ns: u64,
    controller: Controller,
    decided: BTreeMap<String, u64>,
    newest_memory_ns: u64,
    newest_durable_ns: u64,
    checkpoint_s: f64,
    durable_bytes: u64,
}

impl Session {
    /// One that begins, after one whose newest copies are of this time.
    fn new(began_ns: u64, newest_ns: u64) -> Self {
        let policy = Policy::Surefoot(Surefoot {
            soft_failures_per_s: 1.0 / (6.0 * 3_600.0),
            staleness_max_s: BOUND_S,
            ..Surefoot::default()
        });
        Session {
            began_ns,
            controller: Controller::new(policy),
            decided: BTreeMap::new(),
            newest_memory_ns: newest_ns,
            newest_durable_ns: newest_ns,
            checkpoint_s: 0.0,
            durable_bytes: 0,
        }
    }

    fn situation(&self, day_ns: u64) -> Situation {
        let since_s = |then_ns: u64| (day_ns - then_ns) as f64 / 1e9;
        Situation {
            now_s: since_s(self.began_ns),
            checkpoint_s: self.checkpoint_s,
            size_bytes: STORED as f64,
            durable_bytes: self.durable_bytes as f64,
            taken_count: self.decided.values().sum(),
            since_any_s: since_s(self.newest_memory_ns.max(self.newest_durable_ns)),
            since_durable_s: since_s(self.newest_durable_ns),
            since_written_s: since_s(self.newest_durable_ns),
            step_s: STEP_S as f64,
            memory_cost_s: MEMORY_S,
            durable_extra_s: 0.2,
            drain_loss_s: Some(1.4),
            durable_alone_s: DRAIN_S,
            drain_s: DRAIN_S,
            is_draining: false,
            memory_wear_bytes: 0.0,
            fits_memory: true,
            has_durable: true,
            fits_durable: true,
            durable_rest: String::new(),
            memory_suspect: String::new(),
            drive: Some(Drive {
                rated_bytes: 14e15,
                written_bytes: 5.3e15,
                remaining_s: 3.1 * YEAR_S,
                rated_life_s: 5.0 * YEAR_S,
            }),
            drive_said: String::new(),
        }
    }
}

fn word(place: Place) -> String {
    place.label().to_lowercase().replace(' ', "_")
}

/// What lies there.
#[derive(Default)]
struct Kept {
    next: u64,
    generations: Vec<Generation>,
}

impl Kept {
    fn add(&mut self, number: u64, tier: CheckpointTier, day_ns: u64) {
        let directory = if tier == CheckpointTier::Memory { MEMORY_DIRECTORY } else { DURABLE_DIRECTORY };
        let one = Generation {
            number,
            nonce: format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            tier,
            state: GenerationState::Complete,
            missing: String::new(),
            taken_realtime_ns: Some(real(day_ns)),
            ranks_here: RANKS,
            ranks: RANKS,
            payload_bytes: Some(PAYLOAD),
            stored_bytes: STORED,
            protection: "shard".into(),
            directory: format!("{directory}/{number}"),
        };
        self.generations.insert(0, one);
        self.generations.sort_by_key(|one| std::cmp::Reverse((one.number, one.tier)));
        // Two of each tier are kept.
        for tier in [CheckpointTier::Memory, CheckpointTier::Durable] {
            let mut left = 2;
            self.generations.retain(|one| {
                left -= i32::from(one.tier == tier);
                one.tier != tier || left >= 0
            });
        }
    }

    fn job(&self, is_running: bool) -> CheckpointJob {
        CheckpointJob {
            name: JOB.into(),
            uid: Some(1000),
            directories: vec![MEMORY_DIRECTORY.into(), DURABLE_DIRECTORY.into()],
            is_running: Some(is_running),
            generations: self.generations.clone(),
            generations_left_out: 0,
            lost: Vec::new(),
        }
    }
}

fn journal(day_ns: u64, event: JournalEvent) -> (u64, Event) {
    let entries = vec![JournalEntry { realtime_ns: real(day_ns), lost_count: 0, event }];
    let seen =
        CheckpointEvent::Journal { job: JOB.into(), entries, left_out_count: 0, skipped_count: 0, is_another: false };
    (at(day_ns), Event::Checkpoint(seen))
}

fn look(day_ns: u64) -> (u64, Event) {
    let directory = |path: &str, tier, file_system: &str, free_bytes, drives: &[&str]| CheckpointDirectory {
        path: path.into(),
        tiers: vec![tier],
        file_system: Some(file_system.into()),
        free_bytes: Some(free_bytes),
        drives: drives.iter().map(|&name| name.to_owned()).collect(),
        problem: None,
    };
    let drive = DriveWear {
        name: "nvme0n1".into(),
        device_numbers: vec!["259:0".into()],
        model: "Demo NVMe 7680".into(),
        serial: Some("DEMO-SSD-1".into()),
        size_bytes: DRIVE_BYTES,
        rated_bytes: Some(Sourced::new(14_000_000_000_000_000, DriveSource::RatingTable, "made up")),
        written_bytes: Some(Sourced::new(5_300_000_000_000_000, DriveSource::NvmeHealthLog, "")),
        percent_used: Some(Sourced::new(38, DriveSource::NvmeHealthLog, "")),
        spare_percent: Some(Sourced::new(100, DriveSource::NvmeHealthLog, "")),
        critical_warning: Some(Sourced::new(0, DriveSource::NvmeHealthLog, "")),
        media_error_count: Some(Sourced::new(0, DriveSource::NvmeHealthLog, "")),
        power_on_hours: Some(Sourced::new(16_400, DriveSource::NvmeHealthLog, "")),
        ..DriveWear::default()
    };
    let look = CheckpointLook {
        at_ns: at(day_ns),
        looked_realtime_ns: real(day_ns),
        look_ns: 4_000_000,
        directories: vec![
            directory("/dev/shm/surefoot", CheckpointTier::Memory, "tmpfs", 61 << 30, &[]),
            directory("/scratch/checkpoints", CheckpointTier::Durable, "xfs", 4_100_000_000_000, &["nvme0n1"]),
        ],
        drives: Some(CheckpointDrives { read_realtime_ns: real(day_ns), drives: vec![drive] }),
        ..CheckpointLook::default()
    };
    (at(day_ns), Event::Checkpoint(CheckpointEvent::Look(look)))
}

/// One session, from its beginning to its end: each step asks whether a checkpoint pays, and one that does is taken.
fn session(events: &mut Vec<(u64, Event)>, kept: &mut Kept, began_ns: u64, ends_ns: u64) {
    // What the one before saved last, when the host was drained, is restored.
    let newest_ns = if began_ns > DRAINED { DRAINED } else { began_ns };
    let mut session = Session::new(began_ns, newest_ns);
    let policy = session.controller.policy().word();
    let opened = JournalEvent::Opened {
        job: JOB.into(),
        ranks: RANKS,
        policy,
        shared: String::new(),
        weakness: Some(String::new()),
        is_repeated: false,
    };
    events.push(journal(began_ns, opened));
    let mut day_ns = began_ns + STEP_S * S;
    while day_ns < ends_ns {
        let situation = session.situation(day_ns);
        let is_last = day_ns + STEP_S * S >= ends_ns && ends_ns < 24 * H;
        if session.controller.is_due(&situation).place != Place::Skip || is_last {
            decide(events, kept, &mut session, &situation, day_ns);
        }
        day_ns += STEP_S * S;
    }
}

fn decide(events: &mut Vec<(u64, Event)>, kept: &mut Kept, session: &mut Session, situation: &Situation, day_ns: u64) {
    let decision = session.controller.decide(situation);
    let place = word(decision.place);
    *session.decided.entry(place.clone()).or_default() += 1;
    let generation = (decision.place != Place::Skip).then(|| {
        kept.next += 1;
        kept.next
    });
    let visible_s = if decision.place == Place::Skip { 0.002 } else { MEMORY_S + (day_ns / MIN % 7) as f64 * 0.05 };
    session.checkpoint_s += visible_s;
    let decided = Decided {
        place,
        generation,
        reasons: decision.reasons.clone(),
        failure: String::new(),
        payload_bytes: PAYLOAD / u64::from(RANKS),
        node_bytes: STORED,
        visible_s,
        durable_age_s: situation.since_durable_s,
        staleness_max_s: Some(BOUND_S),
        durable_bytes: session.durable_bytes,
        session_s: situation.now_s,
        checkpoint_s: session.checkpoint_s,
        budget_bytes_per_s: Some(88e6),
        endurance_left_bytes: Some(8.7e15 - session.durable_bytes as f64),
        decided: session.decided.clone(),
    };
    events.push(journal(day_ns, JournalEvent::Decision(Box::new(decided))));
    let Some(number) = generation else { return };
    session.newest_memory_ns = day_ns;
    kept.add(number, CheckpointTier::Memory, day_ns);
    if !decision.place.is_durable() {
        events.push((at(day_ns), Event::Checkpoint(CheckpointEvent::Job(kept.job(true)))));
    }
    if decision.place.is_durable() {
        let written_ns = day_ns + (DRAIN_S * 1e9) as u64;
        session.newest_durable_ns = day_ns;
        session.durable_bytes += STORED;
        session.controller.spend(STORED as f64);
        kept.add(number, CheckpointTier::Durable, day_ns);
        let durable = JournalEvent::Durable {
            tier: "durable".into(),
            generation: number,
            age_s: DRAIN_S,
            took_s: DRAIN_S - 1.0,
            bytes: STORED,
            is_durable: Some(true),
        };
        events.push(journal(written_ns, durable));
        events.push((at(written_ns), Event::Checkpoint(CheckpointEvent::Job(kept.job(true)))));
    }
}

pub fn events() -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    let mut kept = Kept { next: 180, ..Kept::default() };
    session(&mut events, &mut kept, 4 * MIN, DRAINED);
    events.push((at(DRAINED), Event::Checkpoint(CheckpointEvent::Job(kept.job(false)))));
    let newest = kept.next;
    let restart = JournalEvent::Restart {
        generation: Some(newest),
        report: format!(
            "rank 0: generation {newest} from memory: 786432 pages, 2 bad (0 of them refused by the kernel), 2 repaired, 0 copies of the \
             table bad"
        ),
        outcome: Some(RestartOutcome::Restored),
        tier: Some("memory".into()),
    };
    session(&mut events, &mut kept, JOB_RESTARTS, 24 * H);
    events.push(journal(JOB_RESTARTS + 9 * S, restart));
    events.push((at(24 * H - 8 * MIN), Event::Checkpoint(CheckpointEvent::Job(kept.job(true)))));
    for number in 0..44 {
        events.push(look(number * 30 * MIN + 5 * MIN));
    }
    // As many as the chart keeps: looks further apart than durable copies would draw ages that were never there.
    for number in 0..CHART_POINTS_MAX as u64 {
        events.push(look(22 * H + number * MIN));
    }
    events
}
