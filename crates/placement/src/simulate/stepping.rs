//! A run of the microbenchmark, step by step.

use super::rooms::Rooms;
use super::{Kind, POWER, Run, Settings};
use crate::controller::{Controller, Copies, Course, Decision, Drive, Place, Policy, Situation, Visible, YEAR_S};

/// A run, up to some moment.
pub struct Stepping<'a> {
    kind: Kind,
    size_bytes: f64,
    settings: &'a Settings,
    controller: Controller,
    course: Course,
    copies: Copies,
    rooms: Rooms,
    on_its_way: Option<OnItsWay>,
    iterations: u64,
    now_s: f64,
    /// Those that went to the SSD, and all that began to be written to it.
    durable_count: u64,
    spent_count: u64,
    refused_count: u64,
    failed_count: u64,
    staleness_s: f64,
    memory_work_s: f64,
    durable_work_s: f64,
    /// When the last quarter of the run began, and what was written before it.
    last_quarter: (f64, f64),
}

/// A write in the background.
#[derive(Debug, Clone, Copy)]
struct OnItsWay {
    taken_s: f64,
    ends_s: f64,
}

impl<'a> Stepping<'a> {
    pub(super) fn new(kind: Kind, size_bytes: f64, settings: &'a Settings) -> Self {
        Stepping::by(kind.policy(settings), kind, size_bytes, settings)
    }

    /// With a policy of one's own in the place of that kind's.
    pub fn by(policy: Policy, kind: Kind, size_bytes: f64, settings: &'a Settings) -> Self {
        Stepping {
            kind,
            size_bytes,
            settings,
            controller: Controller::new(policy),
            course: Course::default(),
            copies: Copies::default(),
            rooms: Rooms::new(size_bytes, [settings.memory_room_bytes, settings.durable_room_bytes]),
            on_its_way: None,
            iterations: 0,
            now_s: 0.0,
            durable_count: 0,
            spent_count: 0,
            refused_count: 0,
            failed_count: 0,
            staleness_s: 0.0,
            memory_work_s: 0.0,
            durable_work_s: 0.0,
            last_quarter: (0.0, 0.0),
        }
    }

    fn memory_s(&self) -> f64 {
        let factor = if self.kind.is_ours() { self.settings.protection_factor } else { 1.0 };
        factor * self.size_bytes / self.settings.memory_bytes_per_s
    }

    fn write_s(&self) -> f64 {
        self.size_bytes / self.settings.durable_bytes_per_s
    }

    /// Takes note of a call that begins, whether it saves or only asks.
    pub fn enter(&mut self, now_s: f64, is_save: bool) {
        self.course.entered(now_s, is_save, self.on_its_way.is_some());
    }

    /// Takes note of its end.
    pub fn leave(&mut self, now_s: f64, is_save: bool) {
        self.course.returned(now_s, is_save);
    }

    /// What is known at a decision of this time; each counts as a call.
    pub fn situation(&mut self, now_s: f64) -> Situation {
        self.now_s = now_s;
        let step_s = self.course.called(now_s);
        let on_its_way_s = self.on_its_way.map(|on_its_way| on_its_way.taken_s);
        let durable_bytes = self.copies.bytes as f64;
        Situation {
            now_s,
            checkpoint_s: self.course.checkpoint_s,
            size_bytes: self.size_bytes,
            durable_bytes,
            taken_count: self.course.taken_count,
            since_any_s: now_s - self.course.last_any_s,
            since_durable_s: now_s - self.copies.last_s,
            since_written_s: now_s - self.copies.last_written_s(on_its_way_s),
            step_s,
            memory_cost_s: self.course.memory_cost_s(),
            durable_extra_s: self.course.durable_extra_s(),
            drain_loss_s: self.course.drain_loss_s(),
            durable_alone_s: self.course.durable_alone_s(),
            drain_s: self.copies.drain_s(),
            is_draining: self.on_its_way.is_some(),
            memory_wear_bytes: 0.0,
            fits_memory: self.rooms.has_memory()
                && (self.kind != Kind::SizeLimited || self.size_bytes <= self.settings.memory_limit_bytes),
            has_durable: true,
            fits_durable: self.rooms.has_durable(),
            durable_rest: String::new(),
            memory_suspect: match self.settings.memory_outage {
                Some(outage) if outage.holds(now_s, now_s) => "uncorrected errors (simulated)".to_owned(),
                _ => String::new(),
            },
            // As the drive's own counts would say it, read anew before each decision.
            drive: Some(Drive {
                written_bytes: self.settings.drive.written_bytes + durable_bytes,
                remaining_s: self.settings.drive.remaining_s - now_s,
                ..self.settings.drive
            }),
            drive_said: String::new(),
        }
    }

    /// Whether a checkpoint pays.
    pub fn is_due(&mut self, situation: &Situation) -> Decision {
        self.controller.is_due(situation)
    }

    /// Where the checkpoint goes that is taken now.
    pub fn decide(&mut self, situation: &Situation) -> Decision {
        self.controller.decide(situation)
    }

    /// Takes note of a background write that a call has found to be on the SSD, so long after it was taken.
    pub fn arrived(&mut self, took_s: f64) {
        let Some(on_its_way) = self.on_its_way.take() else { return };
        self.staleness_s = self.staleness_s.max(self.now_s - self.copies.last_s);
        self.copies.arrived(on_its_way.taken_s, took_s, self.size_bytes as u64);
        self.course.arrived(took_s);
        self.rooms.ended(true);
    }

    /// Takes note of a write that failed; in the background it is found by a call.
    pub fn failed(&mut self) {
        self.failed_count += 1;
        if self.on_its_way.take().is_some() {
            self.durable_count -= 1;
            self.rooms.ended(false);
        }
        self.course.failed();
    }

    /// Takes what is written to the SSD off the budget; before the write.
    pub fn spend(&mut self, place: Place) {
        if place.is_durable() {
            self.controller.spend(self.size_bytes);
            self.spent_count += 1;
        }
    }

    /// Takes note of a checkpoint: when its call began and ended, when its write to the SSD will, for how long the program
    /// waited for it, and for the call in all.
    pub fn took(&mut self, place: Place, [taken_s, ended_s, written_s]: [f64; 3], visible: Visible, waited_s: f64) {
        self.now_s = ended_s;
        self.course.checkpoint_s += waited_s;
        match place {
            Place::Skip => return,
            Place::Memory => {}
            Place::Both => self.on_its_way = Some(OnItsWay { taken_s, ends_s: written_s }),
            Place::Durable => {
                self.staleness_s = self.staleness_s.max(ended_s - self.copies.last_s);
                self.copies.written(taken_s, self.size_bytes as u64);
            }
        }
        self.durable_count += u64::from(place.is_durable());
        self.rooms.took(place);
        self.course.took(place, visible, ended_s);
    }

    /// One iteration, by the times that the settings say.
    pub(super) fn step(&mut self) {
        if self.iterations == self.settings.iterations / 4 * 3 {
            self.last_quarter = (self.now_s, self.written_bytes());
        }
        self.iterations += 1;
        let called_s = self.now_s + self.work_s();
        self.now_s = called_s;
        if self.kind == Kind::SurefootWhenDue {
            self.enter(called_s, false);
            self.settle();
            let situation = self.situation(called_s);
            let place = self.is_due(&situation).place;
            self.leave(called_s, false);
            if place == Place::Skip {
                return;
            }
        }
        self.enter(called_s, true);
        self.settle();
        let situation = self.situation(called_s);
        let decision = self.decide(&situation);
        self.refused_count += u64::from(decision.is_refused);
        self.save(decision.place, called_s);
        self.leave(self.now_s, true);
    }

    /// How long the work of an iteration takes: it is slower as long as there is a write in the background.
    fn work_s(&self) -> f64 {
        let (work_s, lost_share) = (self.settings.compute_s, self.settings.waiting_share);
        let slow_s = self.on_its_way.map_or(0.0, |on_its_way| (on_its_way.ends_s - self.now_s).max(0.0));
        let done_s = slow_s * (1.0 - lost_share);
        if done_s >= work_s { work_s / (1.0 - lost_share) } else { slow_s + work_s - done_s }
    }

    /// A checkpoint whose call began at this time.
    fn save(&mut self, place: Place, called_s: f64) {
        if place.is_durable()
            && let Some(on_its_way) = self.on_its_way
        {
            // One at a time: the program waits for the former.
            self.now_s = self.now_s.max(on_its_way.ends_s);
            self.settle();
        }
        let waited_s = self.now_s - called_s;
        let copy_s = if matches!(place, Place::Memory | Place::Both) { self.memory_s() } else { 0.0 };
        let write_s = if place.is_durable() { self.write_s() } else { 0.0 };
        // The paper's policies write while the program waits, and never to both.
        let ended_s = self.now_s + copy_s + if place == Place::Both { 0.0 } else { write_s };
        let written_s = self.now_s + copy_s + write_s;
        self.memory_work_s += copy_s;
        self.durable_work_s += write_s;
        self.spend(place);
        if place == Place::Durable && self.fails(called_s, written_s) {
            self.failed();
            self.took(Place::Skip, [called_s, ended_s, written_s], Visible::default(), ended_s - called_s);
            return;
        }
        let visible = Visible {
            all_s: ended_s - called_s,
            durable_s: waited_s,
            is_beside_write: self.on_its_way.is_some(),
            ..Visible::default()
        };
        self.took(place, [called_s, ended_s, written_s], visible, ended_s - called_s);
    }

    /// Whether a write to the SSD fails that goes on from one time to another.
    fn fails(&self, from_s: f64, to_s: f64) -> bool {
        self.settings.durable_outage.is_some_and(|outage| outage.holds(from_s, to_s))
    }

    /// Notes a background write that has ended by now.
    fn settle(&mut self) {
        let ended = self.on_its_way.filter(|on_its_way| self.now_s + 1e-9 >= on_its_way.ends_s);
        match ended {
            Some(OnItsWay { taken_s, ends_s }) if self.fails(taken_s, ends_s) => self.failed(),
            Some(OnItsWay { taken_s, ends_s }) => self.arrived(ends_s - taken_s),
            None => {}
        }
    }

    fn written_bytes(&self) -> f64 {
        self.spent_count as f64 * self.size_bytes
    }

    fn drive_years(&self) -> Option<f64> {
        let (began_s, before_bytes) = self.last_quarter;
        let rate = (self.written_bytes() - before_bytes) / (self.now_s - began_s).max(f64::MIN_POSITIVE);
        let left_bytes = (self.settings.drive.rated_bytes - self.settings.drive.written_bytes).max(0.0);
        (rate > 0.0).then(|| left_bytes / rate / YEAR_S)
    }

    pub(super) fn finish(mut self) -> Run {
        self.settle();
        let iterations = self.iterations.max(1) as f64;
        let work_s = iterations * self.settings.compute_s;
        let rate = self.written_bytes() / self.now_s.max(f64::MIN_POSITIVE);
        let (taken, durable) = (self.course.taken_count, self.durable_count);
        let every = |count: u64| (count > 0).then(|| self.now_s / count as f64);
        let [durable_watt, memory_watt, idle_watt] = POWER;
        let energy = |idle: f64| {
            ((durable_watt - idle) * self.durable_work_s + (memory_watt - idle) * self.memory_work_s) / iterations
        };
        Run {
            kind: self.kind,
            size_bytes: self.size_bytes,
            slowdown: self.now_s / work_s,
            taken_count: taken,
            durable_share: durable as f64 / iterations,
            skipped_share: 1.0 - taken as f64 / iterations,
            refused_count: self.refused_count,
            failed_count: self.failed_count,
            interval_s: every(taken),
            durable_interval_s: every(durable),
            staleness_s: (durable > 0).then(|| self.staleness_s.max(self.now_s - self.copies.last_s)),
            durable_bytes_per_s: rate,
            drive_years: self.drive_years(),
            energy_gross_joule: energy(0.0),
            energy_net_joule: energy(idle_watt),
        }
    }
}
