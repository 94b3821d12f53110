//! What a workload prints: read to its end, so that it never waits for a reader, and kept up to a limit.

use std::collections::VecDeque;
use std::io::Read;
use std::thread::JoinHandle;

/// What is kept of standard output.
const HEAD_BYTES: usize = 4 << 20;
/// What is kept of standard error.
const TAIL_BYTES: usize = 2 << 10;

/// A stream that is being read.
pub(super) struct Kept(Option<JoinHandle<(Vec<u8>, u64)>>);

impl Kept {
    /// Its beginning is kept.
    pub(super) fn head(stream: Option<impl Read + Send + 'static>) -> Kept {
        Kept::read(stream, |kept: &mut VecDeque<u8>, piece| {
            let taken = piece.len().min(HEAD_BYTES.saturating_sub(kept.len()));
            kept.extend(&piece[..taken]);
            piece.len() - taken
        })
    }

    /// Its end is kept.
    pub(super) fn tail(stream: Option<impl Read + Send + 'static>) -> Kept {
        Kept::read(stream, |kept: &mut VecDeque<u8>, piece| {
            kept.extend(piece);
            let over = kept.len().saturating_sub(TAIL_BYTES);
            kept.drain(..over);
            over
        })
    }

    fn read(
        stream: Option<impl Read + Send + 'static>,
        keep: impl Fn(&mut VecDeque<u8>, &[u8]) -> usize + Send + 'static,
    ) -> Kept {
        Kept(stream.map(|mut stream| {
            std::thread::spawn(move || {
                let (mut kept, mut dropped, mut piece) = (VecDeque::new(), 0, vec![0; 64 << 10]);
                loop {
                    match stream.read(&mut piece) {
                        Ok(0) => break,
                        Ok(bytes) => dropped += keep(&mut kept, &piece[..bytes]) as u64,
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
    fn the_beginning_or_the_end_is_kept_and_the_rest_counted() {
        let long = || std::io::Cursor::new([vec![b'a'; HEAD_BYTES], vec![b'z'; 10]].concat());
        let (head, dropped) = Kept::head(Some(long())).taken();
        assert_eq!((head.len(), dropped, head.contains('z')), (HEAD_BYTES, 10, false));
        let (tail, dropped) = Kept::tail(Some(long())).taken();
        assert_eq!((tail.len(), dropped), (TAIL_BYTES, (HEAD_BYTES + 10 - TAIL_BYTES) as u64));
        assert!(tail.ends_with("azzzzzzzzzz"));
    }
}
