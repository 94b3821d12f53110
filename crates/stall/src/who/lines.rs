//! What is known about a device's interrupt line: where it may go, where it goes, and whose it is.

use std::fs;
use surefoot_hostfs::Root;

/// What /proc and /sys say about a line, one statement each.
pub(crate) fn describe(root: &Root, line: u32) -> Vec<String> {
    let mut statements = vec![format!("line {line}")];
    let mut add = |label: &str, path: std::path::PathBuf| {
        if let Ok(text) = root.read(path) {
            let text = text.trim();
            if !text.is_empty() {
                statements.push(format!("{label}: {text}"));
            }
        }
    };
    add("goes to", root.proc(format!("irq/{line}/effective_affinity_list")));
    add("may go to", root.proc(format!("irq/{line}/smp_affinity_list")));
    add("chip", root.sys(format!("kernel/irq/{line}/chip_name")));
    if let Some(driver) = driver(root, line) {
        statements.push(format!("driver: {driver}"));
    }
    statements.push(format!("managed: {}", managed(root, line)));
    statements
}

/// Whether the driver decides where the line goes; only debugfs tells.
fn managed(root: &Root, line: u32) -> &'static str {
    match root.read(root.sys(format!("kernel/debug/irq/irqs/{line}"))) {
        Ok(text) if text.contains("IRQD_AFFINITY_MANAGED") => "yes",
        Ok(_) => "no",
        Err(_) => "not known (debugfs does not tell)",
    }
}

/// The driver of the PCI device that has the line, or its message-signalled ones.
fn driver(root: &Root, line: u32) -> Option<String> {
    const DEVICES: usize = 4096;
    let devices = fs::read_dir(root.sys("bus/pci/devices")).ok()?;
    for device in devices.flatten().take(DEVICES) {
        let path = device.path();
        let owns = path.join("msi_irqs").join(line.to_string()).exists()
            || root.read(path.join("irq")).is_ok_and(|text| text.trim() == line.to_string());
        if owns {
            let driver = fs::read_link(path.join("driver")).ok()?;
            return Some(driver.file_name()?.to_string_lossy().into_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn a_line_is_described_by_what_the_host_tells_and_no_more() {
        let tree = HostTree::new()
            .file("proc/irq/36/effective_affinity_list", "1\n")
            .file("proc/irq/36/smp_affinity_list", "0-1\n")
            .file("sys/kernel/debug/irq/irqs/36", "handler: handle_edge_irq\ndstate: 0x2 IRQD_AFFINITY_MANAGED\n")
            .file("sys/bus/pci/devices/0000:00:02.0/msi_irqs/36", "msix\n")
            .link("sys/bus/pci/devices/0000:00:02.0/driver", "../../drivers/virtio-pci");
        let root = Root::at(tree.path());
        assert_eq!(
            describe(&root, 36),
            ["line 36", "goes to: 1", "may go to: 0-1", "driver: virtio-pci", "managed: yes"]
        );
        assert_eq!(describe(&root, 99), ["line 99", "managed: not known (debugfs does not tell)"]);
    }
}
