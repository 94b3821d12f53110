//! How much the tiers of a simulated run have room for, and when they fail.

use crate::controller::Place;

/// Slots of memory and checkpoints on the SSD, as a session has them by default: the newest, one that is being written
/// to the SSD, and one for the next; two on the SSD beside one that is being written.
const SLOTS: u64 = 3;
const KEPT: u64 = 2;

/// A time in which a tier fails, seconds since the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outage {
    /// When it begins.
    pub from_s: f64,
    /// When it is over.
    pub to_s: f64,
}

impl Outage {
    /// Whether it meets what goes on from one time to another.
    pub fn holds(&self, from_s: f64, to_s: f64) -> bool {
        from_s < self.to_s && to_s >= self.from_s
    }
}

/// What is where.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rooms {
    /// Checkpoints that memory and the SSD have room for.
    slots: u64,
    durable: u64,
    /// The newest in memory, by number, and the one that is on its way to the SSD.
    newest: u64,
    on_its_way: Option<u64>,
    kept: u64,
}

impl Rooms {
    /// Empty ones of so many bytes, of memory and of the SSD.
    pub fn new(size_bytes: f64, [memory_bytes, durable_bytes]: [f64; 2]) -> Self {
        let count = |bytes: f64| (bytes / size_bytes) as u64;
        Rooms {
            slots: count(memory_bytes).min(SLOTS),
            durable: count(durable_bytes),
            newest: 0,
            on_its_way: None,
            kept: 0,
        }
    }

    /// Whether memory can take one: neither the newest goes, nor what is being read.
    pub fn has_memory(&self) -> bool {
        let is_read = self.on_its_way.is_some_and(|number| number != self.newest);
        self.slots > u64::from(self.newest > 0) + u64::from(is_read)
    }

    /// Whether the SSD can: old ones go when the new one is there.
    pub fn has_durable(&self) -> bool {
        self.durable > self.kept + u64::from(self.on_its_way.is_some())
    }

    /// Takes note of a checkpoint.
    pub fn took(&mut self, place: Place) {
        match place {
            Place::Skip => {}
            Place::Durable => self.keep(),
            Place::Memory => self.newest += 1,
            Place::Both => {
                self.newest += 1;
                self.on_its_way = Some(self.newest);
            }
        }
    }

    /// Takes note of the end of what was on its way.
    pub fn ended(&mut self, is_there: bool) {
        self.on_its_way = None;
        if is_there {
            self.keep();
        }
    }

    fn keep(&mut self) {
        self.kept = (self.kept + 1).min(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_the_newest_nor_what_is_being_read_is_written_over() {
        let mut two = Rooms::new(1.0, [2.9, 9.0]);
        two.took(Place::Both);
        assert!(two.has_memory(), "the other slot");
        two.took(Place::Memory);
        assert!(!two.has_memory(), "one is read, the other is the newest");
        two.ended(true);
        assert!(two.has_memory());
        let mut three = Rooms::new(1.0, [f64::INFINITY, 3.0]);
        three.took(Place::Both);
        (0..9).for_each(|_| three.took(Place::Memory));
        assert!(three.has_memory() && three.has_durable());
        three.ended(false);
        (0..9).for_each(|_| three.took(Place::Durable));
        assert!(three.has_durable(), "two are kept, and there is room for the next");
        three.took(Place::Both);
        assert!(!three.has_durable());
    }
}
