//! What the tests share: seeded randomness, and slices at chosen alignments with guards around them.

mod distance;
mod erasures;
mod hardware;
mod hostile;
mod kernels;
mod layouts;
mod oracles;
mod words;

use surefoot_ecc::{Code, Path};

/// Numbers from a seed, in the shapes that these tests need.
#[derive(Clone)]
pub struct Random(surefoot_random::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(surefoot_random::Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.word()
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit
    }

    pub fn nonzero(&mut self) -> u8 {
        (self.below(255) + 1) as u8
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.next() >> 40) as u8).collect()
    }
}

/// Paths of this processor.
pub fn paths() -> impl Iterator<Item = Path> {
    Path::ALL.into_iter().filter(|path| path.is_available())
}

/// Random codewords as columns, encoded one by one by the scalar reference.
pub fn codewords(code: Code, columns: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let mut symbols = vec![vec![0; columns]; code.n()];
    for column in 0..columns {
        let mut word = random.bytes(code.n());
        code.encode(&mut word).unwrap();
        put(&mut symbols, column, &word);
    }
    symbols
}

pub fn put(symbols: &mut [Vec<u8>], column: usize, word: &[u8]) {
    symbols.iter_mut().zip(word).for_each(|(symbol, byte)| symbol[column] = *byte);
}

pub fn get(symbols: &[Vec<u8>], column: usize) -> Vec<u8> {
    symbols.iter().map(|symbol| symbol[column]).collect()
}

/// Slices at chosen distances from a 64-byte boundary, with bytes around them that nobody may touch.
pub struct Guarded {
    buffers: Vec<Vec<u8>>,
    starts: Vec<usize>,
    length: usize,
}

const GUARD: u8 = 0xA5;
const GUARD_BYTES: usize = 128;

impl Guarded {
    /// The first `length` bytes of each symbol, the symbol i being `offset(i)` bytes off a boundary.
    pub fn of(symbols: &[Vec<u8>], length: usize, offset: impl Fn(usize) -> usize) -> Guarded {
        let mut guarded = Guarded { buffers: Vec::new(), starts: Vec::new(), length };
        for (index, symbol) in symbols.iter().enumerate() {
            let mut buffer = vec![GUARD; length + 2 * GUARD_BYTES + 64];
            let start = GUARD_BYTES + buffer[GUARD_BYTES..].as_ptr().align_offset(64) + offset(index) % 64;
            buffer[start..start + length].copy_from_slice(&symbol[..length]);
            guarded.buffers.push(buffer);
            guarded.starts.push(start);
        }
        guarded
    }

    pub fn slices(&self) -> Vec<&[u8]> {
        self.buffers.iter().zip(&self.starts).map(|(buffer, start)| &buffer[*start..*start + self.length]).collect()
    }

    pub fn slices_mut(&mut self) -> Vec<&mut [u8]> {
        let pairs = self.buffers.iter_mut().zip(&self.starts);
        pairs.map(|(buffer, start)| &mut buffer[*start..*start + self.length]).collect()
    }

    /// That the slices hold the first bytes of `symbols`, and that the guards hold.
    pub fn assert_equal(&self, symbols: &[Vec<u8>], what: &str) {
        for (index, slice) in self.slices().into_iter().enumerate() {
            assert!(slice == &symbols[index][..self.length], "{what}: symbol {index}, length {}", self.length);
            let (buffer, start) = (&self.buffers[index], self.starts[index]);
            let outside = buffer[..start].iter().chain(&buffer[start + self.length..]);
            assert!(outside.copied().all(|byte| byte == GUARD), "{what}: wrote outside symbol {index}");
        }
    }
}
