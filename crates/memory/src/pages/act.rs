//! Takes pages out of use, one at a time: a deed before each, the kernel's file, a look at what the kernel did, a deed after.
//!
//! A process that is killed in between leaves a deed that began and has no end. [`Taken::settle`] looks at that page again and
//! writes the end that it sees.

use super::{Candidate, how};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use surefoot_hostfs::pages::FrameFlags;
use surefoot_hostfs::{Root, Unsupported};
use surefoot_journal::deeds::{Record, Unusable};
use surefoot_model::{
    Actor, Deed, DeedAction, DeedOutcome, DeedReason, DeedTarget, Observed, Room, Subject, SubjectKind,
};
use surefoot_sys::offlining::{self, Offlining, Refused};

/// Pages that Surefoot took out of use, by its journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    /// By address: the deed that took the page out, where none after it put it back or failed to take it.
    pages: BTreeMap<u64, Deed>,
    /// Deeds that began and have no end.
    unfinished: Vec<Deed>,
    /// Lines of the journal that cannot be read: each may be such a deed.
    pub unread_count: u64,
}

/// What was seen of a page after it was acted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Became {
    /// The kernel has it out of use.
    Offline,
    /// The kernel uses it again.
    InUse,
    /// The kernel took the request, and what it did cannot be seen.
    Unobserved(String),
    /// It is not as was asked.
    Failed(String),
    /// This kernel cannot do it, so that no other page needs to be tried.
    Unsupported(Unsupported),
}

impl Taken {
    /// Reads the journal.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn read(record: &Record) -> Result<Taken, Unusable> {
        let read = record.find(|deed| address(deed).is_some())?;
        Ok(Taken { unread_count: read.skipped_count, ..Taken::of(read.deeds) })
    }

    fn of(deeds: Vec<Deed>) -> Taken {
        let (mut pages, mut open) = (BTreeMap::new(), BTreeMap::new());
        for deed in deeds {
            let Some(address) = address(&deed) else { continue };
            let key = (address, deed.action, deed.begun_realtime_ns);
            match deed.outcome {
                DeedOutcome::Begun => _ = open.insert(key, deed.clone()),
                _ => _ = open.remove(&key),
            }
            note(&mut pages, address, deed);
        }
        Taken { pages, unfinished: open.into_values().collect(), unread_count: 0 }
    }

    /// The deeds that began and have no end.
    pub fn unfinished(&self) -> &[Deed] {
        &self.unfinished
    }

    /// The pages that may still be out of use by a deed of ours, with their modules. A boot puts all pages back, so that what the kernel has out
    /// of use since is no work of a deed before it.
    pub fn pages(&self, booted_realtime_ns: u64) -> impl Iterator<Item = (u64, &str)> {
        self.pages
            .iter()
            .filter(move |(_, deed)| deed.begun_realtime_ns >= booted_realtime_ns)
            .map(|(address, deed)| (*address, deed.subject.name.as_str()))
    }

    /// Writes the end of each deed that has none, as the kernel shows it. Of one from before this boot nothing can be seen any more. The caller holds [`Record::alone`], so that none of them is under way.
    ///
    /// # Errors
    /// [`Unusable`].
    pub fn settle(
        &mut self,
        root: &Root,
        page_bytes: u64,
        record: &Record,
        booted_realtime_ns: u64,
        now: &dyn Fn() -> u64,
    ) -> Result<Vec<Deed>, Unusable> {
        let mut settled = Vec::new();
        for begun in std::mem::take(&mut self.unfinished) {
            let Some(address) = address(&begun) else { continue };
            let early = "the process that began it ended early";
            let is_of_this_boot = begun.begun_realtime_ns >= booted_realtime_ns;
            let seen = match is_of_this_boot {
                true => see(root, address / page_bytes),
                false => Err("the host has booted since, which puts all pages back into use".to_owned()),
            };
            let outcome = match (seen, begun.action) {
                (Ok(true), DeedAction::OfflinePage) => {
                    done(Observed::PagesOffline { asked_count: 1, offline_count: 1 })
                }
                (Ok(false), DeedAction::RestorePage) => done(in_use()),
                (Ok(true), _) => failed(format!("{early}; the page is out of use")),
                (Ok(false), _) => failed(format!("{early}; the page is in use")),
                (Err(why), _) => DeedOutcome::InDoubt { error: format!("{early}; {why}") },
            };
            let ended = begun.with_outcome(outcome, now());
            record.append(&ended)?;
            note(&mut self.pages, address, ended.clone());
            settled.push(ended);
        }
        Ok(settled)
    }
}

/// What a deed says of its page: taken out, or not any more. Only a page that the kernel was seen to use again is put back.
fn note(pages: &mut BTreeMap<u64, Deed>, address: u64, deed: Deed) {
    let is_void = match (deed.action, &deed.outcome) {
        (DeedAction::OfflinePage, DeedOutcome::Failed { .. }) => true,
        (DeedAction::OfflinePage, outcome) if outcome.was_tried() => {
            pages.insert(address, deed);
            false
        }
        (DeedAction::RestorePage, DeedOutcome::Done { observed }) => observed.shows_effect(),
        _ => false,
    };
    if is_void {
        pages.remove(&address);
    }
}

/// The page that a deed is about.
fn address(deed: &Deed) -> Option<u64> {
    match deed.target {
        DeedTarget::Page { address, .. }
            if matches!(deed.action, DeedAction::OfflinePage | DeedAction::RestorePage) =>
        {
            Some(address)
        }
        _ => None,
    }
}

/// What the kernel shows of pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Those that it has out of use.
    pub offline: BTreeSet<u64>,
    /// Those that are beyond the memory of this host.
    pub beyond: BTreeSet<u64>,
}

/// Which of these pages the kernel has out of use.
///
/// # Errors
/// Why that cannot be seen.
pub fn offline_of(
    root: &Root,
    addresses: impl Iterator<Item = u64>,
    page_bytes: u64,
) -> Result<Shown, surefoot_hostfs::Error> {
    let flags = FrameFlags::open(root)?;
    let mut shown = Shown::default();
    for address in addresses {
        match flags.is_poisoned(address / page_bytes) {
            Ok(true) => _ = shown.offline.insert(address),
            Ok(false) => {}
            Err(surefoot_hostfs::Error::Read { source, .. })
                if matches!(source.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidInput) =>
            {
                shown.beyond.insert(address);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(shown)
}

/// Takes a page out of use and records it. A page whose beginning cannot be recorded is not touched.
///
/// # Errors
/// [`Unusable`].
pub fn take(
    root: &Root,
    page_bytes: u64,
    record: &Record,
    page: &Candidate,
    uid: u32,
    now: &dyn Fn() -> u64,
) -> Result<Became, Unusable> {
    let how = how(&page.page);
    let target = DeedTarget::Page { address: page.page.address, is_hard: how == Offlining::Hard };
    let reason = DeedReason::Seen { evidence: vec![page.evidence.clone()] };
    let begun = begin(&page.module, DeedAction::OfflinePage, target, reason, uid, now());
    record.append(&begun)?;
    let asked = offlining::offline(root, page.page.address, how);
    let became = became(asked, see(root, page.page.address / page_bytes), true);
    record.append(&begun.with_outcome(outcome(&became, true), now()))?;
    Ok(became)
}

/// Puts a page back into use and records it.
///
/// # Errors
/// [`Unusable`].
pub fn restore(
    root: &Root,
    page_bytes: u64,
    record: &Record,
    (address, module): (u64, &str),
    uid: u32,
    now: &dyn Fn() -> u64,
) -> Result<Became, Unusable> {
    let target = DeedTarget::Page { address, is_hard: false };
    let begun = begin(module, DeedAction::RestorePage, target, DeedReason::Asked, uid, now());
    record.append(&begun)?;
    let asked = offlining::restore(root, address / page_bytes);
    let became = became(asked, see(root, address / page_bytes), false);
    record.append(&begun.with_outcome(outcome(&became, false), now()))?;
    Ok(became)
}

fn begin(
    module: &str,
    action: DeedAction,
    target: DeedTarget,
    reason: DeedReason,
    uid: u32,
    at_realtime_ns: u64,
) -> Deed {
    Deed {
        at_realtime_ns,
        begun_realtime_ns: at_realtime_ns,
        room: Room::Memory,
        subject: Subject::new(SubjectKind::Dimm, module.to_owned()),
        actor: Actor::Command { uid },
        action,
        target,
        reason,
        outcome: DeedOutcome::Begun,
    }
}

/// Whether the kernel has a frame out of use.
fn see(root: &Root, frame: u64) -> Result<bool, String> {
    let seen = FrameFlags::open(root).and_then(|flags| flags.is_poisoned(frame));
    seen.map_err(|error| error.to_string())
}

/// What the kernel's answer and a look at the page come to. `is_wanted` is whether the page was to be out of use.
fn became(asked: Result<(), Refused>, seen: Result<bool, String>, is_wanted: bool) -> Became {
    let refused = match asked {
        Ok(()) => None,
        Err(Refused::Unsupported(why)) => return Became::Unsupported(why),
        Err(refused) => Some(format!("the kernel refused: {refused}")),
    };
    match (refused, seen) {
        (None, Ok(is_offline)) if is_offline == is_wanted => {
            if is_offline {
                Became::Offline
            } else {
                Became::InUse
            }
        }
        (None, Ok(true)) => {
            Became::Failed("the kernel accepted it, and still marks the page (/proc/kpageflags)".into())
        }
        (None, Ok(false)) => {
            Became::Failed("the kernel accepted it, and does not mark the page (/proc/kpageflags)".into())
        }
        (None, Err(why)) => Became::Unobserved(why),
        (Some(refused), Ok(true)) if is_wanted => {
            Became::Failed(format!("{refused}; it marks the page as bad, and could not free it"))
        }
        (Some(refused), _) => Became::Failed(refused),
    }
}

fn outcome(became: &Became, is_wanted: bool) -> DeedOutcome {
    match became {
        Became::Offline => done(Observed::PagesOffline { asked_count: 1, offline_count: 1 }),
        Became::InUse => done(in_use()),
        Became::Unobserved(why) => done(Observed::Unobserved {
            why: format!("the kernel took the page {}; {why}", if is_wanted { "out of use" } else { "back" }),
        }),
        Became::Failed(why) => failed(why.clone()),
        Became::Unsupported(why) => failed(format!("unsupported: {why}")),
    }
}

fn in_use() -> Observed {
    Observed::Effect { evidence: "the kernel no longer marks the page (/proc/kpageflags)".to_owned() }
}

fn done(observed: Observed) -> DeedOutcome {
    DeedOutcome::Done { observed }
}

fn failed(error: String) -> DeedOutcome {
    DeedOutcome::Failed { error }
}

#[cfg(test)]
#[path = "act_tests.rs"]
mod tests;
