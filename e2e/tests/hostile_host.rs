//! Everything at once that a user without privilege may do to a daemon of root's, for as long as the daemon stands: it ends
//! when root asks for it and in order, within its memory, and what it says of other users is right.
//!
//! Each attack has a test of its own elsewhere (`who/hostile.rs`, `strangers.rs`, `checkpoint.rs`); this one shows that they do
//! not add up. `make soak` runs it for a minute on the command as it is shipped, an ordinary run for a quarter of that.

use crate::who::hostile::{changed, has_tools, section};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::{Alone, Checkpointer, Config, Policy};
use surefoot_e2e::actor::{ODD, RAISER};
use surefoot_e2e::command::{NOBODY, PATIENCE, binary, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, has_program, turn};
use surefoot_e2e::report::of_type;
use surefoot_testkit::not_run::not_run;

/// A third user, who attacks nobody.
const NEIGHBOUR: u32 = 54_321;

/// What the watch may hold at the most, KiB: as it is shipped, and without optimisation, when its program alone, mapped and
/// read for its own names, is larger.
const SHIPPED_KIB_MAX: u64 = 128 << 10;
const DEBUG_KIB_MAX: u64 = 192 << 10;

/// The process that reads names, one file of 48 MiB after the other.
const READER_KIB_MAX: u64 = 384 << 10;

/// Directories in each other. The survey once held all of their paths.
const NESTED: usize = 190_000;

/// Ends a shell and all that it started.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
        // What it became has its number. Most have none.
        let _ = fs::remove_file(format!("/tmp/perf-{}.map", self.0.id()));
    }
}

/// A shell of nobody's, with `$program` and whatever else it is told.
fn attack(script: &str, program: &Path, folder: &Path, words: &[(&str, &str)]) -> Shell {
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).env("program", program).envs(words.iter().copied()).current_dir(folder);
    shell.uid(NOBODY).gid(NOBODY).process_group(0);
    Shell(shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Gives everything below a folder to a user.
fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path(), user));
    }
}

/// Takes checkpoints of a job, and gives them to a user.
fn job(home: &Path, name: &str, count: usize, user: u32) {
    let mut config = Config::new(name, home.join("memory"), Some(home.join("ssd")));
    config.policy = Policy::Fixed(Fixed::PaperNth(1));
    config.set("drive_file", "none").unwrap();
    let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
    fs::write(job.route_file("state").unwrap(), [7; 5_000]).unwrap();
    (0..count).for_each(|_| drop(job.checkpoint().unwrap()));
    job.finish().unwrap();
    for tier in ["memory", "ssd"] {
        give(&home.join(tier).join(name), user);
    }
}

/// A directory in which everybody may keep checkpoints: a job of root's, one of a neighbour's, and whatever the attacker has
/// thought of. Goes with the test, however deep it is.
struct Tiers(tempfile::TempDir);

impl Drop for Tiers {
    fn drop(&mut self) {
        // The library would call itself once for each directory in another.
        let _ = Command::new("rm").arg("-rf").arg(self.0.path().join("attack")).status();
    }
}

fn tiers() -> Tiers {
    // On a disk: what lies in memory is shown as that.
    let tiers = Tiers(tempfile::tempdir_in("/var/tmp").unwrap());
    let home = tiers.0.path();
    let open = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for folder in ["memory", "ssd", "attack", "attack/memory", "attack/ssd"] {
        fs::create_dir(home.join(folder)).unwrap();
    }
    job(home, "train", 2, 0);
    job(home, "train-of-neighbour", 3, NEIGHBOUR);
    let theirs = home.join("attack");
    for number in 0..64 {
        job(&theirs, &format!("00{number:02}"), 1, NOBODY);
    }
    // Lost, cut, from the end of time, of somebody else, and no file at all.
    let of = |number: usize| theirs.join(format!("ssd/00{number:02}"));
    for number in 0..8 {
        for entry in fs::read_dir(of(number)).unwrap().flatten() {
            let manifest = entry.path().join("rank-00000.manifest");
            if manifest.exists() {
                fs::write(&manifest, "All is lost; call 555-0123").unwrap();
            }
        }
    }
    let memory = |number: usize| theirs.join(format!("memory/00{number:02}/journal.jsonl"));
    let last = u64::MAX;
    let boast = format!(
        "{{\"realtime_ns\":{last},\"event\":\"opened\",\"job\":\"train\",\"ranks\":4294967295,\"policy\":\"\\u001b[2J555-0123\"}}\n"
    );
    for (number, journal) in [(8, boast.repeat(9_000)), (9, "{\"realtime_ns\":1,".into()), (10, "[".repeat(1 << 20))] {
        fs::write(memory(number), journal).unwrap();
    }
    for number in 11..14 {
        let _ = fs::remove_dir_all(of(number));
        let _ = fs::remove_file(memory(number));
    }
    symlink(home.join("ssd/train"), of(11)).unwrap();
    symlink("/etc/shadow", memory(11)).unwrap();
    symlink("/dev/zero", memory(12)).unwrap();
    assert!(Command::new("mkfifo").arg(memory(13)).status().unwrap().success());
    let _ = Command::new("chown").args(["-hR", &NOBODY.to_string()]).arg(&theirs).status();
    open(home, 0o1755);
    tiers
}

/// What the attacker does in the directory of checkpoints.
const IN_TIERS: &str = "
for i in $(seq -w 0 63); do cp -r ssd/0020 \"ssd/!$i\"; cp -r ssd/0021 $'ssd/\\e]0;'\"$i\"; done
mkdir deep && perl -e 'chdir q(deep); for (1..$ENV{nested}) { mkdir q(d) or exit; chdir q(d) or exit }'
mkdir wide && cd wide && for i in $(seq 3000); do : >\"rank-$i.manifest\"; done; cd ..
while sleep 0.2; do
  rm -rf flip && mkdir flip && rmdir flip && ln -s ../ssd flip
  mkdir -p ssd/swap && mv ssd/swap ssd/swapped && ln -s /etc ssd/swap; rm -rf ssd/swap ssd/swapped
  printf 'x\\n' >>memory/0030/journal.jsonl
done";

/// Connections that are begun and never finished, dripped into, or asked through and never read from.
const OVER_HTTP: &str = "
fds=()
for i in $(seq 120); do exec {fd}<>/dev/tcp/$place && printf G >&$fd && fds+=($fd); done
for i in $(seq 8); do
  exec {fd}<>/dev/tcp/$place && printf 'GET /api/v1/snapshot HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' $address >&$fd
done
while sleep 0.5; do
  for fd in ${fds[@]}; do printf x >&$fd; done
  (exec 3<>/dev/tcp/$place && head -c 200000 /dev/urandom >&3)
  (exec 3<>/dev/tcp/$place && yes 'GET / HTTP/1.1' | head -c 300000 >&3)
done";

/// Signals, which the kernel refuses, and whatever the watch lets others open.
const AT_THE_PROCESS: &str = "
while sleep 0.1; do
  for signal in TERM KILL STOP INT HUP USR1; do kill -$signal $pid; done
  for file in $run/* /proc/$pid/mem /proc/$pid/fd/*; do : >>$file; done
done 2>/dev/null";

/// Programs by the hundred, each another file, which are gone when somebody asks.
const CHURN: &str = "
while :; do
  for i in $(seq 12); do
    cp -f $program churn-$i && (timeout -s KILL 0.4 ./churn-$i stdio 20 500 1 0; rm -f churn-$i) &
  done; wait
done";

/// A process that holds all descriptors that it may have.
const HOARD: &str = "exec perl -e 'my @all; while (open my $one, q(<), q(/dev/null)) { push @all, $one } sleep 600'";

/// Programs of the attacker that interrupt core 1 for as long as they are let.
fn programs(folder: &Path) -> Vec<(std::path::PathBuf, String)> {
    let mut all = Vec::new();
    let plain = "exec $program stdio 1000000 4000 1 0".to_owned();
    for (name, size) in [("large", 1u64 << 46), ("larger", u64::MAX)] {
        let path = changed(folder, name, &["--compress-debug-sections=zlib"]);
        let mut program = fs::read(&path).unwrap();
        let at = section(&program, ".debug_info");
        program[at + 8..at + 16].copy_from_slice(&size.to_le_bytes());
        fs::write(&path, program).unwrap();
        all.push((path, plain.clone()));
    }
    let at = |name: &str| folder.join(name);
    for pipe in ["link", "alternative", "linked.dwp"] {
        assert!(Command::new("mkfifo").args(["-m", "666"]).arg(at(pipe)).status().unwrap().success());
    }
    let mut link = at("link").display().to_string().into_bytes();
    link.resize((link.len() + 1).next_multiple_of(4) + 4, 0);
    fs::write(at("link.section"), link).unwrap();
    let mut alternative = at("alternative").display().to_string().into_bytes();
    alternative.extend([0; 21]);
    fs::write(at("alternative.section"), alternative).unwrap();
    let link = format!("--add-section=.gnu_debuglink={}", at("link.section").display());
    let alternative = format!("--add-section=.gnu_debugaltlink={}", at("alternative.section").display());
    all.push((changed(folder, "linked", &[&link, &alternative]), plain.clone()));
    let mut doubling = "_Z1f4pairIiiE".to_owned();
    for last in "0123456789ABCDEFGHIJKLMNOPQ".chars() {
        doubling += &format!("S_IS{last}_S{last}_E");
    }
    for (name, symbol) in [("doubling", doubling.as_str()), ("\u{1b}]0;x\u{7}", "a\u{1b}[2J\u{9b}2J\u{202e}b")] {
        let path = changed(folder, name, &["-g", &format!("--redefine-sym=close_counter={symbol}")]);
        all.push((path, plain.clone()));
    }
    if cfg!(target_arch = "x86_64") {
        let made = |before: &str| format!("map=/tmp/perf-$$.map\n{before}\nexec $program made 1000000 4000 1 0");
        let odd = at("odd");
        fs::copy(ODD.path(), &odd).unwrap();
        all.push((odd.clone(), made("mkfifo $map")));
        all.push((odd.clone(), made("yes '1 1 a' | head -c 30000000 >$map")));
        all.push((odd.clone(), made("yes '1 1 a' | head -c 60000000 >$map")));
        let cut = "(while kill -0 $$; do yes '1 1 a' | head -c 20000000 >$map; truncate -s 0 $map; done; rm -f $map) &";
        all.push((odd, made(cut)));
    }
    all
}

/// The most memory that a process has had, KiB; 0 when it is gone.
fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}

/// What root is told of a job's durable checkpoints.
fn durable(jobs: &Value, name: &str) -> Vec<u64> {
    let job = jobs["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name);
    let job = job.unwrap_or_else(|| panic!("{name} is not in {jobs:#}"));
    let durable = job["generations"].as_array().unwrap().iter().filter(|one| one["tier"] == "durable");
    let mut numbers: Vec<u64> = durable.map(|one| one["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_host_of_attackers_neither_ends_nor_swells_nor_misleads_a_watch() {
    const NAME: &str = "a_host_of_attackers_neither_ends_nor_swells_nor_misleads_a_watch";
    let Some(_turn) = turn(NAME, Need::Ebpf) else { return };
    if !has_tools(NAME) {
        return;
    }
    if !has_program("perl") {
        return not_run(NAME, "perl is not installed");
    }
    let set_up = Instant::now();
    let seconds = if std::env::var_os("SUREFOOT_SOAK").is_some() { 60 } else { 15 };
    let tiers = tiers();
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (run, theirs) = (folder.path().join("run"), folder.path().join("theirs"));
    fs::create_dir(&theirs).unwrap();
    let programs = programs(&theirs);
    let _ = Command::new("chown").args(["-hR", &NOBODY.to_string()]).arg(&theirs).status();
    RAISER.path();
    let words = "watch --who 1 --port 0 --interval 500ms --json --checkpoints";
    let mut watch = surefoot(words).arg(tiers.0.path()).words("--history").arg(folder.path().join("history.db"));
    watch = watch.words("--run-directory").arg(&run).going_first();
    let begun = Instant::now();
    let mut watch = watch.start();
    watch.line_where(|line| line.contains("\"type\":\"window\""));
    let address = {
        let said = fs::read_to_string(run.join("page-url")).unwrap();
        said.trim().strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned()
    };
    let (pid, place, nested) = (watch.pid().to_string(), address.replace(':', "/"), NESTED.to_string());
    let run_text = run.display().to_string();
    let words: [(&str, &str); 5] =
        [("pid", &pid), ("place", &place), ("address", &address), ("nested", &nested), ("run", &run_text)];
    let plain = theirs.join("plain");
    fs::copy(RAISER.path(), &plain).unwrap();
    let attack_here = tiers.0.path().join("attack");
    let mut attackers: Vec<Shell> =
        [(OVER_HTTP, &theirs), (AT_THE_PROCESS, &theirs), (CHURN, &theirs), (HOARD, &theirs)]
            .iter()
            .map(|(script, here)| attack(script, &plain, here, &words))
            .collect();
    attackers.push(attack(IN_TIERS, &plain, &attack_here, &words));
    attackers.extend(programs.iter().map(|(program, script)| attack(script, program, &theirs, &words)));
    let mut honest = RAISER.start("stdio 2000 4000 1 0");

    // While it stands, others are served and told what is so.
    let (mut peak, mut reader_peak, mut asked) = (0, 0, 0);
    let mut jobs = Value::Null;
    while begun.elapsed() < Duration::from_secs(seconds) {
        let metrics = http::get(&address, "/metrics");
        assert_eq!(metrics.status, 200, "{}", metrics.body);
        let answer = http::get(&address, "/api/v1/checkpoints");
        assert_eq!(answer.status, 200, "{}", answer.body);
        jobs = serde_json::from_str(&answer.body).unwrap();
        asked += 1;
        peak = peak_kib(watch.pid()).max(peak);
        reader_peak = children(watch.pid()).into_iter().map(peak_kib).fold(reader_peak, u64::max);
        assert!(watch.is_running(), "{}", watch.stderr());
        std::thread::sleep(Duration::from_millis(200));
    }
    let health = fs::read_to_string(run.join("health.json")).unwrap();
    let truth = honest.answer();
    assert!(watch.is_running(), "{}", watch.stderr());
    watch.ask_to_end();
    let asked_to_end = Instant::now();
    while watch.is_running() {
        peak = peak_kib(watch.pid()).max(peak);
        assert!(asked_to_end.elapsed() < PATIENCE, "it does not end: {}", watch.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("ended after {} s", begun.elapsed().as_secs());
    drop(attackers);
    let finished = watch.finish();
    let release = binary().components().any(|part| part.as_os_str() == "release");
    println!("set up in {} s, taken down after {} s", (begun - set_up).as_secs(), begun.elapsed().as_secs());
    println!("{seconds} s, asked {asked} times: {peak} KiB, the reader of names {reader_peak} KiB");
    finished.expect_code(0);
    assert!(peak < if release { SHIPPED_KIB_MAX } else { DEBUG_KIB_MAX }, "{peak} KiB");
    assert!(reader_peak < READER_KIB_MAX, "{reader_peak} KiB");

    assert_eq!(durable(&jobs, "train"), [1, 2], "root's job is what it was: {jobs:#}");
    assert_eq!(durable(&jobs, &format!("train-of-neighbour (user {NEIGHBOUR})")), [2, 3], "the newest two: {jobs:#}");
    for words in ["555-0123", "65534", "\\u001b", "!00"] {
        assert!(!health.contains(words), "{words}: {health}");
    }
    let health: Value = serde_json::from_str(&health).unwrap();
    assert_eq!(health["rooms"]["checkpoint"]["severity"], "ok", "{health:#}");
    let harmless = |text: &str| text.chars().all(|letter| letter == '\n' || !surefoot_model::is_harmful(letter));
    assert!(harmless(&finished.stdout) && harmless(&finished.stderr), "{}", finished.stderr);
    let lines = finished.json();
    let last = of_type(&lines, "who").last().copied().expect("it says who raised what").clone();
    let raisers: Vec<&Value> =
        last["interrupts"].as_array().unwrap().iter().flat_map(|one| one["raisers"].as_array().unwrap()).collect();
    let honest: Vec<&&Value> = raisers.iter().filter(|raiser| raiser["pid"] == truth["pid"]).collect();
    let is_named = |raiser: &&&Value| raiser["user_stack"].to_string().contains("close_counter");
    assert!(honest.iter().any(is_named), "the honest program has its names: {honest:#?}");
}
