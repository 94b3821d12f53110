//! The commands of ready-made workloads.

use super::Setting;
use surefoot_model::CpuId;

/// Files that are compiled where time is short: some seconds on a core.
const QUICK_PARTS: &str = "gtest-filepath.cc gtest-port.cc gtest-test-part.cc gmock-cardinalities.cc";

/// A word for the shell, whatever is in it.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A script in namespaces of its own, after these variables are set.
pub(super) fn script(kinds: &str, variables: &[(&str, String)], text: &str) -> String {
    let set: String = variables.iter().map(|(name, value)| format!("{name}={}\n", quoted(value))).collect();
    format!("exec unshare {kinds} sh -euc {}", quoted(&(set + text)))
}

/// The cores of so many machines; with fewer cores some share one.
pub(super) fn cores_of(setting: &Setting, machines: usize) -> Vec<CpuId> {
    setting.cores.iter().copied().cycle().take(machines).collect()
}

/// A core as the kernel's masks are written: 32 bits in hexadecimal a word, the highest first.
pub(super) fn mask(cpu: CpuId) -> String {
    format!("{:x}{}", 1u32 << (cpu.0 % 32), ",00000000".repeat(cpu.0 as usize / 32))
}

fn seconds(setting: &Setting, quick: f64, full: f64) -> f64 {
    if setting.is_quick { quick } else { full }
}

/// What ties a command to one core; the last one, because the first has more to do for others.
fn tied(setting: &Setting, is_all: bool) -> String {
    match setting.cores.last() {
        Some(cpu) if !is_all => format!("taskset -c {} ", cpu.0),
        _ => String::new(),
    }
}

fn threads(setting: &Setting, is_all: bool) -> usize {
    if is_all { setting.cores.len() } else { 1 }
}

pub(super) fn sysbench_cpu(setting: &Setting, is_all: bool) -> String {
    let (tied, threads, seconds) = (tied(setting, is_all), threads(setting, is_all), seconds(setting, 2.0, 10.0));
    format!("exec {tied}sysbench cpu --cpu-max-prime=2000 --threads={threads} --time={seconds:.0} run")
}

pub(super) fn sysbench_memory(setting: &Setting, is_all: bool) -> String {
    let (tied, threads, seconds) = (tied(setting, is_all), threads(setting, is_all), seconds(setting, 2.0, 10.0));
    format!(
        "exec {tied}sysbench memory --memory-block-size=1M --memory-total-size=1000000G --threads={threads} --time={seconds:.0} run"
    )
}

pub(super) fn stress_float(setting: &Setting, is_all: bool) -> String {
    let (tied, threads, seconds) = (tied(setting, is_all), threads(setting, is_all), seconds(setting, 2.0, 10.0));
    format!("exec {tied}stress-ng --cpu {threads} --cpu-method double --timeout {seconds:.0} --metrics-brief 2>&1")
}

pub(super) fn compile(setting: &Setting, is_all: bool) -> String {
    let parts = if setting.is_quick { QUICK_PARTS } else { "" };
    let core = match setting.cores.last() {
        Some(cpu) if !is_all => cpu.0.to_string(),
        _ => surefoot_hostfs::cpus::format_list(&setting.cores),
    };
    let variables = [
        ("source", "/usr/src/googletest".to_owned()),
        ("jobs", threads(setting, is_all).to_string()),
        ("parts", parts.to_owned()),
        ("core", core),
    ];
    script("--mount", &variables, include_str!("../../../workloads/compile.sh"))
}

pub(super) fn link(setting: &Setting, options: &str, has_ring: bool) -> String {
    let cores = cores_of(setting, 2);
    let variables = [
        ("sender_core", cores[0].0.to_string()),
        ("receiver_core", cores[1].0.to_string()),
        ("sender_mask", mask(cores[0])),
        ("receiver_mask", mask(cores[1])),
        ("seconds", format!("{:.0}", seconds(setting, 3.0, 10.0))),
        ("options", options.to_owned()),
        ("ring", if has_ring { "yes" } else { "no" }.to_owned()),
    ];
    script("--mount --net", &variables, include_str!("../../../workloads/network.sh"))
}

pub(super) fn collectives(setting: &Setting, machines: usize) -> String {
    let cores: Vec<String> = cores_of(setting, machines).iter().map(|cpu| cpu.0.to_string()).collect();
    let variables = [
        ("nodes", machines.to_string()),
        ("cores", cores.join(" ")),
        ("seconds", format!("{}", seconds(setting, 1.0, 3.0))),
        ("source", include_str!("../../../workloads/collectives.c").to_owned()),
    ];
    script("--mount --net", &variables, include_str!("../../../workloads/collectives.sh"))
}

pub(super) fn unseen(setting: &Setting) -> String {
    let variables = [("seconds", format!("{:.0}", seconds(setting, 12.0, 60.0)))];
    script("--mount", &variables, include_str!("../../../workloads/unseen.sh"))
}

/// Work that Surefoot does itself.
pub(super) fn own(setting: &Setting, name: &str, in_namespace: bool) -> String {
    let seconds = match name {
        "deadline" => seconds(setting, 4.0, 10.0),
        _ => seconds(setting, 1.5, 5.0),
    };
    let cores = surefoot_hostfs::cpus::format_list(&cores_of(setting, setting.cores.len().min(2)));
    let command = format!("exec \"$SUREFOOT\" disturb work {name} --seconds {seconds} --cores {cores}");
    match in_namespace {
        true => script("--net", &[], &format!("ip link set lo up\n{command}")),
        false => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_of_32_bits_the_highest_first() {
        assert_eq!([0, 5, 31].map(|cpu| mask(CpuId(cpu))), ["1", "20", "80000000"]);
        assert_eq!(mask(CpuId(33)), "2,00000000");
        assert_eq!(mask(CpuId(64)), "1,00000000,00000000");
    }

    #[test]
    fn whatever_is_in_a_word_the_shell_reads_it_as_one() {
        let hostile = "it's \"$(touch x)\" `y` \\ \n*";
        let output =
            std::process::Command::new("/bin/sh").args(["-c", &format!("printf %s {}", quoted(hostile))]).output();
        assert_eq!(String::from_utf8(output.unwrap().stdout).unwrap(), hostile);
    }
}
