use super::order::order;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_remedy::act::{Act, Bmc, Hands, HandsConfig, Order, Outcome, PriorAttempt, Times};
use surefoot_testkit::{not_run::not_run, redfish::Controller};

fn hands(url: String) -> Hands {
    let bmc = Bmc { url, ..Bmc::default() };
    let reboot = Times { settle: Duration::from_millis(200), limit: Duration::from_secs(60) };
    Hands::new(HandsConfig { bmcs: [("n1".to_owned(), bmc)].into(), reboot, ..HandsConfig::default() })
}

/// Does a step to its end, as the engine does: with the memo of the call before. What was said, and the last memo.
fn finish(hands: &Hands, mut order: Order) -> (Vec<String>, String) {
    let mut said = Vec::new();
    loop {
        match hands.run(&order, &AtomicBool::new(false)) {
            Outcome::Done { ref memo, ref observed, .. } => {
                said.push(observed.to_string());
                return (said, memo.clone());
            }
            Outcome::GoesOn { detail, memo, again_in_ns } => {
                said.push(detail);
                order.memo = memo;
                std::thread::sleep(Duration::from_nanos(again_in_ns).min(Duration::from_millis(300)));
            }
            other => panic!("{said:?}: {other:?}"),
        }
        assert!(said.len() < 100, "{said:?}");
    }
}

fn refusal(hands: &Hands, step: &str, host: &str) -> (String, bool) {
    match hands.run(&order(step, host), &AtomicBool::new(false)) {
        Outcome::Failed { detail, is_passing, .. } => (detail, is_passing),
        other => panic!("{step}: {other:?}"),
    }
}

#[test]
fn a_setting_of_the_firmware_is_changed_takes_effect_and_is_put_back() {
    const NAME: &str = "a_setting_of_the_firmware_is_changed_takes_effect_and_is_put_back";
    if let Some(why) = Controller::unsupported() {
        return not_run(NAME, &why);
    }
    let controller = Controller::start().unwrap();
    let hands = hands(controller.url());
    let systems = controller.get("/redfish/v1/Systems");
    let path = systems.split('"').find(|word| word.starts_with("/redfish/v1/Systems/")).unwrap();
    let mode = || {
        let bios = controller.get(&format!("{path}/BIOS"));
        let line = bios.lines().find(|line| line.contains("ProcTurboMode")).unwrap();
        line.split('"').nth(3).unwrap().to_owned()
    };
    assert_eq!(mode(), "Enabled");

    let (said, memo) = finish(&hands, order("firmware:ProcTurboMode=Disabled", "n1"));
    assert_eq!(
        said,
        // The emulator does not wait for the restart, as machines do.
        ["ProcTurboMode was \"Enabled\"", "read back: ProcTurboMode = Disabled"]
    );
    // Nobody sees a restart here: the emulator restarts nothing, and tells neither BootProgress nor LastResetTime.
    let (said, _) = finish(&hands, order("reboot", "n1"));
    assert!(said.last().unwrap().starts_with("not observed: power is on "), "{said:?}");
    assert_eq!(mode(), "Disabled");

    let mut back = order("restore:firmware:ProcTurboMode=Disabled", "n1");
    back.memo = memo;
    finish(&hands, back);
    finish(&hands, order("reboot", "n1"));
    assert_eq!(mode(), "Enabled");

    // Nobody can tell here whether a restart was asked for: this controller says no time of the last one.
    let mut begun = order("reboot", "n1");
    begun.memo = r#"{"before":"","asked_s":0}"#.to_owned();
    assert!(matches!(hands.find(&begun), PriorAttempt::Unknown { .. }));
    assert_eq!(hands.find(&order("reboot", "n1")), PriorAttempt::MayRepeat);

    let (why, is_passing) = refusal(&hands, "firmware:CeThreshold=1", "n1");
    assert!(why.contains("no setting 'CeThreshold'") && !is_passing, "{why}");
    let (why, is_passing) = refusal(&hands, "firmware:A=1", "n2");
    assert!(why.contains("no baseboard controller is configured for n2") && !is_passing, "{why}");
}

#[test]
fn a_controller_that_does_not_answer_is_asked_again_later() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (why, is_passing) = refusal(&hands(format!("http://{closed}")), "reboot", "n1");
    assert!(why.contains("no answer") && is_passing, "{why}");
}

/// A management controller that takes a question and never answers: it is waited for no longer than until the lease is lost.
#[test]
fn a_controller_that_hangs_holds_nobody_who_is_told_to_stop() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let hands = hands(format!("http://{}", listener.local_addr().unwrap()));
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let told = std::sync::Arc::clone(&stop);
    let teller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        told.store(true, std::sync::atomic::Ordering::Release);
    });
    let begun = std::time::Instant::now();
    let outcome = hands.run(&order("reboot", "n1"), &stop);
    assert!(matches!(outcome, Outcome::Failed { is_passing: true, .. }), "{outcome:?}");
    assert!(begun.elapsed() < Duration::from_secs(50), "it would have waited for a minute");
    teller.join().unwrap();
}

/// Whatever a controller answers, the step fails in words and the engine goes on: redirections are not followed, and nothing is believed that is
/// not signed.
#[test]
fn a_hostile_controller_is_refused_in_words() {
    let ok = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes();
    let redirect = b"HTTP/1.1 307 Go\r\nLocation: http://127.0.0.1:1/redfish/v1\r\nContent-Length: 0\r\n\r\n".to_vec();
    let endless = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![b' '; 3_000_000]].concat();
    let elsewhere = r#"{"Members": [{"@odata.id": "@127.0.0.1:1/redfish/../x"}]}"#;
    let answers: [(Vec<u8>, &str, bool); 8] = [
        (ok("{\"Members\": ["), "no JSON", true),
        (ok(&"[".repeat(200_000)), "no JSON", true),
        (ok("{\"Members\": 7}"), "no list 'Members'", false),
        (ok(elsewhere), "named by no path", false),
        (ok("\u{1b}[2J\0"), "no JSON", true),
        (redirect, "HTTP 307: it redirects to http://127.0.0.1:1/", false),
        (endless, "more than 524288 bytes", true),
        (b"\x16\x03\x01 what is this".to_vec(), "no answer", true),
    ];
    for (answer, words, passes) in answers {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 8_192]);
            let _ = stream.write_all(&answer);
        });
        let (why, is_passing) = refusal(&hands(format!("http://{address}")), "reboot", "n1");
        serving.join().unwrap();
        assert!(why.contains(words) && !why.chars().any(char::is_control), "{words}: {why}");
        assert_eq!(is_passing, passes, "{why}");
    }
    // Plain text in the place of TLS, which is not believed either.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (why, is_passing) = {
        let url = format!("https://{}", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            use std::io::Write;
            let _ = listener.accept().unwrap().0.write_all(b"HTTP/1.1 200 OK\r\n\r\n{}");
        });
        let refused = refusal(&hands(url), "reboot", "n1");
        serving.join().unwrap();
        refused
    };
    assert!(why.contains("no answer") && is_passing, "{why}");
}
