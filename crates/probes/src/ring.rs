//! Reading a ring that its core overwrites without waiting for anybody.

/// Appends the records from number `from` on; returns the number to continue with and how many were overwritten before
/// they could be read.
///
/// `end` tells how many records were ever finished, `load` copies one. The record after the last one may be half written
/// at any moment, in the place of the oldest.
pub(crate) fn read<T>(
    size: usize,
    from: u64,
    end: impl Fn() -> u64,
    load: impl Fn(u64) -> T,
    into: &mut Vec<T>,
) -> (u64, u64) {
    let intact = |end: u64| (end + 1).saturating_sub(size as u64);
    let last = end();
    let first = intact(last).max(from.min(last));
    let kept = into.len();
    into.extend((first..last).map(load));
    // The core may have gone round meanwhile.
    let spoilt = intact(end()).saturating_sub(first).min(last - first);
    into.drain(kept..kept + spoilt as usize);
    (last, first.saturating_sub(from) + spoilt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A ring of 8 whose core writes `each` records while one is copied.
    fn read_while_written(from: u64, written: u64, each: u64) -> (Vec<u64>, (u64, u64)) {
        let end = Cell::new(written);
        let load = |number: u64| {
            // What is in the place of this record: the newest that goes there, the one that is being written included.
            let newest = number + (end.get() - number) / 8 * 8;
            end.set(end.get() + each);
            newest
        };
        let mut into = vec![99];
        let told = read(8, from, || end.get(), load, &mut into);
        (into, told)
    }

    #[test]
    fn what_was_overwritten_while_it_was_copied_is_left_out_and_counted() {
        assert_eq!(read_while_written(3, 6, 0), (vec![99, 3, 4, 5], (6, 0)));
        assert_eq!(read_while_written(0, 20, 0), (vec![99, 13, 14, 15, 16, 17, 18, 19], (20, 13)));
        assert_eq!(read_while_written(13, 20, 2), (vec![99], (20, 7)), "14 more records went over all of them");
        let (records, told) = read_while_written(16, 20, 1);
        assert_eq!((records, told), (vec![99, 17, 18, 19], (20, 1)));
        assert_eq!(read_while_written(30, 20, 0), (vec![99], (20, 0)), "the ring began anew");
    }
}
