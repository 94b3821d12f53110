//! Kubernetes: a node is cordoned, tainted and marked with a condition, and its pods are evicted, which respects their disruption budgets.
//!
//! The annotation [`OWNER`] names the case: a node that another case or someone else has cordoned stays so at the end. Whether it is empty
//! is asked in either case; of a node that is not ours no pod is evicted. Which pods leave is decided as `kubectl drain` does. What people see
//! is what other tools for sick nodes show: a condition on the node and an event, besides the cordon.

use super::super::shown::{cut, remarked};
use super::super::{Order, Outcome, machine};
use super::with_memo;
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_model::Observed;
use surefoot_outside::address::shown;
use surefoot_outside::host_name::is_other_host;
use surefoot_outside::http::{self, Answer, Identity, Request, Trust};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// How long the API server may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often pods that still run are looked at.
const LOOK_AGAIN_NS: u64 = 5_000_000_000;
/// What a drain remembers: whose cordon it is.
const OURS: &str = "ours";
const FOREIGN: &str = "foreign";
/// The annotation whose value is the number of the case that took the node out.
const OWNER: &str = "surefoot.io/case";
/// The key of the taint.
const TAINT: &str = "surefoot.io/faulty";
/// The type of the condition.
const CONDITION: &str = "SurefootHardwareFault";
/// The longest answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Pods of one answer: of real ones each takes 10 to 40 KiB.
const PODS_AT_ONCE: usize = 20;
/// Pods of which an outcome says why they stay.
const NAMED_MAX: usize = 3;
/// The label with the name of the host that a node is on.
const HOST_LABEL: &str = "kubernetes.io/hostname";
/// Answers about one node; the kubelet's own limit is 110 pods unless it is told another.
const ANSWERS_MAX: usize = 50;

/// A cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kubernetes {
    /// The address of its API server.
    pub server: String,
    /// Who asks.
    pub identity: Identity,
    /// Whom it believes.
    pub trust: Trust,
    /// Evicts pods that have no controller, too: nothing starts them again (`kubectl drain --force`).
    pub force: bool,
    /// Evicts pods with local storage, too, whose data is then lost (`kubectl drain --delete-emptydir-data`).
    pub delete_emptydir_data: bool,
}

/// What is known of a node.
struct Node {
    uid: String,
    /// The status of our condition, and since when it is so; `None` where the node has none.
    condition: Option<(String, String)>,
    is_cordoned: bool,
    /// The case that took it out; empty for none of ours.
    owner: String,
    /// All its taints, whoever set them: the server keeps them as one value.
    taints: Vec<Value>,
    /// Names the node as it was read; the server refuses a change of an older one.
    version: Value,
    /// What its kubelet found of its machine: the UUID of SMBIOS, and `/etc/machine-id`; empty where it tells none.
    system_uuid: String,
    machine_id: String,
}

impl Node {
    /// Who has cordoned it, if that was not this case.
    fn other(&self, case: &str) -> Option<String> {
        match self.owner.as_str() {
            owner if owner == case => None,
            "" => self.is_cordoned.then(|| "someone else".to_owned()),
            owner => Some(format!("case {}", cut(owner))),
        }
    }

    fn says(&self) -> String {
        format!("Kubernetes: {}", if self.is_cordoned { "cordoned" } else { "schedulable" })
    }

    fn taints_of_others(&self) -> Vec<Value> {
        self.taints.iter().filter(|taint| taint["key"] != TAINT).cloned().collect()
    }

    /// Refuses where the node is on another machine than the host's agent reports; what to say where that is not known. The hardware decides
    /// where both know it, as in [`surefoot_model::MachineId::is`].
    fn doubt(&self, order: &Order) -> Result<String, Outcome> {
        let Some(reported) = &order.machine else { return Ok(String::new()) };
        let by_hardware = machine::has_uuid(reported, &self.system_uuid).map(|is_same| (is_same, "systemUUID"));
        let by_system = || machine::has_machine_id(reported, &self.machine_id).map(|is_same| (is_same, "machineID"));
        match by_hardware.or_else(by_system) {
            Some((true, _)) => Ok(String::new()),
            Some((false, what)) => {
                let host = cut(&order.host);
                let why = format!(
                    "node {host} is on another machine than the agent of {host} reports from: the {what} of the node (status.nodeInfo) is not that \
                     machine's. Give the node or the host another name, or end the agent that runs elsewhere"
                );
                Err(failed(why, false))
            }
            None => Ok(order.doubt("its node tells no systemUUID or machineID that can be compared")),
        }
    }
}

/// A pod that is to leave.
struct Pod {
    namespace: String,
    name: String,
    uid: String,
    is_leaving: bool,
    /// Why it is not evicted unless the policy says so.
    is_kept_for: Option<&'static str>,
}

/// The pods of a node.
#[derive(Default)]
struct Pods {
    /// Those that are to leave.
    holding: Vec<Pod>,
    /// Those that a drain leaves there: of DaemonSets, and static ones.
    staying_count: u32,
}

impl Pod {
    fn text(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// What came of asking a pod to leave.
enum Evicted {
    Leaves,
    Stays {
        why: String,
        /// Whether that changes without anybody who looks at the case: a budget lets it go when another pod is ready.
        is_waited_for: bool,
        /// Whether the same may work later.
        is_passing: bool,
    },
}

/// A pod that stays.
struct Held {
    name: String,
    why: String,
    is_waited_for: bool,
    is_passing: bool,
}

impl Kubernetes {
    /// What draining would do.
    pub fn dry_run(&self, order: &Order) -> String {
        format!(
            "cordon node {}, taint it {TAINT}:NoSchedule, set its condition {CONDITION}, evict its pods",
            cut(&order.host)
        )
    }

    /// Takes the node out, and waits until its pods are gone.
    pub fn drain(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        self.take_out(order, stop).unwrap_or_else(|failed| with_memo(failed, &order.memo))
    }

    /// Brings the node back, where this case took it out.
    pub fn restore(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        self.bring_back(order, stop).unwrap_or_else(|failed| failed)
    }

    fn take_out(&self, order: &Order, stop: &AtomicBool) -> Result<Outcome, Outcome> {
        let path = node_path(&order.host)?;
        let (node, case) = (self.node(&path, stop)?, order.case.to_string());
        let doubt = node.doubt(order)?;
        if let Some(by) = node.other(&case) {
            let pods = self.pods(&order.host, stop)?;
            if !node.is_cordoned {
                // Its annotation names another case, and new pods may come at any moment.
                return Err(failed(format!("{by} has cordoned it, and it is not cordoned any more"), true));
            }
            return Ok(match pods.holding.is_empty() {
                true => Outcome::Done { observed: empty(&node, &pods, by), remark: doubt, memo: FOREIGN.to_owned() },
                false => goes_on(
                    format!("cordoned by {by}, not by this case, and not evicted; {}", left(&pods.holding, &[])),
                    FOREIGN,
                ),
            });
        }
        if !node.is_cordoned && (node.owner == case || order.memo == OURS) {
            let why = "someone uncordoned the node after this case cordoned it. Cordon it again, or cancel the case";
            return Err(failed(why.to_owned(), false));
        }
        if node.owner.is_empty() {
            let mut taints = node.taints_of_others();
            taints.push(json!({ "key": TAINT, "value": format!("case-{case}"), "effect": "NoSchedule" }));
            let patch = json!({
                "metadata": { "annotations": { OWNER: case }, "resourceVersion": node.version },
                "spec": { "unschedulable": true, "taints": taints },
            });
            self.patch(&path, &patch, stop)?;
        }
        self.tell(&path, &node, order, true, stop)?;
        let found = self.pods(&order.host, stop)?;
        let pods = &found.holding;
        // Each by itself: one that cannot leave holds back no other.
        let mut held = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.is_leaving) {
            if let Some(why) = pod.is_kept_for {
                held.push(Held { name: pod.text(), why: why.to_owned(), is_waited_for: false, is_passing: false });
                continue;
            }
            match self.evict(pod, stop)? {
                Evicted::Leaves => {}
                Evicted::Stays { why, is_waited_for, is_passing } => {
                    held.push(Held { name: pod.text(), why, is_waited_for, is_passing });
                }
            }
        }
        if pods.is_empty() {
            // As it is now: the cordon was asked for, and someone may have taken it back.
            let node = self.node(&path, stop)?;
            if !node.is_cordoned {
                return Err(failed("the API server accepted the patch, but the node is not cordoned".into(), true));
            }
            let observed = empty(&node, &found, String::new());
            return Ok(Outcome::Done { observed, remark: doubt, memo: OURS.to_owned() });
        }
        let detail = remarked(&format!("cordoned; {}", left(pods, &held)), &doubt);
        // While others still leave, or what holds one may change by itself, there is something to wait for.
        match held.len() == pods.len() && held.iter().all(|pod| !pod.is_waited_for) {
            true => Err(failed(detail, held.iter().any(|pod| pod.is_passing))),
            false => Ok(goes_on(detail, OURS)),
        }
    }

    /// Whether the node is still cordoned and no pod is to leave it: asked before each step that would stop its work.
    ///
    /// # Errors
    /// The outcome of that step, with what is on the node.
    pub fn still_empty(&self, order: &Order, stop: &AtomicBool) -> Result<(), Outcome> {
        let node = self.node(&node_path(&order.host)?, stop)?;
        if !node.is_cordoned {
            return Err(failed(format!("someone put node {} back into service: {}", order.host, node.says()), false));
        }
        let pods = self.pods(&order.host, stop)?.holding;
        if pods.is_empty() {
            return Ok(());
        }
        Err(failed(format!("node {} is not empty any more: {}", order.host, left(&pods, &[])), true))
    }

    /// The node is not out of service by this case.
    fn in_service(&self, node: &Node, order: &Order, remark: String, stop: &AtomicBool) -> Result<Outcome, Outcome> {
        let work_count = self.pods(&order.host, stop)?.holding.len() as u64;
        let observed = Observed::InService { state: node.says(), work_count };
        Ok(Outcome::Done { observed, remark, memo: String::new() })
    }

    fn bring_back(&self, order: &Order, stop: &AtomicBool) -> Result<Outcome, Outcome> {
        let path = node_path(&order.host)?;
        let node = self.node(&path, stop)?;
        let doubt = node.doubt(order)?;
        if node.owner != order.case.to_string() {
            return match node.other(&order.case.to_string()) {
                Some(taken_out_by) if node.is_cordoned => {
                    Ok(Outcome::done(Observed::LeftOut { state: node.says(), taken_out_by }, ""))
                }
                _ => self.in_service(&node, order, "it was in service already".to_owned(), stop),
            };
        }
        self.tell(&path, &node, order, false, stop)?;
        // Telling changes the node, and the server adds or takes away taints of its own beside ours.
        let node = self.node(&path, stop)?;
        let patch = json!({
            "metadata": { "resourceVersion": node.version },
            "spec": { "unschedulable": null, "taints": node.taints_of_others() },
        });
        self.patch(&path, &patch, stop)?;
        let node = self.node(&path, stop)?;
        if node.is_cordoned {
            // The annotation stays until then: without it, the next attempt would take the cordon for somebody else's.
            return Err(failed("the API server accepted the patch, but the node is still cordoned".into(), true));
        }
        let patch = json!({ "metadata": { "annotations": { OWNER: null }, "resourceVersion": node.version } });
        self.patch(&path, &patch, stop)?;
        self.in_service(&node, order, doubt, stop)
    }

    fn node(&self, path: &str, stop: &AtomicBool) -> Result<Node, Outcome> {
        node_of(path, &self.get(path, stop)?)
    }

    /// The condition and the event.
    fn tell(&self, path: &str, node: &Node, order: &Order, is_faulty: bool, stop: &AtomicBool) -> Result<(), Outcome> {
        let now = now();
        let (status, reason) = if is_faulty { ("True", "TakenOut") } else { ("False", "BroughtBack") };
        let message = format!("surefoot case {}: {}", order.case, cut(&order.fault));
        // The transition is when the status changed, however often it is told.
        let since = match &node.condition {
            Some((before, since)) if before == status && !since.is_empty() => since,
            _ => &now,
        };
        let condition = json!({ "type": CONDITION, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": since });
        let patch = json!({ "status": { "conditions": [condition] } });
        self.patch(&format!("{path}/status"), &patch, stop)?;
        // By its name there is one event of each kind, however often the step is done.
        let event = json!({
            "metadata": { "name": format!("surefoot-case-{}-{}", order.case, reason.to_lowercase()), "namespace": "default" },
            "involvedObject": { "kind": "Node", "name": order.host, "uid": node.uid, "apiVersion": "v1" },
            "reason": reason, "message": message, "type": if is_faulty { "Warning" } else { "Normal" },
            "source": { "component": "surefoot" }, "firstTimestamp": now, "lastTimestamp": now, "count": 1,
        });
        let answer = self.ask("POST", "/api/v1/namespaces/default/events", "application/json", &event, stop)?;
        if answer.status == 409 { Ok(()) } else { accepted("the event", &answer) }
    }

    /// The pods of the node: those of DaemonSets stay with it, and mirrors of the kubelet's own files cannot leave.
    fn pods(&self, host: &str, stop: &AtomicBool) -> Result<Pods, Outcome> {
        let (mut pods, mut after) = (Pods::default(), String::new());
        for _ in 0..ANSWERS_MAX {
            let said = self
                .get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{host}&limit={PODS_AT_ONCE}{after}"), stop)?;
            let Some(items) = said["items"].as_array() else {
                return Err(failed(format!("the API server lists no pods of node {host}, not even none"), true));
            };
            if said.get("kind").is_some_and(|kind| kind != "PodList") {
                return Err(failed(format!("the API server answers with a {} for a list of pods", said["kind"]), true));
            }
            for pod in items {
                // Something between here and the server may drop what was asked for: the list is then of the whole cluster.
                match pod["spec"]["nodeName"].as_str() {
                    Some(node) if node == host => {}
                    node => {
                        let node =
                            node.map_or_else(|| "none that it names".to_owned(), |node| format!("node {}", cut(node)));
                        let why = format!(
                            "asked for the pods of node {host}, the API server lists one of {node}: none is evicted"
                        );
                        return Err(failed(why, false));
                    }
                }
                match self.kind_of(pod)? {
                    Kind::Holds(pod) => pods.holding.push(pod),
                    Kind::Stays => pods.staying_count += 1,
                    Kind::Ended => {}
                }
            }
            let (more, remaining) = (&said["metadata"]["continue"], &said["metadata"]["remainingItemCount"]);
            if !(more.is_null() || more.is_string()) || !(remaining.is_null() || remaining.is_u64()) {
                let why = format!("whether node {host} has more pods the API server says in no way that is known here");
                return Err(failed(why, true));
            }
            let (more, remaining) = (more.as_str().unwrap_or_default(), remaining.as_u64().unwrap_or(0));
            if more.is_empty() && remaining > 0 {
                let why = format!("the API server keeps {remaining} pods of node {host} back, and no way to them");
                return Err(failed(why, true));
            }
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'=');
            if more.is_empty() {
                return Ok(pods);
            }
            if !more.bytes().all(is_plain) {
                return Err(failed("the API server returned an invalid continue token".into(), true));
            }
            after = format!("&continue={}", more.replace('=', "%3D"));
        }
        Err(failed(format!("node {host} has more than {} pods", ANSWERS_MAX * PODS_AT_ONCE), false))
    }

    /// What a drain does with a pod, by the rules of `kubectl drain`.
    fn kind_of(&self, pod: &Value) -> Result<Kind, Outcome> {
        let about = &pod["metadata"];
        let owners = about["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
        let controller = owners.iter().find(|owner| owner["controller"] == true);
        let is_of_daemon_set = controller.is_some_and(|owner| owner["kind"] == "DaemonSet");
        let is_mirror = !about["annotations"]["kubernetes.io/config.mirror"].is_null();
        if is_of_daemon_set || is_mirror {
            return Ok(Kind::Stays);
        }
        if matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")) {
            return Ok(Kind::Ended);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (namespace, name) = (text(&about["namespace"]), text(&about["name"]));
        if !is_name(&namespace) || !is_name(&name) {
            return Err(failed(format!("the API server names a pod '{}'", cut(&name)), false));
        }
        let volumes = pod["spec"]["volumes"].as_array().map_or(&[][..], Vec::as_slice);
        let has_local_data = volumes.iter().any(|volume| !volume["emptyDir"].is_null());
        let is_kept_for = match () {
            () if controller.is_none() && !self.force => {
                Some("it has no controller that starts it again: evict it by hand, or set force = true in [kubernetes]")
            }
            () if has_local_data && !self.delete_emptydir_data => Some(
                "it has local storage (emptyDir): evict it by hand, or set delete_emptydir_data = true in [kubernetes]",
            ),
            () => None,
        };
        let is_leaving = !about["deletionTimestamp"].is_null();
        Ok(Kind::Holds(Pod { namespace, name, uid: text(&about["uid"]), is_leaving, is_kept_for }))
    }

    /// Has a pod leave.
    fn evict(&self, pod: &Pod, stop: &AtomicBool) -> Result<Evicted, Outcome> {
        let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", pod.namespace, pod.name);
        // One of the same name that came after it is another pod.
        let body = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod.name, "namespace": pod.namespace },
            "deleteOptions": { "preconditions": { "uid": pod.uid } } });
        let answer = self.ask("POST", &path, "application/json", &body, stop)?;
        let said = answer.json().unwrap_or_default();
        let causes = said["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
        let goes_with_its_namespace = causes.iter().any(|cause| cause["reason"] == "NamespaceTerminating");
        let stays = |is_waited_for, is_passing| {
            let why = format!("HTTP {}: {}", answer.status, message_of(&answer));
            Ok(Evicted::Stays { why, is_waited_for, is_passing })
        };
        match answer.status {
            200..300 => Ok(Evicted::Leaves),
            // It is gone, or another has its name: the next list says which.
            404 | 409 => Ok(Evicted::Leaves),
            // A budget forbids it now; or two budgets are about it, which the server answers with 500 until one is gone.
            429 | 500 => stays(true, true),
            403 if goes_with_its_namespace => stays(true, true),
            // No answer about this pod: who asks is unknown, or the service is.
            401 | 502..=504 => accepted(&path, &answer).map(|()| Evicted::Leaves),
            status => stays(false, status >= 500),
        }
    }

    fn get(&self, path: &str, stop: &AtomicBool) -> Result<Value, Outcome> {
        let answer = self.ask("GET", path, "application/json", &Value::Null, stop)?;
        accepted(path, &answer)?;
        answer.json().map_err(|why| failed(format!("{path}: {why}"), true))
    }

    fn patch(&self, path: &str, patch: &Value, stop: &AtomicBool) -> Result<(), Outcome> {
        let answer = self.ask("PATCH", path, "application/strategic-merge-patch+json", patch, stop)?;
        accepted(path, &answer)
    }

    fn ask(
        &self,
        method: &'static str,
        path: &str,
        kind: &str,
        body: &Value,
        stop: &AtomicBool,
    ) -> Result<Answer, Outcome> {
        let request = Request {
            method,
            url: format!("{}{path}", self.server.trim_end_matches('/')),
            headers: vec![format!("Content-Type: {kind}"), "Accept: application/json".to_owned()],
            body: if body.is_null() { String::new() } else { body.to_string() },
            identity: self.identity.clone(),
            trust: self.trust.clone(),
            socket: None,
        };
        http::ask_up_to(ANSWER_BYTES_MAX, &request, PATIENCE, stop)
            .map_err(|why| failed(format!("{}: {why}", shown(&self.server)), true))
    }
}

/// Which pods are left, and why those stay that cannot leave.
fn left(pods: &[Pod], held: &[Held]) -> String {
    let more = |count: usize| match count.saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names: Vec<String> = pods.iter().take(NAMED_MAX).map(Pod::text).collect();
    let mut text = format!("{} pods are still there: {}{}", pods.len(), names.join(", "), more(pods.len()));
    if !held.is_empty() {
        let held_text: Vec<String> =
            held.iter().take(NAMED_MAX).map(|pod| format!("{} ({})", pod.name, pod.why)).collect();
        text.push_str(&format!("; cannot leave: {}{}", held_text.join(", "), more(held.len())));
    }
    text
}

/// A node that is cordoned and has no pod that is to leave.
fn empty(node: &Node, pods: &Pods, taken_out_by: String) -> Observed {
    Observed::Empty {
        state: node.says(),
        work_count: u32::try_from(pods.holding.len()).unwrap_or(u32::MAX),
        allocated_cpus: None,
        staying_count: pods.staying_count,
        taken_out_by,
    }
}

fn goes_on(detail: String, memo: &str) -> Outcome {
    Outcome::GoesOn { detail, memo: memo.to_owned(), again_in_ns: LOOK_AGAIN_NS }
}

/// The node at this path, from what the API server says of it.
fn node_of(path: &str, said: &Value) -> Result<Node, Outcome> {
    let name = said["metadata"]["name"].as_str();
    let (Some(host), true) = (name.filter(|name| path.rsplit('/').next() == Some(*name)), said["spec"].is_object())
    else {
        let why = format!("{path}: the answer is not that node ({})", cut(name.unwrap_or("it has no name")));
        return Err(failed(why, true));
    };
    // A node may have any name; the label has the host name that its kubelet found.
    if let Some(other) = said["metadata"]["labels"][HOST_LABEL].as_str().filter(|other| is_other_host(other, host)) {
        let why = format!(
            "node {host} is on the host {} (its label {HOST_LABEL}): taking it out would evict another host's pods",
            cut(other)
        );
        return Err(failed(why, false));
    }
    let taints = &said["spec"]["taints"];
    if !taints.is_null() && !taints.is_array() {
        return Err(failed(format!("{path}: its taints are no list, and would be lost with a new one"), false));
    }
    let text = |name: &str| said["status"]["nodeInfo"][name].as_str().unwrap_or_default().to_owned();
    let conditions = said["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let condition = conditions.iter().find(|condition| condition["type"] == CONDITION);
    Ok(Node {
        uid: word(&said["metadata"]["uid"]),
        condition: condition.map(|condition| (word(&condition["status"]), word(&condition["lastTransitionTime"]))),
        is_cordoned: said["spec"]["unschedulable"] == true,
        owner: said["metadata"]["annotations"][OWNER].as_str().unwrap_or_default().to_owned(),
        taints: taints.as_array().cloned().unwrap_or_default(),
        version: said["metadata"]["resourceVersion"].clone(),
        system_uuid: text("systemUUID"),
        machine_id: text("machineID"),
    })
}

/// What a drain does with a pod.
enum Kind {
    Holds(Pod),
    Stays,
    Ended,
}

fn failed(detail: String, is_passing: bool) -> Outcome {
    Outcome::Failed { detail, memo: String::new(), is_passing }
}

fn accepted(what: &str, answer: &Answer) -> Result<(), Outcome> {
    if answer.is_success() {
        return Ok(());
    }
    let is_passing = answer.status >= 500 || matches!(answer.status, 409 | 410 | 429);
    Err(failed(format!("{what}: {}: {}", answer.status_text(), message_of(answer)), is_passing))
}

fn message_of(answer: &Answer) -> String {
    cut(answer.json().unwrap_or_default()["message"].as_str().unwrap_or_default())
}

fn node_path(host: &str) -> Result<String, Outcome> {
    if is_name(host) {
        return Ok(format!("/api/v1/nodes/{host}"));
    }
    Err(failed(format!("'{}' is no name of a node", cut(host)), false))
}

/// What the names of nodes, namespaces and pods are made of.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    !name.is_empty() && name.len() <= 253 && name != "." && name != ".." && name.bytes().all(is_plain)
}

/// Now, as Kubernetes writes times.
fn now() -> String {
    let second = OffsetDateTime::now_utc().replace_nanosecond(0);
    second.ok().and_then(|second| second.format(&Rfc3339).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_be_more_than_a_name_are_refused() {
        for name in ["", "..", "a/b", "a?b", "A", "a b", "a%2fb", "a\nb"] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_name("node-17.rack2.example"));
    }

    #[test]
    fn a_node_on_another_host_is_not_taken_for_the_host_s() {
        let of = |host: Value| {
            let labels = json!({ "kubernetes.io/hostname": host });
            let said = json!({ "metadata": { "name": "n1", "labels": labels }, "spec": {} });
            node_of("/api/v1/nodes/n1", &said).map(drop)
        };
        for host in [json!("n1"), json!("n1.example"), json!("localhost"), Value::Null] {
            of(host.clone()).unwrap_or_else(|why| panic!("{host}: {why:?}"));
        }
        let Err(Outcome::Failed { detail, is_passing: false, .. }) = of(json!("db7")) else { panic!("taken") };
        assert!(detail.contains("node n1 is on the host db7"), "{detail}");
    }

    #[test]
    fn a_list_that_goes_on_in_an_unknown_way_is_not_over() {
        use std::io::{BufRead, BufReader, Write};
        for metadata in [json!({ "continue": 7 }), json!({ "remainingItemCount": "3" })] {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let server = format!("http://{}", listener.local_addr().unwrap());
            let serving = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let body = json!({ "metadata": metadata, "items": [] }).to_string();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
                    .unwrap();
            });
            let cluster = Kubernetes { server, ..Kubernetes::default() };
            assert!(cluster.pods("n1", &AtomicBool::new(false)).is_err(), "no pod is taken to be left");
            serving.join().unwrap();
        }
    }

    /// A node may have more pods than one answer has room for.
    #[test]
    fn pods_are_asked_for_a_few_at_a_time_until_there_are_no_more() {
        use std::io::{BufRead, BufReader, Write};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let pod = |name: &str, kind: &str| json!({ "spec": { "nodeName": "n1" }, "metadata": { "namespace": "a", "name": name, "uid": name, "ownerReferences": [{ "kind": kind, "controller": true }] } });
            let pages = [
                json!({ "metadata": { "continue": "e30=" }, "items": [pod("p1", "ReplicaSet"), pod("d1", "DaemonSet")] }),
                json!({ "metadata": {}, "items": [pod("p2", "Job")] }),
            ];
            let mut asked = Vec::new();
            for page in pages {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                asked.push(lines.next().unwrap());
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let body = page.to_string();
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
                    .unwrap();
            }
            asked
        });
        let cluster = Kubernetes { server, ..Kubernetes::default() };
        let Ok(pods) = cluster.pods("n1", &AtomicBool::new(false)) else { panic!("no pods") };
        assert_eq!(pods.holding.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["p1", "p2"]);
        assert_eq!(pods.staying_count, 1);
        let asked = serving.join().unwrap();
        assert!(
            asked[0].contains("spec.nodeName%3Dn1&limit=20 ") && asked[1].contains("&continue=e30%3D "),
            "{asked:?}"
        );
    }
}
