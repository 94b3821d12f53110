//! The engine beside a simulator of single operations, and beside closed forms.

use super::*;
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};
use surefoot_random::{scaled, word_of};

/// What one rank does next.
#[derive(Debug, Clone, Copy)]
enum Operation {
    Work,
    Send { to: u64, tag: u8, bytes: u64 },
    Receive { from: u64, tag: u8, bytes: u64 },
}

/// The program of one rank for one iteration, written down from the algorithms' descriptions.
fn program(job: &Job, rank: u64) -> Vec<Operation> {
    let (ranks, bytes) = (job.ranks(), job.bytes);
    let mut program = vec![Operation::Work];
    if ranks < 2 {
        return program;
    }
    let mut both = |to: u64, from: u64, bytes: u64| {
        program.extend([Operation::Send { to, tag: 0, bytes }, Operation::Receive { from, tag: 0, bytes }]);
    };
    match job.pattern {
        Pattern::Barrier | Pattern::Alltoall => {
            let mut distance = 1;
            while distance < ranks {
                let blocks = (0..ranks).filter(|number| number & distance != 0).count() as u64;
                let bytes = if job.pattern == Pattern::Barrier { 0 } else { blocks * bytes };
                both((rank + distance) % ranks, (rank + ranks - distance) % ranks, bytes);
                distance *= 2;
            }
        }
        Pattern::Allreduce => {
            let mut core = 1;
            while core * 2 <= ranks {
                core *= 2;
            }
            let beyond = ranks - core;
            if rank < 2 * beyond && rank.is_multiple_of(2) {
                program.push(Operation::Send { to: rank + 1, tag: 0, bytes });
                program.push(Operation::Receive { from: rank + 1, tag: 0, bytes });
                return program;
            }
            if rank < 2 * beyond {
                program.push(Operation::Receive { from: rank - 1, tag: 0, bytes });
            }
            let number = if rank < 2 * beyond { rank / 2 } else { rank - beyond };
            let of = |number: u64| if number < beyond { number * 2 + 1 } else { number + beyond };
            let mut bit = 1;
            while bit < core {
                let partner = of(number ^ bit);
                program.extend([
                    Operation::Send { to: partner, tag: 0, bytes },
                    Operation::Receive { from: partner, tag: 0, bytes },
                ]);
                bit *= 2;
            }
            if rank < 2 * beyond {
                program.push(Operation::Send { to: rank - 1, tag: 0, bytes });
            }
        }
        Pattern::Ring => {
            let (to, from) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            let (send, receive) = (Operation::Send { to, tag: 0, bytes }, Operation::Receive { from, tag: 0, bytes });
            program.extend(if rank == 0 { [send, receive] } else { [receive, send] });
        }
        Pattern::Halo => {
            let width =
                (1..=ranks).filter(|width| width * width <= ranks && ranks.is_multiple_of(*width)).max().unwrap();
            let height = ranks / width;
            let (row, column) = (rank / width, rank % width);
            let at = |row: u64, column: u64| (row % height) * width + column % width;
            // Opposite sides have tags that differ in the last bit.
            let mut sides = vec![(at(row + height - 1, column), 2), (at(row + 1, column), 3)];
            if width > 1 {
                sides.splice(..0, [(at(row, column + width - 1), 0), (at(row, column + 1), 1)]);
            }
            program.extend(sides.iter().map(|&(to, tag)| Operation::Send { to, tag, bytes }));
            program.extend(sides.iter().map(|&(from, tag)| Operation::Receive { from, tag: tag ^ 1, bytes }));
        }
    }
    program
}

/// The stalls of a node, one after the other from before 0 on.
type Stalls = Vec<(i128, i128)>;

/// Nanoseconds of work from a moment on, by walking over the stalls.
fn walk(stalls: &Stalls, from_ns: i128, work_ns: i128) -> i128 {
    let (mut at_ns, mut left_ns) = (from_ns, work_ns);
    for &(start_ns, end_ns) in stalls.iter().filter(|(_, end_ns)| *end_ns > from_ns) {
        if start_ns > at_ns {
            let room_ns = start_ns - at_ns;
            if left_ns <= room_ns {
                break;
            }
            left_ns -= room_ns;
        }
        at_ns = end_ns;
    }
    at_ns + left_ns
}

/// Runs every rank's operations as their messages are there.
fn reference(setting: &Setting, stalls: &dyn Fn(u64) -> Stalls) -> u64 {
    let (job, network) = (&setting.job, &setting.network);
    let ranks = job.ranks();
    let of_nodes: Vec<Stalls> = (0..job.nodes).map(stalls).collect();
    let mut programs: Vec<VecDeque<Operation>> = Vec::new();
    for rank in 0..ranks {
        let once = program(job, rank);
        programs.push((0..job.iterations).flat_map(|_| once.clone()).collect());
    }
    let (mut at_ns, mut wire_ns) = (vec![0i128; ranks as usize], vec![0i128; ranks as usize]);
    let mut flying: HashMap<(u64, u64, u8), VecDeque<i128>> = HashMap::new();
    let per_byte = |ps: u64, bytes: u64| i128::from(ps) * i128::from(bytes) / 1_000;
    loop {
        let mut has_moved = false;
        for rank in 0..ranks {
            let (place, node) = (rank as usize, (rank / job.ranks_per_node) as usize);
            while let Some(&operation) = programs[place].front() {
                let overhead_ns = |bytes: u64| {
                    i128::from(network.overhead_ns) + per_byte(network.overhead_per_byte_ps, bytes.saturating_sub(1))
                };
                match operation {
                    Operation::Work => at_ns[place] = walk(&of_nodes[node], at_ns[place], job.compute_ns.into()),
                    Operation::Send { to, tag, bytes } => {
                        at_ns[place] = walk(&of_nodes[node], at_ns[place], overhead_ns(bytes));
                        let leaves_ns = at_ns[place].max(wire_ns[place]);
                        let on_wire_ns = per_byte(network.gap_per_byte_ps, bytes.saturating_sub(1));
                        let (latency_ns, gap_ns) = (i128::from(network.latency_ns), i128::from(network.gap_ns));
                        let arrives_ns;
                        match network.progress {
                            Progress::Nic => {
                                wire_ns[place] = leaves_ns + on_wire_ns.max(gap_ns);
                                arrives_ns = leaves_ns + on_wire_ns + latency_ns;
                            }
                            Progress::Host => {
                                let (own, other) = (&of_nodes[node], &of_nodes[(to / job.ranks_per_node) as usize]);
                                let leaves_ns = walk(own, leaves_ns, 0);
                                let sent_ns = walk(own, leaves_ns, on_wire_ns);
                                wire_ns[place] = sent_ns.max(leaves_ns + gap_ns);
                                let taken_ns = walk(other, leaves_ns + latency_ns, on_wire_ns);
                                arrives_ns = taken_ns.max(walk(other, sent_ns + latency_ns, 0));
                            }
                        }
                        flying.entry((rank, to, tag)).or_default().push_back(arrives_ns);
                    }
                    Operation::Receive { from, tag, bytes } => {
                        let Some(arrives_ns) = flying.get_mut(&(from, rank, tag)).and_then(VecDeque::pop_front) else {
                            break;
                        };
                        at_ns[place] = walk(&of_nodes[node], at_ns[place].max(arrives_ns), overhead_ns(bytes));
                    }
                }
                programs[place].pop_front();
                has_moved = true;
            }
        }
        if programs.iter().all(VecDeque::is_empty) {
            return u64::try_from(*at_ns.iter().max().unwrap()).unwrap();
        }
        assert!(has_moved, "the programs wait for each other");
    }
}

fn job(pattern: Pattern, nodes: u64, compute_ns: u64, iterations: u64) -> Job {
    Job { pattern, nodes, ranks_per_node: 1, compute_ns, bytes: 8, iterations }
}

fn freeze(length_ns: u64, period_ns: u64, phase: Phase) -> Noise {
    Noise::Freeze(Freeze { length_ns, period_ns, phase })
}

fn setting(job: Job, noise: Noise) -> Setting {
    Setting { job, network: Network::default(), groups: vec![Group { noise, nodes: None }], seed: 1 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Undisturbed and with stalls, for every pattern, number of ranks, network and train of stalls.
    #[test]
    fn every_rank_ends_when_its_operations_one_by_one_say(
        pattern in proptest::sample::select(Pattern::ALL.to_vec()),
        nodes in 1u64..14,
        ranks_per_node in 1u64..4,
        compute_ns in 0u64..20_000,
        bytes in 0u64..5_000,
        iterations in 1u64..6,
        costs in (0u64..4_000, 0u64..900, 0u64..3_000, 0u64..2_000, 0u64..300),
        (length_ns, free_ns) in (0u64..9_000, 1u64..9_000),
        progress in proptest::sample::select(vec![Progress::Nic, Progress::Host]),
        seed in any::<u64>(),
    ) {
        let (latency_ns, overhead_ns, gap_ns, gap_per_byte_ps, overhead_per_byte_ps) = costs;
        let network = Network { latency_ns, overhead_ns, gap_ns, gap_per_byte_ps, overhead_per_byte_ps, progress };
        let job = Job { pattern, nodes, ranks_per_node, compute_ns, bytes, iterations };
        let period_ns = length_ns + free_ns;
        let noise = freeze(length_ns, period_ns, Phase::Random);
        let setting = Setting { job, network, groups: vec![Group { noise, nodes: None }], seed };
        let found = predict(&setting, 3..5, 1).unwrap();
        prop_assert_eq!(found.base_ns, reference(&setting, &|_| Vec::new()));
        // What makes progress meanwhile is never later.
        let offloaded = Setting { network: Network { progress: Progress::Nic, ..network }, ..setting.clone() };
        let sooner = predict(&offloaded, 3..5, 1).unwrap();
        prop_assert_eq!(sooner.base_ns, found.base_ns);
        prop_assert!(sooner.draws.iter().zip(&found.draws).all(|(nic, host)| nic.end_ns <= host.end_ns));
        for (draw, draws) in (3..5).zip(&found.draws) {
            let end = i128::from(draws.end_ns) + i128::from(period_ns);
            let stalls = |node| {
                let turned_ns = i128::from(scaled(word_of(seed, [draw, 0, node]), period_ns));
                let starts = (0..).map(|number: i128| number * i128::from(period_ns) - turned_ns);
                let all = starts.take_while(|start| *start < end).map(|start| (start, start + i128::from(length_ns)));
                all.filter(|(start, end)| start < end).collect()
            };
            prop_assert_eq!(draws.end_ns, reference(&setting, &stalls));
        }
    }

    /// A recording whose stalls come at one period is a freeze of that period; and two cores of one give two ranks theirs.
    #[test]
    fn what_was_recorded_stops_as_a_freeze_does(
        length_ns in 1u64..5_000, free_ns in 1u64..5_000, many in 1u64..5, compute_ns in 1u64..50_000, seed in any::<u64>(),
    ) {
        let period_ns = length_ns + free_ns;
        let stalls: Vec<(u64, u64)> = (0..many).map(|number| (number * period_ns, length_ns)).collect();
        let recorded = |cores| Noise::Recorded(Recorded { span_ns: many * period_ns, cores, phase: Phase::Same });
        let job = Job { ranks_per_node: 2, ..job(Pattern::Allreduce, 3, compute_ns, 20) };
        let of = |noise| Setting { seed, ..setting(job, noise) };
        let both = of(recorded(vec![stalls.clone(), stalls.clone()]));
        let one = of(recorded(vec![stalls.clone()]));
        prop_assert_eq!(predict(&both, 0..3, 1).unwrap(), predict(&one, 0..3, 1).unwrap());
        // The recording began at some moment, so the freeze must have begun at the same moment of its period.
        let turned_ns = scaled(word_of(seed, [0, 0, u64::MAX]), many * period_ns) % period_ns;
        let starts = |end: i128| (0..).map(|number: i128| number * i128::from(period_ns) - i128::from(turned_ns))
            .take_while(move |start| *start < end).map(|start| (start, start + i128::from(length_ns))).collect::<Stalls>();
        let found = predict(&one, 0..1, 1).unwrap().draws[0].end_ns;
        prop_assert_eq!(found, reference(&one, &|_| starts(i128::from(found) + i128::from(period_ns))));
    }
}

#[test]
fn an_undisturbed_barrier_takes_what_its_rounds_take() {
    let setting = setting(job(Pattern::Barrier, 4096, 1_000_000, 1_000_000), freeze(0, 1_000_000_000, Phase::Same));
    // Twelve rounds of an overhead, a flight and an overhead; found without going through a million iterations.
    assert_eq!(setting.base_ns(), Ok(1_000_000 * (1_000_000 + 12 * 7_000)));
}

#[test]
fn stalls_of_all_nodes_at_once_cost_their_share() {
    let setting =
        setting(job(Pattern::Barrier, 64, 1_000_000, 50_000), freeze(105_000_000, 1_000_000_000, Phase::Same));
    let found = predict(&setting, 0..4, 2).unwrap().summary().unwrap();
    // 1 / (1 - D / P), but that messages fly on during the stall.
    let share = 1.0 / (1.0 - 0.105);
    assert!((found.slowdown / share - 1.0).abs() < 0.01, "{found:?} beside {share}");
}

#[test]
fn bytes_that_cores_move_stop_with_them_and_those_that_an_interface_moves_do_not() {
    // Messages of a gigabyte, 0.8 s on the wire each, round two nodes; nothing else takes time.
    let job = Job { bytes: 1_000_000_000, ..job(Pattern::Ring, 2, 0, 200) };
    let of = |progress| {
        let mut setting = setting(job, freeze(20_000_000, 200_000_000, Phase::Same));
        setting.network.progress = progress;
        predict(&setting, 0..4, 2).unwrap().summary().unwrap().slowdown
    };
    // An arrival in a stall waits for its end: once in ten, for half a stall, so 1 ms of 801.
    let nic = of(Progress::Nic);
    assert!((1.0..1.005).contains(&nic), "{nic}");
    let (host, share) = (of(Progress::Host), 1.0 / (1.0 - 0.1));
    assert!((host / share - 1.0).abs() < 0.005, "{host} beside {share}");
}

#[test]
fn few_nodes_at_random_phases_lose_what_no_stall_leaves_them_together() {
    // Nothing goes on while any of them stops, if work and messages are short: the mean over phases of the share of time in
    // which none stops is (1 - D / P)^N.
    for nodes in [2, 4, 8] {
        let job = Job { compute_ns: 100_000, ..job(Pattern::Barrier, nodes, 0, 60_000) };
        let setting = setting(job, freeze(20_000_000, 1_000_000_000, Phase::Random));
        let found = predict(&setting, 0..40, 2).unwrap();
        let speeds = found.draws.iter().map(|draw| found.base_ns as f64 / draw.end_ns as f64);
        let speed = speeds.sum::<f64>() / 40.0;
        let closed = 0.98f64.powi(nodes as i32);
        assert!((speed / closed - 1.0).abs() < 0.02, "{nodes} nodes: {speed} beside {closed}");
    }
}

#[test]
fn staggered_stalls_cost_the_most_and_one_bad_node_stops_all() {
    let job = job(Pattern::Allreduce, 8, 1_000_000, 20_000);
    let of =
        |phase| predict(&setting(job, freeze(20_000_000, 1_000_000_000, phase)), 0..3, 2).unwrap().summary().unwrap();
    let (same, random, staggered) = (of(Phase::Same), of(Phase::Random), of(Phase::Staggered));
    assert!(
        same.slowdown < random.slowdown && random.slowdown <= staggered.slowdown,
        "{same:?} {random:?} {staggered:?}"
    );
    let one = Group { noise: freeze(20_000_000, 1_000_000_000, Phase::Random), nodes: Some(1) };
    let bad = predict(&Setting { groups: vec![one], ..setting(job, freeze(0, 1, Phase::Same)) }, 0..3, 1).unwrap();
    let slowdown = bad.summary().unwrap().slowdown;
    assert!((slowdown * 0.98 - 1.0).abs() < 0.01, "{slowdown}");
}

/// The mean speed of 40 draws beside a job that nothing disturbs: short work, no costs of messages.
fn speed(groups: Vec<Group>, nodes: u64, iterations: u64) -> f64 {
    let job = Job { compute_ns: 100_000, ..job(Pattern::Barrier, nodes, 0, iterations) };
    let network = Network { latency_ns: 0, overhead_ns: 0, gap_ns: 0, ..Network::default() };
    let found = predict(&Setting { job, network, groups, seed: 1 }, 0..40, 2).unwrap();
    found.draws.iter().map(|draw| found.base_ns as f64 / draw.end_ns as f64).sum::<f64>() / 40.0
}

#[test]
fn some_of_the_nodes_several_noises_and_one_bad_node_cost_what_no_stall_leaves_them_together() {
    let group = |length_ms: u64, period_ms: u64, phase, nodes| {
        let noise = freeze(length_ms * 1_000_000, period_ms * 1_000_000, phase);
        Group { noise, nodes: Some(nodes) }
    };
    for (groups, closed, what) in [
        (vec![group(20, 1_000, Phase::Random, 3)], 0.98f64.powi(3), "3 of 8 nodes"),
        // In a row, and never two at once.
        (vec![group(20, 1_000, Phase::Staggered, 8)], 1.0 - 8.0 * 0.02, "staggered"),
        (vec![group(20, 1_000, Phase::Staggered, 5)], 1.0 - 5.0 * 0.02, "5 of 8 staggered"),
        (
            vec![group(20, 1_000, Phase::Random, 1), group(31, 770, Phase::Random, 1)],
            0.98 * (1.0 - 31.0 / 770.0),
            "two noises",
        ),
        // A fleet in phase and one bad node.
        (
            vec![group(20, 1_000, Phase::Same, 7), group(105, 970, Phase::Random, 1)],
            0.98 * (1.0 - 105.0 / 970.0),
            "a bad one",
        ),
        (vec![group(0, 1_000, Phase::Random, 8)], 1.0, "nothing"),
    ] {
        let found = speed(groups, 8, 40_000);
        assert!((found / closed - 1.0).abs() < 0.02, "{what}: {found} beside {closed}");
    }
}

#[test]
fn one_more_run_lies_in_the_interval_as_often_as_it_says() {
    // Two nodes: most phases keep the stalls apart, some let them overlap, which no normal distribution does.
    let pair = Job { compute_ns: 100_000, ..job(Pattern::Barrier, 2, 0, 2_000) };
    // Many: nearly a normal distribution.
    let many = Job { compute_ns: 100_000, ..job(Pattern::Barrier, 8, 0, 200) };
    for (job, noise) in
        [(pair, freeze(2_000_000, 20_000_000, Phase::Random)), (many, freeze(50_000, 1_000_000, Phase::Random))]
    {
        let inside = (0..400).filter(|seed| {
            let setting = Setting { seed: *seed, ..setting(job, noise.clone()) };
            let mut found = predict(&setting, 0..41, 2).unwrap();
            let more = found.draws.pop().unwrap().end_ns as f64 / found.base_ns as f64;
            let summary = found.summary().unwrap();
            summary.low <= more && more <= summary.high
        });
        // 39 of 41; below 0.915 once in a thousand such tests.
        let share = inside.count() as f64 / 400.0;
        assert!(share > 0.915, "{share} of {:?}", job);
    }
}

#[test]
fn threads_and_shards_change_nothing() {
    let setting = setting(job(Pattern::Halo, 30, 100_000, 200), freeze(1_000_000, 10_000_000, Phase::Random));
    let all = predict(&setting, 0..7, 1).unwrap();
    assert_eq!(all, predict(&setting, 0..7, 5).unwrap());
    let parts = [0..3, 3..4, 4..7].map(|range| predict(&setting, range, 2).unwrap());
    assert!(parts.iter().all(|part| part.base_ns == all.base_ns));
    let draws: Vec<Draw> = parts.into_iter().flat_map(|part| part.draws).collect();
    assert_eq!(draws, all.draws);
    // Ten pieces of work and messages of a rank each iteration: one, and four sent, and four received.
    assert!(all.draws.iter().all(|draw| draw.event_count == 200 * 30 * 9));
    assert!(all.draws.windows(2).any(|pair| pair[0] != pair[1]));
}

#[test]
fn what_cannot_be_simulated_says_why() {
    let good = setting(job(Pattern::Barrier, 8, 1_000, 10), freeze(5, 10, Phase::Same));
    let said = |change: &dyn Fn(&mut Setting)| {
        let mut setting = good.clone();
        change(&mut setting);
        predict(&setting, 0..2, 1).expect_err("it was simulated").to_string()
    };
    assert_eq!(said(&|setting| setting.job.nodes = 0), "nodes 0: 1 to 1048576 are possible");
    assert!(said(&|setting| setting.job.ranks_per_node = u64::MAX).starts_with("ranks per node 18446744073709551615"));
    let groups = |groups: Vec<Group>| move |setting: &mut Setting| setting.groups = groups.clone();
    let group = |noise, nodes| Group { noise, nodes };
    let short = || freeze(1, 10, Phase::Same);
    assert!(said(&groups(vec![group(freeze(10, 10, Phase::Same), None)])).contains("shorter than its period"));
    assert!(said(&groups(vec![group(short(), Some(5)), group(short(), Some(4))])).contains("9 nodes, the job has 8"));
    assert!(said(&groups(vec![group(short(), None), group(short(), None)])).contains("only one"));
    let recorded = |span_ns, cores| group(Noise::Recorded(Recorded { span_ns, cores, phase: Phase::Same }), None);
    for (span_ns, stalls, word) in [
        (100, vec![(0, 60), (50, 1)], "overlap"),
        (100, vec![(0, 0)], "empty"),
        (100, vec![(50, 51)], "no time"),
        (100, vec![(0, 100)], "no time"),
        (0, vec![], "no length"),
        (100, vec![(u64::MAX, 1)], "never ends"),
    ] {
        assert!(said(&groups(vec![recorded(span_ns, vec![stalls])])).contains(word), "{word}");
    }
    assert!(said(&groups(vec![recorded(100, vec![])])).contains("there is none"));
    assert!(said(&|setting| setting.job.iterations = ITERATIONS_MAX + 1).contains("iterations"));
    let endless = |setting: &mut Setting| {
        setting.job = Job { iterations: ITERATIONS_MAX, compute_ns: COST_MAX_NS, ..setting.job };
    };
    assert!(said(&endless).contains("73 years"), "{}", said(&endless));
    let huge = |setting: &mut Setting| {
        setting.job = Job { nodes: NODES_MAX, iterations: 1_000_000, ..setting.job };
    };
    assert!(said(&huge).contains("at most 17592186044416 are simulated"), "{}", said(&huge));
    let large = |setting: &mut Setting| {
        setting.job = Job { pattern: Pattern::Alltoall, bytes: BYTES_MAX, nodes: NODES_MAX, ..setting.job };
    };
    assert!(said(&large).contains("years"), "{}", said(&large));
}
