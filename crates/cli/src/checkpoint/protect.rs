//! `surefoot checkpoint protect` and `repair`.

use super::options::{ProtectOptions, RepairOptions};
use super::progress::Bar;
use crate::account::Steps;
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_console::units::counted;
use surefoot_console::words::{size, utc};
use surefoot_heal::Error;
use surefoot_heal::sidecar::{self, Findings, Protected, Repaired, Trust, sidecar_path};

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "protected")]
pub struct ProtectedLine<'a> {
    file: &'a Path,
    file_bytes: u64,
    sidecar_bytes: u64,
    is_new: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "type", rename = "checked")]
pub struct CheckedLine<'a> {
    file: &'a Path,
    state: &'static str,
    file_bytes: u64,
    found_bytes: u64,
    /// Pages of the file when it was protected.
    file_pages_count: u64,
    /// Pages that were read, those of parity among them.
    pages_read_count: u64,
    pages_refused_count: u64,
    file_pages_bad_count: u64,
    parity_pages_bad_count: u64,
    tables_bad_count: u64,
    labels_bad_count: u64,
    rows_lost_count: u64,
    was_written_since: bool,
    lost: &'a [String],
}

pub fn protect(options: &ProtectOptions) -> anyhow::Result<Outcome> {
    let mut out = surefoot_console::people::stdout();
    if options.json {
        output::stream(&mut out, "checkpoint protect")?;
    }
    each("protected", &options.files, |path| {
        let mut bar = Bar::new(surefoot_console::people::path(path));
        let done = sidecar::protect(path, options.force, trust(options.trust_directory_owner), &mut |done, total| {
            bar.show(done, total)
        });
        drop(bar);
        let (file_bytes, sidecar_bytes, is_new) = match done? {
            Protected::New { file_bytes, sidecar_bytes } => (file_bytes, sidecar_bytes, true),
            Protected::Before { file_bytes } => (file_bytes, sidecar::sidecar_bytes(file_bytes)?, false),
        };
        if options.json {
            output::line(&mut out, &ProtectedLine { file: path, file_bytes, sidecar_bytes, is_new })?;
        } else if is_new {
            let (file_size, size) = (size(file_bytes as f64), size(sidecar_bytes as f64));
            writeln!(
                out,
                "{}: {file_size} protected by {size} in {}",
                surefoot_console::people::path(path),
                surefoot_console::people::path(&sidecar_path(path))
            )?;
        } else {
            writeln!(out, "{}: protected already, and not written to since", surefoot_console::people::path(path))?;
        }
        Ok(Outcome::Done)
    })
}

pub fn repair(options: &RepairOptions) -> anyhow::Result<Outcome> {
    let mut out = surefoot_console::people::stdout();
    if options.json {
        output::stream(&mut out, "checkpoint repair")?;
    }
    each(if options.check { "checked" } else { "repaired" }, &options.files, |path| {
        let mut bar = Bar::new(surefoot_console::people::path(path));
        let progress = &mut |done, total| bar.show(done, total);
        let (state, findings) = if options.check {
            let findings = sidecar::check(path, progress).map_err(|error| missing(path, error))?;
            (checked_state(&findings), findings)
        } else {
            let repaired = sidecar::repair(path, options.force, trust(options.trust_directory_owner), progress);
            match repaired.map_err(|error| missing(path, error))? {
                Repaired::Whole(findings) => ("whole", findings),
                Repaired::Done { findings, .. } => ("repaired", findings),
                Repaired::Lost(findings) => ("lost", findings),
                Repaired::WrittenSince(findings) => ("written_since", findings),
            }
        };
        drop(bar);
        if options.json {
            output::line(&mut out, &line(path, state, &findings))?;
        } else {
            write!(out, "{}: {}", surefoot_console::people::path(path), text(state, &findings, path))?;
        }
        Ok(if matches!(state, "whole" | "repaired") { Outcome::Done } else { Outcome::Found })
    })
}

/// Says of what is not there what it is, and what would do.
fn missing(path: &Path, error: Error) -> anyhow::Error {
    let sidecar = sidecar_path(path);
    let is_gone = |of: &Path| {
        let Error::Storage { path, source, .. } = &error else { return false };
        path == of && source.kind() == io::ErrorKind::NotFound
    };
    let (shown, sidecar_shown) = (surefoot_console::people::path(path), surefoot_console::people::path(&sidecar));
    match () {
        () if is_gone(path) && sidecar.exists() => anyhow::anyhow!(
            "{shown}: there is no such file, only its sidecar {sidecar_shown}, which brings back no more than 18 % of a file"
        ),
        () if is_gone(path) => anyhow::anyhow!("{shown}: there is no such file; nothing was repaired"),
        () if is_gone(&sidecar) => anyhow::anyhow!(
            "{shown} is not protected: there is no {sidecar_shown}; `surefoot checkpoint protect` makes it, as long as the file is whole"
        ),
        () => error.into(),
    }
}

fn trust(is_directory_owner_trusted: bool) -> Trust {
    if is_directory_owner_trusted { Trust::DirectoryOwner } else { Trust::Root }
}

/// Does the same with each file. What fails is said, and the others are done all the same.
fn each(
    done_word: &'static str,
    files: &[std::path::PathBuf],
    mut work: impl FnMut(&Path) -> anyhow::Result<Outcome>,
) -> anyhow::Result<Outcome> {
    let mut worst = Outcome::Done;
    let mut failed: Option<anyhow::Error> = None;
    let mut steps = Steps::new(done_word, files.len());
    for path in files {
        steps.begin(path.to_string_lossy());
        let outcome = work(path);
        steps.end(match &outcome {
            Ok(Outcome::Done) => "done",
            Ok(Outcome::Found) => "left as it is",
            Err(_) => "failed",
        });
        match outcome {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Found) => worst = Outcome::Found,
            // The last failure is printed where all are.
            Err(error) => {
                if let Some(former) = failed.replace(error) {
                    surefoot_console::tell!("surefoot: {former}");
                }
            }
        }
    }
    failed.map_or(Ok(worst), Err)
}

fn checked_state(findings: &Findings) -> &'static str {
    match () {
        () if findings.is_lost() => "lost",
        () if !findings.is_file_whole() && findings.written_since.is_some() => "written_since",
        () if findings.is_file_whole() && findings.is_sidecar_whole() => "whole",
        () => "repairable",
    }
}

fn line<'a>(file: &'a Path, state: &'static str, findings: &'a Findings) -> CheckedLine<'a> {
    CheckedLine {
        file,
        state,
        file_bytes: findings.file_bytes,
        found_bytes: findings.found_bytes,
        file_pages_count: findings.file_pages(),
        pages_read_count: findings.pages_read,
        pages_refused_count: findings.pages_refused,
        file_pages_bad_count: findings.file_pages_bad,
        parity_pages_bad_count: findings.parity_pages_bad,
        tables_bad_count: findings.tables_bad,
        labels_bad_count: findings.labels_bad,
        rows_lost_count: findings.rows_lost,
        was_written_since: findings.written_since.is_some(),
        lost: &findings.lost,
    }
}

fn text(state: &str, findings: &Findings, path: &Path) -> String {
    if state == "whole" {
        return match findings.file_pages() {
            0 => "whole: an empty file, as protected\n".to_owned(),
            pages => format!("whole: {} of the file, all as protected\n", counted(pages, "page", "pages")),
        };
    }
    let mut found = Vec::new();
    let (then, now) = (findings.file_bytes, findings.found_bytes);
    if now < then {
        found.push(format!("{} bytes shorter than protected", then - now));
    } else if now > then {
        found.push(format!("{} bytes longer than protected", now - then));
    }
    for (count, what) in [
        (findings.file_pages_bad, ["page of the file bad", "pages of the file bad"]),
        (findings.pages_refused, ["page that the kernel refused to read", "pages that the kernel refused to read"]),
        (findings.parity_pages_bad, ["page of parity bad", "pages of parity bad"]),
        (findings.tables_bad, ["of 2 tables of checksums bad"; 2]),
        (findings.labels_bad, ["of 2 labels of the sidecar bad"; 2]),
    ] {
        if count > 0 {
            let [one, many] = what;
            found.push(counted(count, one, many));
        }
    }
    if findings.is_sidecar_cut {
        found.push("the sidecar has the wrong length".into());
    }
    let found = found.join(", ");
    match state {
        "repaired" => format!("repaired: {found}; the content is as protected\n"),
        "repairable" => format!("damaged, and can be repaired: {found}\n"),
        "lost" => {
            let rows: String = findings.lost.iter().map(|lost| format!("  {lost}\n")).collect();
            let more = match findings.rows_lost.saturating_sub(findings.lost.len() as u64) {
                0 => String::new(),
                more => format!("  and {more} more rows\n"),
            };
            let why = format!("{} rows have more damage than can be repaired", findings.rows_lost);
            let found = if found.is_empty() { String::new() } else { format!("{found}; ") };
            format!("lost, nothing was changed: {found}{why}\n{rows}{more}")
        }
        _ => {
            let moment = |ns: i64| utc(u64::try_from(ns).unwrap_or(0));
            let (then, now) =
                findings.written_since.map_or_else(Default::default, |(then, now)| (moment(then), moment(now)));
            let protected = match then == now {
                true => "in the same second as the state that is protected".to_owned(),
                false => format!("and protected as of {then}"),
            };
            format!(
                "left alone: {found}; but it was written to at {now} UTC, {protected}. If that was wanted: \
                 surefoot checkpoint protect {}; if not: repair --force\n",
                path.display()
            )
        }
    }
}
