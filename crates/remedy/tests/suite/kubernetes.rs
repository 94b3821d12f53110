//! Draining nodes of a real API server. `make test-kubernetes` builds it, which takes minutes, and every test run uses it then.

use super::order::order;
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use surefoot_model::Observed;
use surefoot_outside::http::{Identity, Trust};
use surefoot_remedy::act::{Act, Drainer, Hands, HandsConfig, Kubernetes, Order, Outcome};
use surefoot_testkit::{kubernetes::ApiServer, not_run::not_run};

fn hands(server: &ApiServer, token: &str) -> Hands {
    let identity = Identity::Token(token.to_owned());
    // The pods of these tests have no controller.
    let cluster =
        Kubernetes { server: server.url(), identity, trust: Trust::Anything, force: true, ..Kubernetes::default() };
    let drainers = [("web".to_owned(), Drainer::Kubernetes(cluster))].into();
    Hands::new(HandsConfig { drainers, ..HandsConfig::default() })
}

fn run(hands: &Hands, order: &Order) -> Outcome {
    hands.run(order, &AtomicBool::new(false))
}

fn post(server: &ApiServer, path: &str, body: &Value) {
    let answer = server.ask("POST", path, &body.to_string()).unwrap();
    assert_eq!(answer.status, 201, "{path}: {}", answer.body);
}

fn get(server: &ApiServer, path: &str) -> Value {
    serde_json::from_str(&server.ask("GET", path, "").unwrap().body).unwrap()
}

/// A pod that runs on this node, as its kubelet would have it.
fn pod(server: &ApiServer, name: &str, node: &str, more: &Value) {
    let mut body = json!({ "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{ "name": "c", "image": "none" }] } });
    for (key, value) in more.as_object().unwrap() {
        body["metadata"][key] = value.clone();
    }
    post(server, "/api/v1/namespaces/default/pods", &body);
    let status = json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] } });
    let path = format!("/api/v1/namespaces/default/pods/{name}/status");
    let mut whole = get(server, &format!("/api/v1/namespaces/default/pods/{name}"));
    whole["status"] = status["status"].clone();
    let answer = server.ask("PUT", &path, &whole.to_string()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn a_node_of_a_real_api_server_is_drained_and_comes_back() {
    const NAME: &str = "a_node_of_a_real_api_server_is_drained_and_comes_back";
    if let Some(why) = ApiServer::unsupported() {
        return not_run(NAME, &why);
    }
    let server = ApiServer::start().unwrap();
    let hands = hands(&server, server.token());
    let taint = json!({ "key": "example.com/special", "effect": "PreferNoSchedule" });
    for node in ["n1", "n2"] {
        post(&server, "/api/v1/nodes", &json!({ "metadata": { "name": node }, "spec": { "taints": [taint] } }));
    }
    pod(&server, "web", "n1", &json!({}));
    let owner = json!({ "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "1", "controller": true }] });
    pod(&server, "of-daemon-set", "n1", &owner);
    pod(&server, "guarded", "n1", &json!({}));
    let budget = json!({ "metadata": { "name": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "guarded" } } } });
    post(&server, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", &budget);

    // One pod goes, one is guarded by its budget, one belongs to the node.
    let pods = || {
        let all = get(&server, "/api/v1/namespaces/default/pods");
        let items = all["items"].as_array().unwrap();
        items.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for _ in 0..3 {
        match run(&hands, &order("drain", "n1")) {
            Outcome::GoesOn { detail, .. } => assert!(detail.contains("still there"), "{detail}"),
            other => panic!("{other:?}"),
        }
    }
    // Without a kubelet nobody removes what was evicted, but for pods that are given no time.
    let left: Vec<String> = pods();
    assert!(left.contains(&"guarded".to_owned()) && left.contains(&"of-daemon-set".to_owned()), "{left:?}");
    let node = get(&server, "/api/v1/nodes/n1");
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(node["metadata"]["annotations"]["surefoot.io/case"], "17");
    assert!(node["spec"]["taints"].to_string().contains("surefoot.io/faulty"), "{}", node["spec"]["taints"]);
    assert!(node["status"]["conditions"].to_string().contains("SurefootHardwareFault"), "{}", node["status"]);

    // Under a second budget the server lets nobody evict it, and answers 500: the case names the pod.
    let second = json!({ "metadata": { "name": "b2" }, "spec": budget["spec"].clone() });
    post(&server, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", &second);
    match run(&hands, &order("drain", "n1")) {
        Outcome::GoesOn { detail, .. } => assert!(detail.contains("default/guarded (HTTP 500"), "{detail}"),
        other => panic!("{other:?}"),
    }
    server.ask("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b2", "").unwrap();

    // The budget lets it go, and the node is empty.
    server.ask("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b", "").unwrap();
    let mut turns = 0;
    loop {
        match run(&hands, &order("drain", "n1")) {
            Outcome::Done { .. } => break,
            Outcome::GoesOn { .. } if turns < 20 => turns += 1,
            other => panic!("{other:?}"),
        }
        for name in pods().iter().filter(|name| *name != "of-daemon-set") {
            let path = format!("/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0");
            let is_leaving = !get(&server, &path)["metadata"]["deletionTimestamp"].is_null();
            if is_leaving {
                server.ask("DELETE", &path, "").unwrap();
            }
        }
    }
    assert_eq!(pods(), ["of-daemon-set"]);

    // Someone else's cordon says nothing of the pods: they are waited for, none is evicted, and the cordon stays.
    let patch = json!({ "spec": { "unschedulable": true } }).to_string();
    let answer = server.patch("/api/v1/nodes/n2", &patch).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    pod(&server, "first", "n2", &json!({}));
    pod(&server, "second", "n2", &json!({}));
    match run(&hands, &order("drain", "n2")) {
        Outcome::GoesOn { detail, memo, .. } => {
            assert!(
                detail.contains("cordoned by someone else") && detail.contains("2 pods are still there"),
                "{detail}"
            );
            assert_eq!(memo, "foreign");
        }
        other => panic!("{other:?}"),
    }
    assert!(pods().contains(&"first".to_owned()) && pods().contains(&"second".to_owned()));
    for name in ["first", "second"] {
        server.ask("DELETE", &format!("/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0"), "").unwrap();
    }
    match run(&hands, &order("drain", "n2")) {
        Outcome::Done { observed: Observed::Empty { work_count: 0, taken_out_by, .. }, .. } => {
            assert_eq!(taken_out_by, "someone else");
        }
        other => panic!("{other:?}"),
    }
    match run(&hands, &order("return", "n2")) {
        Outcome::Done { observed: Observed::LeftOut { .. }, .. } => {}
        other => panic!("{other:?}"),
    }
    let patch = json!({ "spec": { "unschedulable": null } }).to_string();
    assert_eq!(server.patch("/api/v1/nodes/n2", &patch).unwrap().status, 200);

    // Another case, and somebody else, keep their hands off; the node comes back by its own case alone.
    let other = Order { case: 18, ..order("drain", "n1") };
    assert!(matches!(run(&hands, &other), Outcome::Done { memo, .. } if memo == "foreign"));
    run(&hands, &Order { case: 18, ..order("return", "n1") });
    assert_eq!(get(&server, "/api/v1/nodes/n1")["spec"]["unschedulable"], true);
    assert!(matches!(run(&hands, &order("return", "n1")), Outcome::Done { .. }));
    let node = get(&server, "/api/v1/nodes/n1");
    assert!(
        node["spec"]["unschedulable"].is_null() && !node["spec"].to_string().contains("surefoot"),
        "{}",
        node["spec"]
    );
    let events = get(&server, "/api/v1/namespaces/default/events").to_string();
    assert!(events.contains("TakenOut") && events.contains("BroughtBack"), "{events}");

    // More pods than one answer has: the server says how to go on, in its own words.
    for number in 0..45 {
        pod(&server, &format!("many-{number}"), "n2", &json!({}));
    }
    match run(&hands, &order("drain", "n2")) {
        Outcome::GoesOn { detail, .. } => assert!(detail.contains("45 pods are still there"), "{detail}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(run(&hands, &order("drain", "n2")), Outcome::Done { .. }), "they were given no time");
    assert_eq!(pods(), ["of-daemon-set"]);

    for host in ["n9", "n1/status", "N1"] {
        assert!(matches!(run(&hands, &order("drain", host)), Outcome::Failed { is_passing: false, .. }), "{host}");
    }
    let stranger = self::hands(&server, "no-token-of-anybody");
    match run(&stranger, &order("drain", "n2")) {
        Outcome::Failed { detail, is_passing: false, .. } => assert!(detail.contains("401"), "{detail}"),
        other => panic!("{other:?}"),
    }
}

/// The objects of contrib/kubernetes, each as the server is asked to make it, and the account that they make drains a node with its own rights
/// alone.
#[test]
fn a_real_api_server_takes_the_manifests_and_their_account_drains_a_node() {
    const NAME: &str = "a_real_api_server_takes_the_manifests_and_their_account_drains_a_node";
    if let Some(why) = ApiServer::unsupported() {
        return not_run(NAME, &why);
    }
    let server = ApiServer::start().unwrap();
    let contrib = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/kubernetes");
    let mut made = 0;
    for name in ["remedy.yaml", "agent.yaml"] {
        let text = std::fs::read_to_string(contrib.join(name)).unwrap();
        for object in text.split("\n---\n") {
            let answer = server.make(&path_of(object), object);
            assert_eq!(answer.status, 201, "{name}: {object}: {}", answer.body);
            made += 1;
        }
    }
    assert_eq!(made, 11);
    let request = json!({ "spec": { "expirationSeconds": 600 } });
    let path = "/api/v1/namespaces/surefoot/serviceaccounts/remedy/token";
    let answer = server.ask("POST", path, &request.to_string()).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    let token = serde_json::from_str::<Value>(&answer.body).unwrap()["status"]["token"].as_str().unwrap().to_owned();
    let hands = hands(&server, &token);
    post(&server, "/api/v1/nodes", &json!({ "metadata": { "name": "n1" } }));
    pod(&server, "web", "n1", &json!({}));
    match run(&hands, &order("drain", "n1")) {
        Outcome::GoesOn { detail, .. } => assert!(detail.contains("1 pods are still there"), "{detail}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&server, "/api/v1/nodes/n1")["spec"]["unschedulable"], true);
    let events = get(&server, "/api/v1/namespaces/default/events");
    assert!(events.to_string().contains("surefoot-case-"), "{events}");
    // The pod is gone as far as its kubelet would see to it.
    let gone = json!({ "gracePeriodSeconds": 0 }).to_string();
    server.ask("DELETE", "/api/v1/namespaces/default/pods/web", &gone).unwrap();
    match run(&hands, &order("drain", "n1")) {
        Outcome::Done { .. } => {}
        other => panic!("{other:?}"),
    }
    match run(&hands, &order("return", "n1")) {
        Outcome::Done { observed: Observed::InService { .. }, .. } => {}
        other => panic!("{other:?}"),
    }
    // It may do nothing else.
    let may = |verb: &str, resource: &str| {
        let review = json!({ "spec": { "user": "system:serviceaccount:surefoot:remedy",
            "resourceAttributes": { "verb": verb, "resource": resource, "namespace": "kube-system" } } });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = server.ask("POST", path, &review.to_string()).unwrap();
        serde_json::from_str::<Value>(&answer.body).unwrap()["status"]["allowed"] == true
    };
    assert!(may("get", "nodes") && may("list", "pods"));
    for (verb, resource) in [
        ("get", "secrets"),
        ("delete", "pods"),
        ("create", "pods"),
        ("delete", "nodes"),
        ("create", "events"),
        ("list", "nodes"),
    ] {
        assert!(!may(verb, resource), "{verb} {resource}");
    }
}

/// Where objects of this kind are made; the manifests are written with one field a line.
fn path_of(object: &str) -> String {
    let field = |name: &str| {
        let lines = object.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        lines.map(str::to_owned).next().unwrap_or_default()
    };
    let (version, kind, namespace) = (field("apiVersion"), field("kind"), field("  namespace"));
    let root = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    // A field that the server does not know is refused.
    format!("{root}{within}/{}s?fieldValidation=Strict", kind.to_lowercase())
}
