//! What this machine's tiers take: a copy in memory beside a checkpoint, a plain read beside a restart, a durable write
//! beside a plain one. What `plan` asks for is measured here.

use super::Spread;
use crate::controller::Fixed;
use crate::session::Checkpointer;
use crate::{Alone, Config, Error, Policy};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;
use surefoot_random::Random;

/// Seconds that each took, over the rounds; a tier's own numbers stand beside the plain ones of the same rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemorySeconds {
    /// A copy into memory that was touched before.
    pub copy_s: Spread,
    /// A write of the same bytes into a fresh file of the tier.
    pub fresh_file_s: Spread,
    /// A checkpoint with its code.
    pub save_s: Spread,
    /// A read of a file of the tier.
    pub read_s: Spread,
    /// A restart, in which everything is checked.
    pub restart_s: Spread,
}

/// Seconds that each took, over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DurableSeconds {
    /// A durable checkpoint, until it is marked as complete.
    pub save_s: Spread,
    /// A write of the same bytes into a fresh file, and `fsync`.
    pub plain_s: Spread,
    /// A restart from it, in which everything is checked.
    pub restart_s: Spread,
}

/// Measures a directory on a memory file system, which stays as it was found. `step` is called with each round that is
/// done. Takes about four times as many bytes of memory as the checkpoint has.
///
/// # Errors
/// [`Error::Storage`], [`Error::NoRoom`].
pub fn memory(
    directory: &Path,
    bytes: usize,
    rounds: usize,
    step: &mut dyn FnMut(usize),
) -> Result<MemorySeconds, Error> {
    let mut state = content(bytes);
    let mut target = vec![1u8; bytes];
    let mut job = open(directory, Fixed::Memory, &mut state)?;
    let path = directory.join("plain");
    let mut times: [Vec<f64>; 5] = Default::default();
    for round in 0..=rounds {
        let copy_s = timed(|| target.copy_from_slice(&state)).1;
        remove(&path)?;
        let (file, fresh_s) = timed(|| write_fresh(&path, &state, false));
        let file = file.map_err(Error::storage("write", &path))?;
        let (saved, save_s) = timed(|| job.checkpoint());
        saved?;
        let (read, read_s) = timed(|| file.read_exact_at(&mut target, 0));
        read.map_err(Error::storage("read", &path))?;
        let (restored, restart_s) = timed(|| job.restart());
        restored?;
        keep(round, &mut times, [copy_s, fresh_s, save_s, read_s, restart_s]);
        step(round);
    }
    remove(&path)?;
    let [copy_s, fresh_file_s, save_s, read_s, restart_s] = spreads(times, rounds)?;
    Ok(MemorySeconds { copy_s, fresh_file_s, save_s, read_s, restart_s })
}

/// Measures a directory on a disk, which stays as it was found. `step` is called with each round that is done.
///
/// # Errors
/// [`Error::Storage`], [`Error::NoRoom`].
pub fn durable(
    directory: &Path,
    bytes: usize,
    rounds: usize,
    step: &mut dyn FnMut(usize),
) -> Result<DurableSeconds, Error> {
    let mut state = content(bytes);
    let mut job = open(directory, Fixed::Durable, &mut state)?;
    let path = directory.join("plain");
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..=rounds {
        let (saved, save_s) = timed(|| job.checkpoint());
        saved?;
        remove(&path)?;
        let (written, plain_s) = timed(|| write_fresh(&path, &state, true));
        written.map_err(Error::storage("write", &path))?;
        let (restored, restart_s) = timed(|| job.restart());
        restored?;
        keep(round, &mut times, [save_s, plain_s, restart_s]);
        step(round);
    }
    remove(&path)?;
    let [save_s, plain_s, restart_s] = spreads(times, rounds)?;
    Ok(DurableSeconds { save_s, plain_s, restart_s })
}

fn open(directory: &Path, fixed: Fixed, state: &mut [u8]) -> Result<Checkpointer, Error> {
    let is_durable = fixed == Fixed::Durable;
    let mut config = Config::new("bench", directory, is_durable.then(|| directory.to_owned()));
    if is_durable {
        config.memory = None;
    }
    config.policy = Policy::Fixed(fixed);
    config.health_file = directory.join("health.json");
    let mut job = Checkpointer::open(config, Box::new(Alone))?;
    // SAFETY: the caller keeps `state` for longer than the job, where it is, and leaves it alone during the job's calls.
    unsafe { job.protect("state", state.as_mut_ptr(), state.len())? };
    Ok(job)
}

/// Bytes that are no pattern, so that no file system and no drive makes less of them.
fn content(bytes: usize) -> Vec<u8> {
    let mut random = Random::new(1);
    let mut content: Vec<u8> = std::iter::repeat_with(|| random.word().to_le_bytes()).flatten().take(bytes).collect();
    content.shrink_to_fit();
    content
}

fn write_fresh(path: &Path, content: &[u8], is_synced: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all_at(content, 0)?;
    if is_synced {
        file.sync_all()?;
    }
    Ok(file)
}

fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::storage("remove", path)(error)),
        _ => Ok(()),
    }
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, f64) {
    let begun = Instant::now();
    let found = what();
    (found, begun.elapsed().as_secs_f64())
}

/// The first round touches everything for the first time, and does not count.
fn keep<const N: usize>(round: usize, times: &mut [Vec<f64>; N], measured: [f64; N]) {
    if round > 0 {
        times.iter_mut().zip(measured).for_each(|(times, measured)| times.push(measured));
    }
}

fn spreads<const N: usize>(times: [Vec<f64>; N], rounds: usize) -> Result<[Spread; N], Error> {
    let none = Spread { lower: 0.0, median: 0.0, upper: 0.0, count: 0 };
    let spreads = times.map(|times| Spread::of(times).unwrap_or(none));
    if rounds == 0 {
        return Err(Error::Option { option: "rounds", why: "at least one is needed".into() });
    }
    Ok(spreads)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tiers_are_measured_in_every_round() {
        let home = tempfile::tempdir().unwrap();
        let mut steps = 0;
        let found = memory(home.path(), 300_000, 3, &mut |_| steps += 1).unwrap();
        assert_eq!((found.save_s.count, found.restart_s.count, steps), (3, 3, 4));
        assert!(found.save_s.lower > 0.0 && found.copy_s.lower > 0.0);
        let disk = tempfile::tempdir().unwrap();
        let found = durable(disk.path(), 300_000, 2, &mut |_| {}).unwrap();
        assert_eq!((found.save_s.count, found.plain_s.count), (2, 2));
        assert!(!disk.path().join("plain").exists() && !home.path().join("plain").exists());
        assert!(memory(home.path(), 1_000, 0, &mut |_| {}).unwrap_err().to_string().contains("at least one"));
    }
}
