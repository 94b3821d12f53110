//! Whose memory a page is, or was before the kernel lost it: which process, which mapping, which file, and whether the contents are
//! somewhere else as well.
//!
//! Two witnesses: the page tables, see [`surefoot_hostfs::frame_users`], and what the kernel said when it lost the page
//! (`Memory failure: 0x12345: …`, `mm/memory-failure.c`). The first knows mappings and files, and no process that has been ended; the
//! second knows what kind of page it was and whom it signalled, and no file.

use crate::counted;
use crate::doctor::kernel_messages;
use std::collections::{BTreeMap, BTreeSet};
use surefoot_hostfs::frame_users::{Frame, FrameKind, OtherCopy, users_of};
use surefoot_hostfs::usage::page_bytes;
use surefoot_hostfs::{Error, Root};
use surefoot_model::{Digits, one_line};

/// Lost pages that are told apart.
const FAILURES_MAX: usize = 4096;
/// Processes that are named of one page.
const SIGNALLED_MAX: usize = 64;

/// What the kernel said of a page that it lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Failure {
    /// Processes that it signalled or ended for it, with their names.
    pub signalled: Vec<(String, u32)>,
    /// What the page was, in the kernel's words, such as `dirty LRU page`; empty where it did not say.
    pub kind: String,
    /// The outcome: `Recovered`, `Delayed`, `Ignored` or `Failed`; empty where it did not say.
    pub result: String,
}

/// What is known of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// What the page tables tell.
    pub frame: Frame,
    /// What the kernel said, if it lost the page.
    pub failure: Option<Failure>,
    /// Whether the contents are somewhere else as well, by both.
    pub copy: OtherCopy,
}

/// What is known of some pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    /// By the number of the frame.
    pub pages: BTreeMap<u64, Owner>,
    /// Processes whose mappings could not be read, or not to their end: a page may be one's of these.
    pub unread_processes: u64,
    /// Why the kernel's log could not be read.
    pub log_unread: Option<String>,
}

/// Looks for the owners of these frames, or of all that the kernel said it lost since the beginning of its log.
///
/// # Errors
/// When the flags of page frames, or the processes, cannot be read.
pub fn owners(root: &Root, frames: Option<BTreeSet<u64>>, page_bytes: u64) -> Result<Owners, Error> {
    let (mut failures, log_unread) = match kernel_messages(root) {
        Ok(messages) => (failures(messages.iter().map(String::as_str)), None),
        Err(why) => (BTreeMap::new(), Some(why)),
    };
    let frames = frames.unwrap_or_else(|| failures.keys().copied().collect());
    let found = users_of(root, &frames, page_bytes)?;
    let pages = found.frames.into_iter().map(|(number, frame)| {
        let failure = failures.remove(&number);
        let copy = copy(&frame, failure.as_ref());
        (number, Owner { frame, failure, copy })
    });
    Ok(Owners { pages: pages.collect(), unread_processes: found.unread_processes, log_unread })
}

/// Whether the contents are somewhere else. What a lost page held only the kernel's words tell.
fn copy(frame: &Frame, failure: Option<&Failure>) -> OtherCopy {
    let said = match failure {
        Some(failure) if frame.kind == FrameKind::OutOfUse => &failure.kind,
        _ => return frame.copy,
    };
    let is_file = frame.uses.iter().any(|one| one.file_offset.is_some());
    match said.split(' ').next() {
        // It was dropped, and is read again from its file or from swap.
        Some("clean") => OtherCopy::OnDisk,
        Some("dirty") if is_file => OtherCopy::Older,
        Some("dirty") if !frame.uses.is_empty() => OtherCopy::None,
        Some("free") => OtherCopy::None,
        _ => OtherCopy::Unknown,
    }
}

/// The same in sentences: what the kernel lost, whose memory it is or was, and whether there is another copy.
pub fn sentences(owner: &Owner) -> Vec<String> {
    let frame = &owner.frame;
    let mut said = Vec::new();
    if let Some(failure) = &owner.failure {
        said.push(match (failure.kind.as_str(), failure.result.as_str()) {
            ("", _) => "The kernel lost it, and did not say what it was.".to_owned(),
            (kind, result) => format!("The kernel lost it: {}, {}.", one_line(kind), one_line(result)),
        });
        let signalled = failure.signalled.iter();
        said.extend(
            signalled.map(|(name, pid)| format!("Signalled (SIGBUS) or ended: {} (PID {pid}).", one_line(name))),
        );
    }
    for one in &frame.uses {
        let user = one.uid.map_or("user unknown".to_owned(), |uid| format!("UID {uid}"));
        let at = match (one.mapping.as_str(), one.file_offset) {
            ("", _) => "nameless memory".to_owned(),
            (file, Some(offset)) => format!("{} at byte {offset}", one_line(file)),
            (name, None) => one_line(name),
        };
        let lost = if one.is_lost { "; the kernel ends it when it uses the page" } else { "" };
        let (name, pid) = (one_line(&one.name), one.pid);
        said.push(format!("{name} (PID {pid}, {user}): {at}, mapped at {:#x}{lost}.", one.virtual_address));
    }
    let more = frame.found_count - frame.uses.len() as u64;
    if more > 0 {
        said.push(format!("{} more.", counted(more, "mapping", "mappings")));
    }
    let missing = frame.mapped_count.unwrap_or(0).saturating_sub(frame.found_count);
    if missing > 0 {
        said.push(format!("Owner not known of {} that the kernel counts.", counted(missing, "mapping", "mappings")));
    }
    let copy = match (owner.copy, frame.kind) {
        (_, FrameKind::Free | FrameKind::Kernel | FrameKind::NoMemory) => "",
        (OtherCopy::OnDisk, _) => "The contents are on disk as well: the kernel reads them again.",
        (OtherCopy::Older, _) => "The file on disk is older: what was written since is in memory alone.",
        (OtherCopy::None, _) => "There is no other copy.",
        (OtherCopy::Unknown, _) => "Whether there is another copy is not known.",
    };
    said.extend((!copy.is_empty()).then(|| copy.to_owned()));
    said
}

/// Tells of a page that was lost just now whose memory it was, for a report. Looking through all processes takes time, so one look in this
/// many nanoseconds is allowed.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    looked_ns: Option<u64>,
}

const LOOK_EVERY_NS: u64 = 10_000_000_000;

impl Teller {
    /// The words for the page of this address.
    pub(crate) fn words(&mut self, root: &Root, address: u64, now_ns: u64) -> String {
        if self.looked_ns.is_some_and(|looked_ns| now_ns.saturating_sub(looked_ns) < LOOK_EVERY_NS) {
            return "whose memory it was is not looked up that often: `surefoot memory owner` tells".to_owned();
        }
        self.looked_ns = Some(now_ns);
        let frame = address / page_bytes();
        match owners(root, Some([frame].into()), page_bytes()) {
            Ok(found) => {
                let said: Vec<String> = found.pages.get(&frame).map(sentences).unwrap_or_default();
                said.join(" ")
            }
            Err(error) => format!("whose memory it was is not known: {error}"),
        }
    }
}

/// What the kernel said, by frame. A page that was lost, put back into use and lost again is what was said last.
fn failures<'a>(messages: impl Iterator<Item = &'a str>) -> BTreeMap<u64, Failure> {
    let mut failures: BTreeMap<u64, Failure> = BTreeMap::new();
    for message in messages {
        let Some((number, said)) = message.strip_prefix("Memory failure: 0x").and_then(|said| said.split_once(": "))
        else {
            continue;
        };
        let Some(number) = number.hex_digits() else { continue };
        if failures.len() >= FAILURES_MAX && !failures.contains_key(&number) {
            continue;
        }
        let failure = failures.entry(number).or_default();
        if let Some((kind, result)) = said.strip_prefix("recovery action for ").and_then(|said| said.rsplit_once(": "))
        {
            (failure.kind, failure.result) = (kind.to_owned(), result.trim().to_owned());
        } else if let Some(who) = signalled(said) {
            // The page is lost again: who was signalled before does not count.
            if !failure.kind.is_empty() {
                *failure = Failure::default();
            }
            if failure.signalled.len() < SIGNALLED_MAX && !failure.signalled.contains(&who) {
                failure.signalled.push(who);
            }
        }
    }
    failures
}

/// `Sending SIGBUS to NAME:PID due to …`, `Killing NAME:PID due to …` (before 4.19), `forcibly killing NAME:PID because of …`. A name may
/// hold anything.
fn signalled(said: &str) -> Option<(String, u32)> {
    let starts = ["Sending SIGBUS to ", "Killing ", "forcibly killing "];
    let rest = starts.into_iter().find_map(|start| said.strip_prefix(start))?;
    let who = [" due to hardware memory corruption", " because of failure to unmap"];
    let end = who.into_iter().filter_map(|end| rest.rfind(end)).max()?;
    let (name, pid) = rest[..end].rsplit_once(':')?;
    Some((one_line(name), pid.digits()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_said_is_read_by_page() {
        let found = failures(
            [
                "Memory failure: 0x1a2b: Sending SIGBUS to my: job:412 due to hardware memory corruption",
                "Memory failure: 0x1a2b: recovery action for dirty LRU page: Recovered",
                "Memory failure: 0x77: recovery action for clean LRU page: Recovered",
                "Memory failure: 0x78: already hardware poisoned",
                "Memory failure: nonsense",
            ]
            .into_iter(),
        );
        assert_eq!(found[&0x1a2b].signalled, [("my: job".to_owned(), 412)]);
        assert_eq!((found[&0x1a2b].kind.as_str(), found[&0x1a2b].result.as_str()), ("dirty LRU page", "Recovered"));
        assert_eq!(found[&0x77].kind, "clean LRU page");
        assert_eq!(found.len(), 3);
        let mut teller = Teller { looked_ns: Some(1) };
        assert!(teller.words(&Root::at("/none"), 4096, LOOK_EVERY_NS).contains("memory owner"));
        assert!(teller.words(&Root::at("/none"), 4096, LOOK_EVERY_NS + 1).contains("not known: cannot read"));
        let frame =
            |kind| Frame { kind, copy: OtherCopy::Unknown, uses: Vec::new(), found_count: 0, mapped_count: None };
        let lost = frame(FrameKind::OutOfUse);
        assert_eq!(copy(&lost, Some(&found[&0x77])), OtherCopy::OnDisk);
        // Whose it was is not known, so neither is whether a file holds an older state.
        assert_eq!(copy(&lost, Some(&found[&0x1a2b])), OtherCopy::Unknown);
        assert_eq!(copy(&lost, None), OtherCopy::Unknown);
        // It is in use again.
        assert_eq!(copy(&frame(FrameKind::File), Some(&found[&0x77])), OtherCopy::Unknown);
    }
}
