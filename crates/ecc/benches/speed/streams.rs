//! What the hardware gives to who reads many streams at once: the loads of a check without its arithmetic.
//!
//! A check reads the 18 symbols of a few columns, and then those of the next. The same bytes are read here in that order
//! and one stream after the other. What lies ahead in each stream is asked for into no cache, the first or the second.

use super::measure::{MEMORY, Row, Shards, compare, plain_read};
use std::hint::black_box;

const STREAMS: usize = 18;
/// Bytes of a stream that are read before the next one has its turn: as a check does with registers of 64 bytes.
const TURN_BYTES: usize = 256;
const LINE_BYTES: usize = 64;

/// Into which cache what lies ahead is asked for.
#[derive(Clone, Copy)]
enum Into {
    Nowhere,
    #[cfg(target_arch = "x86_64")]
    First,
    #[cfg(target_arch = "x86_64")]
    Second,
}

impl Into {
    #[inline(always)]
    fn ask(self, line: *const u8) {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
            match self {
                Into::Nowhere => {}
                // SAFETY: a prefetch reads nothing and never faults.
                Into::First => unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) },
                // SAFETY: as above.
                Into::Second => unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) },
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// 18 streams at once beside one after the other, as rows.
pub fn rows(shard_bytes: usize, rounds: usize) -> Vec<Row> {
    let shards = Shards::new(shard_bytes, STREAMS).0;
    let ways = [
        ("nothing asked for", Into::Nowhere, 0),
        #[cfg(target_arch = "x86_64")]
        ("512 B ahead into L1", Into::First, 512),
        #[cfg(target_arch = "x86_64")]
        ("2048 B ahead into L1", Into::First, 2048),
        #[cfg(target_arch = "x86_64")]
        ("512 B ahead into L2", Into::Second, 512),
        #[cfg(target_arch = "x86_64")]
        ("2048 B ahead into L2", Into::Second, 2048),
        #[cfg(target_arch = "x86_64")]
        ("8192 B ahead into L2", Into::Second, 8192),
    ];
    let row = |(name, into, ahead): (&str, Into, usize)| {
        compare(
            format!("18 streams, {name} / plain read"),
            STREAMS * shard_bytes,
            rounds,
            MEMORY.repeats,
            &mut || _ = black_box(read_in_turns(black_box(&shards), into, ahead)),
            &mut || shards.iter().for_each(|shard| _ = black_box(plain_read(black_box(shard)))),
        )
    };
    ways.into_iter().map(row).collect()
}

/// Reads all streams, a turn of each at a time.
fn read_in_turns(shards: &[Vec<u8>], into: Into, ahead: usize) -> u64 {
    let mut sum = 0;
    let turns = shards[0].len() / TURN_BYTES;
    for turn in 0..turns {
        for shard in shards {
            let bytes = &shard[turn * TURN_BYTES..][..TURN_BYTES];
            for line in bytes.as_chunks::<LINE_BYTES>().0 {
                into.ask(line.as_ptr().wrapping_add(ahead));
                // Of each line one word: what is measured is how lines come, not what is done with them.
                sum ^= u64::from_ne_bytes(*line.first_chunk().expect("a line has more than a word"));
            }
        }
    }
    sum
}
