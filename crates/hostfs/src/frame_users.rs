//! Who uses a page frame: which processes have it mapped, where, of which file, and whether its contents are on a disk as well.
//!
//! `/proc/PID/maps` names the mappings, `/proc/PID/pagemap` the frame behind each of their pages, `/proc/kpagecount` how many mappings
//! there are, so that it is known whether all were found, and `/proc/kpageflags` what the frame holds
//! (`Documentation/admin-guide/mm/pagemap.rst`). Only root may read these. A page that the kernel has lost stays in the page tables of
//! processes that it did not end, as an entry that holds its frame's number: so its owner can still be told.

use crate::pages::FrameFlags;
use crate::{Error, Root, tasks};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use surefoot_model::Digits;

/// Pages of mappings that are looked at, over all processes: 2 GiB of `pagemap`, which takes seconds.
const PAGES_MAX: u64 = 1 << 28;
/// Pages that are read at once.
const CHUNK_PAGES: u64 = 8192;
/// Uses of one frame that are kept; a page of a common library has one in each process.
pub const USES_MAX: usize = 64;
/// The longest list of mappings of a process.
const MAPS_BYTES_MAX: u64 = 64 << 20;

/// A mapping of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameUse {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its user; `None` if it has ended since.
    pub uid: Option<u32>,
    /// The page's address in the process.
    pub virtual_address: u64,
    /// The file that is mapped, or the kernel's name for the mapping (`[heap]`); empty for nameless memory.
    pub mapping: String,
    /// Where in the file the page begins, bytes; `None` where no file is mapped.
    pub file_offset: Option<u64>,
    /// Whether the process writes to the file through it.
    pub is_shared_writable: bool,
    /// Whether the kernel has lost the page: the process is ended when it uses it.
    pub is_lost: bool,
}

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// Memory of processes without a file.
    Anonymous,
    /// Memory of a file in memory: tmpfs, shared memory.
    MemoryFile,
    /// A file's contents.
    File,
    /// Nothing: it is free.
    Free,
    /// The kernel's own.
    Kernel,
    /// There is no memory with this number.
    NoMemory,
    /// The kernel has taken it out of use, and no longer says what it held.
    OutOfUse,
}

/// Whether what a frame holds is somewhere else as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherCopy {
    /// In the file on its disk, or in swap: the kernel reads it again.
    OnDisk,
    /// The file on its disk is older.
    Older,
    /// Nowhere.
    None,
    /// Not known.
    Unknown,
}

/// What is known of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it holds.
    pub kind: FrameKind,
    /// Whether that is somewhere else as well.
    pub copy: OtherCopy,
    /// The mappings that were found, up to [`USES_MAX`].
    pub uses: Vec<FrameUse>,
    /// All that were found.
    pub found_count: u64,
    /// Mappings that the kernel counts; `None` where it does not say.
    pub mapped_count: Option<u64>,
}

/// What is known of some frames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FrameUsers {
    /// Each frame by its number.
    pub frames: BTreeMap<u64, Frame>,
    /// Processes whose mappings could not be read, or not to their end.
    pub unread_processes: u64,
}

/// Looks for the users of these frames in all processes.
///
/// # Errors
/// When the flags of frames, or the processes, cannot be read.
pub fn users_of(root: &Root, frames: &BTreeSet<u64>, page_bytes: u64) -> Result<FrameUsers, Error> {
    let flags = FrameFlags::open(root)?;
    let counts = root.open_plain(root.proc("kpagecount")).ok();
    let mut users = FrameUsers::default();
    for &frame in frames {
        let (kind, copy) = match flags.flags(frame) {
            Ok(flags) => held(flags),
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => {
                (FrameKind::NoMemory, OtherCopy::Unknown)
            }
            Err(error) => return Err(error),
        };
        let mapped_count = counts.as_ref().and_then(|counts| word(counts, frame).ok());
        users.frames.insert(frame, Frame { kind, copy, uses: Vec::new(), found_count: 0, mapped_count });
    }
    let (processes, is_cut) = tasks::processes(root)?;
    users.unread_processes += u64::from(is_cut);
    let mut left = PAGES_MAX;
    for (pid, stat) in processes.iter().filter(|(_, stat)| !stat.is_kernel_thread() && !stat.has_ended()) {
        let mut found = Vec::new();
        let is_read = look_at(root, *pid, page_bytes, &mut left, frames, &mut found);
        // A process that has ended since uses nothing.
        let is_there = root.proc(format!("{pid}/maps")).exists();
        users.unread_processes += u64::from(!is_read && is_there);
        let uid = tasks::user(root, *pid);
        for (frame, mut one) in found {
            let Some(frame) = users.frames.get_mut(&frame) else { continue };
            // The entry of a page that is being moved looks the same.
            one.is_lost &= frame.kind == FrameKind::OutOfUse;
            frame.found_count += 1;
            // A change through a shared mapping is in the frame before the kernel marks it as changed.
            if one.is_shared_writable && frame.kind == FrameKind::File && frame.copy == OtherCopy::OnDisk {
                frame.copy = OtherCopy::Unknown;
            }
            if frame.uses.len() < USES_MAX {
                frame.uses.push(FrameUse { pid: *pid, name: stat.name.clone(), uid, ..one });
            }
        }
    }
    Ok(users)
}

/// Looks through the mappings of a process; `false` where they could not all be read.
fn look_at(
    root: &Root,
    pid: u32,
    page_bytes: u64,
    left: &mut u64,
    frames: &BTreeSet<u64>,
    found: &mut Vec<(u64, FrameUse)>,
) -> bool {
    let Ok(maps) = root.read_up_to(root.proc(format!("{pid}/maps")), MAPS_BYTES_MAX) else { return false };
    // A process without memory of its own has none, and no pagemap that can be read.
    if maps.is_empty() {
        return true;
    }
    let Ok(pagemap) = root.open_plain(root.proc(format!("{pid}/pagemap"))) else { return false };
    let mut is_whole = true;
    for mapping in maps.lines() {
        let Some(mapping) = Mapping::parse(mapping) else {
            is_whole = false;
            continue;
        };
        // The kernel's own pages in each process.
        if matches!(mapping.name.as_str(), "[vsyscall]" | "[vvar]" | "[vvar_vclock]" | "[vdso]") {
            continue;
        }
        let (mut page, end) = (mapping.start / page_bytes, mapping.end / page_bytes);
        while page < end {
            let count = CHUNK_PAGES.min(end - page);
            if *left < count {
                return false;
            }
            *left -= count;
            let mut chunk = vec![0; (count * 8) as usize];
            let Ok(length) = pagemap.read_at(&mut chunk, page * 8) else {
                is_whole = false;
                break;
            };
            if length < 8 {
                break;
            }
            for (number, entry) in chunk[..length].chunks_exact(8).enumerate() {
                let entry = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
                let Some((frame, is_lost)) = frame_of(entry, frames) else { continue };
                let at = (page + number as u64) * page_bytes;
                let file_offset = mapping.is_file.then(|| mapping.offset + (at - mapping.start));
                let one = FrameUse {
                    pid: 0,
                    name: String::new(),
                    uid: None,
                    virtual_address: at,
                    mapping: mapping.name.clone(),
                    file_offset,
                    is_shared_writable: mapping.is_shared && mapping.is_writable,
                    is_lost,
                };
                found.push((frame, one));
            }
            page += (length / 8) as u64;
        }
    }
    is_whole
}

/// The frame of an entry if it is one of these, and whether the kernel has lost it.
fn frame_of(entry: u64, frames: &BTreeSet<u64>) -> Option<(u64, bool)> {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const NUMBER: u64 = (1 << 55) - 1;
    // Of an entry that is not in memory the lowest five bits are a kind, and the rest is the frame for a page that was lost
    // (`SWP_HWPOISON`), whose kinds come after those of real swap files.
    const KIND_BITS: u32 = 5;
    const SWAP_FILES_MIN: u64 = 23;
    let number = entry & NUMBER;
    if entry & PRESENT != 0 {
        return frames.contains(&number).then_some((number, false));
    }
    let (kind, frame) = (number & ((1 << KIND_BITS) - 1), number >> KIND_BITS);
    (entry & SWAPPED != 0 && kind >= SWAP_FILES_MIN && frames.contains(&frame)).then_some((frame, true))
}

struct Mapping {
    start: u64,
    end: u64,
    is_writable: bool,
    is_shared: bool,
    offset: u64,
    is_file: bool,
    name: String,
}

impl Mapping {
    /// `7f0c1000-7f0c3000 rw-p 00001000 08:01 1234  /usr/lib/x.so`
    fn parse(line: &str) -> Option<Mapping> {
        let mut rest = line;
        let mut word = || {
            rest = rest.trim_start();
            let end = rest.find(' ').unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after;
            word
        };
        let (start, end) = word().split_once('-')?;
        let (start, end): (u64, u64) = (start.hex_digits()?, end.hex_digits()?);
        let flags = word().as_bytes();
        let offset = word().hex_digits()?;
        let _device = word();
        let inode: u64 = word().digits()?;
        let (is_writable, is_shared) = (flags.get(1) == Some(&b'w'), flags.get(3) == Some(&b's'));
        (start <= end).then(|| Mapping {
            start,
            end,
            is_writable,
            is_shared,
            offset,
            is_file: inode != 0,
            name: rest.trim().to_owned(),
        })
    }
}

/// What a frame with these flags holds (`include/uapi/linux/kernel-page-flags.h`).
fn held(flags: u64) -> (FrameKind, OtherCopy) {
    let has = |bit: u32| flags & 1 << bit != 0;
    let (dirty, lru, buddy, mapped, anonymous, in_swap, by_swap) = (4, 5, 10, 11, 12, 13, 14);
    let (slab, poisoned, none, page_table, reserved) = (7, 19, 20, 26, 32);
    if has(none) {
        (FrameKind::NoMemory, OtherCopy::Unknown)
    } else if has(poisoned) {
        (FrameKind::OutOfUse, OtherCopy::Unknown)
    } else if has(buddy) {
        (FrameKind::Free, OtherCopy::None)
    } else if has(slab) || has(page_table) || has(reserved) {
        (FrameKind::Kernel, OtherCopy::None)
    } else if has(anonymous) {
        (FrameKind::Anonymous, if has(in_swap) && !has(dirty) { OtherCopy::OnDisk } else { OtherCopy::None })
    } else if has(lru) && has(by_swap) {
        (FrameKind::MemoryFile, if has(in_swap) && !has(dirty) { OtherCopy::OnDisk } else { OtherCopy::None })
    } else if has(lru) || has(mapped) {
        (FrameKind::File, if has(dirty) { OtherCopy::Older } else { OtherCopy::OnDisk })
    } else {
        (FrameKind::Kernel, OtherCopy::Unknown)
    }
}

fn word(file: &File, number: u64) -> io::Result<u64> {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, number.saturating_mul(8))?;
    Ok(u64::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_testkit::HostTree;

    const PAGE_BYTES: u64 = 4096;
    const PRESENT: u64 = 1 << 63;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn write(tree: &HostTree, path: &str, bytes: &[u8]) {
        let path = tree.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// One process with a library, a heap and a file that it writes to, and a page that it has lost.
    #[test]
    fn the_users_of_a_frame_are_found_with_the_file_and_its_copy() {
        let maps = "1000-3000 r-xp 00004000 08:01 77                       /usr/lib/a b.so\n\
                    5000-6000 rw-p 00000000 00:00 0                        [heap]\n\
                    6000-7000 rw-s 00002000 08:01 78                       /data/table\n\
                    8000-9000 rw-p 00000000 00:00 0 \n";
        let tree = HostTree::new()
            .file("proc/7/stat", format!("7 (solver) S 1 7 7 0 -1 4194304{}", " 0".repeat(43)))
            .file("proc/7/status", "Name:\tsolver\nUid:\t1000\t1000\t1000\t1000\n")
            .file("proc/7/maps", maps);
        let mut pagemap = vec![0; 9];
        (pagemap[1], pagemap[2]) = (PRESENT | 2, PRESENT | 3);
        (pagemap[5], pagemap[6]) = (PRESENT | 4, PRESENT | 5);
        // SWP_HWPOISON is one of the last kinds.
        pagemap[8] = 1 << 62 | 6 << 5 | 28;
        write(&tree, "proc/7/pagemap", &words(&pagemap));
        let (lru, mapped, anonymous, by_swap) = (1 << 5, 1 << 11, 1 << 12, 1 << 14);
        let flags =
            [0, 0, lru | mapped, lru | mapped | 1 << 4, lru | mapped | anonymous | by_swap, lru | mapped, 1 << 19];
        write(&tree, "proc/kpageflags", &words(&flags));
        write(&tree, "proc/kpagecount", &words(&[0, 0, 2, 1, 1, 1, 0]));
        let found = users_of(&Root::at(tree.path()), &(2..=7).collect(), PAGE_BYTES).unwrap();
        assert_eq!(found.unread_processes, 0);
        let of = |frame: u64| &found.frames[&frame];
        assert_eq!((of(2).kind, of(2).copy), (FrameKind::File, OtherCopy::OnDisk));
        let library = &of(2).uses[0];
        assert_eq!((library.pid, library.name.as_str(), library.uid), (7, "solver", Some(1000)));
        assert_eq!((library.mapping.as_str(), library.file_offset), ("/usr/lib/a b.so", Some(0x4000)));
        // The kernel counts another mapping, which was not found.
        assert_eq!((of(2).found_count, of(2).mapped_count), (1, Some(2)));
        assert_eq!((of(3).copy, of(3).uses[0].file_offset), (OtherCopy::Older, Some(0x5000)));
        assert_eq!((of(4).kind, of(4).copy), (FrameKind::Anonymous, OtherCopy::None));
        assert_eq!((of(4).uses[0].mapping.as_str(), of(4).uses[0].file_offset), ("[heap]", None));
        // What was changed through the mapping is not marked yet.
        assert_eq!((of(5).kind, of(5).copy), (FrameKind::File, OtherCopy::Unknown));
        assert_eq!(of(6).kind, FrameKind::OutOfUse);
        assert_eq!((of(6).uses[0].virtual_address, of(6).uses[0].is_lost), (0x8000, true));
        assert_eq!((of(7).kind, of(7).uses.len()), (FrameKind::NoMemory, 0));
    }
}
