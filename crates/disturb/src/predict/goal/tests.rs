//! Files beside the patterns that they were written from, and files that strangers write.

use super::*;
use crate::predict::{Freeze, Job, Noise, Pattern, Phase, Setting, predict};
use proptest::prelude::*;

fn parsed(text: &str) -> Goal {
    Goal::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

fn refused(text: &str) -> String {
    Goal::parse(text.as_bytes()).expect_err(text).to_string()
}

fn noisy(length_ns: u64, period_ns: u64) -> Vec<Group> {
    vec![Group { noise: Noise::Freeze(Freeze { length_ns, period_ns, phase: Phase::Random }), nodes: None }]
}

fn undisturbed_ns(text: &str, network: Network) -> Result<u64, Error> {
    let goal = parsed(text);
    let setting = GoalSetting { goal: &goal, ranks_per_node: 1, network, groups: &[], seed: 1 };
    Ok(predict_goal(&setting, 0..1, 1)?.base_ns)
}

/// Sums are easy with it.
const PLAIN: Network = Network {
    latency_ns: 500,
    overhead_ns: 10,
    gap_ns: 100,
    gap_per_byte_ps: 1_000,
    overhead_per_byte_ps: 0,
    progress: Progress::Nic,
};

#[test]
fn ranks_that_take_too_many_nodes_are_told_of_as_ranks() {
    let goal = parsed("num_ranks 1048577");
    let setting = GoalSetting { goal: &goal, ranks_per_node: 1, network: PLAIN, groups: &[], seed: 1 };
    let (ranks, most) = (1_048_577, 1_048_576);
    assert_eq!(setting.check(2), Err(Error::GoalNodes { ranks, nodes: ranks, most }));
    assert_eq!(GoalSetting { ranks_per_node: 2, ..setting }.check(2), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A pattern that is written, read and predicted ends to the nanosecond when the pattern itself does.
    #[test]
    fn a_pattern_and_its_file_take_the_same_time(
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
        let groups = noisy(length_ns, length_ns + free_ns);
        let mut text = Vec::new();
        let count = write(&job, &mut text).unwrap();
        let goal = Goal::parse(text.as_slice()).unwrap();
        prop_assert_eq!((goal.ranks(), goal.operation_count()), (job.ranks(), count));
        let found = predict_goal(&GoalSetting { goal: &goal, ranks_per_node, network, groups: &groups, seed }, 1..3, 1);
        prop_assert_eq!(found, predict(&Setting { job, network, groups: groups.clone(), seed }, 1..3, 1));
    }

    /// Any graph: each operation once, none before what it waits for, one at a time on a core, and no core idle while
    /// something may begin.
    #[test]
    fn what_waits_comes_after_and_cores_do_one_thing_at_a_time(
        operations in proptest::collection::vec((0u8..3, 0u64..3, 0u64..3, 0u64..2, 0u64..60), 1..40),
        edges in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 0..60),
        (length_ns, free_ns) in (0u64..90, 1u64..90),
        seed in any::<u64>(),
    ) {
        // A message gets its receive, with no dependencies, so that nobody waits for ever.
        let mut texts = vec![String::new(); 3];
        let mut places: Vec<Vec<u64>> = vec![Vec::new(); 3];
        for (number, (kind, rank, peer, cpu, amount)) in operations.into_iter().enumerate() {
            let of_rank = &mut texts[rank as usize];
            if kind == 0 {
                of_rank.push_str(&format!("l{number}: calc {amount} cpu {cpu}\n"));
                places[rank as usize].push(number as u64);
                continue;
            }
            of_rank.push_str(&format!("l{number}: send {amount}b to {peer} tag {kind} cpu {cpu} nic {cpu}\n"));
            places[rank as usize].push(number as u64);
            texts[peer as usize].push_str(&format!("r{number}: recv {amount}b from {rank} tag {kind}\n"));
        }
        for (one, other, is_on_start) in edges {
            let rank = one.index(3);
            if places[rank].len() > 1 {
                let (one, other) = (one.index(places[rank].len()), other.index(places[rank].len()));
                let (early, late) = (one.min(other), one.max(other));
                if early < late {
                    let word = if is_on_start { "irequires" } else { "requires" };
                    texts[rank].push_str(&format!("l{} {word} l{}\n", places[rank][late], places[rank][early]));
                }
            }
        }
        let blocks = texts.iter().enumerate().map(|(rank, text)| format!("rank {rank} {{\n{text}}}\n"));
        let goal = parsed(&format!("num_ranks 3\n{}", blocks.collect::<String>()));
        let groups = noisy(length_ns, length_ns + free_ns);
        let clocks = Clocks::new(&groups, 3, goal.cpus, seed, 0).unwrap();
        let mut run = run::Run::new(&goal, PLAIN, clocks, None);
        run.run_to_end().unwrap();
        let mut times = vec![None; goal.operations.len()];
        for &(number, start_ns, done_ns) in &run.trace {
            prop_assert!(times[number as usize].replace((start_ns, done_ns)).is_none());
        }
        let times: Vec<(u64, u64)> = times.into_iter().map(|time| time.unwrap()).collect();
        for (waits_for, &(start_ns, done_ns)) in times.iter().enumerate() {
            for dependent in goal.dependents(waits_for as u32) {
                let moment = if dependent.is_on_start { start_ns } else { done_ns };
                prop_assert!(times[dependent.operation as usize].0 >= moment);
            }
        }
        // In the order in which each core began them.
        let mut free_ns = [0; 6];
        for &(number, start_ns, done_ns) in &run.trace {
            let operation = &goal.operations[number as usize];
            let core = operation.rank as usize * 2 + usize::from(operation.cpu);
            prop_assert!(start_ns >= free_ns[core]);
            let mut may_ns = 0;
            for (waits_for, &(start_ns, done_ns)) in times.iter().enumerate() {
                for dependent in goal.dependents(waits_for as u32).iter().filter(|to| to.operation == number) {
                    may_ns = may_ns.max(if dependent.is_on_start { start_ns } else { done_ns });
                }
            }
            // Only a receive may begin later than its core is free and all it waits for is there.
            prop_assert!(operation.kind == Kind::Receive || start_ns == may_ns || start_ns == free_ns[core]);
            free_ns[core] = done_ns;
        }
    }

    /// Whatever a file holds, there is an answer.
    #[test]
    fn strangers_files_are_read_or_refused(
        words in proptest::collection::vec(proptest::sample::select(vec![
            "num_ranks", "rank", "0", "1", "2", "{", "}", "\n", "l1", "l2", ":", "calc", "send", "recv", "8b", "to", "from",
            "tag", "cpu", "nic", "requires", "irequires", "-1", "/*", "*/", "//", "99999999999999999999", "ä", "\0",
        ]), 0..80),
        starts_well in any::<bool>(),
    ) {
        let start = if starts_well { "num_ranks 2\nrank 0 {\nl1: calc 5\n" } else { "" };
        let text = format!("{start}{}", words.join(" "));
        if let Ok(goal) = Goal::parse(text.as_bytes()) {
            let setting = GoalSetting { goal: &goal, ranks_per_node: 1, network: PLAIN, groups: &[], seed: 1 };
            let _ = predict_goal(&setting, 0..2, 1);
        }
    }
}

#[test]
fn cores_interfaces_starts_and_comments_mean_what_they_say() {
    // Two pieces of work on one core, or on two.
    let two = |cpu| format!("num_ranks 1 rank 0 {{ /* a\n comment */ a: calc 70 // of two\n b: calc 50 cpu {cpu}\n}}");
    assert_eq!(undisturbed_ns(&two(0), PLAIN), Ok(120));
    assert_eq!(undisturbed_ns(&two(1), PLAIN), Ok(70));
    // After the end, or after the start; a label may come later than what names it.
    let after = |how| format!("num_ranks 1\nrank 0 {{\nb {how} a\na: calc 70\nb: calc 50 cpu 1\n}}\n");
    assert_eq!(undisturbed_ns(&after("requires"), PLAIN), Ok(120));
    assert_eq!(undisturbed_ns(&after("irequires"), PLAIN), Ok(70));
    // Two messages of 51 bytes: from one interface the second leaves a gap later, 10 + 100 + 500 + 50 + 10; from two, after
    // two overheads.
    let sent = |nic| {
        format!("num_ranks 2\nrank 0 {{\nsend 51b to 1 tag 1\nsend 51b to 1 tag 2 nic {nic}\n}}\n")
            + "rank 1 {\nrecv 51b from 0 tag 1\nrecv 51b from 0 tag 2\n}\n"
    };
    assert_eq!(undisturbed_ns(&sent(0), PLAIN), Ok(670));
    assert_eq!(undisturbed_ns(&sent(1), PLAIN), Ok(580));
    // Messages do not overtake each other: the first receive takes the long one, the second waits behind it on the core.
    let order = "num_ranks 2\nrank 0 {\na: send 901b to 1\nb: send 1b to 1 nic 1\nb requires a\n}\n\
                 rank 1 {\nc: recv 901b from 0\nd: recv 1b from 0\nd requires c\n}\n";
    assert_eq!(undisturbed_ns(order, PLAIN), Ok(10 + 500 + 900 + 10 + 10));
    // A rank that does nothing, and a message to oneself.
    assert_eq!(undisturbed_ns("num_ranks 3\nrank 1 {\nsend 1b to 1\nrecv 1b from 1\n}\n", PLAIN), Ok(520));
}

#[test]
fn what_is_no_goal_file_says_its_line() {
    let within = |text: &str| refused(&format!("num_ranks 2\nrank 0 {{\n{text}\n}}\n"));
    for (text, said) in [
        ("calc 1\nflop 2", "line 4: 'flop' is no operation"),
        ("calc", "line 3: 'calc' is no operation"),
        ("calc x", "line 3: calc 'x': 0 to"),
        ("calc 99999999999999999999", "line 3: calc '99999999999999999999'"),
        ("send 8 to 1", "line 3: '8' is no size"),
        ("send 8b from 1", "line 3: 'send 8b from 1' is no operation"),
        ("send 8b to 2", "line 3: rank '2': 0 to 1"),
        ("send 8b to -1", "line 3: a receive from any rank"),
        ("recv 8b from -1", "line 3: a receive from any rank"),
        ("recv 8b from 1 tag -1", "line 3: a receive of any tag"),
        ("recv 8b from 1 tag", "line 3: 'tag' at the end has no value"),
        ("recv 8b from 1 tag 1 tag 2", "line 3: 'tag' is there twice"),
        ("calc 1 tag 2", "line 3: unknown option 'tag'"),
        ("calc 1 cpu 256", "line 3: cpu '256'"),
        ("a: calc 1\n\na: calc 2", "line 5: the label 'a' is in line 3 already"),
        ("a: calc 1\nb requires a", "line 4: rank 0 has no operation with label 'b'"),
        ("1a: calc 1", "line 3: '1a' is no label"),
        ("a:", "line 3: nothing follows the label"),
        ("calc 1 ä", "line 3: unexpected character '\\u{e4}'"),
        ("rank 1 {", "line 3: 'rank' is no operation"),
        ("send 8b to 1", "line 3: rank 0 sends 1 messages with tag 0 to rank 1, which receives 0"),
        ("recv 8b from 1\nrecv 8b from 1", "line 4: rank 1 sends 0 messages with tag 0 to rank 0, which receives 2"),
        (
            "send 9b to 0\nrecv 8b from 0",
            "line 4: rank 0 receives 8 bytes with tag 0 from rank 0, whose message in line 3 has 9: a receive may be larger",
        ),
        (
            "send 1b to 0\nsend 9b to 0\nrecv 8b from 0\nrecv 99b from 0\nsend 90b to 0\nrecv 8b from 0",
            "line 8: rank 0 receives 8 bytes with tag 0 from rank 0, whose message in line 4 has 9",
        ),
        ("send 8b to 0 tag 1\nrecv 8b from 0 tag 2", "line 3: rank 0 sends 1 messages with tag 1"),
        ("a: calc 1\na requires a", "line 3: this operation of rank 0 depends on itself"),
        ("c: calc 3\na: calc 1\nb: calc 2\na requires b\nb irequires a\nc requires a", "depends on itself"),
    ] {
        let error = within(text);
        assert!(error.contains(said), "{text}: {error}");
    }
    // One that only waits for the circle is not named.
    let circle = within("c: calc 3\nc requires a\na: calc 1\nb: calc 2\na requires b\nb irequires a");
    assert!(circle.starts_with("line 5:") || circle.starts_with("line 6:"), "{circle}");
    for (text, said) in [
        ("", "line 1: the file ends without num_ranks"),
        ("rank 0 {\n}", "line 1: 'rank': num_ranks N comes first"),
        ("num_ranks 0", "line 1: num_ranks '0': 1 to"),
        ("num_ranks 99999999", "line 1: num_ranks '99999999'"),
        ("num_ranks 2\nnum_ranks 2", "line 2: num_ranks is there already"),
        ("num_ranks 2\nrank 2 {", "line 2: rank '2': 0 to 1"),
        ("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}", "line 4: rank 0 is there already"),
        ("num_ranks 2\nrank 0 {\ncalc 5\n", "rank 0 of line 2 is not closed"),
        ("num_ranks 2\n}", "line 2: '}': here comes rank N {"),
        ("num_ranks 2 /* no end", "the file ends within a comment"),
    ] {
        let error = refused(text);
        assert!(error.contains(said), "{text}: {error}");
    }
    let long = format!("num_ranks 1 //{}", "x".repeat(LINE_BYTES_MAX as usize));
    assert!(refused(&long).contains("line 1: it is longer than 65536 bytes"));
    assert!(Goal::parse(&b"num_ranks 1\n\xff"[..]).unwrap_err().to_string().contains("line 2: it is no text"));
}

/// Files made from MPI traces give receives the size of their posted buffers.
#[test]
fn a_receive_larger_than_its_message_takes_as_long_as_the_message() {
    let per_byte = Network { overhead_per_byte_ps: 1_000, ..PLAIN };
    let of = |room| {
        let text = format!(
            "num_ranks 2\nrank 0 {{\nl1: calc 1000\nl2: send 8b to 1 tag 7\nl2 requires l1\n}}\n\
             rank 1 {{\nl1: recv {room}b from 0 tag 7\nl2: calc 500\nl2 requires l1\n}}\n"
        );
        undisturbed_ns(&text, per_byte)
    };
    assert!(of(8).is_ok());
    assert_eq!(of(4096), of(8));
    // Several of one tag: each message has a receive that holds it.
    let several = "num_ranks 1\nrank 0 {\nsend 1b to 0\nsend 64b to 0\nrecv 64b from 0\nrecv 4096b from 0\n}\n";
    assert!(undisturbed_ns(several, per_byte).is_ok());
}

#[test]
fn ranks_that_wait_for_each_other_are_found_by_running() {
    let text = "num_ranks 2\nrank 0 {\nr: recv 8b from 1\ns: send 8b to 1\ns requires r\n}\n\
                rank 1 {\nr: recv 8b from 0\ns: send 8b to 0\ns requires r\n}\n";
    let error = undisturbed_ns(text, PLAIN).unwrap_err().to_string();
    assert_eq!(error, "line 3: rank 0 deadlocks here: the ranks wait for each other");
}

#[test]
fn what_cannot_be_simulated_or_written_says_why() {
    let goal = parsed("num_ranks 6\nrank 0 {\ncalc 3600000000000\n}\n");
    let setting = GoalSetting { goal: &goal, ranks_per_node: 4, network: PLAIN, groups: &[], seed: 1 };
    assert_eq!(setting.nodes(), 2);
    assert!(setting.check(0).unwrap_err().to_string().starts_with("draws 0"));
    assert!(
        GoalSetting { ranks_per_node: 0, ..setting }.check(1).unwrap_err().to_string().starts_with("ranks per node 0")
    );
    let all = noisy(1 << 40, (1 << 40) + 1);
    assert!(GoalSetting { groups: &all, ..setting }.check(1).unwrap_err().to_string().contains("73 years"));
    let much = noisy(1, 2);
    let three = vec![Group { nodes: Some(3), ..much[0].clone() }];
    assert!(
        GoalSetting { groups: &three, ..setting }.check(1).unwrap_err().to_string().contains("3 nodes, the job has 2")
    );
    let job =
        Job { pattern: Pattern::Barrier, nodes: 4096, ranks_per_node: 1, compute_ns: 1, bytes: 8, iterations: 1_000 };
    let error = write(&job, &mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "102400000 operations in all: a GOAL file has at most 16777216; take fewer nodes or iterations");
    // A clock that runs out is found in the run.
    let hours = "num_ranks 1\nrank 0 {\n".to_owned() + &"calc 3600000000000\n".repeat(1_000) + "}\n";
    let goal = parsed(&hours);
    let slow = noisy((1 << 40) - 1_000_000, 1 << 40);
    let setting = GoalSetting { goal: &goal, ranks_per_node: 1, network: PLAIN, groups: &slow, seed: 1 };
    assert!(predict_goal(&setting, 0..1, 1).unwrap_err().to_string().contains("73 years"));
}

#[test]
fn other_jobs_have_other_digests() {
    let of = |body: &str| parsed(&format!("num_ranks 2\nrank 0 {{\na: calc 5\nb: calc 6\n{body}}}\n")).digest();
    let digests = [of(""), of("b requires a\n"), of("b irequires a\n"), of("a requires b\n"), of("calc 0\n")];
    let distinct: std::collections::HashSet<u64> = digests.into_iter().collect();
    assert_eq!(distinct.len(), digests.len());
    assert_eq!(of(""), of("// nothing\n"));
}
