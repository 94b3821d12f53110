//! What every user may read of the bytes that a drive took: less than its life, but better than nothing.

use super::identity::folder;
use surefoot_hostfs::Root;
use surefoot_model::Digits;

/// Writes in /sys/block/DEV/stat: the seventh number, sectors of 512 bytes (Documentation/block/stat.rst).
const SECTORS_WRITTEN: usize = 6;

/// Bytes that the kernel wrote to a device since it appeared, which for a drive is most often the start of the machine.
pub fn since_boot_bytes(root: &Root, name: &str) -> Option<u64> {
    let text = root.read_up_to(folder(root, name).join("stat"), 4096).ok()?;
    let sectors: u64 = text.split_ascii_whitespace().nth(SECTORS_WRITTEN)?.digits()?;
    sectors.checked_mul(512)
}

/// Bytes that the file system on a device counts since it was made; ext4 and f2fs do.
pub fn file_system_bytes(root: &Root, name: &str) -> Option<u64> {
    ["ext4", "f2fs"].iter().find_map(|kind| {
        let path = root.sys("fs").join(kind).join(name).join("lifetime_write_kbytes");
        let kilobytes: u64 = root.read_up_to(path, 4096).ok()?.trim().digits()?;
        kilobytes.checked_mul(1024)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn the_seventh_number_is_what_was_written() {
        // From a machine with one virtual drive.
        let stat =
            " 3432867    75676 110771546 29567987  1327797   540812 267224088  2490670        0  1035832 32316600\n";
        let tree = HostTree::new()
            .file("sys/class/block/vda/stat", stat)
            .file("sys/class/block/vdb/stat", "1 2 3")
            .file("sys/class/block/vdc/stat", format!("0 0 0 0 0 0 {}", u64::MAX))
            .file("sys/fs/ext4/vda1/lifetime_write_kbytes", "133612041\n")
            .file("sys/fs/f2fs/dm-0/lifetime_write_kbytes", "10\n")
            .file("sys/fs/ext4/vdb/lifetime_write_kbytes", "-5\n");
        let root = Root::at(tree.path());
        assert_eq!(since_boot_bytes(&root, "vda"), Some(136_818_733_056));
        let absent = ["vdb", "vdc", "vdd"].map(|name| since_boot_bytes(&root, name));
        assert_eq!(absent, [None; 3]);
        assert_eq!(file_system_bytes(&root, "vda1"), Some(136_818_729_984));
        assert_eq!(file_system_bytes(&root, "dm-0"), Some(10_240));
        assert_eq!((file_system_bytes(&root, "vdb"), file_system_bytes(&root, "vdc")), (None, None));
    }
}
