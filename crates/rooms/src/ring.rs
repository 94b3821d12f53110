//! Events in the order of their arrival, of which the newest are kept.

use std::collections::VecDeque;
use std::sync::Arc;
use surefoot_model::Event;

/// The newest events of one kind, limited in number and in memory.
pub struct Ring {
    kept: VecDeque<(usize, Arc<Event>)>,
    bytes: usize,
    items_max: usize,
    bytes_max: usize,
}

impl Ring {
    /// Keeps at least one event, and no more than so many and so many bytes.
    pub fn new(items_max: usize, bytes_max: usize) -> Self {
        Ring { kept: VecDeque::new(), bytes: 0, items_max: items_max.max(1), bytes_max }
    }

    /// Keeps an event and lets go of the oldest ones beyond the limits.
    /// False if the event alone is beyond them; then nothing changes.
    pub fn push(&mut self, event: Arc<Event>) -> bool {
        let bytes = event.held_bytes();
        if bytes > self.bytes_max {
            return false;
        }
        self.bytes += bytes;
        self.kept.push_back((bytes, event));
        while self.kept.len() > self.items_max || self.bytes > self.bytes_max {
            if let Some((bytes, _)) = self.kept.pop_front() {
                self.bytes -= bytes;
            }
        }
        true
    }

    /// What is kept, oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        self.kept.iter().map(|(_, event)| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::Notice;

    fn notice(at_ns: u64, length: usize) -> Arc<Event> {
        Arc::new(Event::Notice(Notice { at_ns, text: "x".repeat(length) }))
    }

    fn times(ring: &Ring) -> Vec<u64> {
        ring.events().map(|event| if let Event::Notice(notice) = &**event { notice.at_ns } else { 0 }).collect()
    }

    #[test]
    fn keeps_the_newest_within_both_limits() {
        let mut ring = Ring::new(3, 10_000 + 3 * size_of::<Event>());
        for at_ns in 1..=5 {
            assert!(ring.push(notice(at_ns, 10)));
        }
        assert_eq!(times(&ring), [3, 4, 5]);
        assert!(ring.push(notice(6, 9_995 + 2 * size_of::<Event>())));
        assert_eq!(times(&ring), [6], "the long one leaves no memory for the others");
        assert!(!ring.push(notice(7, 20_000)), "too large by itself");
        assert_eq!(times(&ring), [6]);
        for at_ns in 8..=10 {
            assert!(ring.push(notice(at_ns, 10)));
        }
        assert_eq!(times(&ring), [8, 9, 10], "the memory of what left is counted as free");
    }
}
