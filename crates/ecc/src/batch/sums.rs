//! The kernels that only sum: encode, check, syndromes.
//!
//! All of them walk the columns in groups of a few vectors, and in each group the symbols in Horner's order: a syndrome
//! Σ α^(r·i) c_i is ((c_15 α^r + c_14) α^r + ...) + c_0, so that the only product is one with α^r per symbol and row.
//! Several vectors per group keep the processor busy while one product waits for the one before.

// Rows and lanes index several arrays alike; iterators over one of them would hide that.
#![allow(clippy::needless_range_loop)]

use super::path::Task;
use super::vector::Vector;
use crate::matrix::Square;
use crate::{Code, SYMBOLS_MAX, SYNDROMES_MAX};

/// The symbols of a batch, as the kernels walk them. Symbol i of column x is the byte x behind its pointer.
#[derive(Clone, Copy)]
pub(super) struct Symbols {
    /// In Horner's order; a null pointer is an erased symbol, which counts as 0 and is not read.
    pub(super) horner: [*const u8; SYMBOLS_MAX],
    /// How many of them there are.
    pub(super) horner_count: usize,
    /// For each row the symbol whose column of H is that unit vector (P, Q, R), or null.
    pub(super) units: [*const u8; SYNDROMES_MAX],
    /// Bytes behind each pointer, which is the number of columns.
    pub(super) columns: usize,
}

/// The symbols in the order in which Horner's scheme takes them: the highest power of α first.
pub(super) fn horner_order(code: Code, position: usize) -> usize {
    match code {
        Code::Rs36_32 => position,
        Code::Rs18_16 | Code::Rs19_16 => 15 - position,
    }
}

impl Symbols {
    /// From the pointer of each symbol, as many as there are; `None` is not read.
    pub(super) fn of(code: Code, pointers: &[Option<*const u8>], columns: usize) -> Symbols {
        let at = |position: usize| pointers.get(position).copied().flatten().unwrap_or(std::ptr::null());
        let horner_count = if code == Code::Rs36_32 { pointers.len() } else { code.k() };
        let mut symbols =
            Symbols { horner: [std::ptr::null(); SYMBOLS_MAX], horner_count, units: [std::ptr::null(); 4], columns };
        for index in 0..horner_count {
            symbols.horner[index] = at(horner_order(code, index));
        }
        if code != Code::Rs36_32 {
            for row in 0..code.parity() {
                symbols.units[row] = at(code.k() + row);
            }
        }
        symbols
    }

    /// Of a shortened code: the first data symbols, behind which all are zeros.
    pub(super) fn of_first(pointers: &[Option<*const u8>], columns: usize) -> Symbols {
        let mut symbols = Symbols {
            horner: [std::ptr::null(); SYMBOLS_MAX],
            horner_count: pointers.len(),
            units: [std::ptr::null(); SYNDROMES_MAX],
            columns,
        };
        for (place, pointer) in symbols.horner.iter_mut().zip(pointers.iter().rev()) {
            *place = pointer.unwrap_or(std::ptr::null());
        }
        symbols
    }

    /// The syndromes of the columns from `at` on: one vector per row and lane. What lies `AHEAD` bytes behind them is asked
    /// for meanwhile; 0 asks for nothing.
    ///
    /// # Safety
    /// The processor has the features of `V`, and every pointer may be read for `at` + `LANES` vectors.
    #[inline(always)]
    pub(super) unsafe fn syndromes<V: Vector, const ROWS: usize, const LANES: usize, const AHEAD: usize>(
        &self,
        at: usize,
    ) -> [[V; LANES]; ROWS] {
        // SAFETY: the caller vouches for the features.
        let mut sums = [[unsafe { V::zero() }; LANES]; ROWS];
        for &symbol in &self.horner[..self.horner_count] {
            for row in 1..ROWS {
                for lane in 0..LANES {
                    sums[row][lane] = sums[row][lane].times_alpha(row);
                }
            }
            if symbol.is_null() {
                continue;
            }
            for lane in 0..LANES {
                // SAFETY: the caller vouches for the bytes.
                let value = unsafe { V::load(symbol.add(at + lane * V::BYTES)) };
                fetch::<AHEAD>(symbol, at + lane * V::BYTES);
                for sum in &mut sums {
                    sum[lane] = sum[lane].xor(value);
                }
            }
        }
        for (sum, unit) in sums.iter_mut().zip(self.units) {
            if !unit.is_null() {
                for (lane, value) in sum.iter_mut().enumerate() {
                    // SAFETY: the caller vouches for the bytes.
                    *value = value.xor(unsafe { V::load(unit.add(at + lane * V::BYTES)) });
                    fetch::<AHEAD>(unit, at + lane * V::BYTES);
                }
            }
        }
        sums
    }

    /// The last columns, fewer than a vector, copied behind new pointers and followed by zeros, which are codewords.
    ///
    /// # Safety
    /// Every pointer may be read for `columns` bytes.
    pub(super) unsafe fn rest(&self, from: usize, rest: &mut Rest) -> Symbols {
        let mut copied = Symbols { columns: REST_BYTES, ..*self };
        let pointers = copied.horner[..self.horner_count].iter_mut().chain(&mut copied.units);
        for (pointer, place) in pointers.zip(&mut rest.0).filter(|(pointer, _)| !pointer.is_null()) {
            // SAFETY: the caller vouches for `columns` bytes; `rest` has room for fewer than a vector.
            unsafe { std::ptr::copy_nonoverlapping(pointer.add(from), place.as_mut_ptr(), self.columns - from) };
            *pointer = place.as_ptr();
        }
        copied
    }
}

/// Bytes that a check asks for in advance, of each symbol.
///
/// A check from memory walks 18 streams at once, which are more than some processors foresee. They lie alike in their
/// pages, so that the lines of one column fall into one set of the first-level cache, which has 8 or 12 places: asked
/// for into that cache, they would push each other out before they are read. So they are asked for into the second
/// one. 1 to 8 KiB were equally fast (bench/results/codes.md).
const AHEAD_BYTES: usize = 2048;

/// Columns below which the symbols are taken to come out of a cache: there is then nothing to ask for, and asking takes the
/// processor a load each. How much that costs was not measured.
const COLUMNS_FROM_MEMORY: usize = 64 << 10;

/// Asks for the line `AHEAD` bytes behind a place into the second-level cache. It need not be there to be read.
#[inline(always)]
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
fn fetch<const AHEAD: usize>(symbol: *const u8, at: usize) {
    #[cfg(target_arch = "x86_64")]
    if AHEAD > 0 {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: SSE is part of x86-64; a prefetch reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(symbol.wrapping_add(at + AHEAD).cast()) };
    }
}

/// The longest vector.
pub(super) const REST_BYTES: usize = 64;

/// Room for the last columns of every symbol.
pub(super) struct Rest([[u8; REST_BYTES]; SYMBOLS_MAX + SYNDROMES_MAX]);

impl Rest {
    pub(super) fn new() -> Rest {
        Rest([[0; REST_BYTES]; SYMBOLS_MAX + SYNDROMES_MAX])
    }
}

/// Writes what is linear in the syndromes of the symbols that are there: parity, or the syndromes themselves.
pub(super) struct Write {
    pub(super) symbols: Symbols,
    pub(super) rows: usize,
    /// The outputs are this matrix times the syndromes, or the syndromes.
    pub(super) matrix: Option<Square>,
    /// As many as rows, each to be written for all columns; a null pointer is not written.
    pub(super) outputs: [*mut u8; SYNDROMES_MAX],
}

impl Task for Write {
    #[inline(always)]
    unsafe fn run<V: Vector>(&mut self) {
        // SAFETY: the caller vouches for the features, and whoever made the task for the pointers.
        unsafe {
            match self.rows {
                1 => self.columns::<V, 1>(),
                2 => self.columns::<V, 2>(),
                3 => self.columns::<V, 3>(),
                _ => self.columns::<V, 4>(),
            }
        }
    }
}

impl Write {
    #[inline(always)]
    unsafe fn columns<V: Vector, const ROWS: usize>(&mut self) {
        const WIDE: usize = 4;
        const NARROW: usize = 2;
        let columns = self.symbols.columns;
        let mut at = 0;
        // SAFETY: the caller vouches for the features; no group goes beyond the columns, but the last, which is copied.
        unsafe {
            if V::BYTES == 64 {
                while at + WIDE * V::BYTES <= columns {
                    self.group::<V, ROWS, WIDE>(&self.symbols, &self.outputs, at);
                    at += WIDE * V::BYTES;
                }
            }
            while at + NARROW * V::BYTES <= columns {
                self.group::<V, ROWS, NARROW>(&self.symbols, &self.outputs, at);
                at += NARROW * V::BYTES;
            }
            while at + V::BYTES <= columns {
                self.group::<V, ROWS, 1>(&self.symbols, &self.outputs, at);
                at += V::BYTES;
            }
            if at < columns {
                let mut rest = Rest::new();
                let symbols = self.symbols.rest(at, &mut rest);
                let mut written = [[0; REST_BYTES]; ROWS];
                let mut outputs = [std::ptr::null_mut(); SYNDROMES_MAX];
                for (output, place) in outputs.iter_mut().zip(&mut written) {
                    *output = place.as_mut_ptr();
                }
                self.group::<V, ROWS, 1>(&symbols, &outputs, 0);
                for (output, place) in self.outputs.iter().zip(&written).filter(|(output, _)| !output.is_null()) {
                    std::ptr::copy_nonoverlapping(place.as_ptr(), output.add(at), columns - at);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn group<V: Vector, const ROWS: usize, const LANES: usize>(
        &self,
        symbols: &Symbols,
        outputs: &[*mut u8; SYNDROMES_MAX],
        at: usize,
    ) {
        // SAFETY: the caller vouches for the features and for the group.
        unsafe {
            let sums = symbols.syndromes::<V, ROWS, LANES, 0>(at);
            for lane in 0..LANES {
                let mut column = [V::zero(); ROWS];
                for row in 0..ROWS {
                    column[row] = sums[row][lane];
                }
                if let Some(matrix) = &self.matrix {
                    column = product(matrix, &column);
                }
                for row in 0..ROWS {
                    if !outputs[row].is_null() {
                        column[row].store(outputs[row].add(at + lane * V::BYTES));
                    }
                }
            }
        }
    }
}

/// The product of a matrix and a vector per column.
#[inline(always)]
pub(super) fn product<V: Vector, const ROWS: usize>(matrix: &Square, vector: &[V; ROWS]) -> [V; ROWS] {
    let mut product = [vector[0].xor(vector[0]); ROWS];
    for (index, element) in vector.iter().enumerate() {
        let multiples = element.multiples();
        for row in 0..ROWS {
            product[row] = product[row].xor(V::times(&multiples, matrix[row][index]));
        }
    }
    product
}

/// Looks for the first column whose first two syndromes are not both 0.
pub(super) struct Check {
    pub(super) symbols: Symbols,
    /// The column, if there is one.
    pub(super) dirty: Option<usize>,
}

impl Task for Check {
    #[inline(always)]
    unsafe fn run<V: Vector>(&mut self) {
        let columns = self.symbols.columns;
        let mut at;
        // SAFETY: the caller vouches for the features; no group goes beyond the columns, but the last, which is copied.
        unsafe {
            at = match columns < COLUMNS_FROM_MEMORY {
                true => self.skip_clean::<V, 0>(),
                false => self.skip_clean::<V, AHEAD_BYTES>(),
            };
            while at + V::BYTES <= columns {
                if let Some(dirty) = first_dirty::<V>(&self.symbols, at) {
                    self.dirty = Some(at + dirty);
                    return;
                }
                at += V::BYTES;
            }
            if at < columns {
                let mut rest = Rest::new();
                let symbols = self.symbols.rest(at, &mut rest);
                self.dirty = first_dirty::<V>(&symbols, 0).map(|dirty| at + dirty);
            }
        }
    }
}

impl Check {
    /// Passes the groups of columns that are clean, up to the first that is not, or the last that is whole.
    ///
    /// # Safety
    /// As for [`Task::run`].
    #[inline(always)]
    unsafe fn skip_clean<V: Vector, const AHEAD: usize>(&self) -> usize {
        const LANES: usize = 4;
        let mut at = 0;
        while at + LANES * V::BYTES <= self.symbols.columns {
            // SAFETY: the caller vouches for the features; the group does not go beyond the columns.
            if !unsafe { group_is_clean::<V, LANES, AHEAD>(&self.symbols, at) } {
                break;
            }
            at += LANES * V::BYTES;
        }
        at
    }
}

#[inline(always)]
unsafe fn group_is_clean<V: Vector, const LANES: usize, const AHEAD: usize>(symbols: &Symbols, at: usize) -> bool {
    // SAFETY: the caller vouches for the features and for the group.
    let sums = unsafe { symbols.syndromes::<V, 2, LANES, AHEAD>(at) };
    let mut any = sums[0][0];
    for lanes in &sums {
        for lane in lanes {
            any = any.or(*lane);
        }
    }
    any.is_zero()
}

/// The first column of one vector with a syndrome that is not 0, counted from `at`.
#[inline(always)]
unsafe fn first_dirty<V: Vector>(symbols: &Symbols, at: usize) -> Option<usize> {
    // SAFETY: the caller vouches for the features and for the vector.
    let (sums, zero) = unsafe { (symbols.syndromes::<V, 2, 1, 0>(at), V::zero()) };
    let clean = V::bits(sums[0][0].or(sums[1][0]).equal(zero)).trailing_ones() as usize;
    (clean < V::BYTES).then_some(clean)
}
