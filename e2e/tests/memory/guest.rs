//! Corrected errors on the real machine-check path of a real kernel: Debian's, in a guest. Its module mce-inject writes a bank's
//! registers and raises a machine check; the kernel leaves a corrected error to its next poll, which reads the bank, reports and
//! logs it. Surefoot inside the guest counts the reports and times their handling.
//!
//! The emulated processor is one of AMD's before family 17h, of which bank 4, the northbridge's, reports errors of DRAM.

use serde_json::Value;
use std::path::Path;
use surefoot_e2e::command::binary;
use surefoot_testkit::guest::{Guest, Ran};
use surefoot_testkit::not_run::not_run;

/// Errors that are raised.
const ERRORS: u64 = 8;

/// Raises the errors in a bank that the emulated processor has, each after the poll has emptied it and the kernel has logged what was
/// there. The watch ends when it has seen the last one.
const SCRIPT: &str = r#"
export PATH=/bin
mkdir -p /etc /var/lib
echo 1 >/sys/devices/system/machinecheck/machinecheck0/check_interval
/surefoot memory watch --json --duration 800s >/watched 2>/said &
watch=$!
await() { tries=0; until "$@" || [ $tries -gt 600 ]; do sleep 0.1; tries=$((tries + 1)); done; }
has_logged() { [ "$(dmesg | grep -c 'Bank 4: 9c00400000080a13')" -ge $1 ]; }
await grep -q '"type":"stream"' /watched
sleep 4
cd /sys/kernel/debug/mce-inject
for error in 1 2 3 4 5 6 7 8; do
    # It forgets what it was told with each error.
    echo hw >flags
    echo 0 >cpu
    echo 0x9c00400000080a13 >status
    echo 0x8c >misc
    echo 0x1234${error}000 >addr
    echo 4 >bank
    await has_logged $error
done
await grep -q '"address":305430528' /watched
sleep 1
kill $watch
wait $watch
echo "watch ended with $?"
cat /said
cat /watched
/surefoot memory doctor --json
echo "doctor ended with $?"
/surefoot memory status
echo "status ended with $?"
ls /sys/kernel/debug/tracing/instances
grep -E 'MCP|MCE' /proc/interrupts
"#;

fn lines(ran: &Ran, of_type: &str) -> Vec<Value> {
    let parsed = ran.text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    parsed.filter(|line| line["type"] == of_type).collect()
}

#[test]
fn corrected_errors_of_a_real_kernel_are_counted_timed_and_told() {
    const NAME: &str = "memory::guest::corrected_errors_of_a_real_kernel_are_counted_timed_and_told";
    let guest = match Guest::find() {
        Ok(guest) => guest.with_module("mce-inject"),
        Err(why) => return not_run(NAME, &why),
    };
    let small = tempfile::tempdir().unwrap();
    let command = small.path().join("surefoot");
    // What the debugger needs of it would take the guest longer to load than to run.
    let stripped = std::process::Command::new("llvm-strip").arg("-o").arg(&command).arg(binary()).status();
    let command = if stripped.is_ok_and(|status| status.success()) { &*command } else { binary() };
    let ran = guest.with_file(command, "/surefoot").run(Path::new("/bin/sh"), &["-c", SCRIPT], &[]).unwrap();
    println!("{}", ran.text);
    assert!(ran.text.contains("watch ended with 0"), "{}\n{}", ran.text, ran.console);
    let reports = lines(&ran, "report");
    let of_bank = |report: &&Value| report["source"] == "mce_record" && report["severity"] == "corrected";
    let counted: u64 = reports.iter().filter(of_bank).map(|report| report["count"].as_u64().unwrap()).sum();
    assert_eq!(counted, ERRORS, "{reports:?}");
    let addresses: Vec<u64> = reports.iter().filter_map(|report| report["location"]["address"].as_u64()).collect();
    assert_eq!(addresses, (1..=ERRORS).map(|error| 0x1234_0000 + error * 0x1000).collect::<Vec<_>>());
    // The kernel's own log has each of them.
    let logged = ran.console.matches("Bank 4: 9c00400000080a13").count() as u64;
    assert_eq!(logged, ERRORS, "{}", ran.console);
    // Each came with a poll of its own, and was decoded, traced and logged by a run of the kernel's worker.
    let costs = lines(&ran, "cost");
    let handled = costs.last().unwrap_or_else(|| panic!("{}", ran.text));
    assert_eq!((&handled["what"], &handled["basis"]), (&"handled_record".into(), &"measured".into()), "{handled}");
    assert_eq!(handled["count"], ERRORS, "{handled}");
    let each_ns = handled["each_ns"].as_u64().unwrap();
    assert!((1_000..1_000_000_000).contains(&each_ns), "{handled}");
    // Nothing is wrong with the accounting of this guest, and there is no driver for its modules because it is one.
    assert!(ran.text.contains("doctor ended with 0"), "{}", ran.text);
    let checks = lines(&ran, "check");
    assert!(checks.iter().any(|check| check["rule"] == "virtual-machine" && check["severity"] != "ok"), "{checks:?}");
    assert!(!ran.text.contains("instances/surefoot"), "the trace instance is gone: {}", ran.text);
}
