use super::order::order;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use surefoot_outside::http::{Identity, Trust};
use surefoot_remedy::act::{Act, Hands, HandsConfig, Outcome, TicketSystem};

fn hands(system: TicketSystem) -> Hands {
    Hands::new(HandsConfig { tickets: [("desk".to_owned(), system)].into(), ..HandsConfig::default() })
}

fn run(hands: &Hands, step: &str) -> Outcome {
    hands.run(&order(step, "n1"), &AtomicBool::new(false))
}

#[test]
fn a_ticket_in_a_directory_is_one_however_often_it_is_filed() {
    let folder = tempfile::tempdir().unwrap();
    let hands = hands(TicketSystem::Directory(folder.path().to_owned()));
    for _ in 0..2 {
        match run(&hands, "ticket:desk") {
            Outcome::Done { memo, .. } => assert_eq!(memo, "surefoot-17-2-17.2.1"),
            other => panic!("{other:?}"),
        }
    }
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let ticket: serde_json::Value = serde_json::from_slice(&std::fs::read(&files[0]).unwrap()).unwrap();
    assert_eq!(
        (&ticket["case"], &ticket["host"], &ticket["evidence"][1]),
        (&17.into(), &"n1".into(), &"row 0x1a".into())
    );
    // What the person who gets it needs: the alert, how bad it is, why it is theirs, what was done, what to type.
    assert_eq!(ticket["sentence"], "DIMM A1 has 10.2 corrected errors a second.");
    assert_eq!((&ticket["severity"], &ticket["is_drained"]), (&"warning".into(), &true.into()));
    assert_eq!(ticket["why"], "hard-repair:maker failed: no spare row");
    assert_eq!(ticket["steps"][0], "drain done: no job is left");
    assert_eq!(ticket["commands"][1], "surefoot remedy approve 17 --reason TEXT");
    assert_eq!(ticket["summary"], "memory/rate (dimm A1) on n1: manual action needed, case 17");
    assert!(ticket["commands_for"].as_str().unwrap().starts_with("on ctl, the controller's host"), "{ticket}");
}

/// A store that was removed counts from 1 again; its tickets are others.
#[test]
fn a_ticket_of_another_store_is_not_taken_for_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let hands = hands(TicketSystem::Directory(folder.path().to_owned()));
    let of = |token: &str| surefoot_remedy::Order { token: token.into(), ..order("ticket:desk", "n1") };
    // The first store's, and its second attempt; then the same case of another store.
    for token in ["case-1-0-1-1971a", "case-1-0-2-1971a", "case-1-0-1-1972b"] {
        assert!(matches!(hands.run(&of(token), &AtomicBool::new(false)), Outcome::Done { .. }));
    }
    let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["surefoot-17-2-1971a.json", "surefoot-17-2-1972b.json"]);
}

#[test]
fn a_ticket_system_that_is_down_is_asked_again_later() {
    let gone = TicketSystem::Directory("/nonexistent/tickets".into());
    assert!(matches!(run(&hands(gone), "ticket:desk"), Outcome::Failed { is_passing: true, .. }));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{closed}/tickets");
    let down = TicketSystem::Webhook { url, identity: Identity::None, trust: Trust::System };
    assert!(matches!(run(&hands(down), "ticket:desk"), Outcome::Failed { is_passing: true, .. }));
    match run(&Hands::default(), "ticket:desk") {
        Outcome::Failed { detail, is_passing: false, .. } => assert!(detail.contains("no ticket system"), "{detail}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_web_service_is_told_the_case_and_names_the_ticket() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/tickets", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        let mut part = [0; 4096];
        while !asked.ends_with(b"}") {
            let count = stream.read(&mut part).unwrap();
            asked.extend_from_slice(&part[..count]);
        }
        let body = r#"{"key":"HW-4711"}"#;
        write!(stream, "HTTP/1.1 201 Created\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        String::from_utf8(asked).unwrap()
    });
    let identity = Identity::Token("secret".to_owned());
    let system = TicketSystem::Webhook { url, identity, trust: Trust::System };
    match run(&hands(system), "ticket:desk") {
        Outcome::Done { memo, .. } => assert_eq!(memo, "HW-4711"),
        other => panic!("{other:?}"),
    }
    let asked = served.join().unwrap();
    assert!(asked.contains("idempotency-key: surefoot-17-2-17.2.1\r\n") && asked.contains("Bearer secret"), "{asked}");
    assert!(asked.contains(r#""summary":"memory/rate (dimm A1) on n1"#), "{asked}");
}

/// A login page answers with 200, and no ticket is filed by it.
#[test]
fn an_answer_that_is_no_ticket_is_none() {
    use super::service::{Reply, Service};
    let page = || Reply(200, vec!["Content-Type: text/html".to_owned()], "<!DOCTYPE html><p>Log in</p>".to_owned());
    let says = |text: &'static str| move |_: &super::service::Asked| Reply(200, Vec::new(), text.to_owned());
    let file = |service: Service| {
        let way = TicketSystem::Webhook { url: service.url, identity: Identity::None, trust: Trust::System };
        run(&hands(way), "ticket:desk")
    };
    for (service, words) in [
        (Service::start(move |_| page()), "a web page"),
        (Service::start(says(r#"{"ok":false,"error":"no such channel"}"#)), "says that it failed"),
        (Service::start(says(r#"{"success":false,"key":"T1"}"#)), "says that it failed"),
    ] {
        match file(service) {
            Outcome::Failed { detail, is_passing: true, .. } => assert!(detail.contains(words), "{detail}"),
            other => panic!("{words}: {other:?}"),
        }
    }
    for (answer, name) in [("ok", "surefoot-17-2-17.2.1"), ("", "surefoot-17-2-17.2.1"), (r#"{"key":"T1"}"#, "T1")] {
        assert!(matches!(file(Service::start(says(answer))), Outcome::Done { memo, .. } if memo == name), "{answer}");
    }
}
