//! What a running watch may do, and what it tells an ordinary user of what root runs: the real command, with the service's
//! own limits.

use crate::strangers::{
    NOBODY, asked_by_nobody, body, capabilities, json, nobody, service_with_drop_ins, status, wait_for,
};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use surefoot_e2e::actor::{self, Actor, RAISER};
use surefoot_e2e::command::{PATIENCE, Running, binary, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};

/// What a watch with `--who` and `--checkpoints` may do once it runs, as docs/guide/security.md says.
const LASTING: [&str; 10] = [
    "CAP_DAC_READ_SEARCH",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
    "CAP_SYS_PTRACE",
    "CAP_SYSLOG",
    "CAP_PERFMON",
    "CAP_BPF",
    "CAP_CHECKPOINT_RESTORE",
];
const LASTING_BITS: u64 = 0x1c4_000c_00e4;

/// A run directory that others may look into, as the service has it.
fn run_directory() -> tempfile::TempDir {
    let run = tempfile::tempdir().unwrap();
    fs::set_permissions(run.path(), fs::Permissions::from_mode(0o755)).unwrap();
    run
}

fn address(running: &mut Running) -> String {
    let line = running.line_where(|line| line.starts_with("page: "));
    line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned()
}

/// What somebody is answered over the socket of a run directory.
fn asked_over_socket(uid: u32, run: &Path, path: &str) -> String {
    const ASK: &str = r#"$s = IO::Socket::UNIX->new($ARGV[0]) or die "$!\n";
        print $s "GET $ARGV[1] HTTP/1.0\r\nHost: localhost\r\n\r\n"; $s->flush; print while <$s>;"#;
    let mut perl = nobody("exec perl -MIO::Socket::UNIX -e \"$ask\" \"$socket\" \"$path\"");
    perl.env("ask", ASK).env("socket", run.join("http.sock")).env("path", path);
    std::os::unix::process::CommandExt::uid(&mut perl, uid);
    let output = perl.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("HTTP/1."), "{path}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A program of nobody's whose thread unmaps memory under one that polls on core 1.
fn raiser_of_nobody(folder: &Path) -> (Actor, Value) {
    let program = folder.join("raiser");
    fs::copy(RAISER.path(), &program).unwrap();
    let mut raiser = actor::start_script_as_nobody("exec $program stdio 400 2000 1 0", &program, folder);
    // It says so when it is done; its threads stay.
    let truth = raiser.answer();
    (raiser, truth)
}

/// The set of a line such as `CapEff` of every thread of a process, in hexadecimal.
pub(crate) fn sets(pid: u32, name: &str) -> Vec<u64> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("status")).ok());
    let word = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned)).unwrap();
        u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
    };
    texts.map(word).collect()
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<_>>()).collect()
}

/// The command with the service's capabilities and no more.
fn as_service() -> Command {
    let text = service_with_drop_ins();
    let kept = capabilities(&text);
    let mut command = Command::new("setpriv");
    command.arg(format!("--bounding-set=-all{kept}")).arg("--no-new-privs").arg(binary());
    command
}

/// Ends the watch of a test in the end.
struct Watch(std::process::Child);

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_watch_keeps_what_it_needs_in_every_thread_and_still_names_and_sees_what_others_own() {
    let test = "a_watch_keeps_what_it_needs_in_every_thread_and_still_names_and_sees_what_others_own";
    let Some(_turn) = turn(test, Need::Ebpf) else { return };
    let (run, tiers, theirs) = (run_directory(), crate::strangers::tiers(), tempfile::tempdir().unwrap());
    std::os::unix::fs::chown(theirs.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = as_service();
    command.args(["watch", "--port", "0", "--interval", "500ms", "--no-history", "--who", "1"]);
    command.arg("--checkpoints").arg(tiers.path()).arg("--run-directory").arg(run.path());
    let mut watch = Watch(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let pid = watch.0.id();
    let ask = |path: &str| json(&asked_over_socket(0, run.path(), path));
    wait_for("the socket", || run.path().join("http.sock").exists().then_some(()));
    wait_for("the first window", || (!ask("/api/v1/overview")["age_ns"].is_null()).then_some(()));

    // All its threads, those of the page included, run with what is stated.
    wait_for("the end of the beginning", || sets(pid, "CapEff").iter().all(|&set| set == LASTING_BITS).then_some(()));
    for set in ["CapEff", "CapPrm", "CapBnd"] {
        assert!(sets(pid, set).iter().all(|&set| set == LASTING_BITS), "{set}: {:x?}", sets(pid, set));
    }
    for set in ["CapInh", "CapAmb"] {
        assert!(sets(pid, set).iter().all(|&set| set == 0), "{set}");
    }
    assert!(sets(pid, "NoNewPrivs").iter().all(|&is_set| is_set == 1));
    let told = surefoot("status --json --run-directory").arg(run.path()).run();
    let told = told.json().into_iter().find(|line| line["type"] == "running_watch").unwrap();
    assert_eq!((&told["pid"], &told["uid"]), (&Value::from(pid), &Value::from(0)));
    assert_eq!(told["capabilities"], Value::from(LASTING.to_vec()));
    assert_eq!((&told["no_new_privileges"], &told["seccomp"]), (&Value::from(true), &Value::from("none")));
    let text = surefoot("status --run-directory").arg(run.path()).run().stdout;
    assert!(text.contains(&format!("A watch runs: process {pid}, of user 0")) && text.contains("CAP_BPF"), "{text}");

    // Jobs in directories of another user, which only he may read.
    let jobs = wait_for("the jobs", || {
        let jobs = ask("/api/v1/checkpoints")["jobs"].as_array().unwrap().clone();
        (jobs.len() == 3).then_some(jobs)
    });
    assert_eq!(jobs[2]["name"], "train (user 65534)");

    // Functions of another user's program, also after the child that reads them has ended.
    let is_named = |truth: &Value| {
        let who = ask("/api/v1/who")["who"].clone();
        let raisers = who["interrupts"].as_array()?.iter().flat_map(|row| row["raisers"].as_array().unwrap().clone());
        let own: Vec<Value> = raisers.filter(|raiser| raiser["pid"] == truth["pid"]).collect();
        own.iter().any(|raiser| raiser["user_stack"].to_string().contains("close_counter")).then_some(())
    };
    let (_first, truth) = raiser_of_nobody(theirs.path());
    wait_for("names of another user's functions", || is_named(&truth));
    // Beside it, one child opens files and has no more rights than the watch.
    let text_of = |child: &u32| fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
    let child = wait_for("the child that reads names", || {
        children(pid).into_iter().find(|child| text_of(child).contains("Uid:\t2147000000"))
    });
    assert!(text_of(&child).contains("CapPrm:\t0000000000000000"), "{}", text_of(&child));
    for child in children(pid) {
        assert!(sets(child, "CapPrm").iter().all(|&set| set & !LASTING_BITS == 0), "{}", text_of(&child));
    }
    surefoot_e2e::machine::signal(child, "KILL");
    let (_second, truth) = raiser_of_nobody(&{
        let folder = theirs.path().join("again");
        fs::create_dir(&folder).unwrap();
        std::os::unix::fs::chown(&folder, Some(NOBODY), Some(NOBODY)).unwrap();
        folder
    });
    wait_for("names by another child", || is_named(&truth));
    surefoot_e2e::machine::signal(pid, "TERM");
    assert!(watch.0.wait().unwrap().success());
    assert!(!run.path().join("http.sock").exists(), "the socket is taken away at the end");
}

#[test]
fn the_socket_knows_who_asks_and_a_running_watch_answers_over_it() {
    let Some(_turn) = turn("the_socket_knows_who_asks_and_a_running_watch_answers_over_it", Need::Ebpf) else { return };
    let run = run_directory();
    let mut running =
        surefoot("watch --port 0 --interval 500ms --no-history --who 1 --run-directory").arg(run.path()).start();
    address(&mut running);
    let socket = run.path().join("http.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o666);
    let sees_all = |uid| json(&asked_over_socket(uid, run.path(), "/api/v1/overview"))["access"]["sees_all"].clone();
    assert_eq!((sees_all(0), sees_all(NOBODY)), (Value::from(true), Value::from(false)));
    assert_eq!(status(&asked_over_socket(NOBODY, run.path(), "/api/v1/snapshot")), 200, "sums are for everybody");
    let refused = asked_over_socket(0, run.path(), "/api/v1/nothing");
    assert_eq!(status(&refused), 404);

    // `stall who` takes this way: the port that is told leads nowhere.
    let told = fs::read_to_string(run.path().join("address")).unwrap();
    let elsewhere = told.replacen(told.split(' ').next().unwrap(), "127.0.0.1:9", 1);
    fs::write(run.path().join("address"), elsewhere).unwrap();
    wait_for("a report of raisers", || {
        (!json(&asked_over_socket(0, run.path(), "/api/v1/who"))["who"].is_null()).then_some(())
    });
    let who = surefoot("stall who --cpu 1 --run-directory").arg(run.path()).run();
    who.expect_code(0);
    assert!(!who.stderr.contains("attaching"), "it attaches nothing of its own: {}", who.stderr);

    // One user takes all he can get: a place is left for root, and for others.
    let hoard = "for (1..100) { $s = IO::Socket::UNIX->new($ARGV[0]) or last; syswrite $s, 'G'; push @all, $s } \
                 $| = 1; print \"ready\\n\"; sleep 60";
    let mut hoarder = nobody("exec perl -MIO::Socket::UNIX -e \"$hoard\" \"$socket\"");
    let mut hoarder = Watch(hoarder.env("hoard", hoard).env("socket", &socket).spawn().unwrap());
    let mut ready = [0; 6];
    std::io::Read::read_exact(hoarder.0.stdout.as_mut().unwrap(), &mut ready).unwrap();
    assert_eq!(status(&asked_over_socket(NOBODY, run.path(), "/metrics")), 503, "he has had his share");
    assert_eq!(status(&asked_over_socket(0, run.path(), "/metrics")), 200);
    drop(hoarder);
    running.ask_to_end();
    running.finish().expect_code(0);
}

/// A name that stands nowhere else; each thing that is planted has it in its own.
const SECRET: &str = "zq7";

/// Processes of root with names of their own: what raises interrupts, what takes the core, what writes messages.
fn planted(folder: &Path) -> Vec<Actor> {
    let program = folder.join(format!("{SECRET}raiser"));
    let mut bytes = fs::read(RAISER.path()).unwrap();
    // What its threads call themselves.
    for name in ["stats", "poller"] {
        let places: Vec<usize> = bytes
            .windows(name.len() + 1)
            .enumerate()
            .filter(|(_, part)| *part == format!("{name}\0").as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "{name}");
        places.into_iter().for_each(|at| bytes[at..at + 3].copy_from_slice(SECRET.as_bytes()));
    }
    fs::write(&program, bytes).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let raiser = actor::start_file(&program, "stdio 100000 200 1 0");
    let spinner = actor::start(&format!("{SECRET}spinner"), "spin 1 60000");
    let intruder = actor::start(&format!("{SECRET}intruder"), "nap 1 60000");
    vec![raiser, spinner, intruder]
}

/// Writes messages to the kernel's log from a process of this name.
fn write_messages() {
    let script = format!(
        "printf {SECRET}writer > /proc/$$/comm; for i in 1 2 3 4; do echo '<4>a test of surefoot writes this' > /dev/kmsg; done"
    );
    let _ = Command::new("sh").arg("-c").arg(script).output();
}

#[test]
fn nobody_learns_what_root_runs() {
    let Some(_turn) = turn("nobody_learns_what_root_runs", Need::Ebpf) else { return };
    actor::prepare();
    RAISER.path();
    let (run, folder) = (run_directory(), tempfile::tempdir().unwrap());
    let _planted = planted(folder.path());
    let options = "watch --port 0 --interval 300ms --no-history --cpu 1 --who 1 --min-gap 100us --metrics-detail cause --run-directory";
    let mut running = surefoot(options).arg(run.path()).start();
    let address = address(&mut running);
    // As long as nothing is seen of them by root, there is nothing to hide.
    wait_for("root to see who took the core and who raised", || {
        write_messages();
        let seen = ["/api/v1/snapshot", "/api/v1/report", "/api/v1/who", "/metrics"]
            .map(|path| http::get(&address, path).body.contains(SECRET));
        (seen == [true; 4]).then_some(())
    });
    let known = json(&asked_by_nobody(&address, "/api/v1/nothing", ""));
    let known = known["error"].as_str().unwrap().split_once("there are ").unwrap().1.to_owned();
    let mut looked_at = 0;
    for path in known.split(", ").chain(["/api/v1/nothing", "/app.js"]) {
        // The stream of events has no end, and is listened to for a while.
        let texts = match path {
            "/api/v1/events" => vec![asked_by_nobody_for_a_while(&address, path)],
            _ => vec![asked_by_nobody(&address, path, ""), asked_over_socket(NOBODY, run.path(), path)],
        };
        for text in texts {
            assert!(!text.contains(SECRET), "{path}: {}", around(&text));
            looked_at += usize::from(status(&text) == 200);
        }
    }
    assert!(looked_at >= 12, "{looked_at} answers of {known}");
    // Everybody may read these.
    for file in fs::read_dir(run.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let read = nobody(&format!("cat {}", file.display())).output().unwrap();
        assert!(!String::from_utf8_lossy(&read.stdout).contains(SECRET), "{}", file.display());
    }
    let text = asked_by_nobody(&address, "/metrics", "");
    assert!(body(&text).contains("kind=\"preemption\",name=\"another task\""), "sums are for everybody");
    running.ask_to_end();
    running.finish().expect_code(0);
}

/// What a user without rights is told within three seconds from the first line on, where the answer has no end.
fn asked_by_nobody_for_a_while(address: &str, path: &str) -> String {
    let place = address.replace(':', "/");
    let patience = PATIENCE.as_secs();
    let script = format!(
        "exec 3<>/dev/tcp/{place}; printf 'GET {path} HTTP/1.0\\r\\nHost: {address}\\r\\n\\r\\n' >&3; \
         IFS= read -r -t {patience} line <&3; printf '%s\\n' \"$line\"; timeout 3 cat <&3"
    );
    String::from_utf8_lossy(&nobody(&script).output().unwrap().stdout).into_owned()
}

fn around(text: &str) -> &str {
    let at = text.find(SECRET).unwrap_or(0);
    let (mut from, mut to) = (at.saturating_sub(150), (at + 150).min(text.len()));
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    while !text.is_char_boundary(to) {
        to += 1;
    }
    &text[from..to]
}

#[test]
fn connects_that_are_cut_leave_nothing_behind() {
    let Some(_turn) = turn("connects_that_are_cut_leave_nothing_behind", Need::Root) else { return };
    let run = run_directory();
    let mut running = surefoot("watch --port 0 --interval 200ms --no-history --run-directory").arg(run.path()).start();
    let address = address(&mut running);
    let pid = running.pid();
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let resident_kib = || {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().split(' ').next().unwrap().parse::<u64>().unwrap()
    };
    // Half over each way; some say nothing, some half a request, some cut at once with a reset.
    let cut = r#"use Socket; for (1..$ARGV[2]) {
        my $s = $_ % 2 ? IO::Socket::INET->new($ARGV[0]) : IO::Socket::UNIX->new($ARGV[1]); next unless $s;
        syswrite $s, "GET /api/v1/snapshot HTTP/1.1\r\nHost: local" if $_ % 3;
        setsockopt $s, SOL_SOCKET, SO_LINGER, pack("ii", 1, 0) if $_ % 5 == 0; close $s }"#;
    let connect = |count: u32| {
        let mut perl =
            nobody("exec perl -MIO::Socket::INET -MIO::Socket::UNIX -e \"$cut\" \"$address\" \"$socket\" \"$count\"");
        perl.env("cut", cut).env("address", &address).env("socket", run.path().join("http.sock"));
        assert!(perl.env("count", count.to_string()).output().unwrap().status.success());
    };
    // Sources open their files with their first looks, and keep some of them.
    let before = wait_for("the sources to have looked", || {
        let first = descriptors();
        std::thread::sleep(std::time::Duration::from_secs(2));
        (descriptors() == first).then_some(first)
    });
    let quiet = || wait_for("the places to be free", || (descriptors() <= before + 4).then_some(()));
    connect(300);
    quiet();
    let before_kib = resident_kib();
    connect(3_000);
    quiet();
    let more_kib = resident_kib().saturating_sub(before_kib);
    assert!(more_kib < 8 << 10, "{more_kib} KiB more");
    assert_eq!(http::get(&address, "/api/v1/overview").status, 200);
    running.ask_to_end();
    running.finish().expect_code(0);
}
