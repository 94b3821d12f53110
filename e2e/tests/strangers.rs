//! What another user of the machine can see of a daemon of root's, and do to it: the real command, attacked as `nobody`.

use serde_json::Value;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::{Alone, Checkpointer, Config, Policy};
use surefoot_e2e::command::{PATIENCE, binary, surefoot};
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_model::{Event, Notice};
use surefoot_store::recording::{Existing, Reader, Writer};
use surefoot_testkit::not_run::not_run;

/// The user that owns nothing.
pub(crate) const NOBODY: u32 = 65_534;

/// A shell of that user.
pub(crate) fn nobody(script: &str) -> Command {
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(script).current_dir("/").uid(NOBODY).gid(NOBODY);
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

/// What that user is answered, the head with it.
pub(crate) fn asked_by_nobody(address: &str, path: &str, header: &str) -> String {
    let place = address.replace(':', "/");
    let script = format!(
        "exec 3<>/dev/tcp/{place}; printf 'GET {path} HTTP/1.0\\r\\nHost: {address}\\r\\n{header}\\r\\n' >&3; cat <&3"
    );
    let output = nobody(&script).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("HTTP/1."), "{path}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

pub(crate) fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

pub(crate) fn json(answer: &str) -> Value {
    serde_json::from_str(body(answer)).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

/// Looks again and again until it is as wanted.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path()));
    }
}

/// A directory in which everybody may keep checkpoints, with a job of root's called `train`, and one of that name and a
/// damaged one of the other user.
pub(crate) fn tiers() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let theirs = home.path().join("!theirs");
    for directory in ["memory", "ssd"] {
        fs::create_dir(home.path().join(directory)).unwrap();
    }
    let take = |name: &str, count: usize| {
        let mut config = Config::new(name, home.path().join("memory"), Some(home.path().join("ssd")));
        config.policy = Policy::Fixed(Fixed::PaperNth(1));
        config.set("drive_file", "none").unwrap();
        let mut job = Checkpointer::open(config, Box::new(Alone)).unwrap();
        fs::write(job.route_file("state").unwrap(), [7; 10_000]).unwrap();
        (0..count).for_each(|_| drop(job.checkpoint().unwrap()));
        job.finish().unwrap();
    };
    // Made as root, because the library is in this process, and then given away.
    take("train", 3);
    take("forged", 3);
    fs::create_dir(&theirs).unwrap();
    for tier in ["memory", "ssd"] {
        let (there, here) = (home.path().join(tier), theirs.join(tier));
        fs::create_dir(&here).unwrap();
        fs::rename(there.join("train"), here.join("train")).unwrap();
        fs::rename(there.join("forged"), here.join("forged")).unwrap();
    }
    for entry in fs::read_dir(theirs.join("ssd/forged")).unwrap() {
        let manifest = entry.unwrap().path().join("rank-00000.manifest");
        if manifest.exists() {
            fs::write(manifest, "All is lost; call 555-0123").unwrap();
        }
    }
    give(&theirs);
    take("train", 1);
    home
}

#[test]
fn another_user_sees_sums_and_his_own_jobs_and_forges_nobody_elses() {
    let Some(_turn) = turn("another_user_sees_sums_and_his_own_jobs_and_forges_nobody_elses", Need::Root) else {
        return;
    };
    let tiers = tiers();
    let run = tempfile::tempdir().unwrap();
    fs::set_permissions(run.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut watch = surefoot("watch --port 0 --interval 200ms").arg("--checkpoints").arg(tiers.path());
    watch = watch.arg("--run-directory").arg(run.path()).arg("--history").arg(run.path().join("history.db"));
    let mut running = watch.start();
    let line = running.line_where(|line| line.starts_with("page: "));
    let address = line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned();
    let get = |path: &str| serde_json::from_str::<Value>(&http::get(&address, path).body).unwrap();

    // Root sees both, each with its own checkpoints.
    let names = |answer: &Value| -> Vec<String> {
        let jobs = answer["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = wait_for("the jobs", || {
        let answer = get("/api/v1/checkpoints");
        (answer["jobs"].as_array().unwrap().len() == 3).then_some(answer)
    });
    assert_eq!(names(&all), ["forged (user 65534)", "train", "train (user 65534)"]);
    let numbers = |job: &Value| -> Vec<u64> {
        let durable = job["generations"].as_array().unwrap().iter().filter(|one| one["tier"] == "durable");
        durable.map(|one| one["number"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&all["jobs"][1]), [1], "root's job has what root saved and no more: {all:#}");
    assert_eq!(get("/api/v1/overview")["access"]["sees_all"], true);

    // The other user sees his own only.
    let theirs = json(&asked_by_nobody(&address, "/api/v1/checkpoints", ""));
    assert_eq!(names(&theirs), ["forged (user 65534)", "train (user 65534)"]);
    let overview = json(&asked_by_nobody(&address, "/api/v1/overview", ""));
    assert_eq!(overview["access"]["sees_all"], false);
    assert!(overview["access"]["why"].as_str().unwrap().contains("page-url"), "{overview}");
    assert!(!overview.to_string().contains("'train'"), "{overview}");
    let history = asked_by_nobody(&address, "/api/v1/history", "");
    assert_eq!(status(&history), 403, "{history}");
    let metrics = asked_by_nobody(&address, "/metrics", "");
    assert!(status(&metrics) == 200 && metrics.contains("surefoot_findings{"), "{metrics}");
    assert!(!metrics.contains("job=\"train\""), "{metrics}");
    assert!(http::get(&address, "/metrics").body.contains("job=\"train\""));
    assert_eq!(status(&asked_by_nobody(&address, "/api/v1/snapshot", "")), 200, "sums are for everybody");

    // Nothing that he wrote is taken for the host's word.
    let health = wait_for("the health of a look", || {
        let text = fs::read_to_string(run.path().join("health.json")).ok()?;
        let health: Value = serde_json::from_str(&text).unwrap();
        health["rooms"]["checkpoint"].is_object().then_some(text)
    });
    assert!(!health.contains("65534") && !health.contains("forged") && !health.contains("555-0123"), "{health}");
    let page = get("/api/v1/overview").to_string();
    assert!(page.contains("The newest checkpoint of job 'forged (user 65534)'"), "root is told of it: {page}");

    // A browser of his gets in with the address that root hands him, once.
    let file = run.path().join("page-url");
    assert!(!nobody(&format!("cat {}", file.display())).output().unwrap().status.success());
    let url = fs::read_to_string(&file).unwrap();
    let path = url.trim().strip_prefix(&format!("http://{address}")).unwrap().to_owned();
    let mut head = nobody(&format!(
        "exec 3<>/dev/tcp/{}; printf 'HEAD {path} HTTP/1.0\\r\\nHost: {address}\\r\\n\\r\\n' >&3; cat <&3",
        address.replace(':', "/")
    ));
    let head = String::from_utf8_lossy(&head.output().unwrap().stdout).into_owned();
    assert_eq!(status(&head), 405, "whoever only looks does not use it up: {head}");
    let opened = asked_by_nobody(&address, &path, "");
    assert_eq!(status(&opened), 303, "{opened}");
    let cookie =
        opened.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("set-cookie: ").map(str::to_owned));
    let cookie = cookie.unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(status(&asked_by_nobody(&address, &path, "")), 403, "it works once");
    let with_cookie = format!("Cookie: {cookie}\\r\\n");
    assert_eq!(json(&asked_by_nobody(&address, "/api/v1/overview", &with_cookie))["access"]["sees_all"], true);
    assert_eq!(status(&asked_by_nobody(&address, "/api/v1/history", &with_cookie)), 200);

    running.ask_to_end();
    running.finish().expect_code(0);
    assert!(!file.exists(), "the address is taken away at the end");
}

/// Ends a shell that a test started.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_user_who_hoards_connections_keeps_no_other_user_out() {
    let Some(_turn) = turn("a_user_who_hoards_connections_keeps_no_other_user_out", Need::Root) else { return };
    let mut running = surefoot("watch --port 0 --interval 200ms --no-history --run-directory");
    let run = tempfile::tempdir().unwrap();
    running = running.arg(run.path());
    let mut running = running.start();
    let line = running.line_where(|line| line.starts_with("page: "));
    let address = line.trim().strip_prefix("page: http://").and_then(|rest| rest.strip_suffix('/')).unwrap().to_owned();
    let place = address.replace(':', "/");
    // Each begins a request and never ends it.
    let script = format!(
        "for i in $(seq 100); do exec {{fd}}<>/dev/tcp/{place} && printf G >&$fd; done; echo ready; exec sleep 60"
    );
    let mut hoarder = Ended(nobody(&script).process_group(0).spawn().unwrap());
    let mut ready = [0; 6];
    hoarder.0.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    assert_eq!(status(&asked_by_nobody(&address, "/metrics", "")), 503, "he has had his share");
    assert_eq!(http::get(&address, "/metrics").status, 200);
    drop(hoarder);
    running.ask_to_end();
    running.finish().expect_code(0);
}

/// The longest run of text in which nothing commands a terminal is all of it.
fn is_harmless(text: &str) -> bool {
    text.chars().all(|letter| letter == '\n' || letter == '\t' || !surefoot_model::is_harmful(letter))
}

#[test]
fn names_of_strangers_command_no_terminal() {
    let Some(_turn) = turn("names_of_strangers_command_no_terminal", Need::Nothing) else { return };
    let hostile = "x\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}\u{2028}y";
    let folder = tempfile::tempdir().unwrap();
    let recorded = folder.path().join("plain.surefoot");
    surefoot("stall record --duration 400ms --interval 100ms --output").arg(&recorded).run().expect_code(0);
    // What a colleague sends may have been written by anybody.
    let file = folder.path().join("sent.surefoot");
    let mut writer = Writer::create(&file, Existing::Refuse).unwrap();
    for mut event in Reader::open(&recorded).unwrap() {
        if let Event::Host(host) = &mut event {
            host.hostname = hostile.to_owned();
            host.missing = hostile.to_owned();
        }
        writer.append(&event).unwrap();
    }
    writer.append(&Event::Notice(Notice { at_ns: 1, text: hostile.to_owned() })).unwrap();
    writer.finish().unwrap();
    let text = surefoot("stall replay --rooms all").arg(&file).run();
    text.expect_code(0);
    assert!(text.stdout.contains("owned") && is_harmless(&text.stdout), "{:?}", text.stdout);
    let json = surefoot("stall replay --rooms all --json").arg(&file).run();
    json.expect_code(0);
    assert!(is_harmless(&json.stdout), "{:?}", json.stdout);
    let lines = json.json();
    assert!(lines.iter().any(|line| line["hostname"] == hostile), "what it says is what was recorded: {lines:?}");
    let refused = surefoot("stall replay").arg(folder.path().join(hostile)).run();
    assert!(refused.stderr.contains("owned") && is_harmless(&refused.stderr), "{:?}", refused.stderr);
}

/// A unit of contrib/systemd.
pub(crate) fn unit(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../contrib/systemd").join(name)
}

/// The service of a watch with everything that its drop-ins allow.
pub(crate) fn service_with_drop_ins() -> String {
    let texts = [
        "surefoot.service",
        "surefoot.service.d/who.conf",
        "surefoot.service.d/checkpoints.conf",
        "surefoot.service.d/listen.conf",
    ]
    .map(unit);
    texts.map(|path| fs::read_to_string(path).unwrap()).concat()
}

#[test]
fn the_services_are_contained() {
    let Some(_turn) = turn("the_services_are_contained", Need::Nothing) else { return };
    let home = tempfile::tempdir().unwrap();
    // Tenths of systemd's measure of exposure: 100 is all that root can do, 96 a service without any limit.
    for (name, exposure_max) in [
        ("surefoot.service", "30"),
        ("surefoot-drives.service", "21"),
        ("surefoot-interfaces.service", "33"),
        ("surefoot-retention@.service", "25"),
        ("surefoot-remedy.service", "27"),
        ("surefoot-remedy-agent.service", "26"),
        ("surefoot-remedy-agent-orders.service", "36"),
    ] {
        // By itself: systemd takes the drop-ins beside a unit for its own, and those are a person's choice.
        let alone = home.path().join(name);
        fs::copy(unit(name), &alone).unwrap();
        let mut check = Command::new("systemd-analyze");
        check.args(["security", "--offline=true", "--no-pager", "--threshold", exposure_max]).arg(&alone);
        let Ok(output) = check.output() else {
            return not_run("the_services_are_contained", "there is no systemd-analyze");
        };
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

/// The capabilities of a unit, as `setpriv --bounding-set` takes them.
pub(crate) fn capabilities(unit: &str) -> String {
    let sets = unit.lines().filter_map(|line| line.strip_prefix("CapabilityBoundingSet="));
    let names = sets.flat_map(|set| set.split(' '));
    names.map(|name| format!(",+{}", name.strip_prefix("CAP_").unwrap().to_lowercase())).collect()
}

#[test]
fn the_service_needs_no_more_than_its_capabilities() {
    let Some(_turn) = turn("the_service_needs_no_more_than_its_capabilities", Need::Ebpf) else { return };
    let text = fs::read_to_string(unit("surefoot.service")).unwrap();
    let kept = capabilities(&text);
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("no watch");
    let status = |bounded: bool| {
        // The service wants tracefs mounted, as systemd mounts it; here nobody else sees it.
        const MOUNTED: &str = "mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null; exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", MOUNTED, "sh"]);
        if bounded {
            command.args(["setpriv", &format!("--bounding-set=-all{kept}"), "--no-new-privs"]);
        }
        let output = command.arg(binary()).arg("status").arg("--run-directory").arg(&nowhere).output().ok()?;
        Some((String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success()))
    };
    // Other tests set up devices and end them meanwhile: what is compared is what stood still.
    let begun = Instant::now();
    let (with, is_well, without) = loop {
        let Some((before, _)) = status(false) else { panic!("the command does not run") };
        let Some((with, is_well)) = status(true) else {
            return not_run("the_service_needs_no_more_than_its_capabilities", "there is no setpriv");
        };
        let Some((after, _)) = status(false) else { panic!("the command does not run") };
        if before == after && (with == after || begun.elapsed() > PATIENCE) {
            break (with, is_well, after);
        }
        assert!(begun.elapsed() <= 2 * PATIENCE, "it changes all the time:\n{before}\n{after}");
    };
    assert!(is_well && with == without, "with the service's capabilities:\n{with}\nwith all:\n{without}");
}
