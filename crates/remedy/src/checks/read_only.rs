//! File systems that the kernel turned read-only: work on them fails from then on, and an error of the drive below is the usual reason.

use super::Said;
use std::collections::BTreeSet;
use surefoot_hostfs::Root;
use surefoot_hostfs::mounts::Mounts;
use surefoot_model::CheckState;

/// File systems that take no writes by their nature, whatever their mount asks for.
const NEVER_WRITABLE: &[&str] = &["squashfs", "iso9660", "erofs", "cramfs", "romfs", "udf"];

pub(super) fn ask(root: &Root) -> Said {
    match Mounts::read(root) {
        Ok(mounts) => judge(&mounts),
        Err(error) => Said::unknown(format!("The mounts cannot be read: {error}")),
    }
}

fn judge(mounts: &Mounts) -> Said {
    let mut seen = BTreeSet::new();
    // A file system that is seen at several places is one.
    let bad = mounts.list.iter().filter(|mount| {
        mount.became_read_only()
            && !NEVER_WRITABLE.contains(&mount.kind.as_str())
            && seen.insert(mount.number.to_string())
    });
    let bad: Vec<_> = bad.collect();
    let evidence = bad.iter().map(|mount| {
        let (point, kind, source) = (mount.point.display(), &mount.kind, &mount.source);
        format!("{point}: {kind} on {source}, mounted {}, now {}", mount.own_options, mount.options)
    });
    let sentence = match bad.as_slice() {
        [] => return Said::new(CheckState::Ok, "No file system became read-only."),
        [one] => format!("The file system at {} became read-only.", one.point.display()),
        [one, more @ ..] => {
            format!("The file systems at {} and {} more became read-only.", one.point.display(), more.len())
        }
    };
    Said::new(CheckState::Critical, sentence).with_evidence(evidence.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_turned_read_only_is_told() {
        let text = "\
22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw
23 1 254:2 / /data rw,relatime - ext4 /dev/vdb ro,errors=remount-ro
24 1 254:2 /sub /bound rw,relatime - ext4 /dev/vdb ro,errors=remount-ro
25 1 7:0 / /snap/x rw - squashfs /dev/loop0 ro
26 1 254:3 / /archive ro - ext4 /dev/vdc ro
";
        let said = judge(&Mounts::parse(text));
        assert_eq!(
            (said.state, said.sentence.as_str()),
            (CheckState::Critical, "The file system at /data became read-only.")
        );
        assert_eq!(said.evidence, ["/data: ext4 on /dev/vdb, mounted rw,relatime, now ro,errors=remount-ro"]);
        let well: String = text.lines().filter(|line| !line.contains("vdb")).map(|line| format!("{line}\n")).collect();
        assert_eq!(judge(&Mounts::parse(&well)).state, CheckState::Ok);
    }
}
