//! Reads an image back: finds what is bad by the checksums, repairs it by the code, and proves the result.

use super::chip;
use super::geometry::{COLUMNS_PARITY, Geometry, PAGE_BYTES, Protection};
use super::table::{self, crc32c};
use crate::StoredFile;
use std::ops::Range;
use surefoot_ecc::{Batch, Code, Mode};

/// Pages that are read at once.
const PAGES_AT_ONCE: usize = 64;

/// What was met on the way; each page counts once, however often it was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pages that were read.
    pub pages_read: u64,
    /// Pages that the kernel refused to read.
    pub pages_refused: u64,
    /// Pages that were not what their checksum says, the refused ones included.
    pub pages_bad: u64,
    /// Of the bad pages, those that were repaired.
    pub pages_repaired: u64,
    /// Copies of the table, of two, that were bad.
    pub tables_bad: u64,
}

impl Tally {
    /// Whether everything was as it was written.
    pub fn is_clean(&self) -> bool {
        self.pages_bad == 0 && self.tables_bad == 0
    }
}

/// An image that cannot be proved to be what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// More pages of a row are bad than the code can repair.
    #[error("{bad} of the {of} pages of row {row} are bad, and {}", ability(*by))]
    Row {
        /// The row.
        row: usize,
        /// Bad pages in it.
        bad: usize,
        /// Pages of a row.
        of: usize,
        /// What protects them.
        by: Protection,
    },
    /// Neither copy of the table is what the manifest says, and the pages do not give it either.
    #[error("the checksums are not those of the manifest: it is another checkpoint's image, or too much of it is bad")]
    Table,
    /// The file is shorter than what can be repaired.
    #[error("it has {bytes} bytes instead of {wanted}")]
    Length {
        /// What it has.
        bytes: u64,
        /// What it should have.
        wanted: u64,
    },
}

/// What a protection can repair, in words.
fn ability(protection: Protection) -> &'static str {
    match protection {
        Protection::Shard => "at most 3 of a row can be repaired",
        Protection::Chip => "at most one chip of a line can be repaired",
        Protection::Checked => "none can be repaired without parity",
    }
}

/// The pages of a row as they were read, the columns that are bad, and of these the ones that were refused.
type Row = (Vec<Vec<u8>>, Vec<usize>, Vec<usize>);

/// Reads one image.
pub struct Healer<'a> {
    geometry: Geometry,
    file: &'a dyn StoredFile,
    table: Vec<u32>,
    tally: Tally,
    /// Pages that count as read in the tally.
    read: Marks,
    /// Pages that count as bad in the tally.
    bad: Marks,
}

/// One bit per page. A row whose pages are bad is read again for each of them, and must not be counted again.
struct Marks(Vec<u64>);

impl Marks {
    fn new(pages: usize) -> Self {
        Marks(vec![0; pages.div_ceil(64)])
    }

    /// Marks a page; tells whether it was not marked before.
    fn mark(&mut self, page: usize) -> bool {
        let (word, bit) = (&mut self.0[page / 64], 1 << (page % 64));
        let is_first = *word & bit == 0;
        *word |= bit;
        is_first
    }
}

impl<'a> Healer<'a> {
    /// Opens an image whose table has this digest. A file that was cut is read as far as it goes.
    ///
    /// # Errors
    /// [`Lost`] when no table can be proved, or the file is too short for that.
    pub fn open(geometry: Geometry, file: &'a dyn StoredFile, digest: u32) -> Result<Self, Lost> {
        // Without both tables and more columns than the code repairs nothing can be proved. Seen before any room is taken:
        // what the geometry says may be a lie of terabytes.
        let needed = geometry.body_bytes() - geometry.protection().parity_columns() * geometry.column_bytes();
        let bytes = file.length().unwrap_or(0);
        if bytes < needed as u64 {
            return Err(Lost::Length { bytes, wanted: geometry.file_bytes() as u64 });
        }
        let (read, bad) = (Marks::new(geometry.pages()), Marks::new(geometry.pages()));
        let mut healer = Healer { geometry, file, table: Vec::new(), tally: Tally::default(), read, bad };
        let copies = [0, 1].map(|number| healer.read_table(number));
        for copy in &copies {
            match table::digest(copy) == digest {
                true if healer.table.is_empty() => healer.table.clone_from(copy),
                true => {}
                false => healer.tally.tables_bad += 1,
            }
        }
        if healer.table.is_empty() {
            let is_known = |at: usize, sum: u32| copies.iter().any(|copy| copy[at] == sum);
            // Where the copies know too little, all that can be read may still be good: the digest says whether it is.
            let tables: [&dyn Fn(usize, u32) -> bool; 2] = [&is_known, &|_, _| true];
            let proved = tables.iter().find_map(|believes| {
                healer.table_from_pages(believes).ok().filter(|entries| table::digest(entries) == digest)
            });
            healer.table = proved.ok_or(Lost::Table)?;
            healer.tally = Tally { tables_bad: 2, ..Tally::default() };
        }
        Ok(healer)
    }

    /// The checksums, proved.
    pub fn table(&self) -> &[u32] {
        &self.table
    }

    /// What was met so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Gives the payload, in order, to `sink`: offset and bytes. What it got before an error is sound.
    ///
    /// # Errors
    /// [`Lost::Row`] at the first row that cannot be repaired.
    pub fn read(&mut self, sink: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        self.read_range(0..self.geometry.payload_bytes(), sink)
    }

    /// Gives a part of the payload, in order, to `sink`: offset in the payload and bytes. What is beyond its end is left
    /// out.
    ///
    /// # Errors
    /// As [`Healer::read`].
    pub fn read_range(&mut self, range: Range<u64>, sink: &mut dyn FnMut(u64, &[u8])) -> Result<(), Lost> {
        let mut buffer = vec![0; PAGES_AT_ONCE * PAGE_BYTES];
        let end = range.end.min(self.geometry.payload_bytes());
        let mut offset = range.start;
        while offset < end {
            let page = offset as usize / PAGE_BYTES;
            let left = (end as usize).div_ceil(PAGE_BYTES) - page;
            let pages = &mut buffer[..PAGES_AT_ONCE.min(left) * PAGE_BYTES];
            self.read_pages(page, pages)?;
            let skipped = offset as usize % PAGE_BYTES;
            let bytes = (end - offset).min((pages.len() - skipped) as u64);
            sink(offset, &pages[skipped..skipped + bytes as usize]);
            offset += bytes;
        }
        Ok(())
    }

    /// Checks every page, parity too, and writes back what it repaired.
    ///
    /// # Errors
    /// [`Lost::Row`] at the first row that cannot be repaired; the rows before it are whole again. What cannot be
    /// written back stays bad, and is not counted as repaired.
    pub fn scrub(&mut self) -> Result<Tally, Lost> {
        (0..self.geometry.rows()).try_for_each(|row| self.mend_row(row))?;
        self.mend_tables();
        Ok(self.tally)
    }

    /// Checks one row, and writes back what it repaired, as [`Healer::scrub`] does.
    pub fn mend_row(&mut self, row: usize) -> Result<(), Lost> {
        let (pages, bad) = self.row(row)?;
        for &column in &bad {
            let offset = self.offset_of(column, row);
            if self.file.renew_at(&pages[column], offset).is_err() {
                self.tally.pages_repaired = self.tally.pages_repaired.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// Writes both copies of the table anew if one was bad.
    pub fn mend_tables(&self) {
        if self.tally.tables_bad > 0 {
            let mut place = vec![0; self.geometry.table_bytes()];
            table::store(&self.table, &mut place);
            for number in 0..2 {
                let offset = self.geometry.body_bytes() + number * self.geometry.table_bytes();
                // What cannot be written stays bad, and is counted so again.
                let _ = place
                    .chunks_exact(PAGE_BYTES)
                    .enumerate()
                    .try_for_each(|(page, bytes)| self.file.renew_at(bytes, (offset + page * PAGE_BYTES) as u64));
            }
        }
    }

    fn offset_of(&self, column: usize, row: usize) -> u64 {
        ((column * self.geometry.rows() + row) * PAGE_BYTES) as u64
    }

    fn read_table(&mut self, number: usize) -> Vec<u32> {
        let start = self.geometry.body_bytes() + number * self.geometry.table_bytes();
        let mut bytes = vec![0; self.geometry.table_bytes()];
        for (page, place) in bytes.chunks_exact_mut(PAGE_BYTES).enumerate() {
            if self.file.read_at(place, (start + page * PAGE_BYTES) as u64).is_err() {
                // What cannot be read matches nothing but by chance, which the digest rules out.
                place.fill(0);
            }
        }
        table::load(&bytes, self.geometry.pages())
    }

    /// The table as the pages give it, where both copies are bad, from those pages whose place and checksum are believed.
    fn table_from_pages(&self, believes: &dyn Fn(usize, u32) -> bool) -> Result<Vec<u32>, Lost> {
        let mut entries = vec![0; self.geometry.pages()];
        for row in 0..self.geometry.rows() {
            let is_good =
                |column: usize, page: &[u8]| believes(table::index(&self.geometry, column, row), crc32c(page));
            let (mut pages, bad, _) = self.read_row(row, &is_good);
            self.repair(row, &mut pages, &bad).map_err(|_| Lost::Table)?;
            for (column, page) in pages.iter().enumerate() {
                entries[table::index(&self.geometry, column, row)] = crc32c(page);
            }
        }
        Ok(entries)
    }

    /// Reads pages that follow each other in the image, from the one of this number on, repaired.
    pub fn read_pages(&mut self, first: usize, pages: &mut [u8]) -> Result<(), Lost> {
        let is_read = self.file.read_at(pages, (first * PAGE_BYTES) as u64).is_ok();
        for (number, page) in pages.chunks_exact_mut(PAGE_BYTES).enumerate() {
            let (column, row) = ((first + number) / self.geometry.rows(), (first + number) % self.geometry.rows());
            // One page that is refused fails the whole read: then each is asked for by itself.
            let is_read = is_read || self.file.read_at(page, self.offset_of(column, row)).is_ok();
            let index = table::index(&self.geometry, column, row);
            if is_read && crc32c(page) == self.table[index] {
                self.tally.pages_read += u64::from(self.read.mark(index));
                continue;
            }
            let (whole, _) = self.row(row)?;
            page.copy_from_slice(&whole[column]);
        }
        Ok(())
    }

    /// A whole row, repaired and proved by its checksums, and which pages were bad.
    pub fn row(&mut self, row: usize) -> Result<(Vec<Vec<u8>>, Vec<usize>), Lost> {
        let is_good =
            |column: usize, page: &[u8]| crc32c(page) == self.table[table::index(&self.geometry, column, row)];
        let (mut pages, bad, refused) = self.read_row(row, &is_good);
        let newly_bad = self.count(row, &bad, &refused);
        self.repair(row, &mut pages, &bad)?;
        let is_proved =
            bad.iter().all(|&column| crc32c(&pages[column]) == self.table[table::index(&self.geometry, column, row)]);
        if !is_proved {
            return Err(self.lost(row, bad.len()));
        }
        self.tally.pages_repaired += newly_bad;
        Ok((pages, bad))
    }

    /// Counts the pages of a row that were not counted before; returns how many of those are bad.
    fn count(&mut self, row: usize, bad: &[usize], refused: &[usize]) -> u64 {
        let mut newly_bad = 0;
        for column in 0..self.geometry.columns() {
            let index = table::index(&self.geometry, column, row);
            self.tally.pages_read += u64::from(self.read.mark(index));
            if bad.contains(&column) && self.bad.mark(index) {
                newly_bad += 1;
                self.tally.pages_refused += u64::from(refused.contains(&column));
            }
        }
        self.tally.pages_bad += newly_bad;
        newly_bad
    }

    fn read_row(&self, row: usize, is_good: &dyn Fn(usize, &[u8]) -> bool) -> Row {
        let (mut bad, mut refused) = (Vec::new(), Vec::new());
        let pages = (0..self.geometry.columns())
            .map(|column| {
                let mut page = vec![0; PAGE_BYTES];
                let is_read = self.file.read_at(&mut page, self.offset_of(column, row)).is_ok();
                if !is_read {
                    refused.push(column);
                }
                if !is_read || !is_good(column, &page) {
                    bad.push(column);
                }
                page
            })
            .collect();
        (pages, bad, refused)
    }

    fn repair(&self, row: usize, pages: &mut [Vec<u8>], bad: &[usize]) -> Result<(), Lost> {
        if bad.is_empty() {
            return Ok(());
        }
        let is_repaired = match self.geometry.protection() {
            Protection::Checked => false,
            Protection::Shard if bad.len() > COLUMNS_PARITY => false,
            Protection::Shard => {
                let repaired = Batch::new(Code::Rs19_16).repair(pages, bad, Mode::Detect);
                repaired.is_ok_and(|report| report.detected == 0)
            }
            Protection::Chip => chip::repair(pages, bad).unwrap_or(false),
        };
        if is_repaired { Ok(()) } else { Err(self.lost(row, bad.len())) }
    }

    fn lost(&self, row: usize, bad: usize) -> Lost {
        Lost::Row { row, bad, of: self.geometry.columns(), by: self.geometry.protection() }
    }
}
