//! What a ready-made workload needs of the host.

use super::Setting;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use surefoot_hostfs::privilege;

/// Something that a workload needs.
#[derive(Debug, Clone, Copy)]
pub(super) enum Need {
    /// A program, and Debian's package of it.
    Program(&'static str, &'static str),
    /// A file or folder, and Debian's package of it.
    File(&'static str, &'static str),
    /// The administrator's rights, and why.
    Root(&'static str),
    /// So many cores.
    Cores(usize),
}

/// Folders that root's programs are in, also where the search path leaves them out.
const SBIN: &str = "/usr/sbin:/sbin";

fn has_program(name: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').chain(SBIN.split(':')).filter(|folder| !folder.is_empty()).any(|folder| {
        let about = Path::new(folder).join(name).metadata();
        about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
    })
}

/// The first thing that is missing, with what helps.
pub(super) fn missing(needs: &[Need], setting: &Setting) -> Option<String> {
    if setting.cores.is_empty() {
        return Some("the online cores are unknown: /sys/devices/system/cpu cannot be read".to_owned());
    }
    needs.iter().find_map(|need| match *need {
        Need::Program(name, _) if has_program(name) => None,
        Need::Program(name, package) => Some(format!("{name} is missing: install the package {package}")),
        Need::File(path, _) if Path::new(path).exists() => None,
        Need::File(path, package) => Some(format!("{path} is missing: install the package {package}")),
        Need::Root(_) if privilege::effective_user() == 0 => None,
        Need::Root(why) => Some(format!("{why} needs root: run as root")),
        Need::Cores(count) if setting.cores.len() >= count => None,
        Need::Cores(count) => {
            let found = setting.cores.len();
            Some(format!("it needs {count} cores: this host has {found} core{}", if found == 1 { "" } else { "s" }))
        }
    })
}
