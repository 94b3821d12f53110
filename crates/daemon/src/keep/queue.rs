use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Waits are counted in these, each as one however long it took: a machine that stands still for seconds stops the receiver as well.
const SLICE: Duration = Duration::from_millis(100);

/// A queue between two threads, bounded in number and in memory.
///
/// The sender waits a little for room, so that a burst loses nothing; once a wait was in vain it
/// waits no more until there is room again, so that a stuck receiver cannot slow the sender down.
pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    changed: Condvar,
    items_max: usize,
    bytes_max: usize,
}

struct Inner<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
    closed: bool,
    stuck: bool,
    /// Items that were taken and are not done with.
    taken: usize,
    /// How often the receiver took an item or was done with one.
    steps: u64,
}

impl<T> Inner<T> {
    fn is_busy(&self) -> bool {
        !self.items.is_empty() || self.taken > 0
    }
}

/// What a receiver found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Popped<T> {
    /// The oldest item.
    Item(T),
    /// Nothing came in time.
    Empty,
    /// The queue is closed and everything in it was taken.
    Closed,
}

impl<T> Queue<T> {
    pub(crate) fn new(items_max: usize, bytes_max: usize) -> Self {
        let inner = Inner { items: VecDeque::new(), bytes: 0, closed: false, stuck: false, taken: 0, steps: 0 };
        Queue { inner: Mutex::new(inner), changed: Condvar::new(), items_max, bytes_max }
    }

    /// Appends an item that holds about `bytes` of memory, waiting at most `patience` for room.
    /// False if it was dropped. An empty queue takes an item of any size.
    pub(crate) fn push(&self, item: T, bytes: usize, patience: Duration) -> bool {
        let mut inner = self.lock();
        let is_full = |inner: &Inner<T>| {
            let over_bytes = inner.bytes.saturating_add(bytes) > self.bytes_max && !inner.items.is_empty();
            inner.items.len() >= self.items_max || over_bytes
        };
        let mut left = if inner.stuck { Duration::ZERO } else { patience };
        while is_full(&inner) && !inner.closed && !left.is_zero() {
            let slice = left.min(SLICE);
            let full = |inner: &mut Inner<T>| is_full(inner) && !inner.closed;
            inner = self.changed.wait_timeout_while(inner, slice, full).unwrap_or_else(PoisonError::into_inner).0;
            left -= slice;
        }
        if inner.closed || is_full(&inner) {
            inner.stuck = true;
            return false;
        }
        inner.stuck = false;
        inner.bytes = inner.bytes.saturating_add(bytes);
        inner.items.push_back((bytes, item));
        self.changed.notify_all();
        true
    }

    /// Takes the oldest item, waiting at most `patience` for one.
    pub(crate) fn pop(&self, patience: Duration) -> Popped<T> {
        let deadline = Instant::now() + patience;
        let mut inner = self.lock();
        loop {
            if let Some((bytes, item)) = inner.items.pop_front() {
                inner.bytes -= bytes;
                inner.taken += 1;
                inner.steps += 1;
                self.changed.notify_all();
                return Popped::Item(item);
            }
            if inner.closed {
                return Popped::Closed;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Popped::Empty;
            }
            inner = self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says that an item that was taken is done with, for those who [wait](Queue::wait_empty).
    pub(crate) fn done(&self) {
        let mut inner = self.lock();
        inner.taken = inner.taken.saturating_sub(1);
        inner.steps += 1;
        self.changed.notify_all();
    }

    /// Waits until everything is taken and done with, at most this long. Whether it is.
    pub(crate) fn wait_empty(&self, patience: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), patience, |inner| inner.is_busy());
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Waits until everything is taken and done with, for as long as the receiver goes on: it gives up after `patience` in which nothing
    /// was taken or done. Whether everything is.
    pub(crate) fn wait_done(&self, patience: Duration) -> bool {
        let mut inner = self.lock();
        let mut left = patience;
        while inner.is_busy() && !left.is_zero() {
            let (slice, before) = (left.min(SLICE), inner.steps);
            let waits = |inner: &mut Inner<T>| inner.is_busy() && inner.steps == before;
            inner = self.changed.wait_timeout_while(inner, slice, waits).unwrap_or_else(PoisonError::into_inner).0;
            left = if inner.steps == before { left - slice } else { patience };
        }
        !inner.is_busy()
    }

    /// Lets the receiver take what is left and refuses everything new.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits until the queue is closed, at most this long. Whether it is.
    pub(crate) fn wait_closed(&self, patience: Duration) -> bool {
        let open = |inner: &mut Inner<T>| !inner.closed;
        let waited = self.changed.wait_timeout_while(self.lock(), patience, open);
        waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn keeps_order_and_refuses_what_does_not_fit() {
        let queue = Queue::new(2, 1_000);
        assert!(queue.push(1, 10, Duration::ZERO));
        assert!(queue.push(2, 10, Duration::ZERO));
        assert!(!queue.push(3, 10, Duration::ZERO));
        assert_eq!(queue.pop(Duration::ZERO), Popped::Item(1));
        assert!(queue.push(4, 10, Duration::ZERO));
        queue.close();
        assert!(!queue.push(5, 10, Duration::ZERO));
        assert_eq!(queue.pop(Duration::ZERO), Popped::Item(2));
        assert_eq!(queue.pop(Duration::ZERO), Popped::Item(4));
        assert_eq!(queue.pop(Duration::ZERO), Popped::Closed);
    }

    #[test]
    fn memory_is_a_limit_as_well() {
        let queue = Queue::new(100, 50);
        assert!(queue.push(1, 40, Duration::ZERO));
        assert!(!queue.push(2, 11, Duration::ZERO));
        assert!(queue.push(3, 10, Duration::ZERO));
        assert_eq!(queue.pop(Duration::ZERO), Popped::Item(1));
        assert!(queue.push(4, 40, Duration::ZERO));
        assert_eq!(queue.pop(Duration::ZERO), Popped::Item(3));
        assert_eq!(queue.pop(Duration::ZERO), Popped::Item(4));
        assert!(queue.push(5, 500, Duration::ZERO), "alone, it may be of any size");
        assert!(!queue.push(6, 1, Duration::ZERO));
    }

    #[test]
    fn a_sender_waits_for_room_but_not_for_a_stuck_receiver() {
        let queue = Arc::new(Queue::new(1, 1_000));
        assert!(queue.push(1, 10, Duration::ZERO));
        let receiver = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                queue.pop(Duration::ZERO)
            })
        };
        assert!(queue.push(2, 10, Duration::from_secs(30)), "there was room in time");
        assert_eq!(receiver.join().unwrap(), Popped::Item(1));

        let begun = Instant::now();
        assert!(!queue.push(3, 10, SLICE * 3), "nothing is taken");
        assert!(begun.elapsed() >= SLICE * 3, "every slice is waited for");
        let begun = Instant::now();
        assert!(!queue.push(4, 10, Duration::from_secs(30)), "the queue is known to be stuck");
        assert!(begun.elapsed() < Duration::from_secs(15));
    }
    #[test]
    fn a_slow_receiver_is_waited_for_and_a_stuck_one_is_not() {
        let queue = Arc::new(Queue::new(100, 1_000));
        (0..10).for_each(|item| assert!(queue.push(item, 1, Duration::ZERO)));
        let slow = {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || {
                while let Popped::Item(_) = queue.pop(Duration::ZERO) {
                    std::thread::sleep(SLICE);
                    queue.done();
                }
            })
        };
        assert!(queue.wait_done(Duration::from_secs(60)), "it goes on");
        assert!(queue.wait_empty(Duration::ZERO));
        slow.join().unwrap();
        assert!(queue.push(10, 1, Duration::ZERO));
        let begun = Instant::now();
        assert!(!queue.wait_done(SLICE * 3), "nobody takes it");
        assert!(begun.elapsed() >= SLICE * 3, "every slice is waited for");
    }
}
