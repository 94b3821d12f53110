//! What goes through a pipe.

use super::{tie, words};
use crate::Fault;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;
use surefoot_hostfs::clock::monotonic_ns;
use surefoot_model::CpuId;

const BLOCK_BYTES: usize = 64 << 10;

/// MiB per second from a thread that writes to one that reads, each on its core.
///
/// # Errors
/// [`Fault::Start`] when the kernel refuses.
pub fn pipe(length: Duration, [from, to]: [Option<CpuId>; 2]) -> Result<f64, Fault> {
    let (mut reader, mut writer) = std::io::pipe().map_err(|error| words("pipe", error))?;
    let write = move || {
        let _ = tie(from);
        let block = vec![7; BLOCK_BYTES];
        // Ends when the reader does.
        while writer.write_all(&block).is_ok() {}
    };
    std::thread::spawn(write);
    tie(to)?;
    let mut block = vec![0; BLOCK_BYTES];
    let (began_ns, mut bytes) = (monotonic_ns(), 0u64);
    let end_ns = began_ns + u64::try_from(length.as_nanos()).unwrap_or(u64::MAX / 2);
    let mut now_ns = began_ns;
    while now_ns < end_ns {
        match reader.read(&mut block) {
            Ok(0) => return Err(Fault::Start("the pipe has no writer".into())),
            Ok(count) => bytes += count as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(words("read", error)),
        }
        now_ns = monotonic_ns();
    }
    Ok(bytes as f64 / f64::from(1 << 20) / ((now_ns - began_ns).max(1) as f64 / 1e9))
}
