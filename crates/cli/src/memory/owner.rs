//! `surefoot memory owner`: whose memory a page is, or was before the kernel lost it.

use super::status;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::table::paragraph;
use surefoot_console::units::counted;
use surefoot_hostfs::frame_users::{FrameKind, FrameUse, OtherCopy};
use surefoot_hostfs::privilege::effective_user;
use surefoot_hostfs::{Unsupported, usage};
use surefoot_memory::owner::{Owner, Owners, owners, sentences};
use surefoot_memory::pages::PAGE_BYTES;
use surefoot_model::{Digits, one_line};

/// Sentences are wrapped here.
const COLUMNS: usize = 110;

#[derive(Args)]
pub struct OwnerOptions {
    /// Physical addresses, such as 0x2f4a31000 [default: the pages that the kernel's log says it lost]
    #[arg(value_name = "ADDRESS", value_parser = address)]
    addresses: Vec<u64>,
    /// A recorded tree with proc and dev instead of this host
    #[arg(long, value_name = "DIR")]
    host_root: Option<PathBuf>,
    /// JSON lines instead of text
    #[arg(long)]
    json: bool,
}

fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.is_empty());
    digits
        .and_then(|digits| digits.hex_digits())
        .ok_or_else(|| format!("'{text}' is not a physical address, such as 0x2f4a31000"))
}

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// Memory of processes without a file.
    Anonymous,
    /// A file in memory: tmpfs, shared memory.
    MemoryFile,
    /// A file's contents.
    File,
    /// Nothing: it is free.
    Free,
    /// The kernel's own, or what the kernel does not say.
    Kernel,
    /// There is no memory at this address.
    NoMemory,
    /// The kernel has taken it out of use.
    OutOfUse,
}

/// Whether its contents are somewhere else as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PageCopy {
    /// In the file on its disk, or in swap.
    OnDisk,
    /// The file on its disk is older.
    Older,
    /// Nowhere.
    None,
    /// Not known.
    Unknown,
}

/// A mapping of the page in a process.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "PageUse"))]
pub struct UseLine<'a> {
    pid: u32,
    name: &'a str,
    /// Its user; null if it has ended since.
    uid: Option<u32>,
    virtual_address: u64,
    /// The file that is mapped, or the kernel's name for the mapping (`[heap]`); empty for nameless memory.
    mapping: &'a str,
    /// Where in the file the page begins; null where no file is mapped.
    file_offset_bytes: Option<u64>,
    /// Whether the process is ended by the kernel when it uses the page.
    is_lost: bool,
}

/// A process that the kernel signalled for the page.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "PageSignalled"))]
pub struct SignalledLine<'a> {
    pid: u32,
    name: &'a str,
}

/// What is known of a page.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "page_owner")]
pub struct OwnerLine<'a> {
    /// Physical address of the page.
    address: u64,
    kind: PageKind,
    copy: PageCopy,
    /// Mappings in processes, the first of them.
    uses: Vec<UseLine<'a>>,
    /// All that were found.
    found_count: u64,
    /// Mappings that the kernel counts; null where it does not say.
    mapped_count: Option<u64>,
    /// Processes that the kernel signalled or ended because it lost the page.
    signalled: Vec<SignalledLine<'a>>,
    /// What the page was when it was lost, in the kernel's words; null where its log does not say.
    lost_kind: Option<&'a str>,
    /// The outcome, in the kernel's words; null where its log does not say.
    lost_result: Option<&'a str>,
    /// Processes whose mappings could not all be read: the page may be one's of these.
    unread_process_count: u64,
    /// Why the kernel's log could not be read; null otherwise.
    log_unread: Option<&'a str>,
}

pub fn run(options: &OwnerOptions) -> anyhow::Result<Outcome> {
    let root = status::root(options.host_root.as_ref())?;
    let page_bytes = if root.is_host() { usage::page_bytes() } else { PAGE_BYTES };
    let frames: BTreeSet<u64> = options.addresses.iter().map(|address| address / page_bytes).collect();
    let found = owners(&root, (!frames.is_empty()).then_some(frames), page_bytes).map_err(|error| {
        let remedy =
            if effective_user() == 0 { "boot a kernel with CONFIG_PROC_PAGE_MONITOR" } else { "run it as root" };
        Unsupported::of(&error, remedy)
    })?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    if options.json {
        output::stream(&mut out, "memory owner")?;
    }
    for (frame, owner) in &found.pages {
        let address = frame.saturating_mul(page_bytes);
        match options.json {
            true => output::line(&mut out, &line(address, owner, &found))?,
            false => out.write_all(text(address, owner).as_bytes())?,
        }
    }
    if !options.json {
        out.write_all(closing(&found).as_bytes())?;
    }
    out.flush()?;
    let is_lost = |owner: &Owner| owner.frame.kind == FrameKind::OutOfUse && owner.copy != OtherCopy::OnDisk;
    let is_bad = found.pages.values().any(|owner| owner.failure.is_some() && is_lost(owner));
    Ok(if is_bad { Outcome::Found } else { Outcome::Done })
}

fn line<'a>(address: u64, owner: &'a Owner, found: &'a Owners) -> OwnerLine<'a> {
    let failure = owner.failure.as_ref();
    let said = |words: &'a String| Some(words.as_str()).filter(|words| !words.is_empty());
    let signalled = failure.iter().flat_map(|failure| &failure.signalled);
    let of = |one: &'a FrameUse| UseLine {
        pid: one.pid,
        name: &one.name,
        uid: one.uid,
        virtual_address: one.virtual_address,
        mapping: &one.mapping,
        file_offset_bytes: one.file_offset,
        is_lost: one.is_lost,
    };
    OwnerLine {
        address,
        kind: match owner.frame.kind {
            FrameKind::Anonymous => PageKind::Anonymous,
            FrameKind::MemoryFile => PageKind::MemoryFile,
            FrameKind::File => PageKind::File,
            FrameKind::Free => PageKind::Free,
            FrameKind::Kernel => PageKind::Kernel,
            FrameKind::NoMemory => PageKind::NoMemory,
            FrameKind::OutOfUse => PageKind::OutOfUse,
        },
        copy: match owner.copy {
            OtherCopy::OnDisk => PageCopy::OnDisk,
            OtherCopy::Older => PageCopy::Older,
            OtherCopy::None => PageCopy::None,
            OtherCopy::Unknown => PageCopy::Unknown,
        },
        uses: owner.frame.uses.iter().map(of).collect(),
        found_count: owner.frame.found_count,
        mapped_count: owner.frame.mapped_count,
        signalled: signalled.map(|(name, pid)| SignalledLine { pid: *pid, name }).collect(),
        lost_kind: failure.and_then(|failure| said(&failure.kind)),
        lost_result: failure.and_then(|failure| said(&failure.result)),
        unread_process_count: found.unread_processes,
        log_unread: found.log_unread.as_deref(),
    }
}

fn text(address: u64, owner: &Owner) -> String {
    let frame = &owner.frame;
    let kind = match frame.kind {
        FrameKind::Anonymous => "memory of processes, without a file",
        FrameKind::MemoryFile => "a file in memory (tmpfs or shared memory)",
        FrameKind::File => "a file's contents",
        FrameKind::Free => "free",
        FrameKind::Kernel => "the kernel's",
        FrameKind::NoMemory => "no memory at this address",
        FrameKind::OutOfUse => "out of use",
    };
    let mut text = format!("{address:#x}: {kind}\n");
    for sentence in sentences(owner) {
        text += &format!("  {}", paragraph(&sentence, 2, 4, COLUMNS));
    }
    text
}

fn closing(found: &Owners) -> String {
    let mut text = String::new();
    if found.pages.is_empty() {
        text += match &found.log_unread {
            None => "The kernel's log names no page that it lost.\n",
            Some(_) => "Which pages the kernel lost is not known; name an ADDRESS.\n",
        };
    }
    if let Some(why) = &found.log_unread {
        text += &format!("The kernel's log could not be read: {}.\n", one_line(why));
    }
    if found.unread_processes > 0 {
        text += &format!(
            "The mappings of {} could not all be read: a page may be theirs.\n",
            counted(found.unread_processes, "process", "processes")
        );
    }
    text
}
