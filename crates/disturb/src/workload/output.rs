//! What a workload prints: read to its end, so that it never waits for a reader, and kept up to a limit.

use std::collections::VecDeque;
use std::io::Read;
use std::thread::JoinHandle;

/// What is kept of standard output: its end, because the number that counts is the last one.
pub(super) const OUTPUT_BYTES: usize = 4 << 20;
/// What is kept of standard error.
pub(super) const ERROR_BYTES: usize = 2 << 10;

/// A stream that is being read.
pub(super) struct Kept(Option<JoinHandle<(Vec<u8>, u64)>>);

impl Kept {
    /// So much of its end is kept.
    pub(super) fn tail(stream: Option<impl Read + Send + 'static>, bytes_max: usize) -> Kept {
        Kept(stream.map(|mut stream| {
            std::thread::spawn(move || {
                let (mut kept, mut dropped, mut piece) = (VecDeque::new(), 0, vec![0; 64 << 10]);
                let mut keep = |piece: &[u8]| {
                    kept.extend(piece);
                    let over = kept.len().saturating_sub(bytes_max);
                    kept.drain(..over);
                    over
                };
                loop {
                    match stream.read(&mut piece) {
                        Ok(0) => break,
                        Ok(bytes) => dropped += keep(&piece[..bytes]) as u64,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(_) => break,
                    }
                }
                (kept.into(), dropped)
            })
        }))
    }

    /// What was kept, once its writers have ended, and how much was not.
    pub(super) fn taken(&mut self) -> (String, u64) {
        let Some(reader) = self.0.take() else { return (String::new(), 0) };
        // A panic of a thread is one of this program.
        let (bytes, dropped) = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (String::from_utf8_lossy(&bytes).into_owned(), dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_and_the_rest_counted() {
        for bytes_max in [OUTPUT_BYTES, ERROR_BYTES] {
            let long = std::io::Cursor::new([vec![b'a'; OUTPUT_BYTES], vec![b'z'; 10]].concat());
            let (end, dropped) = Kept::tail(Some(long), bytes_max).taken();
            assert_eq!((end.len(), dropped), (bytes_max, (OUTPUT_BYTES + 10 - bytes_max) as u64));
            assert!(end.ends_with("azzzzzzzzzz"));
        }
    }
}
