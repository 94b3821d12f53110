//! `surefoot disturb length` on the running kernel: what was injected is in the interval, and what cannot be is refused.

use serde_json::Value;
use std::process::{Command, Output};
use surefoot_testkit::not_run::not_run;

fn length(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
    command.args(["disturb", "length"]).args(words.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_length_of_stalls_is_told_from_counting_them() {
    const TEST: &str = "the_length_of_stalls_is_told_from_counting_them";
    let _turn = super::disturb_run::turn();
    let measured = || length("--length 1ms --interval 5ms --steps 4 --each 50ms --even-if-in-use --json");
    let mut output = measured();
    // It ends where it gets no time for ten seconds, which a busy machine does now and then.
    for _ in 0..3 {
        if text(&output.stderr).contains("a machine that is too busy") {
            output = measured();
        }
    }
    if output.status.code() == Some(3) {
        return not_run(TEST, &text(&output.stderr));
    }
    assert!(output.status.success(), "{output:?}");
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steps: Vec<&Value> = lines.iter().filter(|line| line["type"] == "step").collect();
    assert_eq!(steps.len(), 4);
    for step in &steps {
        let [period, idle, found] =
            ["period_ns", "idle_period_ns", "length_ns"].map(|name| step[name].as_f64().unwrap());
        assert!((period - idle - found).abs() < 1.0 && step["count"].as_u64().unwrap() >= 8, "{step}");
    }
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["asked_ns"]), (&Value::from("length"), &Value::from(1_000_000)));
    // How near it is depends on how busy the machine is; that an injected stall lasts as long as asked does not.
    let number = |name: &str| last[name].as_f64().unwrap();
    assert!((950_000.0..1_050_000.0).contains(&number("injected_ns")), "{last}");
    assert!(last["injected_count"].as_u64().unwrap() >= 32, "{last}");
    assert!(
        number("interval_low_ns") <= number("length_ns") && number("length_ns") <= number("interval_high_ns"),
        "{last}"
    );
    assert!(number("probe_ns") >= 900_000.0 && last["probe_count"].as_u64().unwrap() > 0, "{last}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (words, why) in [
        ("--length 500ms", "500 ms: 1 ns to"),
        ("--length 100ms --interval 10ms", "at most 45 %"),
        ("--steps 2 --even-if-in-use", "steps 2: 3 to 1000"),
        ("--cpu 99999 --even-if-in-use", "core 99999 is not online"),
        ("--cpu one", "'one' is not the number of a core"),
        ("--length 0ms", "is zero"),
    ] {
        let output = length(words);
        let said = text(&output.stderr);
        // Without privilege it is another refusal.
        assert!(said.contains(why) || output.status.code() == Some(3), "{words}: {said}");
        assert!(!output.status.success() && output.stdout.is_empty(), "{words}: {output:?}");
    }
}
