//! The server of the remedies, by its own door: alerts in, cases and hooks out, and whoever means it ill.

use crate::remedies::{Ask, LEASE, Setup, webhook};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use surefoot_controller::{Config, Fleet};
use surefoot_testkit::not_run::not_run;
use surefoot_testkit::postgres::Postgres;

#[test]
fn a_webhook_becomes_a_case_whose_hook_runs_once() {
    let Some(setup) = Setup::with_hook("a_webhook_becomes_a_case_whose_hook_runs_once") else { return };
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    // As Alertmanager does it: told twice, and both times accepted.
    for _ in 0..2 {
        let (status, answer) = ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1));
        assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
    }
    let story = ask.until(1, "with_hook_done", |case| case["steps"][0]["state"] == "done");
    assert_eq!((&story["case"]["host"], &story["case"]["fault"]), (&json!("node1"), &json!("memory/rate")));
    assert_eq!(setup.runs(), ["node1 memory/rate $(reboot)"]);
    // The last step waits for a person.
    let waits = ask.until(1, "needs_approval", |case| case["state"] == "needs_approval");
    assert_eq!(waits["case"]["steps"][1]["state"], "pending");
    // What was seen is a step that the case does not wait with (any more).
    let (status, answer) = ask.post("/api/v1/cases/1/approve", &json!({"step": "reboot"}).to_string());
    assert!(status == 409 && answer.to_string().contains("not of reboot"), "{answer}");
    let seen = waits["case"]["steps"][1]["step"].clone();
    let (status, answer) =
        ask.post("/api/v1/cases/1/approve", &json!({"reason": "looked at it", "step": seen}).to_string());
    assert_eq!((status, &answer["type"]), (200, &json!("case")), "{answer}");
    let story = ask.until(1, "returned", |case| case["state"] == "returned");
    let actions: Vec<&str> =
        story["trail"].as_array().unwrap().iter().filter_map(|line| line["action"].as_str()).collect();
    assert!(actions.contains(&"opened") && actions.contains(&"approved"), "{actions:?}");
    assert_eq!(setup.runs().len(), 2, "the hook is two steps of the policy");
    let (_, metrics) = ask.get_text("/metrics");
    for line in [
        "surefoot_remedy_cases{state=\"returned\"} 1",
        "# TYPE surefoot_remedy_alerts_taken counter",
        "# UNIT surefoot_remedy_round_seconds seconds",
        "surefoot_remedy_store_up 1",
        "surefoot_remedy_answers_total{class=\"5xx\"} 0",
        "# EOF",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    }
    let sample = metrics.lines().filter(|line| !line.starts_with('#'));
    let (names, families): (Vec<&str>, usize) = (sample.collect(), metrics.matches("# HELP").count());
    assert!(families == metrics.matches("# TYPE").count() && families >= 20 && names.len() > families, "{metrics}");
    fleet.stop();
}

#[test]
fn cases_are_listed_page_by_page_and_of_one_host() {
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\n[policy.match]\nseverity = \"critical\"\n");
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    assert_eq!(ask.post("/api/v1/pause", "").0, 200);
    for number in 1..=5 {
        assert_eq!(ask.post("/api/v1/alertmanager", &webhook(&format!("node{number}"), "firing", number)).0, 200);
        ask.until(number, "opened", |case| case["state"] == "waiting");
    }
    let page = |query: &str| {
        let (status, page) = ask.get(&format!("/api/v1/cases{query}"));
        assert_eq!(status, 200, "{page}");
        let ids: Vec<u64> = page["cases"].as_array().unwrap().iter().filter_map(|case| case["id"].as_u64()).collect();
        (ids, page["total"].as_u64(), page["left_out"].as_u64(), page["next_before"].as_u64())
    };
    assert_eq!(page("?limit=2"), (vec![5, 4], Some(5), Some(3), Some(4)));
    assert_eq!(page("?limit=3&before=4"), (vec![3, 2, 1], Some(5), Some(0), None));
    assert_eq!(page("?state=all&host=Node2"), (vec![2], Some(1), Some(0), None));
    assert_eq!(page("?before=1970-01-01T00:00:01Z"), (vec![], Some(5), Some(0), None));
    assert_eq!(page("?before=2999-01-01T00:00:00Z&limit=1").0, [5]);
    let (_, list) = ask.get("/api/v1/cases?limit=1");
    assert_eq!(list["headline"]["sentence"], "5 open cases; no manual action needed.");
    for wrong in ["before=yesterday", "before=", "host=a%20b", "after=3"] {
        let (status, why) = ask.get(&format!("/api/v1/cases?{wrong}"));
        assert!(status == 400 && why["error"].as_str().is_some_and(|why| why.len() > 20), "{wrong}: {status} {why}");
    }
    fleet.stop();
}

#[test]
fn people_pause_and_cancel_and_a_wrong_policy_changes_nothing() {
    let Some(setup) = Setup::with_hook("people_pause_and_cancel_and_a_wrong_policy_changes_nothing") else { return };
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    assert_eq!(ask.get("/api/v1/cases").1["is_paused"], false);
    assert_eq!(ask.post("/api/v1/pause", "").0, 200);
    assert_eq!(ask.get("/api/v1/cases").1["is_paused"], true, "whoever paused it sees so at once");
    assert!(fleet.doubts().iter().any(|doubt| doubt.contains("no [[ticket]]")), "{:?}", fleet.doubts());
    assert_eq!(ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    std::thread::sleep(Duration::from_secs(2));
    assert!(setup.runs().is_empty(), "everything is paused");
    setup.policy("[[policy]]\nsteps = [\"dance\"]\n");
    let error = fleet.reload().unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("dance"), "{error}");
    assert_eq!(ask.post("/api/v1/resume", "{}").0, 200);
    ask.until(1, "needs_approval", |case| case["state"] == "needs_approval");
    assert_eq!(ask.get("/api/v1/cases?limit=1").1["is_paused"], false);
    assert_eq!(ask.post("/api/v1/cases/1/dance", "").0, 404);
    let (status, none) = ask.post("/api/v1/cases/77/cancel", "");
    assert_eq!(
        (status, &none["error"]),
        (404, &json!("there is no case 77; `surefoot remedy cases --all` lists the cases"))
    );
    let (status, none) = ask.get("/api/v1/case");
    assert!(status == 404 && none.to_string().contains("did you mean '/api/v1/cases'?"), "{none}");
    assert_eq!(ask.post("/api/v1/cases/1/cancel", "").0, 200);
    ask.until(1, "cancelled", |case| case["state"] == "cancelled");
    assert_eq!(ask.post("/api/v1/cases/1/approve", "").0, 409);
    let (_, trail) = ask.get("/api/v1/trail");
    let actions: Vec<&str> =
        trail["trail"].as_array().unwrap().iter().filter_map(|line| line["action"].as_str()).collect();
    for action in ["policy_loaded", "paused", "policy_refused", "resumed", "opened", "cancelled"] {
        assert!(actions.contains(&action), "{action}: {actions:?}");
    }
}

#[test]
fn each_role_does_its_own_and_nobody_else_does_anything() {
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\nmatch = { severity = \"critical\" }\n");
    let roles = ["read", "operate", "approve", "report", "agent"];
    let who: Vec<String> = roles
        .iter()
        .map(|role| {
            let token = setup.secret(&format!("{role}.token"), &format!("{role}-0123456789abcdef"));
            let hosts = if *role == "agent" { "hosts = [\"node1\"]" } else { "" };
            format!("[[who]]\nname = \"{role}\"\nroles = [\"{role}\"]\ntoken_file = \"{}\"\n{hosts}\n", token.display())
        })
        .collect();
    let fleet = setup.who(&who.concat()).start();
    let watched = fleet.files();
    let has = |name: &str| watched.iter().any(|path| path.ends_with(name));
    assert!(has("policy.toml") && has("read.token"), "a token that is replaced is to count: {watched:?}");
    let findings = |host: &str| json!({"host": host, "findings": []}).to_string();
    let alerts = webhook("node1", "resolved", 1);
    let agent = Ask::of(&fleet).with_token("agent-0123456789abcdef");
    assert_eq!(agent.post("/api/v1/findings", &findings("node2")).0, 403, "it speaks for node1 alone");
    let (_, trail) = Ask::of(&fleet).with_token("read-0123456789abcdef").get("/api/v1/trail");
    assert!(trail.to_string().contains("does not speak for host node2"), "{trail}");
    // Which roles may: 409 and 404 come after the question who asks.
    let all: [(&str, &str, &str, &[&str]); 7] = [
        ("POST", "/api/v1/alertmanager", &alerts, &["report"]),
        ("POST", "/api/v1/findings", &findings("node1"), &["agent"]),
        ("GET", "/api/v1/cases", "", &["read", "operate", "approve"]),
        ("GET", "/metrics", "", &["read", "operate", "approve"]),
        ("POST", "/api/v1/cases/1/approve", "", &["approve"]),
        ("POST", "/api/v1/cases/1/cancel", "", &["operate"]),
        ("POST", "/api/v1/pause", "", &["operate"]),
    ];
    for (method, path, body, may) in all {
        for role in roles {
            let ask = Ask::of(&fleet).with_token(&format!("{role}-0123456789abcdef"));
            let status = ask.ask(method, path, body).0;
            assert_eq!(status != 403, may.contains(&role), "{role} {method} {path}: {status}");
            assert_ne!(status, 401);
        }
        for token in ["", "wrong-0123456789abcdef", "read-0123456789abcdeF"] {
            assert_eq!(Ask::of(&fleet).with_token(token).ask(method, path, body).0, 401, "'{token}' {path}");
        }
    }
    let (_, trail) = Ask::of(&fleet).get("/api/v1/trail");
    assert!(trail.to_string().contains("\"refused\""), "{trail}");
}

/// Alertmanager takes a message that was answered with 200 for delivered, and drops it.
#[test]
fn an_alert_that_is_refused_is_in_the_trail_the_log_and_the_metrics_with_its_reason() {
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\n");
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    assert_eq!(fleet.refusals(), None);
    let one =
        |labels: serde_json::Value| json!({"status": "firing", "labels": labels, "startsAt": "2026-01-01T00:00:00Z"});
    let mut many: serde_json::Map<String, serde_json::Value> =
        (0..256).map(|number| (format!("l{number}"), json!("x"))).collect();
    many.insert("host".into(), json!("n1"));
    let alerts = json!([
        one(many.into()),
        one(json!({"alertname": "Long", "host": "n1", "zone": "z".repeat(70_000)})),
        one(json!({"alertname": "Homeless"})),
        one(json!({"alertname": 5, "host": "n1"})),
    ]);
    let body = json!({"version": "4", "truncatedAlerts": 5, "alerts": alerts}).to_string();
    let (status, answer) = ask.post("/api/v1/alertmanager", &body);
    assert_eq!((status, &answer["refused"]), (200, &json!(4)), "{answer}");
    let (_, trail) = ask.get("/api/v1/trail");
    let lines: Vec<_> =
        trail["trail"].as_array().unwrap().iter().filter(|line| line["action"] == "not_taken").cloned().collect();
    assert_eq!((lines.len(), &lines[0]["target"]), (1, &json!("9 alerts")), "{trail}");
    let told = fleet.refusals().unwrap();
    for why in [
        "it has 257 labels",
        "alert 'Long': its label 'zone'",
        "alert 'Homeless': it has neither",
        "not written as",
        "left 5 alerts",
    ] {
        assert!(lines[0]["reason"].as_str().unwrap().contains(why), "{why}: {lines:?}");
        assert!(told.contains(why), "{told}");
    }
    assert!(told.starts_with("9 alerts or findings were refused"), "{told}");
    let (_, metrics) = ask.get_text("/metrics");
    for (reason, count) in [("labels", 2), ("host", 1), ("format", 1), ("truncated", 5), ("status", 0)] {
        let line = format!("surefoot_remedy_refused_total{{reason=\"{reason}\"}} {count}");
        assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    }
    // However many come, the log has a line a minute and the trail what its rate allows; the rest is counted.
    for _ in 0..40 {
        assert_eq!(ask.post("/api/v1/alertmanager", &body).0, 200);
    }
    assert_eq!(fleet.refusals(), None);
    let (_, metrics) = ask.get_text("/metrics");
    assert!(!metrics.contains("surefoot_remedy_refused_unnoted_total 0"), "{metrics}");
    assert!(metrics.contains("surefoot_remedy_refused_total{reason=\"truncated\"} 205"), "{metrics}");
}

/// What is taken must be there after a restart.
#[test]
fn a_store_that_is_deleted_under_the_server_takes_nothing_more_and_is_put_back_from_what_was_saved() {
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\n");
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    assert_eq!(ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    ask.until(1, "there", |case| case["host"] == "node1");
    assert_eq!(fleet.store_error(), None);
    let store = setup.store_file();
    let folder = store.parent().unwrap();
    for ending in ["", "-wal", "-shm"] {
        std::fs::remove_file(format!("{}{ending}", store.display())).unwrap();
    }
    let (status, answer) = ask.post("/api/v1/alertmanager", &webhook("node2", "firing", 2));
    assert!(status == 503 && answer.to_string().contains("was deleted"), "{status} {answer}");
    let findings = json!({"host": "node3", "findings": []}).to_string();
    assert_eq!(ask.post("/api/v1/findings", &findings).0, 503);
    let (status, answer) = ask.get("/api/v1/cases");
    assert!(status == 503 && answer.to_string().contains("is saved in"), "{status} {answer}");
    let (_, metrics) = ask.get_text("/metrics");
    assert!(metrics.contains("surefoot_remedy_store_up 0"), "{metrics}");
    assert!(!metrics.contains("surefoot_remedy_store_errors_total 0"), "{metrics}");
    let told = fleet.store_error().unwrap();
    assert!(told.contains("was deleted") && told.contains("--store sqlite:"), "{told}");
    assert!(!store.exists(), "no empty store is made in its place");
    fleet.stop();
    let saved = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let saved: Vec<_> = saved.filter(|path| path.display().to_string().contains(".saved-")).collect();
    assert_eq!(saved.len(), 1, "{saved:?}");
    std::fs::rename(&saved[0], &store).unwrap();
    let fleet = setup.start();
    let (status, cases) = Ask::of(&fleet).get("/api/v1/cases?state=all");
    assert!(status == 200 && cases.to_string().contains("node1") && !cases.to_string().contains("node2"), "{cases}");
}

/// A right ends when its line goes, or its token, whatever else is wrong.
#[test]
fn a_right_that_is_taken_away_is_gone_whatever_else_is_wrong() {
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\n");
    let line = |name: &str| {
        let token = setup.secret(&format!("{name}.token"), &format!("{name}-0123456789abcdef"));
        format!("[[who]]\nname = \"{name}\"\nroles = [\"read\"]\ntoken_file = \"{}\"\n", token.display())
    };
    let [anna, berta, clara] = ["anna", "berta", "clara"].map(line);
    let fleet = setup.who(&[&*anna, &*berta, &*clara].concat()).start();
    let may =
        |name: &str| Ask::of(&fleet).with_token(&format!("{name}-0123456789abcdef")).get("/api/v1/cases").0 == 200;
    assert!(may("anna") && may("berta") && may("clara"));
    setup.policy("[[policy]]\nsteps = [\"dance\"]\n");
    setup.who(&[&*berta, &*clara].concat());
    let error = fleet.reload().unwrap_err().to_string();
    assert!(error.contains("dance") && error.ends_with("the policies from before go on"), "{error}");
    assert!(!may("anna") && may("berta") && may("clara"));
    // A token that is gone: its user loses the right, and holds up nobody else's loss.
    std::fs::remove_file(setup.secret("berta.token", "")).unwrap();
    setup.who(&berta);
    let error = fleet.reload().unwrap_err().to_string();
    assert!(error.contains("berta") && error.contains("may do nothing") && error.contains("dance"), "{error}");
    assert!(!may("anna") && !may("berta") && !may("clara"));
    setup.secret("berta.token", "berta-0123456789abcdef");
    setup.policy("[[policy]]\nsteps = [\"drain\", \"return\"]\n");
    fleet.reload().unwrap();
    assert!(may("berta") && !may("clara"));
}

/// A file of users that cannot be read keeps no token going that was deleted or changed.
#[test]
fn a_token_that_is_taken_away_is_gone_whatever_is_wrong_with_the_file_of_users() {
    type Break<'a> = &'a dyn Fn(&Setup);
    let broken: [(&str, Break<'_>); 4] = [
        ("expected", &|setup| _ = setup.who("[[who]")),
        ("No such file", &|setup| std::fs::remove_file(setup.who("").config().who.unwrap()).unwrap()),
        ("needs a name and roles", &|setup| _ = setup.who("[[who]]\nname = \"\"\nroles = []\n")),
        ("known by the same", &|setup| {
            _ = setup.who("[[who]]\nname = \"x\"\nroles = [\"read\"]\nuid = 1\n".repeat(2).as_str())
        }),
    ];
    for (why, break_it) in broken {
        let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\n");
        let line = |name: &str| {
            let token = setup.secret(&format!("{name}.token"), &format!("{name}-0123456789abcdef"));
            format!("[[who]]\nname = \"{name}\"\nroles = [\"read\"]\ntoken_file = \"{}\"\n", token.display())
        };
        let lines = ["anna", "berta", "clara", "dora", "emil"].map(line);
        let fleet = setup.who(&lines.concat()).start();
        let may_by = |token: &str| Ask::of(&fleet).with_token(token).get("/api/v1/cases").0 == 200;
        let may = |name: &str| may_by(&format!("{name}-0123456789abcdef"));
        break_it(&setup);
        std::fs::remove_file(setup.secret("anna.token", "")).unwrap();
        setup.secret("berta.token", "another-0123456789abcdef");
        // Two by one token: who shows it cannot be told.
        setup.secret("dora.token", "emil-0123456789abcdef");
        let error = fleet.reload().unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(!may("anna") && !may("berta") && !may("dora") && !may("emil"), "{why}");
        assert!(may("clara") && may_by("another-0123456789abcdef"), "{why}");
        let (keep, gone) = error.split_once("these have none any more").unwrap();
        assert!(["berta", "clara"].iter().all(|name| keep.contains(&format!("{name} (token in"))), "{error}");
        assert!(
            ["anna (", "dora (another user", "emil (another user"].iter().all(|name| gone.contains(name)),
            "{error}"
        );
        // Gone is gone, also the next time; and what is mended counts again.
        fleet.reload().unwrap_err();
        assert!(!may("anna") && may("clara"));
        setup.secret("anna.token", "anna-0123456789abcdef");
        setup.secret("dora.token", "dora-0123456789abcdef");
        setup.who(&lines.concat());
        fleet.reload().unwrap();
        assert!(may("anna") && may("dora") && may("emil") && !may("berta"));
    }
}

/// Whoever can write the file of users can give himself every right.
#[test]
fn nobody_has_rights_by_a_file_of_users_that_others_can_write() {
    use std::os::unix::fs::PermissionsExt;
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\n");
    let token = setup.secret("anna.token", "anna-0123456789abcdef");
    let line = format!("[[who]]\nname = \"anna\"\nroles = [\"read\"]\ntoken_file = \"{}\"\n", token.display());
    let fleet = setup.who(&line).start();
    let anna = Ask::of(&fleet).with_token("anna-0123456789abcdef");
    assert_eq!(anna.get("/api/v1/cases").0, 200);
    let who = setup.config().who.unwrap();
    for mode in [0o620, 0o602] {
        std::fs::set_permissions(&who, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = fleet.reload().unwrap_err().to_string();
        assert!(error.contains("only root and the user of this server have rights"), "{error}");
        assert_eq!(anna.get("/api/v1/cases").0, 401, "{mode:o}");
        assert_eq!(Ask::of(&fleet).get("/api/v1/cases").0, 200, "they could change the file anyway");
        setup.who(&line);
        fleet.reload().unwrap();
        assert_eq!(anna.get("/api/v1/cases").0, 200);
    }
}

#[test]
fn hostile_requests_are_refused_and_cost_little() {
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\n");
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    // 50 MB, told and untold.
    let begun = Instant::now();
    assert_eq!(ask.raw("POST /api/v1/alertmanager HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 52428800\r\n\r\n").0, 413);
    let mut client = TcpStream::connect(ask.address).unwrap();
    client.write_all(b"POST /api/v1/alertmanager HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let piece = format!("100000\r\n{}\r\n", " ".repeat(1 << 20));
    let sent = (0..50).take_while(|_| client.write_all(piece.as_bytes()).is_ok()).count();
    let mut answer = [0; 12];
    let answered = client.read_exact(&mut answer).is_ok();
    assert!(sent < 50 || answered && &answer == b"HTTP/1.1 413", "{sent} MiB, {answer:?}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    // Every address that takes a body: too long in chunks, and chunks that break off or are none.
    let paths = [
        "alertmanager",
        "findings",
        "answers",
        "pause",
        "resume",
        "cases/1/approve",
        "cases/1/pause",
        "cases/1/resume",
        "cases/1/cancel",
        "cases/1/replaced",
        "cases/1/tested-good",
        "hosts/n1/release",
    ];
    let listed = ask.get("/api/v1").1;
    let posts = listed["addresses"].as_array().unwrap().iter();
    let posts = posts.filter(|one| one["path"].as_str().is_some_and(|path| path.starts_with("POST "))).count();
    assert_eq!(paths.len(), posts + 1, "pause and resume share a line: {listed}");
    for path in paths {
        let head = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let megabytes = if path == "alertmanager" { 17 } else { 2 };
        // The answer comes before the body ends, whether the rest is sent or not.
        let long = format!("{head}{}", piece.repeat(megabytes));
        let (status, answer) = ask.raw(&long);
        assert_eq!(status, 413, "{path}: {answer}");
        for rest in ["nonsense\r\n", "5\r\n{}\r\n\r\n0\r\n\r\n"] {
            let (status, answer) = ask.raw(&format!("{head}{rest}"));
            assert_eq!(status, 400, "{path} {rest:?}: {answer}");
        }
    }
    // Bytes that are no text, in every address: as a part of the path, and in the query.
    for one in listed["addresses"].as_array().unwrap() {
        let (method, paths) = one["path"].as_str().unwrap().split_once(' ').unwrap();
        for path in paths.split(", ") {
            let filled = path.replace("{id}", "1%ff").replace("{host}", "n%ff");
            let queried = format!("{}?limit=%ff", path.replace("{id}", "1").replace("{host}", "n1"));
            for path in [filled.as_str(), queried.as_str(), "/%ff"] {
                if !path.contains("%ff") {
                    continue;
                }
                let request = format!(
                    "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
                );
                let (status, answer) = ask.raw(&request);
                assert!(status == 400 && answer.contains("UTF-8"), "{method} {path}: {status} {answer}");
            }
        }
    }
    // Deep, long and absurd.
    for (body, status) in [
        ("[".repeat(1_000_000), 400),
        (format!("{{\"version\":\"4\",\"alerts\":{}", "[{\"labels\":".repeat(100_000)), 400),
        // One alert that is none is refused by itself, beside others that are taken.
        ("{\"version\":\"4\",\"alerts\":[null]}".into(), 200),
        (webhook("../../etc/passwd", "firing", 1), 200),
        (webhook("$(reboot)", "firing", 1), 200),
        (webhook(&"a".repeat(100_000), "firing", 1), 200),
        ("\0".into(), 400),
        (String::new(), 400),
    ] {
        let (got, answer) = ask.post("/api/v1/alertmanager", &body);
        assert_eq!(got, status, "{}: {answer}", &body[..body.len().min(80)]);
        assert!(status != 200 || answer["refused"] == 1, "{answer}");
        assert!(answer.to_string().len() < 2_000);
    }
    // Of another site, by another name, as a form.
    let head =
        |more: &str| format!("POST /api/v1/pause HTTP/1.1\r\n{more}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}");
    let json = "Content-Type: application/json\r\n";
    assert_eq!(ask.raw(&head(&format!("Host: evil.example\r\n{json}"))).0, 403);
    assert_eq!(ask.raw(&head(&format!("Host: localhost\r\n{json}Sec-Fetch-Site: cross-site\r\n"))).0, 403);
    assert_eq!(ask.raw(&head("Host: localhost\r\nContent-Type: text/plain\r\n")).0, 415);
    assert_eq!(ask.raw(&head("Host: localhost\r\n")).0, 415);
    for path in [
        "/api/v1/cases/../../etc/passwd",
        "/api/v1/cases/1%27",
        "/api/v1/cases?limit=0",
        "/api/v1/cases?x=1",
        "/nothing",
    ] {
        let status = ask.get(path).0;
        assert!(matches!(status, 400 | 404), "{path}: {status}");
    }
    // Slow ones hold nobody up.
    let slow: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut client = TcpStream::connect(ask.address).unwrap();
            client.write_all(b"POST /api/v1/alertmanager HTTP/1.1\r\nHost: loc").unwrap();
            client
        })
        .collect();
    assert_eq!(ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    drop(slow);
    assert_eq!(ask.get("/api/v1/cases").0, 200);
}

#[test]
fn while_the_store_is_away_nothing_is_taken_and_nothing_is_lost() {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => return not_run("fleet::while_the_store_is_away_nothing_is_taken_and_nothing_is_lost", &why),
    };
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\n").store(&server.url());
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    assert_eq!(ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    ask.until(1, "returned", |case| case["state"] == "returned");
    server.down().unwrap();
    let (status, answer) = ask.post("/api/v1/alertmanager", &webhook("node2", "firing", 2));
    assert_eq!(status, 503, "{answer}");
    assert!(answer["error"].as_str().unwrap().contains("send it again"), "{answer}");
    assert_eq!(ask.get("/api/v1/cases").0, 503);
    let (status, metrics) = ask.get_text("/metrics");
    assert!(status == 200 && metrics.contains("surefoot_remedy_store_up 0"), "{metrics}");
    server.up().unwrap();
    let begun = Instant::now();
    while ask.post("/api/v1/alertmanager", &webhook("node2", "firing", 2)).0 != 200 {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(200));
    }
    // After a crash, the server's own numbers may have a gap.
    let begun = Instant::now();
    loop {
        let (_, list) = ask.get("/api/v1/cases?state=all");
        let cases = list["cases"].as_array().cloned().unwrap_or_default();
        if cases.iter().any(|case| case["host"] == "node2" && case["state"] == "returned") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{list}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Two controllers on one PostgreSQL, whose policy runs two hooks for each host; `None`, and said, where there is none.
fn two_controllers(name: &str) -> Option<(Postgres, Setup, [Fleet; 2])> {
    two_controllers_with(name, LEASE, |_| String::new())
}

/// The same with this lease and these tables in the policy file.
fn two_controllers_with(
    name: &str,
    lease: Duration,
    tables: impl Fn(&Setup) -> String,
) -> Option<(Postgres, Setup, [Fleet; 2])> {
    let server = match Postgres::start() {
        Ok(server) => server,
        Err(why) => {
            not_run(&format!("fleet::{name}"), &why);
            return None;
        }
    };
    let setup = Setup::with_hook(name)?.store(&server.url());
    let limits = "hosts_at_once = 100\nshare_of_service = 1.0\nper_hour = 1000\n";
    setup.policy(&(setup.hook_policy(limits, false) + &tables(&setup)));
    let start = || Fleet::start(Config { lease, ..setup.config() }).unwrap();
    let fleets = [start(), start()];
    Some((server, setup, fleets))
}

#[test]
fn two_controllers_on_one_store_do_each_step_once() {
    let both = two_controllers("two_controllers_on_one_store_do_each_step_once");
    let Some((_server, setup, fleets)) = both else { return };
    let asks = fleets.each_ref().map(Ask::of);
    // Alertmanager tells both.
    std::thread::scope(|scope| {
        for ask in &asks {
            scope.spawn(move || {
                for number in 0..12 {
                    let body = webhook(&format!("node{number}"), "firing", number);
                    assert_eq!(ask.post("/api/v1/alertmanager", &body).0, 200);
                }
            });
        }
    });
    for id in 1..=12 {
        asks[0].until(id, "returned", |case| case["state"] == "returned");
    }
    let mut runs = setup.runs();
    assert_eq!(runs.len(), 24, "{runs:?}");
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 12, "two steps of each host");
}

#[test]
fn connections_to_the_store_that_are_cut_double_nothing() {
    // A connection that is cut between a commit and its answer leaves a step of which nobody knows whether it began: once its lease has run
    // out, the hook is asked. One that cannot tell goes to a person, as it should.
    let name = "connections_to_the_store_that_are_cut_double_nothing";
    let both = two_controllers_with(name, Duration::from_secs(5), Setup::hooks_that_find);
    let Some((server, setup, fleets)) = both else { return };
    let asks = fleets.each_ref().map(Ask::of);
    // Whoever is told that it was not taken tells it again, to whichever controller.
    for number in 0..20 {
        server.cut().unwrap();
        let body = webhook(&format!("node{number}"), "firing", number);
        let begun = Instant::now();
        while !asks.iter().any(|ask| ask.post("/api/v1/alertmanager", &body).0 == 200) {
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
        std::thread::sleep(Duration::from_millis(37 * (number % 5)));
    }
    let begun = Instant::now();
    let back = |ask: &Ask| {
        let (_, list) = ask.get("/api/v1/cases?state=all");
        let cases = list["cases"].as_array().cloned().unwrap_or_default();
        cases.iter().filter(|case| case["state"] == "returned").count()
    };
    while back(&asks[0]) < 20 {
        assert!(begun.elapsed() < Duration::from_secs(90), "{}", asks[0].get("/api/v1/cases?state=all").1);
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut runs = setup.runs();
    assert_eq!(runs.len(), 40, "two steps of each host: {runs:?}");
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 20);
}

#[test]
fn what_an_agent_finds_is_a_case_and_ends_when_it_finds_it_no_more() {
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\", \"return\"]\napprove = [\"drain\"]\n");
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    let finding = json!({"key": "memory/rate/dimm/A1", "room": "memory", "subject": {"kind": "dimm", "name": "A1"},
        "severity": "critical", "certainty": "certain", "sentence": "It has errors.", "since_realtime_ns": 5});
    let board = json!({"host": "Node1", "service": "web", "findings": [finding]}).to_string();
    let (status, answer) = ask.post("/api/v1/findings", &board);
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
    let story = ask.until(1, "needs_approval", |case| case["state"] == "needs_approval");
    assert_eq!((&story["case"]["service"], &story["case"]["subject"]), (&json!("web"), &json!("dimm A1")));
    assert_eq!(
        ask.post(
            "/api/v1/findings",
            &json!({"host": "node1", "service": "web", "findings": [], "findings_left_out": {"memory": 0}}).to_string()
        )
        .0,
        200
    );
    ask.until(1, "cleared", |case| case["is_firing"] == false);
    assert_eq!(ask.post("/api/v1/findings", "{\"host\": \"a b\"}").0, 400);
}

/// The label by which this server knows its own findings again is no way past it, in silence, for an alert of anybody else.
#[test]
fn an_alert_that_claims_to_be_of_an_agent_and_is_not_is_refused_and_told() {
    let setup = Setup::new("[[policy]]\nsteps = [\"drain\"]\napprove = [\"drain\"]\n");
    let fleet = setup.start();
    let ask = Ask::of(&fleet);
    let finding = json!({"key": "memory/rate/dimm/A1", "room": "memory", "subject": {"kind": "dimm", "name": "A1"},
        "severity": "critical", "certainty": "certain", "sentence": "It has errors.", "since_realtime_ns": 5});
    let board = json!({"host": "node1", "service": "web", "findings": [finding], "findings_left_out": {"memory": 0}});
    assert_eq!(ask.post("/api/v1/findings", &board.to_string()).0, 200);
    let alert = |host: &str, rule: &str| {
        json!({"status": "firing", "labels": {"alertname": "SurefootMemoryCritical", "host": host, "room": "memory", "rule": rule,
            "subject": "dimm A1", "surefoot_origin": "agent"}, "annotations": {}, "startsAt": "2026-01-01T00:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "", "fingerprint": "00ab"})
    };
    let alerts = [alert("node1", "rate"), alert("node2", "rate"), alert("node1", "uncorrected")];
    let message = json!({"version": "4", "status": "firing", "alerts": alerts, "groupKey": "{}", "receiver": "r"});
    let (status, answer) = ask.post("/api/v1/alertmanager", &message.to_string());
    assert_eq!((status, &answer["accepted"], &answer["refused"]), (200, &1.into(), &2.into()), "{answer}");
    let reasons = answer["reasons"].to_string();
    assert!(reasons.contains("of host 'node2'") && reasons.contains("no agent has found it"), "{reasons}");
    let metrics = ask.get_text("/metrics").1;
    for line in ["surefoot_remedy_refused_total{reason=\"origin\"} 2", "surefoot_remedy_alerts_unread 0"] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let trail = ask.get("/api/v1/trail").1.to_string();
    assert!(trail.contains("not_taken") && trail.contains("no agent has found it"), "{trail}");
}

/// Nobody connects to a controller that will not start.
#[test]
fn a_store_is_looked_at_before_anybody_can_connect() {
    let Some(setup) = Setup::with_hook("a_store_is_looked_at_before_anybody_can_connect") else { return };
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("cases.db");
    std::fs::write(&path, "").unwrap();
    let setup = setup.store(&format!("sqlite:{}", path.display()));
    setup.policy(&setup.hook_policy("", false));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = vec![taken.local_addr().unwrap().to_string().parse().unwrap()];
    let told = Fleet::start(Config { listen, ..setup.config() }).err().unwrap().to_string();
    assert!(told.contains("the file is empty"), "{told}");
}
