//! Whether this process sees the machine or a container's part of it.

use crate::Root;
use std::path::PathBuf;

/// A container around this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// What made it: `Docker`, `Podman`, `Kubernetes`, `LXC`, or `unknown`.
    pub name: String,
    /// What shows it, in a few words.
    pub evidence: String,
}

/// What speaks for or against a container. [`ContainerEvidence::decide`] judges it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerEvidence {
    /// /run/.containerenv is there: written by Podman.
    pub containerenv: bool,
    /// /.dockerenv is there: written by Docker, and left behind in machine images that were made from containers.
    pub dockerenv: bool,
    /// The control groups of process 1 and of this process.
    pub cgroups: String,
    /// Whether this process is in the machine's own process namespace; `None` when that cannot be told.
    pub initial_pid_namespace: Option<bool>,
    /// Whether this process is in the machine's own control-group namespace; `None` when that cannot be told.
    pub initial_cgroup_namespace: Option<bool>,
}

/// The kernel gives the namespaces of the machine itself fixed inode numbers (include/uapi/linux/nsfs.h).
const INITIAL_CGROUP_NAMESPACE: &str = "cgroup:[4026531835]";
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Parts of control-group paths that only container managers make.
const MANAGERS: [(&str, &str); 9] = [
    ("kubepods", "Kubernetes"),
    ("libpod-", "Podman"),
    ("/libpod", "Podman"),
    ("/docker/", "Docker"),
    ("docker-", "Docker"),
    ("cri-containerd-", "containerd"),
    ("crio-", "CRI-O"),
    ("/lxc/", "LXC"),
    ("lxc.payload", "LXC"),
];

impl ContainerEvidence {
    /// Collects it. Files that are missing or unreadable leave their part unknown.
    pub fn read(root: &Root) -> Self {
        let cgroups = |path: PathBuf| root.read(path).unwrap_or_default();
        let namespace = |name: &str, initial: &str| {
            let link = root.proc("self/ns").join(name).read_link().ok()?;
            Some(link.as_os_str() == initial)
        };
        ContainerEvidence {
            containerenv: root.path("run/.containerenv").symlink_metadata().is_ok(),
            dockerenv: root.path(".dockerenv").symlink_metadata().is_ok(),
            cgroups: cgroups(root.proc("1/cgroup")) + &cgroups(root.proc("self/cgroup")),
            initial_pid_namespace: namespace("pid", INITIAL_PID_NAMESPACE),
            initial_cgroup_namespace: namespace("cgroup", INITIAL_CGROUP_NAMESPACE),
        }
    }

    /// The judgement: namespaces of its own, or a container manager's control group, make a container. Marker files
    /// alone count only where the namespaces cannot be told, because images of virtual machines carry them too.
    pub fn decide(&self) -> Option<Container> {
        let manager = MANAGERS.iter().find(|(part, _)| self.cgroups.contains(part));
        let own = if self.initial_pid_namespace == Some(false) {
            Some("its own PID namespace")
        } else if self.initial_cgroup_namespace == Some(false) {
            Some("its own cgroup namespace")
        } else {
            None
        };
        let marker = if self.containerenv {
            Some(("Podman", "/run/.containerenv"))
        } else if self.dockerenv {
            Some(("Docker", "/.dockerenv"))
        } else {
            None
        };
        let unknown = self.initial_pid_namespace.is_none() && self.initial_cgroup_namespace.is_none();
        let name = manager.map(|(_, name)| *name).or(marker.map(|(name, _)| name));
        let evidence = match (own, manager, marker) {
            (Some(own), _, _) => own.to_owned(),
            (None, Some((part, _)), _) => format!("'{part}' in the path of its control group"),
            (None, None, Some((_, file))) if unknown => format!("the file {file}"),
            _ => return None,
        };
        Some(Container { name: name.unwrap_or("unknown").to_owned(), evidence })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_kind_of_evidence_has_its_judgement() {
        let outside = ContainerEvidence {
            initial_pid_namespace: Some(true),
            initial_cgroup_namespace: Some(true),
            ..Default::default()
        };
        let name = |evidence: &ContainerEvidence| evidence.decide().map(|container| container.name);

        assert_eq!(name(&outside), None);
        // A virtual machine whose image was made from a container's.
        assert_eq!(name(&ContainerEvidence { dockerenv: true, ..outside.clone() }), None);
        assert_eq!(name(&ContainerEvidence::default()), None);
        assert_eq!(name(&ContainerEvidence { dockerenv: true, ..Default::default() }).unwrap(), "Docker");
        assert_eq!(name(&ContainerEvidence { containerenv: true, ..Default::default() }).unwrap(), "Podman");
        let inside = ContainerEvidence { initial_pid_namespace: Some(false), ..outside.clone() };
        assert_eq!(name(&inside).unwrap(), "unknown");
        assert_eq!(name(&ContainerEvidence { dockerenv: true, ..inside }).unwrap(), "Docker");
        let shares_processes = ContainerEvidence { initial_cgroup_namespace: Some(false), ..outside.clone() };
        assert_eq!(shares_processes.decide().unwrap().evidence, "its own cgroup namespace");
        let shares_all = ContainerEvidence {
            cgroups: "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-0a.scope\n".to_owned(),
            ..outside.clone()
        };
        assert_eq!(name(&shares_all).unwrap(), "Kubernetes");
        let the_daemon_itself =
            ContainerEvidence { cgroups: "0::/system.slice/docker.service\n".to_owned(), ..outside };
        assert_eq!(name(&the_daemon_itself), None);
    }
}
