use surefoot_model::{Capability, CapabilityState};

/// What the daemon itself can do here: everything that needs no privilege and nothing of the kernel.
pub fn capabilities() -> Vec<Capability> {
    let works = |id: &str, name: &str, reason: &str| Capability {
        id: id.to_owned(),
        name: name.to_owned(),
        state: CapabilityState::Works,
        reason: reason.to_owned(),
        remedy: String::new(),
    };
    vec![
        works("watch.page", "web page, API and metrics", "on 127.0.0.1 only"),
        works("watch.record", "record and replay, every room", "needs nothing but a file"),
    ]
}
