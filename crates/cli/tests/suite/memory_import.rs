//! `surefoot memory import` and `page-offline` on logs of each kind. Where the tool runs here, its own output is the fixture:
//! ipmitool 1.8.19 asked ipmi_sim 2.0.33, and rasdaemon 0.6.8 made the tables of its database.
#![allow(clippy::unwrap_used)]

use super::golden::compare;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

const FIXTURES: &str = "../memory/tests/fixtures/import";

/// Runs in the folder of the fixtures, so that names are short.
fn surefoot(arguments: &[&str]) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURES);
    Command::new(env!("CARGO_BIN_EXE_surefoot")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{output:?}");
    text(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

#[test]
fn a_kernel_log_leads_to_the_row_that_fails() {
    let output = surefoot(&["memory", "import", "kernel-skx-row.log"]);
    assert!(output.status.success());
    compare("memory-import-kernel.txt", &text(&output));
    let json = lines(&surefoot(&["memory", "import", "kernel-skx-row.log", "--json"]));
    let kinds: Vec<&str> = json.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[kinds.len() - 1]), ("stream", "import"));
    assert_eq!(of(&json, "report").len(), 13);
    let dimm = of(&json, "dimm")[1];
    assert_eq!(
        (&dimm["fault_mode"], &dimm["corrected_count"], &dimm["fidelity"]),
        (&"row".into(), &32.into(), &"exact".into())
    );
    assert_eq!(dimm["fault"]["action"], "post_package_repair");
    let import = of(&json, "import")[0];
    let sum = ["of_report_count", "other_count", "not_from_kernel_count", "not_understood_count"]
        .map(|name| import[name].as_u64().unwrap());
    assert_eq!(Some(sum.iter().sum::<u64>()), import["line_count"].as_u64());
    assert_eq!(of(&json, "not_understood")[0]["line"], 25);
}

/// Any user can write these lines with `logger`: they are not counted, and no page is taken out for them.
#[test]
fn lines_of_programs_that_look_like_the_kernel_s_are_reported_and_not_counted() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("syslog");
    let real = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(FIXTURES).join("kernel-skx-row.log"));
    std::fs::write(&log, real.unwrap().replace(" kernel: ", " evil[77]: ")).unwrap();
    let log = log.to_str().unwrap();
    let json = lines(&surefoot(&["memory", "import", log, "--format", "kernel", "--json"]));
    let import = of(&json, "import")[0];
    assert_eq!((&import["report_count"], &import["not_from_kernel_count"]), (&0.into(), &28.into()), "{import}");
    let said = text(&surefoot(&["memory", "import", log, "--format", "kernel"]));
    assert!(said.contains("28  lines not from the kernel"), "{said}");
    let said = text(&surefoot(&["memory", "page-offline", log, "--format", "kernel", "--dry-run"]));
    assert!(said.contains("28 lines not from the kernel"), "{said}");
}

#[test]
fn a_directory_is_not_a_log() {
    let refused = surefoot(&["memory", "import", "."]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("is a directory; name the files in it"), "{}", errors(&refused));
}

#[test]
fn the_pages_of_the_row_are_listed_and_nothing_is_changed() {
    let arguments = ["memory", "page-offline", "kernel-skx-row.log", "--module", "CPU_SrcID#0_MC#1_Chan#0_DIMM#1"];
    // The log is of node17: its addresses are other memory here.
    let refused = surefoot(&[&arguments[..], &["--yes"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(errors(&refused).contains("nothing says that these errors are of this host"), "{}", errors(&refused));
    let output = surefoot(&[&arguments[..], &["--dry-run"]].concat());
    compare("memory-page-offline.txt", &text(&output));
    assert_eq!(text(&surefoot(&arguments)), text(&output), "a dry run is the default");
    let json = lines(&surefoot(&[&arguments[..], &["--dry-run", "--json"]].concat()));
    assert_eq!(of(&json, "page").len(), 5);
    assert!(of(&json, "page").iter().all(|page| page["outcome"] == "planned"), "{json:?}");
    assert_eq!(of(&json, "page_offline")[0]["done"], false);
    let unknown = surefoot(&["memory", "page-offline", "kernel-skx-row.log", "--dry-run", "--module", "DIMM_Z9"]);
    assert!(errors(&unknown).contains("no report names it; there are CPU_SrcID#0"), "{}", errors(&unknown));
}

/// A made-up kernel that marks no page shows what is refused, and that nothing is claimed which it does not show.
#[test]
fn pages_are_taken_out_of_this_host_and_boot_alone_and_only_what_the_kernel_shows_is_offline() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let tree = folder.path().to_str().unwrap();
    let ask = |more: &[&str]| {
        let words =
            ["memory", "page-offline", "kernel-skx-row.log", "--yes", "--trust-text", "--json", "--host-root", tree];
        let module = ["--module", "CPU_SrcID#0_MC#1_Chan#0_DIMM#1"];
        surefoot(&[&words[..], &module, more].concat())
    };
    let outcomes = |output: &Output| {
        let lines: Vec<Value> = text(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        of(&lines, "page").iter().map(|page| page["outcome"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let told = || std::fs::read_to_string(folder.path().join("sys/devices/system/memory/soft_offline_page")).unwrap();
    write("proc/stat", "btime 1795400000\n");
    write("proc/sys/kernel/hostname", "node18\n");
    let other = ask(&[]);
    assert_eq!(other.status.code(), Some(2), "{}", errors(&other));
    write("proc/sys/kernel/hostname", "node17\n");
    let missing = ask(&[]);
    assert_eq!(missing.status.code(), Some(3), "{}", errors(&missing));
    assert!(errors(&missing).contains("CONFIG_MEMORY_FAILURE"), "{}", errors(&missing));
    write("sys/devices/system/memory/soft_offline_page", "");
    // Whether a page is out of use already cannot be seen: nothing is asked of the kernel.
    let blind = ask(&[]);
    assert!(blind.status.code() == Some(2) && errors(&blind).contains("kpageflags"), "{}", errors(&blind));
    write("proc/kpageflags", "");
    std::fs::File::options().write(true).open(folder.path().join("proc/kpageflags")).unwrap().set_len(1 << 25).unwrap();
    write("proc/meminfo", "HardwareCorrupted:     8 kB\n");
    // It booted after the last error.
    write("proc/stat", "btime 1795500000\n");
    let earlier = ask(&[]);
    assert_eq!((earlier.status.code(), outcomes(&earlier)), (Some(0), vec!["earlier_boot".to_owned(); 5]));
    // Two pages are out already, so the budget of three has one left; the kernel takes it and marks nothing.
    let failed = ask(&["--earlier-boots", "--host-budget", "3"]);
    let mut of_all = outcomes(&failed);
    of_all.sort();
    assert_eq!(failed.status.code(), Some(1), "{}", errors(&failed));
    assert_eq!(of_all, ["failed", "over_host_budget", "over_host_budget", "over_host_budget", "over_host_budget"]);
    // The page with the most errors.
    assert_eq!(told(), "0x2f4a3b000");
    let deeds = std::fs::read_to_string(folder.path().join("var/lib/surefoot/deeds.jsonl")).unwrap();
    let deeds: Vec<Value> = deeds.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&Value> = deeds.iter().map(|deed| &deed["outcome"]["kind"]).collect();
    assert_eq!(kinds, ["begun", "failed"], "{deeds:?}");
    let undo = || surefoot(&["memory", "page-offline", "--undo", "--yes", "--host-root", tree]);
    assert!(undo().status.success() && text(&undo()).contains("No page is out of use"), "{}", text(&undo()));
    // Any user can write this log with `logger`, and what was imported from it names no host any more.
    let untrusted =
        surefoot(&["memory", "page-offline", "kernel-skx-row.log", "--yes", "--earlier-boots", "--host-root", tree]);
    assert_eq!(untrusted.status.code(), Some(2), "{}", errors(&untrusted));
    assert!(errors(&untrusted).contains("--trust-text"), "{}", errors(&untrusted));
    // A line that cannot be read may be of a page that is out of use.
    let journal = folder.path().join("var/lib/surefoot/deeds.jsonl");
    let whole = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, format!("no deed\n{whole}")).unwrap();
    let unread = undo();
    assert_eq!(unread.status.code(), Some(2), "{}", text(&unread));
    assert!(errors(&unread).contains("1 line of") && errors(&unread).contains("cannot be read"), "{}", errors(&unread));
}

#[test]
fn the_lists_of_ipmitool_tell_the_same_in_every_form() {
    for file in ["ipmitool-sel-list.txt", "ipmitool-c-sel-elist.txt", "ipmitool-v-sel-list.txt"] {
        let json = lines(&surefoot(&["memory", "import", file, "--json"]));
        let import = of(&json, "import")[0];
        assert_eq!(import["format"], "sel", "{file}");
        assert_eq!((&import["report_count"], &import["not_understood_count"]), (&4.into(), &0.into()), "{file}");
        let has_note =
            |words: &str| import["notes"].as_array().unwrap().iter().any(|note| note.as_str().unwrap().contains(words));
        assert!(has_note("reached its limit of corrected errors"), "{file}");
        // A list that names no module says how to export one that does.
        assert_eq!(
            has_note("export the log with -v"),
            file != "ipmitool-v-sel-list.txt",
            "{file}: {}",
            import["notes"]
        );
        let sum = |name: &str| of(&json, "dimm").iter().map(|dimm| dimm[name].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("corrected_count"), sum("uncorrected_count")), (3, 1), "{file}");
        assert!(of(&json, "dimm").iter().all(|dimm| dimm["fidelity"] == "lower_bound"), "{file}");
    }
    // The bytes of the event name the module, which only -v prints.
    let verbose = lines(&surefoot(&["memory", "import", "ipmitool-v-sel-list.txt", "--json"]));
    assert_eq!(of(&verbose, "dimm")[1]["id"], "sensor 0x01 module 5");
}

#[test]
fn a_database_of_rasdaemon_counts_each_error_once() {
    let output = surefoot(&["memory", "import", "rasdaemon.db"]);
    compare("memory-import-rasdaemon.txt", &text(&output));
    let json = lines(&surefoot(&["memory", "import", "rasdaemon.db", "--json"]));
    let import = of(&json, "import")[0];
    assert_eq!(
        (&import["line_count"], &import["report_count"], &import["error_count"]),
        (&8.into(), &5.into(), &9.into())
    );
    assert_eq!((&import["repeated_count"], &import["other_unit_count"]), (&1.into(), &1.into()));
    assert_eq!(import["not_understood_count"], 1);
}

#[test]
fn firmware_s_records_and_amd_s_and_mcelog_s() {
    let json = lines(&surefoot(&["memory", "import", "kernel-ghes.log", "kernel-amd.log", "mcelog.log", "--json"]));
    let counts: Vec<u64> = of(&json, "import").iter().map(|line| line["report_count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 1, 2]);
    let ghes = of(&json, "dimm")[0];
    assert_eq!((&ghes["id"], &ghes["uncorrected_count"]), (&"PROC 1 DIMM 4".into(), &1.into()));
    assert_eq!(ghes["fault"]["urgency"], "critical");
}

#[test]
fn standard_input_is_read_and_what_is_no_log_is_refused() {
    let run = |input: &[u8], arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_surefoot"));
        command.args(["memory", "import", "-"]).args(arguments);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    };
    let log =
        b"[    9.0] EDAC MC0: 1 UE memory read error on DIMM_A1 (channel:0 slot:0 page:0x1 offset:0x0 grain:32)\n";
    let json = lines(&run(log, &["--json", "--booted", "2026-11-01T00:00:00Z"]));
    assert_eq!(of(&json, "report")[0]["at_realtime"], "2026-11-01T00:00:09Z");
    for (input, why) in [
        (&b""[..], "there is nothing in it"),
        (b"a poem\nof two lines\n", "name it with --format"),
        (&[0xff, 0xfe, 0, 1, 2], "name it with --format"),
    ] {
        let refused = run(input, &[]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(errors(&refused).contains(why), "{}", errors(&refused));
    }
    // Whoever says what it is gets every line counted.
    let forced = lines(&run(b"a poem\nof two lines\n", &["--format", "sel", "--json"]));
    assert_eq!(of(&forced, "import")[0]["not_understood_count"], 2);
}

/// A name that a stranger chose, as a glob gives it.
#[test]
fn a_name_of_several_lines_begins_no_line_of_a_message() {
    let name = "a\nsurefoot: all is well\n\u{1b}[31mb";
    let option = format!("--format={name}");
    for words in [
        &["memory", "import", name][..],
        &["memory", name],
        &["memory", "import", "--format", name, "x"],
        &["memory", "import", &option, "x"],
    ] {
        let output = surefoot(words);
        let said = errors(&output);
        assert!(!output.status.success() && said.contains("a?surefoot"), "{words:?}: {said}");
        assert!(!said.contains('\u{1b}') && !said.contains("\nsurefoot: all"), "{words:?}: {said}");
    }
}

#[test]
fn reports_go_into_a_history_once_however_often_they_are_imported() {
    let directory = tempfile::tempdir().unwrap();
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let record = |at_s: u64| {
        format!(
            "Hardware event. This is not a software error.\nMCE 0\nCPU 6 BANK 7 TSC 5\nMISC 8c ADDR 123457040\nTIME {at_s} x\n\
             STATUS 8c00004000010092 MCGSTATUS 0\nMCGCAP f000c14 APICID 20 SOCKETID 1\nCPUID Vendor Intel Family 6 Model 106\n"
        )
    };
    // Two in one second, and one that is older than a history keeps.
    let log = directory.path().join("mcelog");
    std::fs::write(&log, [now_s - 100, now_s - 100, now_s - 50, now_s - 90 * 86_400].map(record).concat()).unwrap();
    let history = directory.path().join("history.db");
    let (log, history) = (log.to_str().unwrap(), history.to_str().unwrap());
    for (added, already_there) in [(3, 0), (0, 3)] {
        let json = lines(&surefoot(&["memory", "import", log, "--into", history, "--json"]));
        let into = &of(&json, "import")[0]["into"];
        let counts = ["kept_count", "already_kept_count", "too_old_count"].map(|name| into[name].as_u64());
        assert_eq!(counts, [Some(added), Some(already_there), Some(1)]);
    }
    let output = surefoot(&["memory", "import", log, "--into", history]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("\nAdded to the history: 0 reports; 3 already in it; left out 1 older than it keeps\n"),
        "{said}"
    );
    let past = lines(&surefoot(&["history", "--file", history, "--room", "memory", "--json"]));
    let records: Vec<&Value> = past.iter().filter(|line| line["kind"] == "corrected_error").collect();
    assert_eq!(records.len(), 3, "{past:?}");
    assert_eq!(records[0]["subject"]["name"], "socket1/channel2", "{:?}", records[0]);
}

/// A name that two machines have chooses neither; the message has the option that does.
#[test]
fn hosts_of_one_name_are_told_apart_by_their_machine_ids() {
    let directory = tempfile::tempdir().unwrap();
    let ids = ["a".repeat(32), "b".repeat(32)];
    let line = |id: &str| {
        format!(
            "{{\"_HOSTNAME\":\"n1\",\"_MACHINE_ID\":\"{id}\",\"__REALTIME_TIMESTAMP\":\"1795000000000000\",\"_TRANSPORT\":\"kernel\",\
             \"MESSAGE\":\"EDAC MC0: 1 CE memory read error on A1 (channel:0 slot:0 page:0x1234 offset:0x0 grain:32 syndrome:0x0)\"}}\n"
        )
    };
    let logs = ["both", "one", "two"].map(|name| directory.path().join(name).to_str().unwrap().to_owned());
    for (log, text) in logs.iter().zip([line(&ids[0]) + &line(&ids[1]), line(&ids[0]), line(&ids[1])]) {
        std::fs::write(log, text).unwrap();
    }
    let wanted = format!("choose one by its machine ID, such as --host {}", ids[0]);
    for words in [&[logs[0].as_str()][..], &[&logs[0], "--host", "n1"], &[&logs[1], &logs[2]]] {
        let output = surefoot(&[&["memory", "import"], words].concat());
        assert!(errors(&output).contains(&wanted), "{words:?}: {}", errors(&output));
    }
    assert!(surefoot(&["memory", "import", &logs[0], "--host", &ids[1]]).status.success());
}

#[test]
fn an_import_that_fails_leaves_neither_a_history_nor_its_lock() {
    let directory = tempfile::tempdir().unwrap();
    let [poem, none, history] = ["poem", "none", "history.db"].map(|name| directory.path().join(name));
    std::fs::write(&poem, "a poem\nof two lines\n").unwrap();
    for log in [&poem, &none] {
        let words = ["memory", "import", log.to_str().unwrap(), "--into", history.to_str().unwrap()];
        assert_eq!(surefoot(&words).status.code(), Some(2), "{log:?}");
    }
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["poem"]);
    let nowhere = directory.path().join("no/such/history.db");
    let output = surefoot(&["memory", "import", poem.to_str().unwrap(), "--into", nowhere.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no directory"), "{output:?}");
}

/// The module A1 of one host is not that of another: not in one log, not in two, and its pages least of all.
#[test]
fn errors_of_several_hosts_are_never_added_up() {
    let directory = tempfile::tempdir().unwrap();
    let error = |host: &str, page: &str| {
        format!(
            "Nov 23 08:00:00 {host} kernel: EDAC MC0: 1 UE memory read error on A1 (channel:0 slot:0 page:{page} offset:0x0 grain:32)\n"
        )
    };
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let both = file("both", &(error("n1", "0x1") + &error("n2", "0x2") + &error("n1", "0x3")));
    let (one, two) = (file("one", &error("n1", "0x1")), file("two", &error("n2.example", "0x2")));
    let rotated = file("one.1", &error("n1.example", "0x3"));
    let unnamed = file(
        "unnamed",
        "[    9.0] EDAC MC0: 1 UE memory read error on A1 (channel:0 slot:0 page:0x4 offset:0x0 grain:32)\n",
    );
    let history = directory.path().join("history.db");
    for command in [&["memory", "import"][..], &["memory", "page-offline", "--dry-run"]] {
        let ask = |files: &[&str]| surefoot(&[command, files, &["--json"]].concat());
        for (files, words) in [
            (vec![&*both], ["n1", "n2", "--host NAME"]),
            (vec![&*one, &*two], ["n1", "n2.example", "--host NAME"]),
            (vec![&*one, &*unnamed], ["names no host", "A1", "--host NAME"]),
            (vec![&*unnamed, &*unnamed], ["names no host", "A1", "--host NAME"]),
        ] {
            let refused = ask(&files);
            assert_eq!(refused.status.code(), Some(2), "{files:?}: {refused:?}");
            for words in words {
                assert!(errors(&refused).contains(words), "{words}: {}", errors(&refused));
            }
        }
        assert_eq!(ask(&[&one, &rotated]).status.code(), Some(0), "one host's files");
    }
    let counts = |arguments: &[&str]| {
        let json = lines(&surefoot(&[&["memory", "import", "--json"], arguments].concat()));
        of(&json, "dimm").iter().map(|dimm| dimm["uncorrected_count"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(counts(&[&both, "--host", "n1"]), 2);
    // A name that is written wrong is not a host without errors.
    for command in [&["memory", "import"][..], &["memory", "page-offline", "--dry-run"]] {
        let ran = surefoot(&[command, &[&both, "--host", "n7"]].concat());
        let said = errors(&ran);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains("no line is of n7; there are lines of n1, n2"), "{said}");
    }
    assert_eq!(counts(&[&one, &unnamed, "--host", "n1"]), 2);
    assert_eq!(counts(&[&one, &rotated]), 2);
    let pages = lines(&surefoot(&["memory", "page-offline", "--dry-run", "--json", &both, "--host", "n2"]));
    assert_eq!(of(&pages, "page").iter().map(|page| page["address"].as_u64().unwrap()).collect::<Vec<_>>(), [0x2000]);
    let refused = surefoot(&["memory", "import", &both, "--into", history.to_str().unwrap()]);
    assert_eq!((refused.status.code(), history.exists()), (Some(2), false));
}

#[test]
fn the_guide_shows_what_is_printed() {
    let guide =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/memory.md")).unwrap();
    for golden in ["memory-import-kernel.txt", "memory-page-offline.txt"] {
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden)).unwrap();
        let shown: Vec<String> = text.lines().map(|line| format!("    {line}").trim_end().to_owned()).collect();
        assert!(guide.contains(&shown.join("\n")), "docs/guide/memory.md does not show {golden}");
    }
}
