//! The fault movie: one fault step by step, from the flip to detection to recovery.

use super::fault::Fault;
use super::trial::{LATE_NS, Lab, Record, Run, detector_name, finding_name};
use super::{CampaignError, Outcome};
use crate::cpu::{Instruction, decode};
use crate::device;
use crate::host::daemon::Step;
use crate::host::port::SendFailure;
use crate::world::World;

/// Instructions after the fault in which the first difference is looked for.
const TRACE_INSTRUCTIONS: u64 = 100_000;
/// A movie has at most so many scenes; what happens then is counted.
pub const SCENES_MAX: usize = 400;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The fault struck: the word before and after, and what they say where they are code.
    Struck {
        /// The place as people call it.
        place: String,
        /// The function, where it is code.
        function: Option<String>,
        /// The word before.
        before: Option<u32>,
        /// And after.
        after: Option<u32>,
        /// The instruction before, where it is code.
        was: Option<String>,
        /// And after.
        is: Option<String>,
    },
    /// The first instruction that was done otherwise than without the fault.
    Diverged {
        /// Where.
        pc: u32,
        /// In which function.
        function: Option<String>,
        /// Instructions after the fault.
        after_instructions: u64,
        /// What was done.
        done: String,
        /// What is done without the fault.
        usually: String,
    },
    /// No instruction was done otherwise, as long as that was watched.
    NotDiverged {
        /// So many were watched.
        watched_instructions: u64,
    },
    /// A processor halted in a trap.
    Halted {
        /// Why.
        cause: String,
        /// Where.
        pc: u32,
        /// In which function.
        function: Option<String>,
    },
    /// A host went down.
    Crashed,
    /// A daemon's step; its name, and the detector with what it found.
    Daemon {
        /// Suspected, dismissed, detected, reloaded, passed, recovered, reload_failed or given_up.
        step: &'static str,
        /// Who suspected or detected.
        by: Option<&'static str>,
        /// What a self-test found.
        finding: Option<&'static str>,
        /// The new epoch.
        epoch: Option<u32>,
    },
    /// A message was delivered much later, or otherwise than it was sent.
    Delivered {
        /// Its number.
        message: u32,
        /// From this host.
        from: usize,
        /// late, or wrong.
        how: &'static str,
        /// How much later than without the fault.
        late_ns: Option<u64>,
    },
    /// The sender was told that a message did not arrive.
    Refused {
        /// Its number.
        message: u32,
        /// Why.
        why: SendFailure,
    },
    /// The end.
    Ended,
}

/// Something that happened, when, and on which host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    /// Virtual time.
    pub at_ns: u64,
    /// From the fault on.
    pub since_ns: u64,
    /// The host where it happened, of a delivery the one that receives; `None` for what is of neither.
    pub place: Option<usize>,
    /// What happened.
    pub what: What,
}

/// A fault, step by step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Movie {
    /// What the campaign says of it.
    pub record: Record,
    /// What happened, in order.
    pub scenes: Vec<Scene>,
    /// Scenes that did not fit.
    pub missed_count: u64,
}

/// What was seen so far.
#[derive(Default)]
struct Watch {
    steps: [usize; 2],
    delivered: [usize; 2],
    told: [usize; 2],
    halted: [bool; 2],
    crashed: [bool; 2],
}

impl Lab {
    /// The movie of a fault.
    ///
    /// # Errors
    /// When the interface has no such bit, or does not do so many instructions.
    pub fn movie(&mut self, fault: &Fault, scenes_max: usize) -> Result<Movie, CampaignError> {
        self.golden().must_reach(fault)?;
        // A fault that was known to be masked is shown all the same.
        let record = self.record(fault)?;
        let usual = self.usual_trace(fault);
        let place = self.golden().experiment.place;
        let functions = self.golden().firmware().clone();
        let name = |pc: u32| functions.function_at(pc).map(|function| function.name.clone());
        let mark = self.mark_before(fault);
        let patience_ns = self.patience_ns();
        let mut run = Run::begin(self.golden_mut(), fault, mark, patience_ns)?;
        let word_before = word_of(run.world(), place, fault);
        let mut watch = Watch::default();
        watch.begin(&run);
        run.golden().device_mut(place).trace(TRACE_STEPS);
        let (mut scenes, mut trace) = (Vec::new(), None);
        let mut is_struck = false;
        while run.goes_on() {
            run.turn();
            let device = &run.world().nodes[place].device;
            let (struck_ns, count) = (device.damaged_ns(), device.instruction_count());
            if let Some(at_ns) = struck_ns.filter(|_| !std::mem::replace(&mut is_struck, struck_ns.is_some())) {
                scenes.push(struck(fault, place, at_ns, word_before, &name));
            }
            if trace.is_none() && count >= fault.at_instruction.saturating_add(TRACE_INSTRUCTIONS) {
                trace = Some(run.golden().device_mut(place).take_trace().0);
            }
            watch.look(&mut run, &mut scenes, &name);
        }
        let mut trace = trace.unwrap_or_else(|| run.golden().device_mut(place).take_trace().0);
        let end_ns = run.world().now_ns();
        let is_halt = |scene: &&Scene| matches!(scene.what, What::Halted { .. }) && scene.place == Some(place);
        let halted_ns = scenes.iter().find(is_halt).map(|scene| scene.at_ns);
        // What is executed after a halt is the new control program.
        trace.retain(|step| halted_ns.is_none_or(|halted_ns| step.at_ns <= halted_ns));
        scenes.extend(divergence(fault, place, &usual, &trace, &name, end_ns));
        scenes.sort_by_key(|scene| scene.at_ns);
        scenes.push(Scene { at_ns: end_ns, since_ns: 0, place: None, what: What::Ended });
        run.end();
        let struck_ns = scenes.iter().find(|scene| matches!(scene.what, What::Struck { .. })).map(|scene| scene.at_ns);
        for scene in &mut scenes {
            scene.since_ns = scene.at_ns.saturating_sub(struck_ns.unwrap_or(0));
        }
        let missed_count = scenes.len().saturating_sub(scenes_max) as u64;
        if missed_count > 0 {
            // The end is always shown.
            scenes.drain(scenes_max.saturating_sub(1)..scenes.len() - 1);
        }
        Ok(Movie { record, scenes, missed_count })
    }

    /// What is executed without the fault, from the mark before it on.
    fn usual_trace(&mut self, fault: &Fault) -> Vec<device::Step> {
        let place = self.golden().experiment.place;
        let mark = self.mark_before(fault);
        let golden = self.golden_mut();
        golden.go_back(mark);
        golden.device_mut(place).trace(TRACE_STEPS);
        let last = fault.at_instruction.saturating_add(TRACE_INSTRUCTIONS);
        while golden.device_mut(place).instruction_count() < last && golden.world().now_ns() < golden.end_ns {
            golden.turn();
        }
        golden.device_mut(place).take_trace().0
    }
}

/// Two marks lie at most this many instructions apart, and so the trace holds what follows the fault.
const TRACE_STEPS: usize = TRACE_INSTRUCTIONS as usize + 50_000;

fn word_of(world: &World, place: usize, fault: &Fault) -> Option<u32> {
    let device = &world.nodes[place].device;
    match fault.damage() {
        device::Damage::Flip { space: device::Space::Sram, location, .. } => device.read_word(location).ok(),
        device::Damage::Stick { register, .. } => Some(device.peek(register)),
        device::Damage::Flip { .. } => None,
    }
}

fn struck(
    fault: &Fault,
    place: usize,
    at_ns: u64,
    word_before: Option<u32>,
    name: &impl Fn(u32) -> Option<String>,
) -> Scene {
    let is_code = fault.space == super::Space::Code;
    let before = if is_code { word_before } else { None };
    let after = before.map(|word| word ^ 1 << fault.bit);
    let text = |word: Option<u32>| word.filter(|_| is_code).map(|word| assembly(decode(word)));
    Scene {
        at_ns,
        since_ns: 0,
        place: Some(place),
        what: What::Struck {
            place: fault.place(),
            function: is_code.then(|| name(fault.location)).flatten(),
            before,
            after,
            was: text(before),
            is: text(after),
        },
    }
}

/// An instruction as text.
fn assembly(instruction: Instruction) -> String {
    use crate::cpu::Operation as Op;
    let Instruction { operation, rd, rs1, rs2, immediate } = instruction;
    let name = format!("{operation:?}").to_lowercase();
    match operation {
        Op::Illegal | Op::Undecoded => "no instruction".to_owned(),
        Op::Fence | Op::FenceI | Op::Ecall | Op::Ebreak => name,
        Op::Lui | Op::Auipc => format!("{name} x{rd}, {:#x}", immediate as u32 >> 12),
        Op::Jal => format!("{name} x{rd}, {immediate:+}"),
        Op::Beq | Op::Bne | Op::Blt | Op::Bge | Op::Bltu | Op::Bgeu => format!("{name} x{rs1}, x{rs2}, {immediate:+}"),
        Op::Lb | Op::Lh | Op::Lw | Op::Lbu | Op::Lhu | Op::Jalr => format!("{name} x{rd}, {immediate}(x{rs1})"),
        Op::Sb | Op::Sh | Op::Sw => format!("{name} x{rs2}, {immediate}(x{rs1})"),
        Op::Addi | Op::Slti | Op::Sltiu | Op::Xori | Op::Ori | Op::Andi | Op::Slli | Op::Srli | Op::Srai => {
            format!("{name} x{rd}, x{rs1}, {immediate}")
        }
        _ => format!("{name} x{rd}, x{rs1}, x{rs2}"),
    }
}

/// What a step did, in words.
fn done(step: &device::Step) -> String {
    let mut text = assembly(step.instruction);
    if let Some((register, value)) = step.register {
        text += &format!(" gives x{register} = {value:#x}");
    }
    if let Some(access) = step.access {
        let verb = if access.is_store { "writes" } else { "reads" };
        text += &format!(" {verb} {:#x} at {:#x}", access.value, access.address);
    }
    text
}

/// The first step that differs. Steps of both begin at the same mark.
fn divergence(
    fault: &Fault,
    place: usize,
    usual: &[device::Step],
    trace: &[device::Step],
    name: &impl Fn(u32) -> Option<String>,
    end_ns: u64,
) -> Option<Scene> {
    let after = |steps: &[device::Step]| steps.partition_point(|step| step.number < fault.at_instruction);
    let (usual, trace) = (usual.get(after(usual)..)?, trace.get(after(trace)..)?);
    let is_same = |(ours, theirs): (&device::Step, &device::Step)| {
        (ours.pc, ours.register, ours.access, ours.at_ns) == (theirs.pc, theirs.register, theirs.access, theirs.at_ns)
    };
    let same = trace.iter().zip(usual).take_while(|(ours, theirs)| is_same((ours, theirs))).count();
    let what = match (trace.get(same), usual.get(same)) {
        (Some(ours), Some(theirs)) => What::Diverged {
            pc: ours.pc,
            function: name(ours.pc),
            after_instructions: same as u64,
            done: done(ours),
            usually: if ours.pc == theirs.pc && ours.at_ns == theirs.at_ns {
                done(theirs)
            } else {
                format!("{} at {:#x}, {} ns", done(theirs), theirs.pc, theirs.at_ns)
            },
        },
        (None, Some(theirs)) => What::Diverged {
            pc: theirs.pc,
            function: name(theirs.pc),
            after_instructions: same as u64,
            done: "nothing: the processor stopped, or the run ended".to_owned(),
            usually: done(theirs),
        },
        _ => What::NotDiverged { watched_instructions: same as u64 },
    };
    let at_ns = trace.get(same).or_else(|| usual.get(same)).map_or(end_ns, |step| step.at_ns.min(end_ns));
    Some(Scene { at_ns, since_ns: 0, place: Some(place), what })
}

impl Watch {
    fn begin(&mut self, run: &Run<'_>) {
        for place in 0..2 {
            let history = &run.traffic().histories[place];
            (self.delivered[place], self.told[place]) = (history.delivered.len(), history.told.len());
        }
    }

    fn look(&mut self, run: &mut Run<'_>, scenes: &mut Vec<Scene>, name: &impl Fn(u32) -> Option<String>) {
        // Far more than anybody is shown; the rest is not kept.
        if scenes.len() > SCENES_MAX * 10 {
            return;
        }
        let now_ns = run.world().now_ns();
        for place in 0..2 {
            let mut add = |at_ns: u64, what: What| scenes.push(Scene { at_ns, since_ns: 0, place: Some(place), what });
            let node = &run.world().nodes[place];
            if let Some(trap) = node.device.halted().filter(|_| !self.halted[place]) {
                let (cause, function) = (format!("{:?}", trap.cause), name(trap.pc));
                add(node.device.now_ns().min(now_ns), What::Halted { cause, pc: trap.pc, function });
            }
            self.halted[place] = node.device.halted().is_some();
            if let Some(at_ns) = node.crashed_ns.filter(|_| !std::mem::replace(&mut self.crashed[place], true)) {
                add(at_ns, What::Crashed);
            }
            let steps = run.new_steps(place);
            for &(at_ns, step) in &steps[self.steps[place]..] {
                add(at_ns, daemon(step));
            }
            self.steps[place] = steps.len();
            self.messages(run, place, scenes);
        }
    }

    /// Messages that this host sent: they are delivered at the other one.
    fn messages(&mut self, run: &Run<'_>, place: usize, scenes: &mut Vec<Scene>) {
        let mut add =
            |place: usize, at_ns: u64, what: What| scenes.push(Scene { at_ns, since_ns: 0, place: Some(place), what });
        let history = &run.traffic().histories[place];
        for (at, seen) in history.delivered.iter().enumerate().skip(self.delivered[place]) {
            let is_sent = |sent: &crate::world::traffic::Seen| {
                (sent.id, sent.checksum, sent.bytes) == (seen.id, seen.checksum, seen.bytes)
            };
            let is_again = history.delivered[..at].iter().any(|before| before.id == seen.id);
            let usual_ns = run.usual_delivery_ns(place, seen.id);
            let late_ns = usual_ns.map(|usual_ns| seen.at_ns.saturating_sub(usual_ns)).filter(|&ns| ns > LATE_NS);
            let how = match (history.sent.iter().any(is_sent), is_again, late_ns) {
                (false, ..) => "wrong",
                (true, true, _) => "again",
                (true, false, Some(_)) => "late",
                (true, false, None) => continue,
            };
            add(1 - place, seen.at_ns, What::Delivered { message: seen.id, from: place, how, late_ns });
        }
        self.delivered[place] = history.delivered.len();
        for &(message, outcome) in &history.told[self.told[place]..] {
            if let Err(why) = outcome {
                add(place, run.world().now_ns(), What::Refused { message, why });
            }
        }
        self.told[place] = history.told.len();
    }
}

fn daemon(step: Step) -> What {
    let (name, by, epoch) = match step {
        Step::Suspected(by) => ("suspected", Some(by), None),
        Step::Dismissed => ("dismissed", None, None),
        Step::Detected(by) => ("detected", Some(by), None),
        Step::Reloaded { epoch } => ("reloaded", None, Some(epoch)),
        Step::Passed { .. } => ("passed", None, None),
        Step::Told { .. } => ("told", None, None),
        Step::Recovered => ("recovered", None, None),
        Step::ReloadFailed => ("reload_failed", None, None),
        Step::GivenUp => ("given_up", None, None),
    };
    What::Daemon { step: name, by: by.map(detector_name), finding: by.and_then(finding_name), epoch }
}

impl Movie {
    /// Whether anybody could tell the fault.
    pub fn is_failure(&self) -> bool {
        self.record.outcome != Outcome::NoEffect
    }
}
