//! Fault campaigns, with the control program as it is built.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use surefoot_nic::campaign::fault::{Fault, FaultId, Space};
use surefoot_nic::campaign::golden::Golden;
use surefoot_nic::campaign::movie::What;
use surefoot_nic::campaign::trial::Lab;
use surefoot_nic::campaign::{Experiment, Outcome, Preset, Record, Standard};
use surefoot_nic::device::registers::offset;
use surefoot_nic::device::{Damage, Stuck};
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_nic::host::daemon::{DaemonConfig, Detector, Step};
use surefoot_nic::host::layout::port_word::GENERATION;
use surefoot_nic::host::memory::port_word;
use surefoot_nic::host::port::{PortConfig, SendFailure};
use surefoot_nic::host::selftest::SelfTestConfig;
use surefoot_nic::world::traffic::{Kind, Traffic, TrafficConfig};
use surefoot_nic::world::{World, WorldConfig};

fn experiment(preset: Preset, build: Build) -> Experiment {
    Experiment { build, ..Experiment::preset(preset) }
}

fn lab(experiment: &Experiment, sample: u64, seed: u64) -> (Lab, Vec<Fault>) {
    let golden = Golden::run(experiment, seed).unwrap();
    let faults = experiment.faults(golden.firmware(), golden.window(), Some(sample), seed).unwrap();
    (Lab::new(golden), faults)
}

fn records(lab: &mut Lab, faults: &[Fault]) -> Vec<Record> {
    faults.iter().map(|fault| lab.record(fault).unwrap()).collect()
}

#[test]
fn a_sample_is_of_faults_that_are_there() {
    let registers = experiment(Preset::Registers, Build::Detecting);
    let golden = Golden::run(&registers, 1).unwrap();
    let faults = |sample| registers.faults(golden.firmware(), golden.window(), sample, 1);
    // 31 registers and the program counter, of 32 bits each.
    assert_eq!(faults(Preset::Registers.sample()).unwrap().len(), 1_024);
    assert_eq!(faults(Some(1_024)).unwrap().len(), 1_024);
    let why = faults(Some(1_025)).unwrap_err().to_string();
    assert!(why.contains("a sample of 1025 faults is asked for, but the experiment has 1024"), "{why}");
}

#[test]
fn the_same_seed_gives_the_same_records_in_any_order_and_another_seed_others() {
    let one = experiment(Preset::SendChunk, Build::Detecting);
    let (mut first, faults) = lab(&one, 40, 3);
    let whole = records(&mut first, &faults);
    let (mut second, again) = lab(&one, 40, 3);
    assert_eq!(faults, again);
    // The second half first: what a fault does must not depend on those before it.
    let mut parts = records(&mut second, &again[20..]);
    parts.splice(0..0, records(&mut second, &again[..20]));
    assert_eq!(whole, parts);
    assert_ne!(lab(&one, 40, 4).1, faults);
}

#[test]
fn runs_without_a_fault_raise_no_alarm() {
    for build in [Build::Detecting, Build::Tolerant] {
        let long = Experiment { message_count: 2_000, ..experiment(Preset::SendChunk, build) };
        let golden = Golden::run(&long, 5).unwrap();
        assert_eq!(golden.false_alarms, [], "{build:?}");
        // 2,000 messages, one in 75 us, and a cycle begun every 4 ms.
        assert!(golden.passed_counts.iter().all(|&count| count >= 30), "{:?}", golden.passed_counts);
    }
}

#[test]
fn what_is_masked_by_construction_is_masked_when_it_is_run() {
    let (mut with, faults) = lab(&experiment(Preset::Code, Build::Detecting), 60, 9);
    let pruned: Vec<Fault> = faults.into_iter().filter(|fault| with.record(fault).unwrap().is_pruned).collect();
    assert!(pruned.len() > 15, "{}", pruned.len());
    for fault in pruned.iter().take(15) {
        // As data the word is not known to be dead, and the run is made.
        let record = with.record(&Fault { space: Space::Data, ..*fault }).unwrap();
        assert_eq!((record.is_pruned, record.outcome, record.standard), (false, Outcome::NoEffect, Standard::Masked));
        assert_eq!(record.detection, None, "{}", record.id);
    }
}

#[test]
fn the_detecting_interface_hangs_and_the_tolerant_one_delivers_everything() {
    let (mut detecting, faults) = lab(&experiment(Preset::SendChunk, Build::Detecting), 80, 1);
    let before = records(&mut detecting, &faults);
    let hangs: Vec<_> = before.iter().filter(|record| record.outcome == Outcome::Hang).collect();
    assert!(hangs.len() > 10 && hangs.iter().all(|record| record.detection.is_some()));
    assert!(before.iter().all(|record| record.recovery_ns.is_none()));
    let (mut tolerant, faults) = lab(&experiment(Preset::SendChunk, Build::Tolerant), 80, 1);
    let after = records(&mut tolerant, &faults);
    for record in &after {
        assert!(!record.standard.breaks_promise(), "{} {:?}", record.id, record.standard);
        let ends = [Outcome::NoEffect, Outcome::Latency, Outcome::HostCrash];
        assert!(ends.contains(&record.outcome), "{} {:?}", record.id, record.outcome);
    }
    assert!(after.iter().filter(|record| record.recovery_count > 0).count() > 10);
}

/// Beside programs that look at their ports after half a microsecond to 10 ms, and once stand still for a second: no promise is broken, each receive buffer
/// is with its interface where all was delivered, a fault has two recoveries at most or is given up, and each run ends.
#[test]
fn beside_slow_programs_a_fault_costs_no_buffer_and_few_recoveries() {
    let experiment = experiment(Preset::Code, Build::Tolerant);
    let golden = Golden::run_slow(&experiment, 3).unwrap();
    assert_eq!(golden.false_alarms, []);
    let faults = experiment.faults(golden.firmware(), golden.window(), Some(100), 3).unwrap();
    let mut lab = Lab::new(golden).patient(5_000_000_000);
    let (mut buffers, mut recoveries, mut given_up) = ([0; 3], [0; 3], 0);
    for fault in &faults {
        let record = lab.record(fault).unwrap();
        if record.is_pruned {
            continue;
        }
        assert!(!record.standard.breaks_promise(), "{} {:?}", record.id, record.standard);
        assert!(record.untold_count == 0 || record.outcome == Outcome::HostCrash, "{} {record:?}", record.id);
        if record.is_given_up {
            println!("given up after {} recoveries: {}", record.recovery_count, record.id);
            given_up += 1;
            continue;
        }
        recoveries[record.recovery_count as usize] += 1;
        buffers[lab.has_all_buffers().map_or(2, usize::from)] += 1;
    }
    println!("buffers gone, there, not asked for {buffers:?}; without, with one, with two recoveries {recoveries:?}");
    assert!(buffers[0] == 0 && given_up <= 1, "{given_up} given up");
    assert!(buffers[1] > 0 && recoveries[1] > 0);
}

/// Faults that were not survived before: each is the regression test of a change to the library or the control program.
#[test]
fn faults_that_once_were_not_survived_are() {
    let (mut lab, _) = lab(&experiment(Preset::Registers, Build::Tolerant), 1, 1);
    let window = lab.golden().window();
    // DMA that is said to have failed: the library does not believe it at once.
    let mut refused = Vec::new();
    for at_instruction in (window.start..window.end).step_by(997) {
        for location in [10, 11, 12] {
            let fault = Fault { space: Space::Register, location, bit: 1, stuck_at: None, at_instruction };
            let record = lab.record(&fault).unwrap();
            assert!(!record.standard.breaks_promise(), "{} {:?}", record.id, record.standard);
            if matches!(record.outcome, Outcome::SendReceive | Outcome::Dma) {
                refused.push(record.id.to_string());
            }
        }
    }
    assert_eq!(refused, [""; 0], "messages were refused or never came");
    // A write that was never answered for: a library alone sees it.
    let at = |at_instruction| Fault { space: Space::Register, location: 11, bit: 1, stuck_at: None, at_instruction };
    let by_library =
        (window.start..window.end).step_by(61).map(|number| lab.record(&at(number)).unwrap()).find(|record| {
            record.detection.is_some_and(|found| matches!(found.by, Detector::Library | Detector::Neighbour))
        });
    let record = by_library.unwrap();
    assert_eq!((record.outcome, record.standard), (Outcome::Latency, Standard::Detected), "{}", record.id);
}

/// After a reload the other end may still refuse for what the interface before had garbled: that is doubted, too.
#[test]
fn a_refusal_that_goes_on_after_a_reload_is_not_believed_at_once() {
    let (mut lab, _) = lab(&experiment(Preset::Code, Build::Tolerant), 1, 1);
    let fault = Fault { space: Space::Code, location: 0x1afc, bit: 7, stuck_at: None, at_instruction: 231_316 };
    let record = lab.record(&fault).unwrap();
    assert_eq!((record.outcome, record.standard), (Outcome::Latency, Standard::Detected), "{}", record.id);
}

/// A stuck bit that no reload mends: each message arrives, or its sender is told that it did not.
#[test]
fn what_no_reload_mends_is_told_to_every_sender() {
    let experiment = experiment(Preset::DmaRegisters, Build::Tolerant);
    let golden = Golden::run(&experiment, 1).unwrap();
    let faults = experiment.faults(golden.firmware(), golden.window(), None, 1).unwrap();
    // The healthy interface tries for eight seconds before it says that nobody answers.
    let mut lab = Lab::new(golden).patient(12_000_000_000);
    let mut refused = 0;
    for fault in faults.iter().step_by(13) {
        let record = lab.record(fault).unwrap();
        let is_down = record.outcome == Outcome::HostCrash;
        assert!(is_down || record.untold_count == 0, "{} {:?} {}", record.id, record.outcome, record.untold_count);
        refused += u32::from(!is_down && record.is_given_up);
    }
    assert!(refused > 4, "{refused}");
}

/// A flipped bit that has the interface say "nobody answers" within two milliseconds of the first try.
#[test]
fn a_time_out_that_comes_too_soon_is_not_believed() {
    let golden = Golden::run(&experiment(Preset::SendChunk, Build::Tolerant), 1).unwrap();
    let (window, firmware) = (golden.window(), golden.firmware());
    // addi a1, s0, 28: where the packet is. With this bit, its header is written into the token instead.
    let address_of_packet = 0x01c4_0593_u32.to_le_bytes();
    let chunk = firmware.function("send_chunk_normal_low").unwrap();
    let mut words = (chunk.address..chunk.address + chunk.bytes).step_by(4);
    let is_it = |at: &u32| firmware.image[*at as usize..][..4] == address_of_packet;
    let location = words.find(is_it).expect("send_chunk begins its header somewhere");
    let mut lab = Lab::new(golden);
    for at_instruction in window.step_by(4_999) {
        let fault = Fault { space: Space::Code, location, bit: 15, stuck_at: None, at_instruction };
        let record = lab.record(&fault).unwrap();
        assert_eq!((record.outcome, record.standard), (Outcome::Latency, Standard::Detected), "{}", record.id);
    }
}

#[test]
fn a_movie_shows_the_flip_the_first_difference_detection_and_recovery() {
    let (mut lab, faults) = lab(&experiment(Preset::SendChunk, Build::Tolerant), 80, 1);
    let fault = faults.iter().find(|fault| lab.record(fault).unwrap().recovery_count > 0).unwrap();
    let movie = lab.movie(fault, 400).unwrap();
    let at = |wanted: &dyn Fn(&What) -> bool| movie.scenes.iter().position(|scene| wanted(&scene.what)).unwrap();
    let struck = at(&|what| matches!(what, What::Struck { was: Some(was), is: Some(is), .. } if was != is));
    let diverged = at(&|what| matches!(what, What::Diverged { .. }));
    let detected = at(&|what| matches!(what, What::Daemon { step: "detected", .. }));
    let recovered = at(&|what| matches!(what, What::Daemon { step: "recovered", .. }));
    assert!(struck < diverged && diverged < detected && detected < recovered);
    assert!(movie.scenes.is_sorted_by_key(|scene| scene.at_ns));
    let short = lab.movie(fault, 3).unwrap();
    assert_eq!(
        (short.scenes.len() as u64, short.scenes.last().map(|scene| scene.what == What::Ended)),
        (3, Some(true))
    );
    assert_eq!(short.scenes.len() as u64 + short.missed_count, movie.scenes.len() as u64 + movie.missed_count);
    let late = movie.scenes.iter().find_map(|scene| match scene.what {
        What::Delivered { from, .. } => Some((scene.place, from)),
        _ => None,
    });
    assert!(late.is_none_or(|(place, from)| place == Some(1 - from)), "delivered where it arrives");
    let never = Fault { at_instruction: 99_999_999_999, ..*fault };
    let error = lab.movie(&never, 3).unwrap_err().to_string();
    assert!(error.contains("99999999999") && error.contains("in the whole run"), "{error}");
    // And the id alone is enough.
    let id: FaultId = movie.record.id.to_string().parse().unwrap();
    assert_eq!(lab.record(&id.fault).unwrap(), movie.record);
}

fn world(build: Build, daemon: DaemonConfig) -> WorldConfig {
    WorldConfig {
        daemon: Some(daemon),
        ..Experiment::preset(Preset::SendChunk).world(Arc::new(Firmware::built(build)))
    }
}

fn traffic(world: &World, port: PortConfig, count: u32) -> Traffic {
    let config = TrafficConfig {
        message_count: count,
        message_bytes: 5000,
        window: 4,
        both_ways: false,
        kind: Kind::Normal,
        seed: 7,
    };
    Traffic::new(world, port, config).unwrap()
}

fn run(world: &mut World, traffic: &mut Traffic, until_ns: u64, mut each: impl FnMut(&mut World, &Traffic)) {
    while !traffic.is_done() && world.now_ns() < until_ns {
        let did = traffic.step(world.now_ns());
        world.step(if did { 0 } else { world.now_ns() + 100_000 });
        each(world, traffic);
    }
}

/// Recovery that only reloads, with numbers that are the interface's own and an acknowledgement before the DMA: stopped at
/// any moment, the interface of the sender or of the receiver must show both, as in Figures 7 and 8 of the paper.
#[test]
fn without_the_papers_measures_messages_are_doubled_and_lost() {
    let daemon = DaemonConfig { verifies: false, numbers: false, self_test: None, ..DaemonConfig::default() };
    let port = PortConfig { waits_for_test: false, ..PortConfig::plain(0) };
    let (mut doubled, mut lost) = ([0, 0], [0, 0]);
    for place in 0..2 {
        for moment in 0..60 {
            let mut world = World::new(&world(Build::Detecting, daemon)).unwrap();
            let mut traffic = traffic(&world, port, 12);
            let (at_ns, mut is_hung) = (100_000 + moment * 7_500, false);
            run(&mut world, &mut traffic, 30_000_000, |world, _| {
                if !is_hung && world.now_ns() >= at_ns {
                    is_hung = true;
                    world.nodes[place].hang();
                }
            });
            let verdict = traffic.verdict();
            doubled[place] += verdict.duplicated_count;
            lost[place] += verdict.lost_count;
        }
    }
    assert!(doubled[0] + doubled[1] > 0, "no message twice, as in Figure 7: {doubled:?}");
    assert!(lost[1] > 0, "no message lost by its receiver, as in Figure 8: {lost:?}");
}

#[test]
fn without_watchdog_and_self_test_a_hang_is_found_late_or_never() {
    let found = |hears_watchdog, ask_ns| {
        let daemon = DaemonConfig { hears_watchdog, ask_ns, self_test: None, ..DaemonConfig::default() };
        let port = PortConfig { waits_for_test: false, ..PortConfig::tolerant(0) };
        let mut world = World::new(&world(Build::Tolerant, daemon)).unwrap();
        let mut traffic = traffic(&world, port, 12);
        let mut is_hung = false;
        let is_found = |world: &World| {
            world.nodes[0].steps.iter().find(|(_, step)| matches!(step, Step::Detected(_))).map(|at| at.0)
        };
        run(&mut world, &mut traffic, 20_000_000, |world, _| {
            if !std::mem::replace(&mut is_hung, world.now_ns() >= 60_000) && is_hung {
                world.nodes[0].hang();
            }
        });
        is_found(&world)
    };
    assert!(found(true, u64::MAX).unwrap() < 1_300_000);
    let by_asking = found(false, 3_000_000).unwrap();
    assert!((3_000_000..4_000_000).contains(&by_asking), "{by_asking}");
    assert_eq!(found(false, u64::MAX), None);
}

/// The word of a port's state in the control program's memory: it is open, of this generation, and its library verifies.
fn state_of_port(world: &World, place: usize, port: usize) -> u32 {
    const OPEN: u32 = 3;
    let node = &world.nodes[place];
    let generation = node.memory.word(port_word(port, GENERATION)).load(Ordering::Acquire);
    let words = |at: u32| [0, 4, 8].map(|offset| node.device.read_word(at + offset).unwrap());
    let found: Vec<u32> = (0..0x2_0000 - 8).step_by(4).filter(|&at| words(at) == [OPEN, generation, 1]).collect();
    assert_eq!(found.len(), 1, "{found:x?}");
    found[0]
}

/// An interface that holds its application's port for shut: its self-test on port 0 passes, its library sees nothing, and
/// each reload of the sender's interface is in vain.
#[test]
fn what_only_the_sender_sees_of_the_receivers_interface_is_told_to_its_daemon() {
    let run_with = |tells_neighbours| {
        let self_test = SelfTestConfig { interval_ns: 2_000_000, ..SelfTestConfig::default() };
        let daemon = DaemonConfig { tells_neighbours, self_test: Some(self_test), ..DaemonConfig::default() };
        let mut world = World::new(&world(Build::Tolerant, daemon)).unwrap();
        let mut traffic = traffic(&world, PortConfig::tolerant(0), 40);
        let mut is_shut = false;
        run(&mut world, &mut traffic, 900_000_000, |world, traffic| {
            if !is_shut && traffic.delivered_count() > 10 {
                is_shut = true;
                let at = state_of_port(world, 1, 1);
                world.nodes[1].device.write_sram(at, &0_u32.to_le_bytes()).unwrap();
            }
        });
        (world, traffic)
    };
    let found = |world: &World, place: usize, wanted: Step| {
        world.nodes[place].steps.iter().filter(|(_, step)| *step == wanted).count()
    };
    let (told, traffic) = run_with(true);
    let steps = &told.nodes[1].steps;
    assert!(traffic.is_done() && traffic.verdict().is_perfect(), "{:?} {steps:?}", traffic.verdict());
    assert_eq!(traffic.histories[0].failed_count, 0);
    assert_eq!(found(&told, 1, Step::Detected(Detector::Neighbour)), 1, "{steps:?}");
    assert!(found(&told, 0, Step::Told { nodes: 1 << 1 }) > 1);
    assert!(found(&told, 0, Step::Recovered) <= 1 && found(&told, 0, Step::GivenUp) == 0, "{:?}", told.nodes[0].steps);
    // Without it, what the interface says is believed in the end.
    let (silent, traffic) = run_with(false);
    assert_eq!(found(&silent, 1, Step::Recovered), 0);
    assert!(traffic.histories[0].failed_count > 20, "{}", traffic.histories[0].failed_count);
}

#[test]
fn an_interface_that_reloading_does_not_mend_is_given_up_and_its_port_is_told() {
    let daemon = DaemonConfig { reloads_max: 5, ..DaemonConfig::default() };
    let port = PortConfig::tolerant(0);
    let mut world = World::new(&world(Build::Tolerant, daemon)).unwrap();
    let mut traffic = traffic(&world, port, 12);
    let mut is_stuck = false;
    run(&mut world, &mut traffic, 900_000_000, |world, traffic| {
        if !is_stuck && traffic.delivered_count() > 3 {
            is_stuck = true;
            // Every DMA goes to another address in the interface.
            let damage = Damage::Stick { register: offset::DMA_LOCAL, bit: 16, stuck: Stuck::One };
            world.nodes[0].device.damage(damage).unwrap();
        }
    });
    let count = |wanted: fn(&Step) -> bool| world.nodes[0].steps.iter().filter(|(_, step)| wanted(step)).count();
    let steps = &world.nodes[0].steps;
    assert_eq!(count(|step| *step == Step::GivenUp), 1, "{steps:?}");
    assert!(count(|step| matches!(step, Step::Reloaded { .. })) <= 20, "{steps:?}");
    let told = &traffic.histories[0].told;
    assert!(told.iter().any(|(_, outcome)| *outcome == Err(SendFailure::GivenUp)), "{told:?}");
    assert!(traffic.verdict().is_perfect());
}
