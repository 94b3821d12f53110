use surefoot_hostfs::Root;
use surefoot_model::{MachineId, Severity};
use surefoot_remedy::Order;
use surefoot_remedy::act::{Told, machine};

/// An attempt at this step, for a host of the service `web`.
pub fn order(step: &str, host: &str) -> Order {
    Order {
        case: 17,
        step_index: 2,
        step: step.parse().unwrap(),
        host: host.to_owned(),
        service: "web".to_owned(),
        fault: "memory/rate".to_owned(),
        subject: "dimm A1".to_owned(),
        evidence: vec!["10.2 errors a second".to_owned(), "row 0x1a".to_owned()],
        told: Told {
            sentence: "DIMM A1 has 10.2 corrected errors a second.".to_owned(),
            severity: Severity::Warning,
            why: "hard-repair:maker failed: no spare row".to_owned(),
            is_drained: true,
            done: vec!["drain done: no job is left".to_owned(), "hard-repair:maker failed: no spare row".to_owned()],
            controller_host: "ctl".to_owned(),
        },
        token: "17.2.1".to_owned(),
        memo: String::new(),
        ..Order::default()
    }
}

/// What an agent reports of a machine with these IDs; an empty one it does not know.
pub fn reported(uuid: &str, machine_id: &str) -> MachineId {
    let home = tempfile::tempdir().unwrap();
    for (path, text) in [("sys/class/dmi/id/product_uuid", uuid), ("etc/machine-id", machine_id)] {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    machine::of(&Root::at(home.path()))
}
