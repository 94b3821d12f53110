//! `surefoot memory page-offline --yes` on a kernel that really takes pages out of use: Debian's, in a guest. Machine checks are injected
//! at pages of this process, the history gets what the kernel logs of them, the command takes the pages out, and the kernel's own flags say
//! whether it did.

use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use surefoot_e2e::command::binary;
use surefoot_testkit::guest::Guest;
use surefoot_testkit::not_run::not_run;

const PAGE_BYTES: usize = 4096;
const JOURNAL: &str = "/var/lib/surefoot/deeds.jsonl";
const HISTORY: &str = "/var/lib/history/history.db";
/// The name of the guest.
const HOST: &str = "guest";
/// Limits how long files may grow (util-linux).
const PRLIMIT: &str = "/usr/bin/prlimit";
/// How long the guest, all of whose instructions are emulated, is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn pages_of_a_real_kernel_are_moved_and_each_stop_is_known_afterwards() {
    const NAME: &str = "memory::page_offline::pages_of_a_real_kernel_are_moved_and_each_stop_is_known_afterwards";
    if !Path::new(PRLIMIT).exists() {
        return not_run(NAME, "there is no prlimit (util-linux)");
    }
    let small = tempfile::tempdir().unwrap();
    let Some((guest, own)) = guest(NAME, small.path()) else { return };
    let guest = guest.with_file(Path::new(PRLIMIT), PRLIMIT);
    let arguments = ["memory::page_offline::inside_pages", "--ignored", "--nocapture", "--test-threads=1"];
    let ran = guest.run(&own, &arguments, &[("RUST_BACKTRACE", "0")]).unwrap();
    println!("{}", ran.text);
    assert!(ran.code == Some(0) && ran.text.contains("1 passed"), "{:?}: {}\n{}", ran.code, ran.text, ran.console);
}

/// A guest with the command and these tests in it, without what a debugger needs of them, which would take longer to load than to run.
fn guest(test: &str, folder: &Path) -> Option<(Guest, PathBuf)> {
    let guest = match Guest::find() {
        Ok(guest) => guest.with_module("mce-inject").with_module("hwpoison_inject"),
        Err(why) => {
            not_run(test, &why);
            return None;
        }
    };
    let [command, own] = ["surefoot", "own"].map(|name| folder.join(name));
    for (from, to) in [(binary(), &command), (&*std::env::current_exe().unwrap(), &own)] {
        let stripped = Command::new("llvm-strip").arg("-o").arg(to).arg(from).status();
        if !stripped.is_ok_and(|status| status.success()) {
            fs::copy(from, to).unwrap();
        }
    }
    // An Intel processor: its records name a channel.
    let intel = ["-cpu", "max,vendor=GenuineIntel,family=6,model=85"];
    Some((guest.with_file(&command, "/surefoot").with_device(&intel), own))
}

#[test]
fn the_owner_of_a_lost_page_is_told_with_its_file_and_its_copy() {
    const NAME: &str = "memory::page_offline::the_owner_of_a_lost_page_is_told_with_its_file_and_its_copy";
    let small = tempfile::tempdir().unwrap();
    let Some((guest, own)) = guest(NAME, small.path()) else { return };
    // A disk with the program on it, whose pages can be read again from there.
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().map(Path::new).find(|path| path.exists()).unwrap();
    let files = small.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::copy(busybox, files.join("busybox")).unwrap();
    let disk = small.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("/sbin/mke2fs").args(["-q", "-F", "-t", "ext2", "-d"]).arg(&files).arg(&disk).status();
    if !made.is_ok_and(|status| status.success()) {
        return not_run(NAME, "mke2fs (e2fsprogs) makes no file system here");
    }
    let drive = format!("if=virtio,format=raw,file={}", disk.display());
    let guest = ["virtio_pci", "virtio_blk", "crc32c_generic", "ext4"].into_iter().fold(guest, Guest::with_module);
    let guest = guest.with_device(&["-drive", &drive]);
    let arguments = ["memory::page_offline::inside_the_owner", "--ignored", "--nocapture", "--test-threads=1"];
    let ran = guest.run(&own, &arguments, &[("RUST_BACKTRACE", "0")]).unwrap();
    println!("{}", ran.text);
    assert!(ran.code == Some(0) && ran.text.contains("1 passed"), "{:?}: {}\n{}", ran.code, ran.text, ran.console);
}

/// A frame of a mapping of a process, and where the page is in it.
fn mapped(pid: u32, is_wanted: impl Fn(&str) -> bool) -> (u64, u64) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    for line in maps.lines().filter(|line| is_wanted(line)) {
        let (start, rest) = line.split_once('-').unwrap();
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap() / PAGE_BYTES as u64;
        let pages = number(start)..number(rest.split(' ').next().unwrap());
        for page in pages.rev() {
            let entry = word(&format!("/proc/{pid}/pagemap"), page);
            let frame = entry & ((1 << 55) - 1);
            if entry >> 63 == 1 && word("/proc/kpagecount", frame) == 1 {
                return (frame, page * PAGE_BYTES as u64);
            }
        }
    }
    panic!("no page of its own: {maps}");
}

fn owner(arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let output = Command::new("/surefoot").args(["memory", "owner", "--json"]).args(arguments).output().unwrap();
    let text = Command::new("/surefoot").args(["memory", "owner"]).args(arguments).output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&text.stdout), String::from_utf8_lossy(&text.stderr));
    let lines = lines(&output).into_iter().filter(|line| line["type"] == "page_owner").collect();
    (output.status.code(), lines)
}

fn of_frame(lines: &[Value], frame: u64) -> Value {
    let address = frame * PAGE_BYTES as u64;
    lines.iter().find(|line| line["address"] == address).unwrap_or_else(|| panic!("{address:#x}: {lines:#?}")).clone()
}

#[test]
#[ignore = "runs in a guest"]
fn inside_the_owner_of_a_lost_page_is_told() {
    fs::create_dir_all("/disk").unwrap();
    let mounted = Command::new("/bin/mount").args(["-t", "ext4", "-o", "ro", "/dev/vda", "/disk"]).status().unwrap();
    assert!(mounted.success());
    let mut solver = Command::new("/disk/busybox").args(["sleep", "10000"]).spawn().unwrap();
    let pid = solver.id();
    std::thread::sleep(Duration::from_secs(2));
    let (of_file, file_at) = mapped(pid, |line| line.contains("/disk/busybox") && line.contains(" r-xp "));
    let (of_stack, stack_at) = mapped(pid, |line| line.ends_with("[stack]"));
    let (of_data, _) = mapped(pid, |line| line.trim_end().ends_with("rw-p 00000000 00:00 0"));
    // Before anything is lost: whose the pages are.
    let [file, stack] = [of_file, of_stack].map(|frame| format!("{:#x}", frame * PAGE_BYTES as u64));
    let (code, lines) = owner(&[&file, &stack]);
    assert_eq!(code, Some(0), "{lines:?}");
    let one = of_frame(&lines, of_file);
    assert_eq!(
        (&one["kind"], &one["copy"], &one["uses"][0]["pid"]),
        (&"file".into(), &"on_disk".into(), &pid.into()),
        "{one}"
    );
    assert_eq!(
        (&one["uses"][0]["mapping"], &one["uses"][0]["virtual_address"]),
        (&"/disk/busybox".into(), &file_at.into()),
        "{one}"
    );
    let one = of_frame(&lines, of_stack);
    assert_eq!((&one["kind"], &one["copy"]), (&"anonymous".into(), &"none".into()), "{one}");
    assert_eq!((&one["uses"][0]["name"], &one["uses"][0]["mapping"]), (&"busybox".into(), &"[stack]".into()), "{one}");
    // The kernel loses the program's page and one of its stack, as its own injector says; and one of its data to a machine check.
    for frame in [of_file, of_stack] {
        fs::write("/sys/kernel/debug/hwpoison/corrupt-pfn", format!("{frame:#x}")).unwrap();
    }
    inject_lost(of_data);
    await_that("the kernel gives up the page of the machine check", || is_poisoned(of_data));
    let (code, lines) = owner(&[]);
    assert_eq!(code, Some(1), "{lines:?}");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    let one = of_frame(&lines, of_file);
    assert_eq!((&one["copy"], &one["lost_result"]), (&"on_disk".into(), &"Recovered".into()), "{one}");
    for frame in [of_stack, of_data] {
        let one = of_frame(&lines, frame);
        assert_eq!((&one["kind"], &one["copy"]), (&"out_of_use".into(), &"none".into()), "{one}");
        assert_eq!((&one["uses"][0]["pid"], &one["uses"][0]["is_lost"]), (&pid.into(), &true.into()), "{one}");
    }
    assert_eq!(of_frame(&lines, of_stack)["uses"][0]["virtual_address"], stack_at);
    // It goes on without knowing, and has not been ended.
    assert!(solver.try_wait().unwrap().is_none());
    // After a real uncorrected error this kernel puts nothing back.
    solver.kill().unwrap();
    solver.wait().unwrap();
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
    tell("flags", "sw\n");
    tell("cpu", "0");
    tell("status", "0x8c00004000010090");
    tell("misc", "0x8c");
    tell("addr", &format!("{:#x}", frame * PAGE_BYTES as u64));
    tell("bank", "4");
}

/// An uncorrected error that a scrubber found and nobody has used (action optional), as registers of the processor and an exception.
fn inject_lost(frame: u64) {
    let folder = Path::new("/sys/kernel/debug/mce-inject");
    let tell = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
    tell("flags", "hw\n");
    tell("cpu", "0");
    tell("status", "0xbd000000000000c0");
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

/// Brings what the kernel logged until now into the history, as of this host.
fn import() -> u64 {
    let log = Command::new("/bin/busybox").arg("dmesg").output().unwrap().stdout;
    fs::write("/log", log).unwrap();
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let booted = stat.lines().find_map(|line| line.strip_prefix("btime ")).unwrap();
    let date = ["date", "-u", "-d", &format!("@{booted}"), "+%Y-%m-%dT%H:%M:%SZ"];
    let booted = Command::new("/bin/busybox").args(date).output().unwrap().stdout;
    let booted = String::from_utf8(booted).unwrap();
    let words = ["memory", "import", "/log", "--host", HOST, "--booted", booted.trim(), "--into", HISTORY, "--json"];
    let output = Command::new("/surefoot").args(words).output().unwrap();
    println!("import: {:?} {}", output.status.code(), String::from_utf8_lossy(&output.stderr));
    let reports = lines(&output).into_iter().filter(|line| line["type"] == "report");
    reports.map(|line| line["count"].as_u64().unwrap()).sum()
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn page_offline(arguments: &[&str]) -> Output {
    let words = ["memory", "page-offline", "--json", "--page-rate", "3/24h"];
    let source: &[&str] =
        if arguments.contains(&"--undo") { &[] } else { &["--history", HISTORY, "--host", HOST, "--trust-text"] };
    let output = Command::new("/surefoot").args(words).args(source).args(arguments).output().unwrap();
    println!("{arguments:?}: {:?} {}", output.status.code(), String::from_utf8_lossy(&output.stderr));
    output
}

fn outcomes(output: &Output) -> Vec<(u64, String)> {
    let lines = lines(output);
    let pages = lines.iter().filter(|line| line["type"] == "page" || line["type"] == "page_restored");
    pages
        .map(|line| {
            (line["address"].as_u64().unwrap() / PAGE_BYTES as u64, line["outcome"].as_str().unwrap().to_owned())
        })
        .collect()
}

/// The last outcome of each page's deed, by frame.
fn told(frame: u64) -> Option<String> {
    let text = fs::read_to_string(JOURNAL).unwrap_or_default();
    let deeds = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut of_page = deeds.filter(|deed| deed["target"]["address"].as_u64() == Some(frame * PAGE_BYTES as u64));
    of_page.next_back().map(|deed| deed["outcome"]["kind"].as_str().unwrap().to_owned())
}

#[test]
#[ignore = "runs in a guest"]
fn inside_pages_are_moved_and_each_stop_is_known_afterwards() {
    const PAGES: usize = 12;
    for folder in ["/etc", "/var/lib/history"] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write("/proc/sys/kernel/hostname", HOST).unwrap();
    let mut victim = Victim::new(PAGES);
    let frames: Vec<u64> = (0..PAGES).map(|page| victim.frame(page)).collect();
    // The first page has the most errors, each later one fewer, and the last one too few.
    for (page, &frame) in frames.iter().enumerate() {
        let count = if page + 1 == PAGES { 2 } else { 3 + usize::from(page == 0) };
        (0..count).for_each(|_| inject(frame));
    }
    let injected = (PAGES - 1) * 3 + 1 + 2;
    let mut imported = 0;
    await_that("the kernel has logged each error", || {
        imported = import();
        imported >= injected as u64
    });
    assert_eq!(imported, injected as u64);

    // Nothing says that this history, which no watch wrote, is of this host.
    let words = ["memory", "page-offline", "--yes", "--page-rate", "3/24h", "--history", HISTORY];
    let refused = Command::new("/surefoot").args(words).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        refused.status.code() == Some(2) && said.contains("nothing says that these errors are of this host"),
        "{said}"
    );
    // Without --yes nothing changes.
    let dry = page_offline(&[]);
    let planned = outcomes(&dry);
    let wanted = planned.iter().filter(|(_, outcome)| outcome == "planned").count();
    assert_eq!((dry.status.code(), wanted), (Some(0), PAGES - 1), "{planned:?}");
    assert!(frames.iter().all(|&frame| !is_poisoned(frame)) && corrupted_kilobytes() == 0);
    assert!(!Path::new(JOURNAL).exists());

    // The log came as text, which any user could have written; here it is the kernel's.
    let untrusted = ["memory", "page-offline", "--yes", "--page-rate", "3/24h", "--history", HISTORY, "--host", HOST];
    let untrusted = Command::new("/surefoot").args(untrusted).output().unwrap();
    let said = String::from_utf8_lossy(&untrusted.stderr);
    assert!(untrusted.status.code() == Some(2) && said.contains("--trust-text"), "{said}");
    assert!(frames.iter().all(|&frame| !is_poisoned(frame)));

    // A budget of one page: the worst page goes, its contents move, the rest is counted.
    let done = page_offline(&["--yes", "--module-budget", "1"]);
    let after = outcomes(&done);
    let of =
        |outcome: &str| after.iter().filter(|(_, one)| one == outcome).map(|(frame, _)| *frame).collect::<Vec<_>>();
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
    for stop in [0, 1, line_bytes / 2, line_bytes - 1, line_bytes, line_bytes + 40, 2 * line_bytes, 5 * line_bytes / 2]
    {
        let limit = fs::metadata(JOURNAL).unwrap().len() + stop;
        let limit = format!("--fsize={limit}");
        let command = ["/surefoot", "memory", "page-offline", "--yes", "--trust-text", "--page-rate", "3/24h"];
        let source = ["--history", HISTORY, "--host", HOST];
        let stopped = Command::new(PRLIMIT).arg(limit).args(command).args(source).output().unwrap();
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
    // The stops left half lines in the journal, and what they said is not known: all that is known goes back, and the rest is said.
    let said = String::from_utf8_lossy(&back.stderr);
    assert!(back.status.code() == Some(2) && said.contains("cannot be read"), "{said}");
    assert!(frames.iter().all(|&frame| !is_poisoned(frame)) && corrupted_kilobytes() == 0, "{:?}", outcomes(&back));
    assert!(frames[..PAGES - 1].iter().all(|&frame| told(frame).as_deref() == Some("done")));
    std::io::stdout().flush().unwrap();
}
