//! The payload before it is saved: parts of memory that follow each other.

/// Parts of memory, read as one payload.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    parts: Vec<&'a [u8]>,
    /// Where each part begins in the payload.
    starts: Vec<u64>,
    bytes: u64,
}

impl<'a> Source<'a> {
    /// The parts in order; empty ones are allowed.
    pub fn new(parts: Vec<&'a [u8]>) -> Self {
        let mut bytes = 0;
        let starts = parts
            .iter()
            .map(|part| {
                let start = bytes;
                bytes += part.len() as u64;
                start
            })
            .collect();
        Source { parts, starts, bytes }
    }

    /// Length of the payload.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The payload's bytes in place, where a whole stretch of it lies in one part.
    pub(super) fn piece(&self, offset: u64, bytes: usize) -> Option<&'a [u8]> {
        let part = self.starts.partition_point(|&start| start <= offset).checked_sub(1)?;
        let start = usize::try_from(offset - self.starts[part]).ok()?;
        self.parts[part].get(start..start.checked_add(bytes)?)
    }

    /// Copies the payload from `offset` on; what is beyond its end is zero.
    pub fn copy_to(&self, mut offset: u64, mut target: &mut [u8]) {
        let mut part = self.starts.partition_point(|&start| start <= offset).saturating_sub(1);
        while !target.is_empty() && offset < self.bytes {
            let from = &self.parts[part][(offset - self.starts[part]) as usize..];
            let count = from.len().min(target.len());
            let (now, later) = target.split_at_mut(count);
            now.copy_from_slice(&from[..count]);
            target = later;
            offset += count as u64;
            part += 1;
        }
        target.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_cut_reads_as_the_parts_in_a_row(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..8),
            offset in 0u64..400,
            length in 0usize..400,
        ) {
            let whole = parts.concat();
            let source = Source::new(parts.iter().map(Vec::as_slice).collect());
            let mut target = vec![9; length];
            source.copy_to(offset, &mut target);
            let wanted: Vec<u8> = (offset as usize..offset as usize + length)
                .map(|at| whole.get(at).copied().unwrap_or(0))
                .collect();
            if let Some(piece) = source.piece(offset, length) {
                prop_assert_eq!(piece, &wanted[..]);
            }
            prop_assert_eq!(target, wanted);
            prop_assert_eq!(source.bytes(), whole.len() as u64);
        }
    }
}
