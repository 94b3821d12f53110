//! The kernel that changes symbols: erasures at known positions, and one error at an unknown position.
//!
//! For each vector of columns it computes the syndromes S of the symbols that are there. [`Elimination`] turns them
//! into the values of the erased symbols, and into spare syndromes T that no erased symbol can explain. A single error
//! v at symbol j leaves T = v·h_j, with a known column h_j: then v is one element of T times a constant, and every other
//! element is the first times a constant. These products are compared for every j, for all columns of the vector at
//! once and without logarithms; at most one j fits, because any two columns h_j are independent. A column with T ≠ 0
//! that no j fits is detected, and left as it was.

// Rows and lanes index several arrays alike; iterators over one of them would hide that.
#![allow(clippy::needless_range_loop)]

use super::path::Task;
use super::sums::{REST_BYTES, Symbols, product};
use super::vector::Vector;
use crate::field::{inverse, multiply};
use crate::matrix::{Elimination, Square, times};
use crate::{Code, Report, SYMBOLS_MAX, SYNDROMES_MAX};

/// How an error at one symbol shows in the spare syndromes, and what it does to the erased symbols.
#[derive(Debug, Clone, Copy, Default)]
struct Suspect {
    position: usize,
    /// A row of T in which the error shows.
    pivot: usize,
    /// The factor from that element of T to the error's value.
    value: u8,
    /// For each spare row: the factor from the pivot element. For each erased symbol: the factor from the pivot element
    /// to what is to be added to it.
    factors: [u8; SYNDROMES_MAX],
}

/// What is to be done with each column: computed once per call.
pub(super) struct Plan {
    /// From the syndromes to erased symbols and spare syndromes; `None` without erasures: they are the syndromes.
    matrix: Option<Square>,
    rows: usize,
    erasures: usize,
    erased: [usize; SYNDROMES_MAX],
    suspects: [Suspect; SYMBOLS_MAX],
    suspects_count: usize,
}

impl Plan {
    /// For erasures that the code allows. `correct` looks for one error elsewhere as well; it must be within the distance.
    pub(super) fn new(code: Code, erasures: &[usize], correct: bool) -> Option<Plan> {
        let mut columns = [[0; SYNDROMES_MAX]; SYNDROMES_MAX];
        let mut erased = [0; SYNDROMES_MAX];
        for (index, &position) in erasures.iter().enumerate() {
            columns[index] = code.column(position);
            erased[index] = position;
        }
        let rows = code.parity();
        let elimination = Elimination::of(&columns[..erasures.len()], rows)?;
        let matrix = (!erasures.is_empty()).then_some(elimination.matrix);
        let mut plan = Plan {
            matrix,
            rows,
            erasures: erasures.len(),
            erased,
            suspects: [Suspect::default(); SYMBOLS_MAX],
            suspects_count: 0,
        };
        for position in (0..code.n()).filter(|position| correct && !erasures.contains(position)) {
            let image = times(&elimination.matrix, rows, code.column(position));
            let pivot = (erasures.len()..rows).find(|&row| image[row] != 0)?;
            let value = inverse(image[pivot])?;
            let mut factors = [0; SYNDROMES_MAX];
            for (factor, element) in factors.iter_mut().zip(image) {
                *factor = multiply(element, value);
            }
            plan.suspects[plan.suspects_count] = Suspect { position, pivot, value, factors };
            plan.suspects_count += 1;
        }
        Some(plan)
    }
}

/// Mends all columns of a batch.
pub(super) struct Mend<'a> {
    pub(super) plan: &'a Plan,
    /// What is read for the syndromes; erased symbols are null.
    pub(super) symbols: Symbols,
    /// Every symbol by its position, to be read and written.
    pub(super) places: [*mut u8; SYMBOLS_MAX],
    /// How many symbols there are.
    pub(super) count: usize,
    pub(super) code: Code,
    pub(super) report: Report,
}

impl Task for Mend<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(&mut self) {
        // SAFETY: the caller vouches for the features, and whoever made the task for the pointers.
        unsafe {
            match self.plan.rows {
                2 => self.columns::<V, 2>(),
                3 => self.columns::<V, 3>(),
                _ => self.columns::<V, 4>(),
            }
        }
    }
}

/// A vector's place among the columns.
#[derive(Clone, Copy)]
struct Window {
    /// Where it begins behind the pointers.
    at: usize,
    /// The column of the batch that is there.
    first_column: usize,
    /// How many of its columns count; the others are zeros.
    columns: usize,
}

impl Mend<'_> {
    #[inline(always)]
    unsafe fn columns<V: Vector, const ROWS: usize>(&mut self) {
        const LANES: usize = 2;
        let columns = self.symbols.columns;
        let mut at = 0;
        // SAFETY: the caller vouches for the features; no group goes beyond the columns, but the last, which is copied.
        unsafe {
            while at + LANES * V::BYTES <= columns {
                self.group::<V, ROWS, LANES>(at);
                at += LANES * V::BYTES;
            }
            while at + V::BYTES <= columns {
                self.group::<V, ROWS, 1>(at);
                at += V::BYTES;
            }
            if at < columns {
                self.rest::<V, ROWS>(at);
            }
        }
    }

    #[inline(always)]
    unsafe fn group<V: Vector, const ROWS: usize, const LANES: usize>(&mut self, at: usize) {
        // SAFETY: the caller vouches for the features and for the group.
        unsafe {
            let sums = self.symbols.syndromes::<V, ROWS, LANES, 0>(at);
            for lane in 0..LANES {
                let mut column = [V::zero(); ROWS];
                let mut any = V::zero();
                for row in 0..ROWS {
                    column[row] = sums[row][lane];
                    any = any.or(column[row]);
                }
                if self.plan.erasures == 0 && any.is_zero() {
                    self.report.clean += V::BYTES;
                    continue;
                }
                let at = at + lane * V::BYTES;
                let window = Window { at, first_column: at, columns: V::BYTES };
                mend::<V, ROWS>(self.plan, &self.places, column, window, &mut self.report);
            }
        }
    }

    /// The last columns, fewer than a vector: copied, mended, and copied back.
    #[inline(always)]
    unsafe fn rest<V: Vector, const ROWS: usize>(&mut self, at: usize) {
        let columns = self.symbols.columns - at;
        let mut copies = [[0; REST_BYTES]; SYMBOLS_MAX];
        let mut places = [std::ptr::null_mut(); SYMBOLS_MAX];
        let mut pointers = [None; SYMBOLS_MAX];
        // SAFETY: the caller vouches for the features and for the bytes; the copies have room for a vector.
        unsafe {
            for position in 0..self.count {
                places[position] = copies[position].as_mut_ptr();
                std::ptr::copy_nonoverlapping(self.places[position].add(at), places[position], columns);
                let is_erased = self.plan.erased[..self.plan.erasures].contains(&position);
                pointers[position] = (!is_erased).then_some(places[position].cast_const());
            }
            let symbols = Symbols::of(self.code, &pointers[..self.count], REST_BYTES);
            let sums = symbols.syndromes::<V, ROWS, 1, 0>(0);
            let mut column = [V::zero(); ROWS];
            for row in 0..ROWS {
                column[row] = sums[row][0];
            }
            let window = Window { at: 0, first_column: at, columns };
            mend::<V, ROWS>(self.plan, &places, column, window, &mut self.report);
            for position in 0..self.count {
                std::ptr::copy_nonoverlapping(places[position], self.places[position].add(at), columns);
            }
        }
    }
}

/// Mends one vector of columns with these syndromes.
#[inline(always)]
unsafe fn mend<V: Vector, const ROWS: usize>(
    plan: &Plan,
    places: &[*mut u8; SYMBOLS_MAX],
    syndromes: [V; ROWS],
    window: Window,
    report: &mut Report,
) {
    let mut columns = match &plan.matrix {
        Some(matrix) => product(matrix, &syndromes),
        None => syndromes,
    };
    // SAFETY: the caller vouches for the features.
    let zero = unsafe { V::zero() };
    let mut spare = zero;
    for column in &columns[plan.erasures..] {
        spare = spare.or(*column);
    }
    let counted = u64::MAX >> (64 - window.columns);
    let dirty = !V::bits(spare.equal(zero)) & counted;
    let mut found = 0;
    if dirty != 0 {
        // SAFETY: the caller vouches for the features and the places.
        found = unsafe { mend_one_error(plan, places, &mut columns, dirty, window.at, report) };
    }
    let detected = dirty & !found;
    report.clean += (counted & !dirty).count_ones() as usize;
    report.corrected += found.count_ones() as usize;
    if detected != 0 {
        report.detect(window.first_column, detected);
    }
    for (&position, &value) in plan.erased[..plan.erasures].iter().zip(&columns) {
        // SAFETY: the caller vouches for the places.
        unsafe { store_where_known(value, places[position].add(window.at), detected) };
    }
}

/// Corrects the columns in which one error explains the spare syndromes, and says which they are, as bits.
#[inline(always)]
unsafe fn mend_one_error<V: Vector, const ROWS: usize>(
    plan: &Plan,
    places: &[*mut u8; SYMBOLS_MAX],
    columns: &mut [V; ROWS],
    dirty: u64,
    at: usize,
    report: &mut Report,
) -> u64 {
    let spare = *columns;
    let mut multiples = [spare[0].multiples(); ROWS];
    for row in plan.erasures..ROWS {
        multiples[row] = spare[row].multiples();
    }
    let mut found = 0;
    for suspect in &plan.suspects[..plan.suspects_count] {
        let pivot = &multiples[suspect.pivot];
        let mut fits = spare[0].equal(spare[0]);
        for row in plan.erasures..ROWS {
            if row != suspect.pivot {
                fits = V::both(fits, V::times(pivot, suspect.factors[row]).equal(spare[row]));
            }
        }
        // Columns without a spare syndrome fit every suspect, with the value 0.
        let fitting = V::bits(fits) & dirty;
        if fitting == 0 {
            continue;
        }
        found |= fitting;
        report.corrected_at[suspect.position] += fitting.count_ones() as usize;
        // SAFETY: the caller vouches for the features and the places.
        unsafe {
            let place = places[suspect.position].add(at);
            V::load(place).xor(V::times(pivot, suspect.value).keep(fits)).store(place);
        }
        for index in 0..plan.erasures {
            columns[index] = columns[index].xor(V::times(pivot, suspect.factors[index]).keep(fits));
        }
    }
    found
}

/// Stores the bytes that are not detected, and leaves the others.
#[inline(always)]
unsafe fn store_where_known<V: Vector>(value: V, to: *mut u8, detected: u64) {
    // SAFETY: the caller vouches for the features and for a vector of bytes.
    unsafe {
        if detected == 0 {
            value.store(to);
            return;
        }
        let mut bytes = [0; REST_BYTES];
        value.store(bytes.as_mut_ptr());
        for (index, &byte) in bytes[..V::BYTES].iter().enumerate() {
            if detected >> index & 1 == 0 {
                to.add(index).write(byte);
            }
        }
    }
}
