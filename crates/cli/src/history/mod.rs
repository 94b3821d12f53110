//! `surefoot history`: what was lost, found and done over any past range.

mod happened;
pub mod lines;
pub mod options;
mod text;

use anyhow::ensure;
use options::{FILE_DEFAULT, HistoryOptions};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};
use surefoot_console::exit::Outcome;
use surefoot_console::when;
use surefoot_store::history::View;
use surefoot_store::history::past::{Past, Question};

/// The range unless another is asked for.
const RANGE_DEFAULT: Duration = Duration::from_secs(86_400);

/// How often a file is read again because a writer began meanwhile; after the first time its log is followed.
const READINGS_MAX: usize = 3;

pub fn run(options: &HistoryOptions) -> anyhow::Result<Outcome> {
    let question = question(options, now_ns())?;
    let past = read(&options.file, &question)?;
    let mut out = surefoot_console::people::stdout();
    if options.json {
        // The lines are for programs, which ask for what they know.
        text::strangers(&past, &question).iter().for_each(|stranger| surefoot_console::tell!("surefoot: {stranger}"));
        lines::write(&mut out, &past, &question)?;
    } else {
        out.write_all(text::of(&past, &question).as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// Nanoseconds since 1970.
fn now_ns() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX)
}

fn question(options: &HistoryOptions, now_ns: i64) -> anyhow::Result<Question> {
    let named = |option: &str, text: &Option<String>| {
        text.as_ref()
            .map(|text| when::parse(text, now_ns))
            .transpose()
            .map_err(|why| anyhow::anyhow!("{option}: {why}"))
    };
    let to_ns = named("--to", &options.to)?.unwrap_or(now_ns);
    let from_ns = match (named("--from", &options.from)?, options.last) {
        (Some(from_ns), _) => from_ns,
        (None, last) => {
            when::before(to_ns, last.unwrap_or(RANGE_DEFAULT)).map_err(|why| anyhow::anyhow!("--last: {why}"))?
        }
    };
    ensure!(
        from_ns < to_ns,
        "the range ends at {} UTC, which is not after its beginning, {} UTC",
        when::second(to_ns),
        when::second(from_ns)
    );
    Ok(Question {
        asked_ns: now_ns,
        range: from_ns..to_ns,
        room: options.room,
        cpus: options.cpu.clone().unwrap_or_default().0,
        gap_count: options.gaps,
    })
}

fn read(file: &Path, question: &Question) -> anyhow::Result<Past> {
    let mut reading = 1;
    loop {
        let view = View::open(file).map_err(|error| explained(file, error))?;
        let past = Past::read(&view, question);
        if !view.has_changed() || reading == READINGS_MAX {
            if let Some(log) = view.unread_log() {
                surefoot_console::tell!(
                    "surefoot: {log}: what follows is in {} alone. Move that log and the -shm beside it away and keep them: `surefoot watch` \
                     does not start with them",
                    file.display()
                );
            }
            if let Some(damage) = view.log_damage() {
                surefoot_console::tell!(
                    "surefoot: {damage}, and are not shown. `surefoot watch` keeps that log under another name when it starts"
                );
            }
            return Ok(past?);
        }
        reading += 1;
    }
}

/// Adds what the reader can do to the two things that happen to everybody.
fn explained(file: &Path, error: surefoot_store::Error) -> anyhow::Error {
    let (kind, is_of_kernel) = match &error {
        surefoot_store::Error::Open { source, .. } => (Some(source.kind()), source.raw_os_error().is_some()),
        _ => (None, false),
    };
    match kind {
        Some(ErrorKind::NotFound) if file == Path::new(FILE_DEFAULT) => anyhow::anyhow!(
            "{FILE_DEFAULT}: no history is kept there; `surefoot watch` keeps one when it runs as root, --file names another"
        ),
        Some(ErrorKind::NotFound) => anyhow::anyhow!("{}: there is no such file", file.display()),
        // What Surefoot itself refuses, such as a link of another user, says why.
        Some(ErrorKind::PermissionDenied) if is_of_kernel => {
            let todo = "a history is private to the user who keeps it: run this as that user or as root";
            match closed_folder(file) {
                Some(folder) => anyhow::anyhow!(
                    "cannot look into {} as this user, so whether {} is there is unknown; {todo}",
                    folder.display(),
                    file.display()
                ),
                None => anyhow::anyhow!("{}: this user may not read it; {todo}", file.display()),
            }
        }
        _ => error.into(),
    }
}

/// The directory on the way to a file that this user may not search: whether the file is there cannot be told then.
fn closed_folder(file: &Path) -> Option<&Path> {
    let is_closed = |path: &&Path| path.metadata().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied);
    file.ancestors().filter(is_closed).last()?.parent()
}
