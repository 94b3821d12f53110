//! In one guest: real SMIs of its firmware, memory errors that were not, and the guest itself frozen and stopped from outside.
//!
//! The guest is Debian's kernel under OVMF's SMM build, whose SMIs stop all processors. It tells over a fourth serial line what time
//! it thinks it is, and where it is.

use super::outside::{AWAIT_NUDGE, Stopped, below, lines, nudge, with_command};
use serde_json::Value;
use std::path::Path;
use surefoot_testkit::guest::{Guest, Ran};
use surefoot_testkit::not_run::not_run;

const NAME: &str = "disturb::guest::a_guest_has_smis_errors_and_stops_from_outside";
/// Lengths of the freezes and of the stops, and their period.
const FREEZE_MS: u64 = 200;
const STOP_MS: u64 = 300;
const PERIOD_MS: u64 = 700;

const SCRIPT: &str = r#"
export PATH=/bin
rm /run && mkdir -p /run /etc /var/lib
disturb() { echo "== $1"; shift; /surefoot disturb run --even-if-in-use --json --repetitions 2 "$@" 2>&1; echo "code $?"; }
disturb smi --disturbance smi:rate=20,cores=0 --workload 'sleep 1'
disturb memory-error --disturbance memory-error:rate=10,cores=1 --workload 'sleep 1'
stty -F /dev/ttyS3 -opost
(while :; do read -r up idle </proc/uptime; echo "up $up"; sleep 0.02; done >/dev/ttyS3) &
clock=$!
/surefoot stall probe --cpu 0-1 --duration 890s --threshold 150ms --source counters --json >/gaps 2>&1 &
probe=$!
sleep 3
echo "freeze me" >/dev/ttyS3
await_nudge
kill $probe
wait $probe
echo "stop me" >/dev/ttyS3
await_nudge
kill $clock
echo "== gaps"
cat /gaps
"#;

#[test]
fn a_guest_has_smis_errors_and_stops_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let guest = Guest::find().and_then(|guest| guest.with_smm_firmware(folder.path()));
    let guest = match guest {
        Ok(guest) => guest,
        Err(why) => return not_run(NAME, &why),
    };
    let (guest, monitor, told) = with_command(guest.with_module("msr").with_module("mce-inject"), folder.path());
    let script = format!("{AWAIT_NUDGE}{SCRIPT}");
    let running = std::thread::spawn(move || guest.run(Path::new("/bin/sh"), &["-c", &script], &[]));
    let outside = told.wait_for("freeze me").then(|| {
        let frozen = Stopped::by("guest-freeze", [FREEZE_MS, PERIOD_MS], &monitor, &told);
        nudge(&monitor);
        told.wait_for("stop me").then(|| {
            let stopped = Stopped::by("guest-stop", [STOP_MS, PERIOD_MS], &monitor, &told);
            nudge(&monitor);
            (frozen, stopped)
        })
    });
    let ran = running.join().unwrap().unwrap();
    println!("{}", ran.text);
    smis(below(&ran, "smi"));
    memory_errors(&ran);
    let (frozen, stopped) = outside.flatten().unwrap_or_else(|| panic!("{}\n{}", ran.text, ran.console));
    println!("frozen {:.3?}, behind {:.3} s", frozen.stops, frozen.behind_s);
    println!("stopped {:.3?}, behind {:.3} s", stopped.stops, stopped.behind_s);
    // The end of a run cuts its last stop short.
    let whole = frozen.stops.iter().filter(|stop| **stop * 1e3 > 0.95 * FREEZE_MS as f64).count();
    let gaps = lines(below(&ran, "gaps"), "gap");
    let seen = [0, 1].map(|cpu| {
        let long =
            |gap: &&Value| gap["cpu"] == cpu && gap["duration_ns"].as_f64().unwrap() / 1e6 > 0.9 * FREEZE_MS as f64;
        gaps.iter().filter(long).count()
    });
    // Where the host is busy, one of the two virtual processors may be caught in the freeze later than the other, and see less of it.
    let [least, most] = [seen[0].min(seen[1]), seen[0].max(seen[1])];
    assert!(whole >= 2 && least >= 1 && most + 1 >= whole, "the cores saw {seen:?} of {:?}", frozen.stops);
    // A guest that is frozen misses no time: its clock source is read, not counted. One that is stopped does.
    let [all_frozen, all_stopped] = [&frozen, &stopped].map(|kind| kind.stops.iter().sum::<f64>());
    assert!(frozen.stops.len() >= 3 && stopped.stops.len() >= 3);
    assert!(frozen.behind_s < 0.4 * all_frozen, "behind {} of {all_frozen} s", frozen.behind_s);
    assert!(stopped.behind_s > 0.6 * all_stopped, "behind {} of {all_stopped} s", stopped.behind_s);
}

/// Each was counted by both processors, and took them for a while.
fn smis(text: &str) {
    assert!(text.contains("code 0"), "{text}");
    let effect = &lines(text, "effect")[0];
    assert_eq!((&effect["method"], &effect["cores"]), (&"smi".into(), &serde_json::json!([0])), "{effect}");
    let note = effect["notes"][0].as_str().unwrap();
    let asked: u64 = note.split(' ').next().unwrap().parse().unwrap();
    assert!(asked >= 4 && note.contains(&format!("core 0 {asked}, core 1 {asked}; all cores stopped")), "{note}");
    let stalls = lines(text, "stall");
    let lengths: Vec<u64> = stalls.iter().map(|stall| stall["length_ns"].as_u64().unwrap()).collect();
    assert!(lengths.iter().filter(|length| **length > 20_000).count() * 10 >= lengths.len() * 9, "{lengths:?}");
}

/// The kernel's own log has each of them, on the core that was asked for.
fn memory_errors(ran: &Ran) {
    let text = below(ran, "memory-error");
    assert!(text.contains("code 0"), "{text}");
    let effect = &lines(text, "effect")[0];
    let logged = ran.console.matches("CPU 1: Machine Check: 0 Bank 4: 9000004000000091").count() as u64;
    let handed = effect["stall_count"].as_u64().unwrap();
    // One that comes when its run ends is of no run.
    assert!(handed >= 5 && (handed..=handed + 4).contains(&logged), "{logged} logged, {effect}\n{}", ran.console);
}
