use crate::client::{address, get, get_json, request, wait_for};
use crate::data::{SECOND_NS, busy_window, capabilities, core, gap, host, lost, notice, untraced_gap, window};
use serde_json::Value;
use std::net::SocketAddr;
use surefoot_daemon::{Config, Mode, Server};
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::{CauseKind, Certainty, Event, Verdict};

/// A server that knows a minute and a half of two cores.
fn server() -> (Server, u64) {
    let server = Server::start(Config::default()).unwrap();
    server.publish(Event::Host(host()));
    server.publish(capabilities());
    let end_ns = monotonic_ns().max(100 * SECOND_NS);
    for second in (0..90).rev() {
        server.publish(Event::Window(busy_window(end_ns - second * SECOND_NS)));
    }
    server.publish(Event::Gap(gap(0, end_ns - 80 * SECOND_NS, 9_000_000)));
    server.publish(Event::Gap(gap(0, end_ns - SECOND_NS, 30_000)));
    let pause = untraced_gap(1, end_ns - SECOND_NS, 2_000_000, Verdict::PauseOrSmi, Certainty::CannotTellApartHere);
    server.publish(Event::Gap(pause));
    server.publish(notice("core 3 went offline"));
    wait_for("all events", || {
        let kept = get_json(address(&server), "/api/v1/snapshot");
        (kept["notices"].as_array().unwrap().len() == 1).then_some(())
    });
    (server, end_ns)
}

fn numbers(rows: &Value, field: &str) -> Vec<u64> {
    rows.as_array().unwrap().iter().map(|row| row[field].as_u64().unwrap()).collect()
}

fn refusal(address: SocketAddr, path: &str) -> String {
    let answer = get(address, path);
    assert_eq!(answer.status, 400, "{path}: {}", answer.text());
    answer.error()
}

#[test]
fn the_snapshot_holds_everything_that_the_page_shows() {
    let (server, end_ns) = server();
    let kept = get_json(address(&server), "/api/v1/snapshot");
    assert_eq!(kept["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&kept["mode"], &kept["recording"]), (&Value::from("live"), &Value::Null));
    assert_eq!(kept["sequence"], 94, "90 windows, 3 gaps, 1 notice");
    assert_eq!(kept["host"], serde_json::to_value(host()).unwrap());
    assert_eq!(kept["capabilities"][0]["id"], "stall.smi");
    assert_eq!(kept["capabilities"][0]["state"], "unsupported");
    let now_ns = kept["now_ns"].as_u64().unwrap();
    assert_eq!(kept["age_ns"].as_u64().unwrap(), now_ns.saturating_sub(end_ns));
    assert_eq!(
        kept["headline"]["sentence"],
        "Both cores are 100 % busy and lost 0.2 % of that; the longest gap took 2.0 ms on core 1 \
         (a pause of this machine, or an SMI of the hypervisor's machine: cannot be told apart here). 2 more findings.",
        "the gap of 9 ms is too long ago; the others are what was dropped and what was not traced"
    );
    assert_eq!(kept["headline"]["severity"], "notice");
    let windows = kept["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 90);
    assert_eq!(windows[89]["end_ns"], end_ns);
    assert_eq!(windows[0]["end_ns"], end_ns - 89 * SECOND_NS);
    let cause = &windows[0]["cores"][1]["lost"][0];
    assert_eq!(
        *cause,
        serde_json::json!({
            "kind": "softirq", "name": "net_rx", "count": 100,
            "total_ns": 2_000_000, "max_ns": 20_000, "while_idle_ns": 0
        }),
        "as in the model, without the histogram"
    );
    assert_eq!(windows[0]["untimed"][0]["row"], "HYP");
    assert_eq!(windows[0]["completeness"][0]["row"], "LOC");
    assert_eq!(numbers(&kept["gaps"], "duration_ns"), [9_000_000, 2_000_000, 30_000], "longest first");
    assert_eq!(kept["gaps"][0]["causes"][0]["kind"], "softirq");
    assert_eq!(kept["notices"][0]["text"], "core 3 went offline");
    assert_eq!(kept["cost"]["resident_bytes"], 20 << 20);
    assert_eq!(
        kept["dropped"],
        serde_json::json!({
            "queue": 0, "history": 0, "live": 0, "oversized": 0, "short_gaps": 0, "health": 0, "kernel": 450, "torn": 90,
            "sources": 0, "findings": 0
        })
    );
    server.stop();
}

#[test]
fn filters_narrow_the_snapshot() {
    let (server, _) = server();
    let ask = |query: &str| get_json(address(&server), &format!("/api/v1/snapshot?{query}"));

    let kept = ask("cpu=1");
    assert_eq!(numbers(&kept["windows"][0]["cores"], "cpu"), [1]);
    assert_eq!(numbers(&kept["gaps"], "duration_ns"), [2_000_000]);
    let kept = ask("cpu=0-1");
    assert_eq!(numbers(&kept["windows"][0]["cores"], "cpu"), [0, 1]);
    let kept = ask("cpu=0");
    assert_eq!(kept["windows"][0]["untimed"], serde_json::json!([]), "the row is one of core 1");

    let kept = ask("kind=softirq");
    assert_eq!(numbers(&kept["gaps"], "duration_ns"), [9_000_000, 30_000]);
    let core = &kept["windows"][0]["cores"][1];
    assert_eq!(numbers(&core["lost"], "total_ns"), [2_000_000]);
    assert_eq!(core["filtered_ns"], 1_000_000, "the timer's time is left out, but not lost");
    let parts = ["idle_ns", "user_ns", "kernel_ns", "filtered_ns", "unexplained_ns"];
    let sum: u64 = parts.iter().map(|part| core[part].as_u64().unwrap()).sum();
    assert_eq!(sum + 2_000_000, core["wall_ns"].as_u64().unwrap(), "the parts add up");
    let kept = ask("kind=smi,host");
    assert_eq!(numbers(&kept["gaps"], "duration_ns"), [2_000_000], "the headline speaks of both");

    assert_eq!(numbers(&ask("min_us=30")["gaps"], "duration_ns"), [9_000_000, 2_000_000, 30_000]);
    assert_eq!(numbers(&ask("min_us=30.5")["gaps"], "duration_ns"), [9_000_000, 2_000_000]);

    let kept = ask("range_s=60");
    assert_eq!(kept["windows"].as_array().unwrap().len(), 60);
    assert_eq!(numbers(&kept["gaps"], "duration_ns"), [2_000_000, 30_000]);
    assert_eq!(ask("range_s=0")["windows"].as_array().unwrap().len(), 90);

    let kept = ask("cpu=0,1&kind=timer,softirq&min_us=20&range_s=60");
    assert_eq!(numbers(&kept["gaps"], "duration_ns"), [30_000]);
    server.stop();
}

#[test]
fn the_report_sums_up_with_percentiles() {
    let (server, end_ns) = server();
    let report = get_json(address(&server), "/api/v1/report");
    assert_eq!(report["windows"], 90);
    assert_eq!(report["start_ns"], end_ns - 90 * SECOND_NS);
    assert_eq!(report["end_ns"], end_ns);
    assert_eq!(numbers(&report["cores"], "wall_ns"), [90 * SECOND_NS; 2]);
    for core in report["cores"].as_array().unwrap() {
        let lost_ns: u64 = numbers(&core["lost"], "total_ns").iter().sum();
        let parts = ["idle_ns", "user_ns", "kernel_ns", "unexplained_ns"];
        let rest_ns: u64 = parts.iter().map(|part| core[part].as_u64().unwrap()).sum();
        assert_eq!(lost_ns + rest_ns, core["wall_ns"].as_u64().unwrap());
    }
    assert_eq!(numbers(&report["causes"], "total_ns"), [180_000_000, 180_000_000]);
    let softirq = report["causes"].as_array().unwrap().iter().find(|cause| cause["kind"] == "softirq").unwrap();
    assert_eq!(softirq["count"], 9_000);
    for percentile in ["p50_ns", "p99_ns"] {
        let value = softirq[percentile].as_f64().unwrap();
        assert!((15_000.0..=20_000.0).contains(&value), "{percentile} {value}");
    }
    assert_eq!(report["untimed"][0]["count"], 630);
    assert_eq!(report["completeness"][0]["probe_count"], 90 * 250);
    assert_eq!(report["cost"]["probes"][0]["total_ns"], 90 * 150_000);
    assert_eq!(report["gap_count"], 3);

    let report = get_json(address(&server), "/api/v1/report?cpu=0&kind=timer&min_us=100&range_s=10");
    assert_eq!(report["windows"], 10);
    assert_eq!(numbers(&report["cores"], "cpu"), [0]);
    assert_eq!(numbers(&report["causes"], "count"), [2_500]);
    assert_eq!((&report["gap_count"], &report["gaps"]), (&Value::from(0), &serde_json::json!([])));
    server.stop();
}

#[test]
fn a_source_without_single_durations_has_no_percentiles() {
    let server = Server::start(Config::default()).unwrap();
    let mut steal = lost(CauseKind::Hypervisor, "steal", 0, 0);
    (steal.total_ns, steal.histogram) = (10_000_000, Default::default());
    let end_ns = monotonic_ns();
    server.publish(Event::Window(window(end_ns.max(SECOND_NS), vec![core(0, 0, vec![steal], 0)])));
    let report = wait_for("the window", || {
        let report = get_json(address(&server), "/api/v1/report");
        (report["windows"] == 1).then_some(report)
    });
    assert_eq!(report["causes"][0]["p50_ns"], Value::Null);
    assert_eq!(report["causes"][0]["p99_ns"], Value::Null);
    // Steal has a time and no occurrences: how often it came is unknown, and not 0.
    assert_eq!((&report["causes"][0]["count"], &report["causes"][0]["max_ns"]), (&Value::Null, &Value::Null));
    let answer = get(address(&server), "/metrics");
    let metrics = answer.text();
    assert!(metrics.contains("surefoot_stall_lost_seconds_total{kind=\"hypervisor\"} 0.01"), "{metrics}");
    for series in ["surefoot_stall_lost_events_total{", "surefoot_stall_lost_max_seconds{"] {
        assert!(!metrics.contains(series), "{series}: {metrics}");
    }
    server.stop();
}

#[test]
fn bad_parameters_are_named_with_what_is_allowed() {
    let (server, _) = server();
    let address = address(&server);
    for path in ["/api/v1/snapshot", "/api/v1/report"] {
        for (query, words) in [
            ("cpu=7", &["'cpu'", "'7'", "a list of 0,1"][..]),
            ("cpu=", &["'cpu'"]),
            ("cpu=1-0", &["'cpu'"]),
            ("cpu=0-99999999", &["'cpu'"]),
            ("cpu=-1", &["'cpu'"]),
            ("kind=teatime", &["'kind'", "'teatime'", "timer", "softirq"]),
            ("kind=", &["'kind'"]),
            ("min_us=-1", &["'min_us'", "0 to 60000000"]),
            ("min_us=NaN", &["'min_us'"]),
            ("min_us=1e99", &["'min_us'"]),
            ("range_s=1.5", &["'range_s'", "1 to 86400"]),
            ("range_s=86401", &["'range_s'"]),
            ("rnage_s=60", &["'rnage_s'", "cpu, kind, min_us, range_s"]),
            ("cpu=0&cpu=1", &["'cpu'", "twice"]),
        ] {
            let error = refusal(address, &format!("{path}?{query}"));
            for word in words {
                assert!(error.contains(word), "{query}: {error}");
            }
        }
        let long = refusal(address, &format!("{path}?cpu={}", "9".repeat(5_000)));
        assert!(long.len() < 300, "a client's own words come back in part only");
    }
    assert!(refusal(address, "/api/v1/capabilities?cpu=0").contains("allowed: none"));
    for (query, word) in [
        ("from_s=yesterday", "'from_s'"),
        ("to_s=-5", "'to_s'"),
        ("from_s=100&to_s=100", "'from_s'"),
        ("resolution=hour", "second or minute"),
    ] {
        let error = refusal(address, &format!("/api/v1/history?{query}"));
        assert!(error.contains(word), "{query}: {error}");
    }
    server.stop();
}

#[test]
fn the_page_and_its_parts_are_served_with_strict_headers() {
    let server = Server::start(Config::default()).unwrap();
    let address = address(&server);
    for (path, media_type, file) in [
        ("/", "text/html; charset=utf-8", &include_bytes!("../../../../ui/dist/index.html")[..]),
        ("/?cpu=1&min_us=20", "text/html; charset=utf-8", include_bytes!("../../../../ui/dist/index.html")),
        ("/app.js", "text/javascript; charset=utf-8", include_bytes!("../../../../ui/dist/app.js")),
        ("/nic.js", "text/javascript; charset=utf-8", include_bytes!("../../../../ui/dist/nic.js")),
        ("/disturb.js", "text/javascript; charset=utf-8", include_bytes!("../../../../ui/dist/disturb.js")),
        ("/app.css", "text/css; charset=utf-8", include_bytes!("../../../../ui/dist/app.css")),
    ] {
        let answer = get(address, path);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(media_type)), "{path}");
        assert_eq!(answer.body, file);
        assert_eq!(answer.header("cache-control"), Some("no-cache"));
        let tag = answer.header("etag").unwrap();
        let again = request(
            address,
            &format!(
                "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nIf-None-Match: \"x\", W/{tag}\r\n\r\n"
            ),
        );
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, Some(tag)));
    }
    server.stop();
}

#[test]
fn every_answer_is_dressed_the_same() {
    let server = Server::start(Config::default()).unwrap();
    let address = address(&server);
    let foreign = "GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let answers = [
        get(address, "/"),
        get(address, "/api/v1/snapshot"),
        get(address, "/metrics"),
        get(address, "/nowhere"),
        get(address, "/api/v1/snapshot?x=1"),
        request(address, foreign),
    ];
    for answer in &answers {
        assert_eq!(
            answer.header("content-security-policy"),
            Some(
                "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                 base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            )
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(answer.header("cross-origin-opener-policy"), Some("same-origin"));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert!(answer.header("cache-control").is_some());
    }
    assert_eq!(answers[1].header("cache-control"), Some("no-store"));
    assert_eq!(answers[3].status, 404);
    assert!(answers[3].error().contains("/nowhere"));
    server.stop();
}

#[test]
fn only_requests_to_this_machine_are_answered() {
    let server = Server::start(Config::default()).unwrap();
    let address = address(&server);
    let ask = |lines: &str| request(address, &format!("{lines}\r\nConnection: close\r\n\r\n"));
    for host in ["localhost", "127.0.0.1:1", "[::1]:80", "LocalHost:9"] {
        assert_eq!(ask(&format!("GET / HTTP/1.1\r\nHost: {host}")).status, 200, "{host}");
    }
    for lines in [
        "GET / HTTP/1.1\r\nHost: evil.example",
        "GET /api/v1/snapshot HTTP/1.1\r\nHost: evil.example:80",
        "GET /api/v1/events HTTP/1.1\r\nHost: 192.168.0.1",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example",
        "GET http://evil.example/ HTTP/1.1\r\nHost: localhost",
        "GET / HTTP/1.1\r\nX-Host: localhost",
        "GET / HTTP/1.1\r\nHost:",
    ] {
        let answer = ask(lines);
        assert_eq!(answer.status, 403, "{lines}");
        assert!(answer.error().contains("localhost"));
    }
    server.stop();
}

#[test]
fn other_web_sites_may_link_to_the_page_but_not_use_its_data() {
    let server = Server::start(Config::default()).unwrap();
    let ask = |path: &str, site: &str| {
        let text =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: {site}\r\nConnection: close\r\n\r\n");
        request(address(&server), &text).status
    };
    for site in ["same-origin", "none"] {
        assert_eq!(ask("/api/v1/snapshot", site), 200, "{site}");
    }
    for site in ["cross-site", "same-site"] {
        assert_eq!(ask("/", site), 200);
        for path in ["/api/v1/snapshot", "/api/v1/events", "/metrics", "/app.js"] {
            assert_eq!(ask(path, site), 403, "{path} from {site}");
        }
    }
    server.stop();
}

#[test]
fn escapes_that_are_no_text_are_refused_at_every_address() {
    let server = Server::start(Config::default()).unwrap();
    let listed = get_json(address(&server), "/api/v1");
    let paths: Vec<&str> =
        listed["addresses"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert!(paths.len() > 10, "{listed}");
    for path in paths.into_iter().chain(["/nowhere", "/app.js"]) {
        for path in [format!("{path}?x=%ff"), format!("{path}?%C3=1"), format!("{path}%ff")] {
            let answer = get(address(&server), &path);
            assert!(answer.status == 400 && answer.error().contains("UTF-8"), "{path}: {}", answer.status);
        }
    }
    server.stop();
}

#[test]
fn nothing_can_be_changed() {
    let server = Server::start(Config::default()).unwrap();
    let ask = |method: &str, path: &str| {
        let text =
            format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        request(address(&server), &text)
    };
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
        for path in ["/", "/api/v1/snapshot", "/nowhere"] {
            let answer = ask(method, path);
            assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method} {path}");
            assert!(answer.error().contains(method));
        }
    }
    for path in ["/", "/api/v1/snapshot", "/metrics", "/api/v1/events"] {
        let answer = ask("HEAD", path);
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{path}");
    }
    assert_eq!(ask("HEAD", "/nowhere").status, 404);
    server.stop();
}

#[test]
fn a_replay_names_its_file_and_does_not_age() {
    let mode = Mode::Replay { file: "night.surefoot".into() };
    let server = Server::start(Config { mode, ..Config::default() }).unwrap();
    let before = get_json(address(&server), "/api/v1/snapshot");
    assert_eq!((&before["age_ns"], &before["host"]), (&Value::Null, &Value::Null));
    assert_eq!(before["headline"]["sentence"], "There are no data yet.");
    server.publish(Event::Host(host()));
    for second in 5..10 {
        server.publish(Event::Window(busy_window(second * SECOND_NS)));
    }
    let kept = wait_for("the windows", || {
        let kept = get_json(address(&server), "/api/v1/snapshot?range_s=3");
        (kept["sequence"] == 5).then_some(kept)
    });
    assert_eq!((&kept["mode"], &kept["recording"]), (&Value::from("replay"), &Value::from("night.surefoot")));
    assert_eq!(kept["now_ns"], 9 * SECOND_NS, "the end of the data");
    assert_eq!(kept["age_ns"], 0);
    assert_eq!(kept["windows"].as_array().unwrap().len(), 3);
    server.stop();
}

#[test]
fn only_the_newest_windows_and_the_newest_and_longest_gaps_are_kept() {
    let server = Server::start(Config { keep_windows: 3, keep_gaps: 2, ..Config::default() }).unwrap();
    for second in 1..=10 {
        server.publish(Event::Window(busy_window(second * SECOND_NS)));
        server.publish(Event::Gap(gap(0, second * SECOND_NS, 1_000 * (100 - second))));
    }
    let kept = wait_for("the events", || {
        let kept = get_json(address(&server), "/api/v1/snapshot");
        (kept["sequence"] == 20).then_some(kept)
    });
    assert_eq!(numbers(&kept["windows"], "end_ns"), [8, 9, 10].map(|second| second * SECOND_NS));
    assert_eq!(numbers(&kept["gaps"], "duration_ns"), [99_000, 90_000]);
    assert_eq!(kept["dropped"]["short_gaps"], 8);
    server.stop();
}

#[test]
fn capabilities_and_the_missing_history_have_their_own_addresses() {
    let (server, _) = server();
    let list = get_json(address(&server), "/api/v1/capabilities");
    assert_eq!(list["capabilities"][0]["reason"], "a virtual machine does not see them");
    let answer = get(address(&server), "/api/v1/history");
    assert_eq!(answer.status, 404);
    assert!(answer.error().contains("no history is kept"));
    let answer = get(address(&server), "/api/v1/snapshop");
    assert!(answer.status == 404 && answer.error().ends_with("did you mean '/api/v1/snapshot'?"), "{}", answer.error());
    server.stop();
}

/// What the guide lists is what the server has, with the same sentences.
#[test]
fn every_address_is_listed_by_the_server_and_in_the_guide() {
    let (server, _) = server();
    let index = get_json(address(&server), "/api/v1");
    let addresses = index["addresses"].as_array().unwrap();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/json.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for listed in addresses {
        let (path, about) = (listed["path"].as_str().unwrap(), listed["about"].as_str().unwrap());
        assert!(guide.contains(&format!("| `{path}` | {about} |")), "{path}: {about}");
        // A stream has no end.
        if path == "/api/v1/events" {
            continue;
        }
        let answer = get(address(&server), path).text().to_owned();
        assert!(!answer.contains("nothing is at"), "{path}: {answer}");
    }
    assert_eq!(guide.matches("\n| `/").count(), addresses.len(), "the guide lists none that is not there");
    assert_eq!(get(address(&server), "/api/v1?x=1").status, 400);
}
