//! Settings of the firmware at controllers that are particular about versions, answer later, or answer ill; a usual one is in `redfish`.

use super::order::order;
use super::service::{Asked, Reply, Service};
use serde_json::{Map, Value, json};
use std::sync::atomic::AtomicBool;
use surefoot_remedy::act::{Act, Bmc, Hands, HandsConfig, Outcome};

const SYSTEM: &str = "/redfish/v1/Systems/1";
const STEP: &str = "firmware:NodeInterleave=On";

fn hands(service: &Service) -> Hands {
    let bmc = Bmc { url: service.url.clone(), ..Bmc::default() };
    Hands::new(HandsConfig { bmcs: [("n1".to_owned(), bmc)].into(), ..HandsConfig::default() })
}

fn run(hands: &Hands, step: &str, memo: &str) -> Outcome {
    let mut order = order(step, "n1");
    order.memo = memo.to_owned();
    hands.run(&order, &AtomicBool::new(false))
}

/// Does a step that remembers something first; its outcome, and what it remembers.
fn change(hands: &Hands) -> (Outcome, String) {
    let Outcome::GoesOn { memo, .. } = run(hands, STEP, "") else { panic!("it remembers nothing first") };
    (run(hands, STEP, &memo), memo)
}

fn done(outcome: Outcome) -> String {
    match outcome {
        done @ Outcome::Done { .. } => done.words(),
        other => panic!("{other:?}"),
    }
}

fn failed(outcome: Outcome) -> (String, bool) {
    match outcome {
        Outcome::Failed { detail, is_passing, .. } => (detail, is_passing),
        other => panic!("{other:?}"),
    }
}

fn link(path: &str) -> Value {
    json!({ "@odata.id": path })
}

/// What a controller has beside the answer to a change.
#[derive(Clone, Default)]
struct Odd {
    /// How it tells the version of its settings, for a version's number.
    tag: Option<fn(u32) -> String>,
    /// Other fields of the machine.
    system: Map<String, Value>,
    /// The list of settings, where it is another.
    settings: Option<Value>,
}

/// A controller whose answer to a change is told its number, the version of its settings and the pending ones.
fn controller(
    odd: Odd,
    mut patch: impl FnMut(&Asked, u32, &mut u32, &mut Map<String, Value>) -> Reply + Send + 'static,
) -> Service {
    let now = json!({ "NodeInterleave": "Off" });
    let (mut pending, mut version, mut count) = (Map::new(), 1, 0);
    Service::start(move |asked| {
        let settings = format!("{SYSTEM}/Bios/Settings");
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/redfish/v1/Systems") => Reply::json(200, &json!({ "Members": [link(SYSTEM)] })),
            ("GET", SYSTEM) => {
                let mut system = json!({ "PowerState": "On", "Bios": link(&format!("{SYSTEM}/Bios")) });
                system.as_object_mut().unwrap().extend(odd.system.clone());
                Reply::json(200, &system)
            }
            ("GET", "/redfish/v1/Systems/1/Bios") => {
                let list = odd.settings.clone().unwrap_or_else(|| now.clone());
                Reply::json(
                    200,
                    &json!({ "Attributes": list, "@Redfish.Settings": { "SettingsObject": link(&settings) } }),
                )
            }
            ("GET", path) if path == settings => {
                let mut reply = Reply::json(200, &json!({ "Attributes": pending.clone() }));
                reply.1.extend(odd.tag.map(|tag| format!("ETag: {}", tag(version))));
                reply
            }
            ("PATCH", path) if path == settings => {
                count += 1;
                patch(asked, count, &mut version, &mut pending)
            }
            ("GET", "/redfish/v1/TaskService/Tasks/7") => Reply::json(200, &json!({ "TaskState": "Running" })),
            ("GET", "/redfish/v1/TaskService/Tasks/8") => Reply::json(200, &json!({ "TaskState": "Dreaming" })),
            _ => Reply::json(404, &json!({})),
        }
    })
}

fn take(asked: &Asked, pending: &mut Map<String, Value>) -> Reply {
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    pending.extend(body["Attributes"].as_object().unwrap().clone());
    Reply::json(200, &json!({}))
}

/// Refuses what does not name the version that it has, in its own words.
fn particular(takes: fn(u32) -> String) -> impl FnMut(&Asked, u32, &mut u32, &mut Map<String, Value>) -> Reply {
    move |asked, _, version, pending| match &asked.if_match {
        None => Reply::json(428, &json!({ "error": { "message": "An If-Match header is needed." } })),
        Some(tag) if *tag != takes(*version) => Reply::json(412, &json!({ "error": { "message": "precondition" } })),
        Some(_) => {
            *version += 1;
            take(asked, pending)
        }
    }
}

#[test]
fn a_change_names_the_version_that_was_read_and_one_that_tells_none_is_sent_without() {
    let plain: fn(u32) -> String = |version| format!("\"{version}\"");
    let weak: fn(u32) -> String = |version| format!("W/\"{version}\"");
    for (tag, takes, patches) in [(plain, plain, 1), (weak, weak, 1), (weak, plain, 2)] {
        let service = controller(Odd { tag: Some(tag), ..Odd::default() }, particular(takes));
        let hands = hands(&service);
        let (outcome, memo) = change(&hands);
        assert_eq!(done(outcome), "read back: NodeInterleave = On from the next restart on");
        assert_eq!(service.asked("PATCH").len(), patches);
        let restored = done(run(&hands, &format!("restore:{STEP}"), &memo));
        assert_eq!(restored, "read back: NodeInterleave = Off");
        let sent = service.asked("PATCH").pop().unwrap();
        assert_eq!((sent.if_match, sent.body.contains("Off")), (Some(takes(2)), true));
    }
    // One that tells no version and takes everything, and one that tells none and wants to hear that there is one.
    let service = controller(Odd::default(), |asked, _, _, pending| take(asked, pending));
    done(change(&hands(&service)).0);
    assert_eq!(service.asked("PATCH")[0].if_match, None);
    let service = controller(Odd::default(), |asked, _, _, pending| match asked.if_match.as_deref() {
        Some("*") => take(asked, pending),
        _ => Reply::json(428, &json!({})),
    });
    done(change(&hands(&service)).0);
    assert_eq!(service.asked("PATCH").len(), 2);
}

#[test]
fn a_change_that_is_refused_is_sent_twice_at_most_and_what_was_never_changed_is_not_put_back() {
    let plain: fn(u32) -> String = |version| format!("\"{version}\"");
    for (status, passes) in [(412, true), (428, false)] {
        let refuses = move |_: &Asked, _, _: &mut u32, _: &mut Map<String, Value>| {
            Reply::json(status, &json!({ "error": { "message": "not so" } }))
        };
        let service = controller(Odd { tag: Some(plain), ..Odd::default() }, refuses);
        let hands = hands(&service);
        let (outcome, memo) = change(&hands);
        let (why, is_passing) = failed(outcome);
        assert!(why.contains("not so") && is_passing == passes, "{why}");
        assert_eq!(service.asked("PATCH").len(), 2);
        let said = done(run(&hands, &format!("restore:{STEP}"), &memo));
        assert!(said.contains("nothing had to be put back"), "{said}");
        assert_eq!(service.asked("PATCH").len(), 2);
    }
    // Every other refusal is final.
    let service = controller(Odd::default(), |_, _, _, _| Reply::json(500, &json!({})));
    assert!(failed(change(&hands(&service)).0).1);
    assert_eq!(service.asked("PATCH").len(), 1);
}

#[test]
fn what_was_taken_and_is_not_there_is_not_set() {
    let to = |place: &'static str, status: u16| {
        move |_: &Asked, _, _: &mut u32, _: &mut Map<String, Value>| {
            let mut reply = Reply::json(status, &json!({}));
            reply.1.push(format!("Location: {place}"));
            reply
        }
    };
    let tasks = "/redfish/v1/TaskService/Tasks";
    for (place, status, words, passes) in [
        (format!("{tasks}/7"), 202, "is Running", true),
        (format!("{tasks}/8"), 202, "is Dreaming, which is unknown here", false),
        (format!("{tasks}/9"), 202, "HTTP 404", false),
        ("http://127.0.0.1:1/redfish/v1/Tasks/7".to_owned(), 202, "names no task", false),
        (format!("{tasks}/7"), 200, "and has \"Off\"", false),
    ] {
        let service = controller(Odd::default(), to(place.leak(), status));
        let (why, is_passing) = failed(change(&hands(&service)).0);
        assert!(why.contains(words) && why.contains("took NodeInterleave"), "{words}: {why}");
        assert_eq!(is_passing, passes, "{why}");
    }
    // And a way back that the controller only seems to take is none.
    let service = controller(Odd::default(), |asked, count, _, pending| match count {
        1 => take(asked, pending),
        _ => Reply::json(200, &json!({})),
    });
    let hands = hands(&service);
    let (outcome, memo) = change(&hands);
    done(outcome);
    let (why, _) = failed(run(&hands, &format!("restore:{STEP}"), &memo));
    assert!(why.contains("and has \"On\""), "{why}");
}

#[test]
fn settings_that_are_not_told_are_unknown_and_nothing_is_changed() {
    for (list, words) in [
        (Value::Null, "the settings are unknown"),
        (json!([]), "the settings are unknown"),
        (json!({ "NodeInterleave": null }), "could not be put back"),
        (json!({ "Other": "Off" }), "has no setting"),
    ] {
        let service = controller(Odd { settings: Some(list), ..Odd::default() }, |asked, _, _, p| take(asked, p));
        let (why, _) = failed(run(&hands(&service), STEP, ""));
        assert!(why.contains(words), "{words}: {why}");
        assert!(service.asked("PATCH").is_empty());
    }
}

#[test]
fn a_machine_whose_power_is_unknown_is_not_switched_on() {
    for (state, words, passes) in [
        (json!("PoweringOff"), "is PoweringOff", true),
        (json!("Hibernating"), "power state is unknown (Hibernating)", false),
        (Value::Null, "power state is unknown (not told)", false),
    ] {
        let system = [("PowerState".to_owned(), state)].into_iter().collect();
        let service = controller(Odd { system, ..Odd::default() }, |asked, _, _, pending| take(asked, pending));
        let hands = hands(&service);
        let Outcome::GoesOn { memo, .. } = run(&hands, "reboot", "") else { panic!("it remembers nothing first") };
        let (why, is_passing) = failed(run(&hands, "reboot", &memo));
        assert!(why.contains(words), "{why}");
        assert_eq!((is_passing, service.asked("POST").len()), (passes, 0));
    }
}

/// A list of machines that is not whole may name one of several.
#[test]
fn the_only_machine_of_half_a_list_is_not_taken_for_the_only_one() {
    for (list, words) in [
        (json!({ "Members": [link(SYSTEM)], "Members@odata.count": 2 }), "2 members, of which 1 were read"),
        (json!({ "Members": null }), "no list 'Members'"),
        (json!({ "Members": [link("http://elsewhere/")] }), "no path of this service"),
    ] {
        let service = Service::start(move |_| Reply::json(200, &list));
        let (why, _) = failed(run(&hands(&service), "reboot", ""));
        assert!(why.contains(words), "{words}: {why}");
    }
}
