//! The kernel's own detectors, hwlat and osnoise, judged by freezes of their guest, beside the probe.
//!
//! Debian's real-time kernel has them, its other kernels do not. They are judged by counting: what each found that was half as long as
//! a freeze or longer, while the guest was frozen so many times. A guest under software emulation also stands still when its machine
//! is busy with other things, which is false here.

use super::outside::{AWAIT_NUDGE, Stopped, Told, below, lines, nudge, with_command};
use serde_json::Value;
use std::path::Path;
use surefoot_testkit::guest::{Guest, Ran};
use surefoot_testkit::not_run::not_run;

const NAME: &str = "disturb::tracers::hwlat_and_osnoise_are_judged_by_freezes_of_their_guest";
const LENGTH_MS: u64 = 105;
const PERIOD_MS: u64 = 600;

/// Beyond so many times as many as there were freezes, nothing is told from how many were found.
const OTHERS_MOST: f64 = 2.0;

/// Each detector looks nine tenths of the time, or all of it; the threshold is half of a freeze.
const SCRIPT: &str = r#"
export PATH=/bin
trace=/sys/kernel/debug/tracing
ls $trace >/dev/null
grep -E 'hwlat.*osnoise|osnoise.*hwlat' $trace/available_tracers || exit 9
stty -F /dev/ttyS3 -opost
(while :; do read -r up idle </proc/uptime; echo "up $up"; sleep 0.02; done >/dev/ttyS3) &
echo 1 >$trace/tracing_on
echo 52500 >$trace/tracing_thresh
echo 900000 >$trace/hwlat_detector/width
echo hwlat >$trace/current_tracer
sleep 2
echo "under hwlat" >/dev/ttyS3
await_nudge
echo "== hwlat"
cat $trace/trace
echo nop >$trace/current_tracer
echo 900000 >$trace/osnoise/runtime_us
echo 1000000 >$trace/osnoise/period_us
echo 1 >$trace/events/osnoise/sample_threshold/enable
echo osnoise >$trace/current_tracer
echo 52500 >$trace/tracing_thresh
sleep 2
echo "under osnoise" >/dev/ttyS3
await_nudge
echo "== osnoise"
cat $trace/trace
echo nop >$trace/current_tracer
/surefoot stall probe --cpu 0-1 --duration 890s --threshold 52500us --source counters --json >/gaps 2>&1 &
probe=$!
sleep 3
echo "under probe" >/dev/ttyS3
await_nudge
kill $probe
wait $probe
echo "== probe"
cat /gaps
"#;

/// What one of them found, milliseconds, and on how many cores it looked at once.
struct Found {
    lengths_ms: Vec<f64>,
    cores: usize,
}

/// `#1 inner/outer(us): 105123/12 ts:1700000000.123 count:2`: the longest of a window, and how many there were.
fn hwlat(text: &str) -> Found {
    let mut lengths_ms = Vec::new();
    for line in text.lines().filter_map(|line| line.split_once("inner/outer(us):")).map(|(_, rest)| rest) {
        let (lengths, rest) = line.trim_start().split_once(" ts:").unwrap_or_else(|| panic!("{line}"));
        let longest = lengths.split('/').filter_map(|us| us.trim().parse::<f64>().ok()).fold(0.0, f64::max);
        let count = rest.split_once("count:").and_then(|(_, count)| count.split_whitespace().next()?.parse().ok());
        lengths_ms.extend(std::iter::repeat_n(longest / 1e3, count.unwrap_or(1)));
    }
    Found { lengths_ms, cores: 1 }
}

/// `sample_threshold: start 84.111 duration 105000000 ns interference 0`
fn osnoise(text: &str) -> Found {
    let lines = text.lines().filter_map(|line| line.split_once("sample_threshold: start"));
    let lengths = lines.filter_map(|(_, rest)| rest.split_once("duration ")?.1.split(' ').next()?.parse::<f64>().ok());
    Found { lengths_ms: lengths.map(|ns| ns / 1e6).collect(), cores: 2 }
}

fn probe(text: &str) -> Found {
    let gaps: Vec<Value> = lines(text, "gap");
    Found { lengths_ms: gaps.iter().map(|gap| gap["duration_ns"].as_f64().unwrap() / 1e6).collect(), cores: 2 }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prints its row; the share of the freezes that it found.
fn judged(name: &str, found: &Found, frozen: &Stopped) -> f64 {
    let (injected, long) = (frozen.stops.len() as f64, found.lengths_ms.len() as f64 / found.cores as f64);
    let hit = long.min(injected);
    let longer_ms = median(found.lengths_ms.clone()) - median(frozen.stops.iter().map(|stop| stop * 1e3).collect());
    // Where others stop the guest as often, a count does not say whose a stop was.
    let (recall, precision) = match long > OTHERS_MOST * injected {
        true => ("-".to_owned(), format!("{:.3} or less", hit / long)),
        false => (format!("{:.3}", hit / injected), format!("{:.3}", hit / long.max(1e-9))),
    };
    println!("| {name} | {LENGTH_MS} ms | {injected} | {long:.1} | {recall} | {precision} | {longer_ms:+.1} ms |");
    hit / injected
}

#[test]
#[ignore = "takes more than a minute: make test-guest runs it"]
fn hwlat_and_osnoise_are_judged_by_freezes_of_their_guest() {
    let folder = tempfile::tempdir().unwrap();
    let guest = match Guest::find_real_time() {
        Ok(guest) => guest,
        Err(why) => return not_run(NAME, &why),
    };
    let (guest, monitor, told) = with_command(guest, folder.path());
    let script = format!("{AWAIT_NUDGE}{SCRIPT}");
    let running = std::thread::spawn(move || guest.run(Path::new("/bin/sh"), &["-c", &script], &[]));
    let under = |told: &Told, word: &str| {
        let frozen = told.wait_for(word).then(|| Stopped::by("guest-freeze", [LENGTH_MS, PERIOD_MS], &monitor, told));
        if frozen.is_some() {
            nudge(&monitor);
        }
        frozen
    };
    let frozen = ["under hwlat", "under osnoise", "under probe"].map(|word| under(&told, word));
    let ran: Ran = running.join().unwrap().unwrap();
    assert_eq!(ran.code, Some(0), "{}\n{}", ran.text, ran.console);
    let [of_hwlat, of_osnoise, of_probe] = frozen.map(|frozen| frozen.unwrap_or_else(|| panic!("{}", ran.text)));
    println!("| detector, in the guest | freezes of | injected | as long | recall | precision | longer by, median |");
    let recalls = [
        judged("hwlat", &hwlat(below(&ran, "hwlat")), &of_hwlat),
        judged("osnoise", &osnoise(below(&ran, "osnoise")), &of_osnoise),
        judged("surefoot stall probe", &probe(below(&ran, "probe")), &of_probe),
    ];
    assert!(recalls[0] > 0.3 && recalls[1] > 0.3 && recalls[2] > 0.7, "{recalls:?}\n{}", ran.text);
}
