//! `surefoot memory page-offline --yes` on a kernel that really takes pages out of use: Debian's, in a guest. Machine checks are injected
//! at pages of this process, the watch keeps them, the command takes the pages out, and the kernel's own flags say whether it did.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use surefoot_e2e::command::binary;
use surefoot_testkit::guest::Guest;
use surefoot_testkit::not_run::not_run;

const PAGE_BYTES: usize = 4096;
const JOURNAL: &str = "/var/lib/surefoot/deeds.jsonl";
const HISTORY: &str = "/history.db";
/// Limits how long files may grow (util-linux).
const PRLIMIT: &str = "/usr/bin/prlimit";
/// How long the guest, all of whose instructions are emulated, is waited for.
const PATIENCE: Duration = Duration::from_secs(300);

#[test]
fn pages_of_a_real_kernel_are_moved_and_each_stop_is_known_afterwards() {
    const NAME: &str = "memory::page_offline::pages_of_a_real_kernel_are_moved_and_each_stop_is_known_afterwards";
    let guest = match Guest::find() {
        Ok(guest) => guest.with_module("mce-inject").with_module("hwpoison_inject"),
        Err(why) => return not_run(NAME, &why),
    };
    if !Path::new(PRLIMIT).exists() {
        return not_run(NAME, "there is no prlimit (util-linux)");
    }
    let small = tempfile::tempdir().unwrap();
    // What a debugger needs of them would take the guest longer to load than to run.
    let [command, own] = ["surefoot", "own"].map(|name| small.path().join(name));
    for (from, to) in [(binary(), &command), (&*std::env::current_exe().unwrap(), &own)] {
        let stripped = Command::new("llvm-strip").arg("-o").arg(to).arg(from).status();
        if !stripped.is_ok_and(|status| status.success()) {
            fs::copy(from, to).unwrap();
        }
    }
    // An Intel processor: its records name a channel.
    let guest = guest.with_file(Path::new(PRLIMIT), PRLIMIT).with_file(&command, "/surefoot");
    let guest = guest.with_device(&["-cpu", "max,vendor=GenuineIntel,family=6,model=85"]);
    let arguments = ["memory::page_offline::inside_", "--ignored", "--nocapture", "--test-threads=1"];
    let ran = guest.run(&own, &arguments, &[("RUST_BACKTRACE", "0")]).unwrap();
    println!("{}", ran.text);
    assert!(ran.code == Some(0) && ran.text.contains("1 passed"), "{:?}: {}\n{}", ran.code, ran.text, ran.console);
    // The kernel's own log has each page.
    assert!(ran.console.matches("Unpoison: Software-unpoisoned page").count() >= 1, "{}", ran.console);
}

/// Memory of this process whose pages are found by their numbers.
struct Victim {
    bytes: Vec<u8>,
    first: usize,
}

impl Victim {
    fn new(page_count: usize) -> Victim {
        let bytes = vec![0; (page_count + 1) * PAGE_BYTES];
        let first = bytes.as_ptr().align_offset(PAGE_BYTES);
        let mut victim = Victim { bytes, first };
        (0..page_count).for_each(|page| victim.page(page).fill(page as u8 + 1));
        victim
    }

    fn page(&mut self, page: usize) -> &mut [u8] {
        &mut self.bytes[self.first + page * PAGE_BYTES..][..PAGE_BYTES]
    }

    /// The frame that holds a page now.
    fn frame(&mut self, page: usize) -> u64 {
        let virtual_page = self.page(page).as_ptr() as u64 / PAGE_BYTES as u64;
        let entry = word("/proc/self/pagemap", virtual_page);
        assert!(entry >> 63 == 1, "page {page} is not in memory: {entry:#x}");
        entry & ((1 << 55) - 1)
    }

    fn is_whole(&mut self, page: usize) -> bool {
        self.page(page).iter().all(|byte| *byte == page as u8 + 1)
    }
}

fn word(path: &str, number: u64) -> u64 {
    let mut word = [0; 8];
    fs::File::open(path).unwrap().read_exact_at(&mut word, number * 8).unwrap();
    u64::from_ne_bytes(word)
}

fn is_poisoned(frame: u64) -> bool {
    word("/proc/kpageflags", frame) & 1 << 19 != 0
}

fn corrupted_kilobytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("HardwareCorrupted:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// A corrected read error of channel 0 at this frame, as mce-inject hands one to the kernel's own chain of readers.
fn inject(frame: u64) {
    let folder = Path::new("/sys/kernel/debug/mce-inject");
    let tell = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
    tell("flags", "sw");
    tell("cpu", "0");
    tell("status", "0x8c00004000010090");
    tell("misc", "0x8c");
    tell("addr", &format!("{:#x}", frame * PAGE_BYTES as u64));
    tell("bank", "4");
}

fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A watch that keeps what is reported.
fn watch() -> Child {
    let arguments = ["watch", "--no-page", "--history", HISTORY, "--run-directory", "/run/surefoot", "--interval", "1s"];
    let said = fs::File::create("/watch-said").unwrap();
    Command::new("/surefoot").args(arguments).stdout(Stdio::null()).stderr(said).spawn().unwrap()
}

fn kept_count() -> u64 {
    let arguments = ["history", "--file", HISTORY, "--room", "memory", "--json", "--last", "1h"];
    let output = Command::new("/surefoot").args(arguments).output().unwrap();
    let of_lines = lines(&output).into_iter().filter(|line| line["kind"] == "report" || line["body"]["location"].is_object());
    of_lines.count() as u64
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn page_offline(arguments: &[&str]) -> Output {
    let words = ["memory", "page-offline", "--json", "--page-rate", "3/24h"];
    let source: &[&str] = if arguments.contains(&"--undo") { &[] } else { &["--history", HISTORY] };
    let output = Command::new("/surefoot").args(words).args(source).args(arguments).output().unwrap();
    println!("{arguments:?}: {:?} {}", output.status.code(), String::from_utf8_lossy(&output.stderr));
    output
}

fn outcomes(output: &Output) -> Vec<(u64, String)> {
    let lines = lines(output);
    let pages = lines.iter().filter(|line| line["type"] == "page" || line["type"] == "page_restored");
    pages.map(|line| (line["address"].as_u64().unwrap() / PAGE_BYTES as u64, line["outcome"].as_str().unwrap().to_owned())).collect()
}

/// The last outcome of each page's deed, by frame.
fn told(frame: u64) -> Option<String> {
    let text = fs::read_to_string(JOURNAL).unwrap_or_default();
    let deeds = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_page = deeds.filter(|deed| deed["target"]["address"].as_u64() == Some(frame * PAGE_BYTES as u64));
    of_page.last().map(|deed| deed["outcome"]["kind"].as_str().unwrap().to_owned())
}

#[test]
#[ignore = "runs in a guest"]
fn inside_pages_are_moved_and_each_stop_is_known_afterwards() {
    const PAGES: usize = 12;
    for folder in ["/etc", "/var/lib", "/run/surefoot"] {
        fs::create_dir_all(folder).unwrap();
    }
    let mut victim = Victim::new(PAGES);
    let frames: Vec<u64> = (0..PAGES).map(|page| victim.frame(page)).collect();
    let mut watching = watch();
    await_that("the watch follows the trace", || {
        fs::read_dir("/sys/kernel/debug/tracing/instances").is_ok_and(|found| found.count() > 0)
    });
    std::thread::sleep(Duration::from_secs(3));
    // The first page has the most errors, each later one fewer, and the last one too few.
    for (page, &frame) in frames.iter().enumerate() {
        let count = if page + 1 == PAGES { 2 } else { 3 + usize::from(page == 0) };
        (0..count).for_each(|_| inject(frame));
    }
    let injected = (PAGES - 1) * 3 + 1 + 2;
    await_that("the history has each report", || kept_count() >= injected as u64);
    Command::new("kill").arg(watching.id().to_string()).status().unwrap();
    watching.wait().unwrap();

    // Without --yes nothing changes.
    let dry = page_offline(&[]);
    let planned = outcomes(&dry);
    let wanted = planned.iter().filter(|(_, outcome)| outcome == "planned").count();
    assert_eq!((dry.status.code(), wanted), (Some(0), PAGES - 1), "{planned:?}");
    assert!(frames.iter().all(|&frame| !is_poisoned(frame)) && corrupted_kilobytes() == 0);
    assert!(!Path::new(JOURNAL).exists());

    // A budget of one page: the worst page goes, its contents move, the rest is counted.
    let done = page_offline(&["--yes", "--module-budget", "1"]);
    let after = outcomes(&done);
    let of = |outcome: &str| after.iter().filter(|(_, one)| one == outcome).map(|(frame, _)| *frame).collect::<Vec<_>>();
    assert_eq!(of("offline"), [frames[0]], "{after:?}: {}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(of("over_module_budget").len(), PAGES - 2, "{after:?}");
    assert!(is_poisoned(frames[0]) && corrupted_kilobytes() == 4);
    assert!(victim.is_whole(0) && victim.frame(0) != frames[0]);
    assert_eq!(told(frames[0]).as_deref(), Some("done"));
    // Again: it is out already, and counts.
    let again = outcomes(&page_offline(&["--yes", "--module-budget", "1"]));
    assert!(again.contains(&(frames[0], "already_offline".to_owned())) && corrupted_kilobytes() == 4, "{again:?}");
    let host = outcomes(&page_offline(&["--yes", "--host-budget", "1"]));
    assert_eq!(host.iter().filter(|(_, one)| one == "over_host_budget").count(), PAGES - 2, "{host:?}");

    // A process that is ended at each write of its journal: the kernel refuses to let it grow beyond this length.
    let line_bytes = fs::metadata(JOURNAL).unwrap().len() / 2;
    for stop in [0, 1, line_bytes / 2, line_bytes - 1, line_bytes, line_bytes + 40, 2 * line_bytes, 5 * line_bytes / 2] {
        let limit = fs::metadata(JOURNAL).unwrap().len() + stop;
        let limit = format!("--fsize={limit}");
        let command = ["/surefoot", "memory", "page-offline", "--yes", "--page-rate", "3/24h", "--history", HISTORY];
        let stopped = Command::new(PRLIMIT).arg(limit).args(command).output().unwrap();
        println!("stop at {stop}: {:?} {}", stopped.status, String::from_utf8_lossy(&stopped.stderr));
        let poisoned: Vec<u64> = frames.iter().copied().filter(|&frame| is_poisoned(frame)).collect();
        // The next one, which may take nothing more, says what is so.
        page_offline(&["--yes", "--module-budget", "0"]);
        for &frame in &frames {
            let is_done = told(frame).as_deref() == Some("done");
            assert_eq!(is_done, poisoned.contains(&frame), "stop at {stop}: frame {frame:#x}: {:?}", told(frame));
        }
    }
    assert!((0..PAGES).all(|page| victim.is_whole(page)));

    // Then all of them, and back again.
    let done = outcomes(&page_offline(&["--yes"]));
    assert!(frames[..PAGES - 1].iter().all(|&frame| is_poisoned(frame)), "{done:?}");
    assert!(!is_poisoned(frames[PAGES - 1]), "below the rate");
    assert_eq!(corrupted_kilobytes(), 4 * (PAGES as u64 - 1));
    assert!((0..PAGES).all(|page| victim.is_whole(page)));
    let back = page_offline(&["--undo", "--yes"]);
    assert_eq!(back.status.code(), Some(0), "{:?}", outcomes(&back));
    assert!(frames.iter().all(|&frame| !is_poisoned(frame)) && corrupted_kilobytes() == 0, "{:?}", outcomes(&back));
    assert!(frames[..PAGES - 1].iter().all(|&frame| told(frame).as_deref() == Some("done")));
    std::io::stdout().flush().unwrap();
}
