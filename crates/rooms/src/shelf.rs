//! Gaps, of which the newest and the longest are kept.

use std::collections::VecDeque;
use std::sync::Arc;
use surefoot_model::Event;

/// The part of the gaps, the newest, that is never thinned out: a quarter.
const NEWEST_PART: usize = 4;

/// Gaps in the order of their arrival, limited in number and in memory.
///
/// When there is no room, the shortest of the older three quarters go, an eighth at a time: the newest are there to be
/// followed, the longest to be found.
pub struct Shelf {
    kept: VecDeque<(usize, u64, Arc<Event>)>,
    bytes: usize,
    items_max: usize,
    bytes_max: usize,
    let_go: u64,
}

impl Shelf {
    /// Keeps at least one event, and no more than so many and so many bytes.
    pub fn new(items_max: usize, bytes_max: usize) -> Self {
        Shelf { kept: VecDeque::new(), bytes: 0, items_max: items_max.max(1), bytes_max, let_go: 0 }
    }

    /// Keeps a gap of this length. False if the event alone is beyond the limits; then nothing changes.
    pub fn push(&mut self, event: Arc<Event>, duration_ns: u64) -> bool {
        let bytes = event.held_bytes();
        if bytes > self.bytes_max {
            return false;
        }
        self.bytes += bytes;
        self.kept.push_back((bytes, duration_ns, event));
        while self.kept.len() > self.items_max || self.bytes > self.bytes_max {
            self.thin_out();
        }
        true
    }

    /// Puts an event in the place of one that is kept. False where none is, or where the new one is larger than any may be.
    pub fn replace(&mut self, is_it: impl Fn(&Event) -> bool, event: Event) -> bool {
        let bytes = event.held_bytes();
        // The newest are looked for most.
        let Some(place) = self.kept.iter().rposition(|(.., kept)| is_it(kept)).filter(|_| bytes <= self.bytes_max)
        else {
            return false;
        };
        let kept = &mut self.kept[place];
        self.bytes = self.bytes - kept.0 + bytes;
        (kept.0, kept.2) = (bytes, Arc::new(event));
        while self.bytes > self.bytes_max {
            self.thin_out();
        }
        true
    }

    fn thin_out(&mut self) {
        let newest = (self.kept.len() / NEWEST_PART).max(1);
        let older = (self.kept.len() - newest).max(1);
        let mut lengths_ns: Vec<u64> = self.kept.iter().take(older).map(|gap| gap.1).collect();
        lengths_ns.sort_unstable();
        let wanted = (self.kept.len() / 8).clamp(1, older);
        let longest_to_go_ns = lengths_ns[wanted - 1];
        let mut left = wanted;
        let mut place = 0;
        let bytes = &mut self.bytes;
        self.kept.retain(|gap| {
            let goes = place < older && left > 0 && gap.1 <= longest_to_go_ns;
            place += 1;
            if goes {
                left -= 1;
                *bytes -= gap.0;
            }
            !goes
        });
        self.let_go += (wanted - left) as u64;
    }

    /// What is kept, in the order of arrival.
    pub fn events(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.kept.iter().map(|(.., event)| event)
    }

    /// Gaps that had to make room.
    pub fn let_go(&self) -> u64 {
        self.let_go
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::Notice;

    fn push(shelf: &mut Shelf, at_ns: u64, duration_ns: u64) -> bool {
        shelf.push(Arc::new(Event::Notice(Notice { at_ns, text: String::new() })), duration_ns)
    }

    fn times(shelf: &Shelf) -> Vec<u64> {
        shelf.events().map(|event| if let Event::Notice(notice) = &**event { notice.at_ns } else { 0 }).collect()
    }

    #[test]
    fn the_longest_and_the_newest_stay_and_what_goes_is_counted() {
        let mut shelf = Shelf::new(100, usize::MAX);
        for at_ns in 0..1_000 {
            // One in a hundred is long.
            assert!(push(&mut shelf, at_ns, if at_ns % 100 == 7 { 1_000_000 } else { at_ns }));
        }
        let kept = times(&shelf);
        assert!(kept.len() <= 100);
        assert!((0..10).all(|hundred| kept.contains(&(hundred * 100 + 7))), "{kept:?}");
        assert!((985..1_000).all(|at_ns| kept.contains(&at_ns)), "{kept:?}");
        assert!(kept.windows(2).all(|pair| pair[0] < pair[1]), "the order of arrival stays");
        assert_eq!(shelf.let_go() + kept.len() as u64, 1_000);
    }

    #[test]
    fn memory_is_a_limit_too_and_is_given_back() {
        let one = size_of::<Event>();
        let mut shelf = Shelf::new(1_000, one * 4);
        for at_ns in 0..50 {
            assert!(push(&mut shelf, at_ns, 1));
        }
        assert_eq!(shelf.kept.len(), 4);
        assert_eq!(shelf.bytes, one * 4);
        let large = Event::Notice(Notice { at_ns: 0, text: "x".repeat(one * 5) });
        assert!(!shelf.push(Arc::new(large), 1));
        assert_eq!(shelf.kept.len(), 4);
    }

    #[test]
    fn a_shelf_of_one_keeps_the_newest() {
        let mut shelf = Shelf::new(0, usize::MAX);
        for at_ns in 0..3 {
            push(&mut shelf, at_ns, 10 - at_ns);
        }
        assert_eq!(times(&shelf), [2]);
    }
}
