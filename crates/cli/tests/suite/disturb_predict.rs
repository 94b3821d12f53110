//! `surefoot disturb predict` as a program: the same bytes for a seed, shards, recordings, and what is refused.

use serde_json::Value;
use std::process::{Command, Output};
use surefoot_model::{Certainty, CoreLedger, CpuId, Event, Gap, GapSource, SelfCost, Verdict, Window};
use surefoot_store::recording::{Existing, Writer};

fn run(words: &str) -> Output {
    let words = words.split_whitespace();
    Command::new(env!("CARGO_BIN_EXE_surefoot")).args(["disturb", "predict"]).args(words).output().unwrap()
}

fn out(words: &str) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

const RANDOM: &str =
    "--pattern allreduce --nodes 8 --iterations 3000 --noise freeze:length=20ms,period=200ms,phase=random --draws 8";

#[test]
fn a_prediction_ends_with_its_summary_and_a_seed_gives_the_same_bytes() {
    let text = out(&format!("{RANDOM} --seed 1 --json"));
    assert_eq!(text, out(&format!("{RANDOM} --seed 1 --json --threads 5")));
    assert_ne!(text, out(&format!("{RANDOM} --seed 2 --json")));
    let result = last(&text);
    let number = |name: &str| result[name].as_f64().unwrap();
    assert_eq!((result["type"].as_str().unwrap(), text.lines().count()), ("prediction", 1 + 8 + 1));
    assert!(1.0 <= number("interval_low") && number("interval_low") <= number("slowdown"), "{result}");
    assert!(number("least") <= number("slowdown") && number("slowdown") <= number("interval_high"), "{result}");
    // A piece of work, and three messages sent and received, for 8 ranks in 3,000 iterations of 8 draws.
    assert_eq!(number("event_count"), (7 * 8 * 3_000 * 8) as f64);
    // Of a message of 8 bytes, 7 take 800 ps each on the wire.
    assert_eq!(number("base_ns"), 3_000.0 * (1_000_000.0 + 3.0 * 7_005.0));
    assert_eq!(result["interval_method"], "student");
    let told = out(&format!("{RANDOM} --seed 1"));
    assert!(told.contains("--draws 39"), "{told}");
    let many = last(&out(&format!("{} --json", RANDOM.replace("--draws 8", ""))));
    assert_eq!((many["interval_method"].as_str(), many["draws"].as_u64()), (Some("order"), Some(40)));
    assert_eq!((&many["interval_low"], &many["interval_high"]), (&many["least"], &many["most"]));
    // So many events that fewer draws are made, of which this shard has one at most.
    let large = "--pattern barrier --nodes 2000 --iterations 1000 --noise freeze:length=1ms,period=100ms --shard 1/40";
    let header: Value = serde_json::from_str(out(large).lines().next().unwrap()).unwrap();
    assert_eq!(header["about"]["draws"], 1_000_000_000 / (1000 * 2000 * 23));
    assert!(told.contains(&format!("{:.3} times as long", number("slowdown"))), "{told}");
}

#[test]
fn shards_merge_to_the_bytes_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let part = |words: &str, name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, out(words)).unwrap();
        path.display().to_string()
    };
    // More shards than draws: some have none.
    let files: Vec<String> =
        (1..=9).map(|number| part(&format!("{RANDOM} --shard {number}/9"), &format!("{number}"))).collect();
    let mut turned = files.clone();
    turned.reverse();
    for end in ["", " --json"] {
        assert_eq!(out(&format!("--merge {}{end}", turned.join(" "))), out(&format!("{RANDOM}{end}")));
    }
    let refused = |words: &str, said: &str| {
        let output = run(words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(said), "{words}: {error}");
    };
    refused(&format!("--merge {}", files[..8].join(" ")), "8 of 9 shards are here; missing, among others: 9");
    refused(&format!("--merge {} {}", files[0], files[0]), "shard 1 of 9 is in");
    let other = part(&format!("{RANDOM} --seed 3 --shard 2/9"), "other");
    refused(&format!("--merge {} {other}", files[0]), "of another prediction");
    let whole = std::fs::read_to_string(&files[8]).unwrap();
    let damaged = |text: &str, said: &str| {
        let path = folder.path().join("damaged");
        std::fs::write(&path, text).unwrap();
        refused(&format!("--merge {}", path.display()), said);
    };
    damaged("", "line 1: no header");
    damaged(whole.lines().next().unwrap(), "cut or damaged");
    damaged(&whole.replace("end_ns", "start_ns"), "line 2: no draw");
    damaged(&whole.replace("\"version\":1", "\"version\":9"), "version 9");
    refused("--merge /dev/null", "not a regular file");
}

#[test]
fn a_pattern_written_as_goal_is_predicted_as_the_pattern_and_a_stranger_s_file_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (job, noise) = ("--ranks-per-node 3 --iterations 20", "--noise freeze:length=3ms,period=10ms --json --draws 3");
    let pattern = format!("--pattern allreduce --nodes 5 {job}");
    assert_eq!(out(&format!("{pattern} --write-goal {}", path("all.goal"))), "");
    let again = run(&format!("{pattern} --write-goal {}", path("all.goal")));
    assert!(!again.status.success() && String::from_utf8_lossy(&again.stderr).contains("exists"), "{again:?}");
    let (of_pattern, goal) = (out(&format!("{pattern} {noise}")), format!("--goal {}", path("all.goal")));
    let of_goal = out(&format!("{goal} --ranks-per-node 3 {noise}"));
    let draws =
        |text: &str| text.lines().filter(|line| line.contains("\"draw\"")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(draws(&of_pattern), draws(&of_goal));
    assert_eq!(draws(&of_goal).len(), 3);
    let (of_pattern, of_goal) = (last(&of_pattern), last(&of_goal));
    for name in ["slowdown", "interval_low", "interval_high", "base_ns", "event_count", "nodes"] {
        assert_eq!(of_pattern[name], of_goal[name], "{name}");
    }
    assert_eq!((of_goal["goal"]["ranks"].as_u64(), of_goal["iterations"].as_u64()), (Some(15), None));
    let told = out(&format!("{goal} --noise freeze:length=3ms,period=10ms"));
    let first = told.lines().next().unwrap();
    let uneven = out(&format!("{goal} --ranks-per-node 2 --noise freeze:length=3ms,period=10ms"));
    assert!(uneven.starts_with("8 nodes with up to 2 ranks each: a GOAL file of 15 ranks"), "{uneven}");
    let operations = of_goal["goal"]["operation_count"].as_u64().unwrap();
    assert_eq!(first, format!("15 nodes with 1 rank each: a GOAL file of 15 ranks and {operations} operations"));
    // Shards of one file do not merge with those of another.
    let shard = |name: &str, goal: &str, number: u32| {
        let text = out(&format!("--goal {goal} --noise freeze:length=3ms,period=10ms --shard {number}/2"));
        std::fs::write(path(name), text).unwrap();
        path(name)
    };
    let other = path("other.goal");
    let whole = std::fs::read_to_string(path("all.goal")).unwrap();
    std::fs::write(&other, whole.replacen("calc 1000000", "calc 1000001", 1)).unwrap();
    let (first, second) = (shard("1", &path("all.goal"), 1), shard("2", &path("all.goal"), 2));
    assert_eq!(out(&format!("--merge {first} {second}")), told);
    let refused = |words: &str, said: &str| {
        let output = run(words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(said), "{words}: {error}");
    };
    refused(&format!("--merge {first} {}", shard("3", &other, 2)), "of another prediction");
    std::fs::write(&other, whole.replacen("to 1 tag", "to 99 tag", 1)).unwrap();
    refused(&format!("--goal {other} {noise}"), "rank '99': 0 to 14 are possible");
    refused(&format!("--goal /dev/zero {noise}"), "not a regular file");
    let waits = "l1: recv 8b from PEER tag 0\nl2: send 8b to PEER tag 0\nl2 requires l1\n";
    let of = |peer: &str| waits.replace("PEER", peer);
    std::fs::write(&other, format!("num_ranks 2\nrank 0 {{\n{}}}\nrank 1 {{\n{}}}\n", of("1"), of("0"))).unwrap();
    refused(&format!("--goal {other} {noise}"), &format!("--goal {other}: line 3: rank 0 deadlocks here"));
    refused(&format!("{goal} --pattern ring {noise}"), "cannot be used with");
    let large = format!("--pattern ring --nodes 100000 --iterations 1000 --write-goal {}", path("large"));
    refused(&large, "a GOAL file has at most 16777216");
    assert!(!folder.path().join("large").exists());
}

#[test]
fn what_moves_the_bytes_is_said_and_matters() {
    let ring = "--pattern ring --nodes 2 --compute 0 --bytes 1000000000 --iterations 100 --noise \
                freeze:length=20ms,period=200ms,phase=same";
    let slowdown = |progress: &str| last(&out(&format!("{ring} --json {progress}")))["slowdown"].as_f64().unwrap();
    assert_eq!(slowdown(""), slowdown("--progress nic"));
    assert!(slowdown("") < 1.01 && slowdown("--progress host") > 1.1);
    assert_eq!(last(&out(&format!("{ring} --json --progress host")))["progress"], "host");
    assert!(out(&format!("{ring} --progress host")).contains("the cores move the bytes"));
    let output = run(&format!("{ring} --progress gpu"));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && error.contains("nic or host"), "{error}");
}

/// A recording of two cores, of which the second stops a tenth of the time.
#[test]
fn the_noise_of_a_recording_stops_the_ranks_of_each_node_as_its_cores_were() {
    const SECOND_NS: u64 = 1_000_000_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("night.surefoot");
    let mut writer = Writer::create(&path, Existing::Refuse).unwrap();
    for second in 5..15 {
        let core = |cpu| CoreLedger {
            cpu: CpuId(cpu),
            wall_ns: SECOND_NS,
            idle_ns: SECOND_NS,
            user_ns: 0,
            kernel_ns: 0,
            lost: vec![],
            unexplained_ns: 0,
            waiting: None,
        };
        let (start_ns, end_ns) = (second * SECOND_NS, (second + 1) * SECOND_NS);
        let (cores, cost) = ((0..2).map(core).collect(), SelfCost::default());
        let window =
            Window { start_ns, end_ns, cores, faulty: Vec::new(), untimed: vec![], completeness: vec![], cost };
        writer.append(&Event::Window(window)).unwrap();
        let gap = Gap {
            cpu: CpuId(1),
            source: GapSource::Probe,
            start_ns: start_ns + SECOND_NS / 2,
            duration_ns: SECOND_NS / 10,
            causes: vec![],
            unexplained_ns: SECOND_NS / 10,
            verdict: Verdict::SmiLike,
            certainty: Certainty::Probable,
            evidence: vec![],
        };
        // Found in two ways.
        writer.append(&Event::Gap(Gap { source: GapSource::TimerLateness, ..gap.clone() })).unwrap();
        writer.append(&Event::Gap(gap)).unwrap();
    }
    writer.finish().unwrap();
    let job = "--pattern barrier --iterations 20000 --nodes 4 --json";
    let of = |words: &str| {
        last(&out(&format!("{job} {words} --noise recorded:file={},phase=same", path.display())))["slowdown"]
            .as_f64()
            .unwrap()
    };
    // With one rank of each node on core 0, nobody is stopped.
    assert_eq!(of("--ranks-per-node 1"), 1.0);
    let both = of("--ranks-per-node 2");
    assert!((both * 0.9 - 1.0).abs() < 0.01, "{both}");
    let nothing = folder.path().join("nothing");
    std::fs::write(&nothing, "no recording").unwrap();
    let output = run(&format!("{job} --noise recorded:file={}", nothing.display()));
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
