//! What an API server may say to a drain, well or ill, by a service of a few lines; a real one is in `kubernetes`.

use super::order::{order, reported};
use super::service::{Asked, Reply, Service};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use surefoot_model::{MachineId, Observed};
use surefoot_remedy::act::{Act, Drainer, Hands, HandsConfig, Kubernetes, Order, Outcome};

/// What a return says of a node without pods.
const IN_SERVICE: &str = "Kubernetes: schedulable; no job or pod has started there yet";

fn pod(name: &str) -> Value {
    let owner = json!([{ "kind": "ReplicaSet", "name": "r", "controller": true }]);
    let about = json!({ "namespace": "a", "name": name, "uid": name, "ownerReferences": owner });
    json!({ "metadata": about, "spec": { "nodeName": "n1" }, "status": { "phase": "Running" } })
}

/// A cluster with these pods on its node n1: `evict` says how it answers to the eviction of one, `list` how to the question for all.
fn cluster(
    pods: &[&str],
    evict: impl Fn(&str) -> (u16, Value) + Send + 'static,
    list: impl Fn(Vec<Value>) -> Value + Send + 'static,
) -> Service {
    let mut pods: Vec<String> = pods.iter().map(|name| (*name).to_owned()).collect();
    let mut node = json!({ "metadata": { "name": "n1", "annotations": {}, "resourceVersion": "1" }, "spec": {} });
    Service::start(move |asked: &Asked| match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/api/v1/nodes/n1") => Reply::json(200, &node),
        ("PATCH", "/api/v1/nodes/n1") => {
            node["metadata"]["annotations"]["surefoot.io/case"] = "17".into();
            node["spec"]["unschedulable"] = true.into();
            Reply::json(200, &node)
        }
        ("GET", path) if path.starts_with("/api/v1/pods") => {
            Reply::json(200, &list(pods.iter().map(|name| pod(name)).collect()))
        }
        ("POST", path) if path.ends_with("/eviction") => {
            let name = path.split('/').nth(6).unwrap_or_default().to_owned();
            let (status, said) = evict(&name);
            if status == 201 {
                pods.retain(|own| *own != name);
            }
            Reply::json(status, &said)
        }
        _ => Reply::json(201, &json!({})),
    })
}

fn whole(pods: Vec<Value>) -> Value {
    json!({ "kind": "PodList", "metadata": {}, "items": pods })
}

fn drain(service: &Service) -> Outcome {
    let cluster = Kubernetes { server: service.url.clone(), ..Kubernetes::default() };
    let drainers = [("web".to_owned(), Drainer::Kubernetes(cluster))].into();
    let hands = Hands::new(HandsConfig { drainers, ..HandsConfig::default() });
    hands.run(&order("drain", "n1"), &AtomicBool::new(false))
}

fn evictions(service: &Service) -> usize {
    service.asked("POST").iter().filter(|asked| asked.path.ends_with("/eviction")).count()
}

fn two_budgets() -> (u16, Value) {
    let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    (500, json!({ "kind": "Status", "status": "Failure", "message": message, "code": 500 }))
}

/// kubernetes/kubernetes issue 75957.
#[test]
fn a_pod_that_cannot_leave_holds_back_no_other_and_is_named() {
    let refuses = |name: &str| if name == "first" { two_budgets() } else { (201, json!({})) };
    let service = cluster(&["first", "second", "third"], refuses, whole);
    match drain(&service) {
        Outcome::GoesOn { detail, .. } => {
            assert!(detail.contains("cannot leave: a/first (HTTP 500: This pod has more than one"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(evictions(&service), 3);
    // It alone is left, and is waited for: one of the two budgets may go.
    match drain(&service) {
        Outcome::GoesOn { detail, .. } => {
            assert!(detail.contains("1 pods are still there: a/first; cannot leave: a/first"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_refusal_of_an_eviction_is_told_by_what_it_means() {
    let terminating =
        json!({ "message": "it is being terminated", "details": { "causes": [{ "reason": "NamespaceTerminating" }] } });
    let forbidden = json!({ "message": "pods is forbidden" });
    // Status, body, whether it is waited for, and whether a failure may pass.
    let cases = [
        (429, json!({ "message": "it would violate the pod's disruption budget" }), true, true),
        (403, terminating, true, true),
        (403, forbidden, false, false),
        (422, json!({ "message": "no" }), false, false),
        (500, json!({ "message": "no" }), true, true),
        (507, json!({ "message": "no" }), false, true),
        (404, json!({ "message": "not found" }), true, true),
        (409, json!({ "message": "another pod" }), true, true),
    ];
    for (status, body, is_waited_for, passes) in cases {
        let words = body["message"].as_str().unwrap().to_owned();
        let service = cluster(&["first", "second"], move |_| (status, body.clone()), whole);
        let outcome = drain(&service);
        assert_eq!(evictions(&service), 2, "{status}");
        match outcome {
            Outcome::GoesOn { detail, .. } if is_waited_for => {
                assert!(matches!(status, 404 | 409) || detail.contains(&words), "{status}: {detail}");
            }
            Outcome::Failed { detail, is_passing, .. } if !is_waited_for => {
                assert!(detail.contains(&words) && detail.contains("a/first"), "{status}: {detail}");
                assert_eq!(is_passing, passes, "{status}");
            }
            other => panic!("{status}: {other:?}"),
        }
    }
    // Who asks is unknown, or the server is away: that is no word about a pod.
    for (status, passes) in [(401, false), (503, true)] {
        let service = cluster(&["first", "second"], move |_| (status, json!({ "message": "no" })), whole);
        match drain(&service) {
            Outcome::Failed { is_passing, .. } => assert_eq!((is_passing, evictions(&service)), (passes, 1)),
            other => panic!("{status}: {other:?}"),
        }
    }
}

#[test]
fn a_list_that_is_none_or_not_whole_is_never_no_pods() {
    type List = fn(Vec<Value>) -> Value;
    let lists: [(List, &str); 6] = [
        (|_| json!({ "kind": "PodList", "metadata": {}, "items": null }), "lists no pods"),
        (|_| json!({ "kind": "PodList", "metadata": {} }), "lists no pods"),
        (|_| json!([]), "lists no pods"),
        (|_| json!({ "kind": "Status", "items": [] }), "answers with a \"Status\""),
        (|_| json!({ "metadata": { "remainingItemCount": 7 }, "items": [] }), "keeps 7 pods"),
        (|_| json!({ "metadata": { "continue": "a b" }, "items": [] }), "invalid continue token"),
    ];
    for (list, words) in lists {
        match drain(&cluster(&["first"], |_| (201, json!({})), list)) {
            Outcome::Failed { detail, .. } => assert!(detail.contains(words), "{words}: {detail}"),
            other => panic!("{words}: {other:?}"),
        }
    }
    // An empty list is one, and a pod in a phase that is unknown here holds its node.
    assert!(matches!(drain(&cluster(&[], |_| (201, json!({})), whole)), Outcome::Done { .. }));
    let odd = |_: Vec<Value>| {
        let mut odd = pod("odd");
        odd["status"]["phase"] = "Thinking".into();
        whole(vec![odd])
    };
    assert!(matches!(drain(&cluster(&["odd"], |_| (201, json!({})), odd)), Outcome::GoesOn { .. }));
}

#[test]
fn an_answer_that_is_not_the_node_and_a_node_that_somebody_uncordoned_stop_the_step() {
    let nodes = [
        (json!({}), true, "is not that node"),
        (json!({ "metadata": { "name": "n2" }, "spec": {} }), true, "is not that node (n2)"),
        (json!({ "metadata": { "name": "n1" } }), true, "is not that node"),
        (json!({ "metadata": { "name": "n1" }, "spec": { "taints": {} } }), false, "no list"),
        (
            json!({ "metadata": { "name": "n1", "annotations": { "surefoot.io/case": "17" } }, "spec": {} }),
            false,
            "someone uncordoned the node after this case cordoned it",
        ),
    ];
    for (node, passes, words) in nodes {
        let service = Service::start(move |_| Reply::json(200, &node));
        match drain(&service) {
            Outcome::Failed { detail, is_passing, .. } => {
                assert!(detail.contains(words), "{detail}");
                assert_eq!(is_passing, passes, "{detail}");
            }
            other => panic!("{words}: {other:?}"),
        }
        assert!(service.asked("PATCH").is_empty() && service.asked("POST").is_empty());
    }
    let login = Service::start(|_| Reply(200, Vec::new(), "<html>Log in</html>".to_owned()));
    match drain(&login) {
        Outcome::Failed { detail, is_passing: true, .. } => assert!(detail.contains("a web page"), "{detail}"),
        other => panic!("{other:?}"),
    }
}

/// What somebody else has cordoned is theirs, and not empty before its pods are gone.
#[test]
fn a_node_of_somebody_else_is_waited_for_until_its_pods_are_gone() {
    let node = json!({ "metadata": { "name": "n1" }, "spec": { "unschedulable": true } });
    let mut looks = 0;
    let service = Service::start(move |asked| {
        if asked.path.starts_with("/api/v1/nodes") {
            return Reply::json(200, &node);
        }
        looks += 1;
        Reply::json(200, &whole(if looks == 1 { vec![pod("first")] } else { Vec::new() }))
    });
    match drain(&service) {
        Outcome::GoesOn { detail, .. } => assert!(detail.contains("someone else") && detail.contains("a/first")),
        other => panic!("{other:?}"),
    }
    match drain(&service) {
        Outcome::Done { observed: Observed::Empty { work_count: 0, taken_out_by, .. }, memo, .. } => {
            assert_eq!((&*taken_out_by, &*memo), ("someone else", "foreign"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(service.asked("PATCH").len() + service.asked("POST").len(), 0);
}

/// A webhook or an autoscaler cordons the node again while it is brought back.
#[test]
fn a_node_that_stays_cordoned_is_not_brought_back_however_often_it_is_tried() {
    let mut node = json!({
        "metadata": { "name": "n1", "annotations": { "surefoot.io/case": "17" }, "resourceVersion": "1" },
        "spec": { "unschedulable": true },
    });
    let mut patches_left = 2;
    let service = Service::start(move |asked: &Asked| match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", "/api/v1/nodes/n1") => Reply::json(200, &node),
        ("PATCH", "/api/v1/nodes/n1") => {
            let patch: Value = serde_json::from_str(&asked.body).unwrap();
            if patch["metadata"]["annotations"]["surefoot.io/case"].is_null()
                && patch["metadata"]["annotations"].as_object().is_some_and(|all| all.contains_key("surefoot.io/case"))
            {
                node["metadata"]["annotations"] = json!({});
            }
            if patch["spec"].as_object().is_some_and(|spec| spec.contains_key("unschedulable")) {
                patches_left -= 1;
                // The first two attempts are undone at once.
                node["spec"]["unschedulable"] = (patches_left >= 0).into();
            }
            Reply::json(200, &node)
        }
        ("GET", path) if path.starts_with("/api/v1/pods") => Reply::json(200, &whole(Vec::new())),
        _ => Reply::json(201, &json!({})),
    });
    let cluster = Kubernetes { server: service.url.clone(), ..Kubernetes::default() };
    let drainers = [("web".to_owned(), Drainer::Kubernetes(cluster))].into();
    let hands = Hands::new(HandsConfig { drainers, ..HandsConfig::default() });
    for _ in 0..2 {
        match hands.run(&order("return", "n1"), &AtomicBool::new(false)) {
            Outcome::Failed { detail, is_passing: true, .. } => assert!(detail.contains("still cordoned"), "{detail}"),
            other => panic!("{other:?}"),
        }
    }
    match hands.run(&order("return", "n1"), &AtomicBool::new(false)) {
        Outcome::Done { observed, .. } => assert_eq!(observed.to_string(), IN_SERVICE),
        other => panic!("{other:?}"),
    }
}

/// A node may have the name of another host: of an old cluster, or of a machine that was replaced.
#[test]
fn a_node_on_another_machine_than_the_host_s_agent_is_neither_drained_nor_brought_back() {
    const UUID: &str = "4c4c4544-0042-3510-8051-b7c04f4e3233";
    const ID: &str = "0123456789abcdef0123456789abcdef";
    let of_node = |uuid: &str, id: &str, is_out: bool| {
        let node = json!({
            "metadata": { "name": "n1", "annotations": if is_out { json!({ "surefoot.io/case": "17" }) } else { json!({}) } },
            "spec": { "unschedulable": is_out },
            "status": { "nodeInfo": { "systemUUID": uuid, "machineID": id } },
        });
        let mut node = node;
        Service::start(move |asked: &Asked| match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/api/v1/nodes/n1") => Reply::json(200, &node),
            ("PATCH", "/api/v1/nodes/n1") => {
                node["metadata"]["annotations"] = if is_out { json!({}) } else { json!({ "surefoot.io/case": "17" }) };
                node["spec"]["unschedulable"] = (!is_out).into();
                Reply::json(200, &node)
            }
            ("GET", path) if path.starts_with("/api/v1/pods") => Reply::json(200, &whole(Vec::new())),
            _ => Reply::json(201, &json!({})),
        })
    };
    let run = |service: &Service, step: &str, machine: Option<MachineId>| {
        let cluster = Kubernetes { server: service.url.clone(), ..Kubernetes::default() };
        let drainers = [("web".to_owned(), Drainer::Kubernetes(cluster))].into();
        let hands = Hands::new(HandsConfig { drainers, ..HandsConfig::default() });
        match hands.run(&Order { machine, ..order(step, "n1") }, &AtomicBool::new(false)) {
            done @ Outcome::Done { .. } => Ok(done.words()),
            Outcome::Failed { detail, is_passing: false, .. } => Err(detail),
            other => panic!("{other:?}"),
        }
    };
    let agent = || Some(reported(UUID, ID));
    for (step, is_out) in [("drain", false), ("return", true)] {
        let good = if is_out { IN_SERVICE } else { "Kubernetes: cordoned; 0 jobs or pods left" };
        let of = |uuid: &str, id: &str| of_node(uuid, id, is_out);
        // In whatever case and order of bytes; hardware decides where both know it, as of a host that was installed anew.
        for uuid in [UUID, "4C4C4544-0042-3510-8051-B7C04F4E3233", "44454c4c-4200-1035-8051-b7c04f4e3233"] {
            assert_eq!(run(&of(uuid, "f123456789abcdef0123456789abcdef"), step, agent()).unwrap(), good, "{uuid}");
        }
        assert_eq!(run(&of("", ID), step, agent()).unwrap(), good);
        assert_eq!(run(&of("", ""), step, None).unwrap(), good, "nobody looked");
        for (uuid, id, what) in [
            ("4c4c4544-0042-3510-8051-b7c04f4e3234", ID, "systemUUID"),
            ("", "f123456789abcdef0123456789abcdef", "machineID"),
        ] {
            let service = of(uuid, id);
            let why = run(&service, step, agent()).unwrap_err();
            assert!(
                why.starts_with("node n1 is on another machine than the agent of n1 reports from: the ")
                    && why.contains(what),
                "{why}"
            );
            let hashes = [agent().unwrap().hardware.unwrap(), agent().unwrap().system.unwrap()];
            assert!(hashes.iter().all(|hash| !why.contains(&hash[..8])), "{why}");
            assert_eq!(service.asked("PATCH").len() + service.asked("POST").len(), 0, "nothing was changed");
        }
        // What is not known is said, and goes on.
        let unknown = run(&of("", ""), step, agent()).unwrap();
        assert!(unknown.starts_with(good) && unknown.contains("not known: its node tells no systemUUID"), "{unknown}");
        let unknown = run(&of(UUID, ID), step, Some(MachineId::default())).unwrap();
        assert!(
            unknown.starts_with(good) && unknown.ends_with("not known: no agent of it reports which it is"),
            "{unknown}"
        );
    }
}

/// Something on the way dropped the field selector, or the server does not know it: the list is of the whole cluster.
#[test]
fn pods_of_another_node_are_not_evicted_whatever_was_asked_for() {
    for node in [json!("n2"), json!(""), Value::Null] {
        let of_others = move |mut pods: Vec<Value>| {
            pods[1]["spec"]["nodeName"] = node.clone();
            whole(pods)
        };
        let service = cluster(&["first", "second"], |_| (201, json!({})), of_others);
        match drain(&service) {
            Outcome::Failed { detail, .. } => assert!(detail.contains("none is evicted"), "{detail}"),
            other => panic!("{other:?}"),
        }
        assert_eq!(evictions(&service), 0);
    }
}

/// As `kubectl drain` does: what nothing starts again, and what has data on the node, leaves only where the policy says so.
#[test]
fn pods_without_a_controller_or_with_local_data_stay_unless_the_policy_says_otherwise() {
    let list = |mut pods: Vec<Value>| {
        for pod in &mut pods {
            match pod["metadata"]["name"].as_str() {
                Some("bare") => {
                    pod["metadata"]["ownerReferences"] = json!([{ "kind": "DaemonSet", "name": "no controller" }])
                }
                Some("local") => pod["spec"]["volumes"] = json!([{ "name": "v", "emptyDir": {} }]),
                Some("of-node") => {
                    pod["metadata"]["ownerReferences"] = json!([{ "kind": "DaemonSet", "controller": true }]);
                }
                Some("static") => pod["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "x" }),
                _ => {}
            }
        }
        whole(pods)
    };
    let names = ["bare", "local", "of-node", "static", "plain"];
    let run = |force, delete_emptydir_data, service: &Service| {
        let server = service.url.clone();
        let cluster = Kubernetes { server, force, delete_emptydir_data, ..Kubernetes::default() };
        let drainers = [("web".to_owned(), Drainer::Kubernetes(cluster))].into();
        let hands = Hands::new(HandsConfig { drainers, ..HandsConfig::default() });
        hands.run(&order("drain", "n1"), &AtomicBool::new(false))
    };
    let service = cluster(&names, |_| (201, json!({})), list);
    // The plain one leaves, and the others are named.
    assert!(matches!(run(false, false, &service), Outcome::GoesOn { .. }));
    match run(false, false, &service) {
        Outcome::Failed { detail, is_passing: false, .. } => {
            assert!(detail.contains("a/bare (it has no controller") && detail.contains("force = true"), "{detail}");
            assert!(
                detail.contains("a/local (it has local storage") && detail.contains("delete_emptydir_data"),
                "{detail}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(evictions(&service), 1);
    assert!(matches!(run(true, true, &service), Outcome::GoesOn { .. }));
    match run(true, true, &service) {
        Outcome::Done { observed: Observed::Empty { work_count: 0, staying_count: 2, .. }, memo, .. } => {
            assert_eq!(memo, "ours");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(evictions(&service), 3);
}

/// Work may come back between the drain and the steps after it: somebody uncordons the node, or a pod is bound to it by name.
#[test]
fn a_step_that_would_stop_work_is_not_begun_on_a_node_that_is_not_empty_any_more() {
    for (is_cordoned, pods, words, passes) in [
        (false, vec![], "someone put node n1 back into service: Kubernetes: schedulable", false),
        (true, vec![pod("new")], "node n1 is not empty any more: 1 pods are still there: a/new", true),
    ] {
        let node = json!({ "metadata": { "name": "n1", "annotations": { "surefoot.io/case": "17" } },
            "spec": { "unschedulable": is_cordoned } });
        let service = Service::start(move |asked: &Asked| match asked.path.starts_with("/api/v1/nodes") {
            true => Reply::json(200, &node),
            false => Reply::json(200, &whole(pods.clone())),
        });
        let cluster = Kubernetes { server: service.url.clone(), ..Kubernetes::default() };
        let drainers = [("web".to_owned(), Drainer::Kubernetes(cluster))].into();
        let hands = Hands::new(HandsConfig { drainers, ..HandsConfig::default() });
        for (step, is_way_back) in [("stress:1s", false), ("run:/bin/true", false), ("restore:debug:maker", true)] {
            let order = Order { is_after_drain: true, memo: "kept".into(), ..order(step, "n1") };
            match hands.run(&order, &AtomicBool::new(false)) {
                Outcome::Failed { detail, memo, is_passing } => {
                    assert!(detail.starts_with(words) && detail.contains("Nothing was done"), "{step}: {detail}");
                    // What is to be put back is tried until the host is empty again.
                    assert_eq!((memo.as_str(), is_passing), ("kept", passes || is_way_back), "{step}");
                }
                other => panic!("{step}: {other:?}"),
            }
        }
        assert_eq!(service.asked("PATCH").len() + service.asked("POST").len(), 0);
    }
}

/// Whoever reads the node sees since when it is faulty, and whose event it is.
#[test]
fn the_condition_keeps_the_time_of_its_transition_and_the_event_names_the_node_by_uid() {
    let node = json!({
        "metadata": { "name": "n1", "uid": "u-1", "annotations": { "surefoot.io/case": "17" } },
        "spec": { "unschedulable": true },
        "status": { "conditions": [
            { "type": "SurefootHardwareFault", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z" },
        ] },
    });
    let service = Service::start(move |asked: &Asked| match (asked.method.as_str(), asked.path.as_str()) {
        ("GET", path) if path.starts_with("/api/v1/pods") => Reply::json(200, &whole(Vec::new())),
        ("POST", _) => Reply::json(201, &json!({})),
        _ => Reply::json(200, &node),
    });
    assert!(matches!(drain(&service), Outcome::Done { .. }));
    let told: Vec<Value> =
        service.asked("PATCH").iter().map(|asked| serde_json::from_str(&asked.body).unwrap()).collect();
    assert_eq!(told[0]["status"]["conditions"][0]["lastTransitionTime"], "2026-01-02T03:04:05Z", "{told:?}");
    let event: Value = serde_json::from_str(&service.asked("POST")[0].body).unwrap();
    assert_eq!(event["involvedObject"]["uid"], "u-1");
}
