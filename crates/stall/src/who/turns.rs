//! Whose turn it is: requests of several users wait for one thread, and those of a user whose requests take long must not
//! keep the others waiting.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Users whose time is remembered although nothing of theirs waits; beyond it they are forgotten.
const REMEMBERED: usize = 1024;

/// Requests, by the user whose they are.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    /// No queue is empty.
    waiting: BTreeMap<u32, VecDeque<T>>,
    /// What each user's requests have taken.
    taken: HashMap<u32, Duration>,
    /// What the user had taken whose turn was last. Who comes anew begins there: having asked for nothing so far is no claim
    /// to all of the time now.
    floor: Duration,
}

impl<T> Default for Turns<T> {
    fn default() -> Self {
        Turns { waiting: BTreeMap::new(), taken: HashMap::new(), floor: Duration::ZERO }
    }
}

impl<T> Turns<T> {
    /// Adds a request of a user.
    pub(crate) fn push(&mut self, user: u32, request: T) {
        let queue = self.waiting.entry(user).or_default();
        if queue.is_empty() {
            let taken = self.taken.entry(user).or_default();
            *taken = self.floor.max(*taken);
        }
        queue.push_back(request);
    }

    /// The oldest request of the user whose requests have taken the least time.
    pub(crate) fn next(&mut self) -> Option<(u32, T)> {
        let taken = |user: &u32| self.taken.get(user).copied().unwrap_or_default();
        let user = self.waiting.keys().copied().min_by_key(taken)?;
        self.floor = taken(&user);
        let queue = self.waiting.get_mut(&user)?;
        let request = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&user);
        }
        Some((user, request))
    }

    /// Says what the last request of a user took.
    pub(crate) fn took(&mut self, user: u32, time: Duration) {
        *self.taken.entry(user).or_default() += time;
        if self.taken.len() > REMEMBERED {
            let waiting = &self.waiting;
            self.taken.retain(|user, _| waiting.contains_key(user));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MOMENT: Duration = Duration::from_millis(1);

    #[test]
    fn who_takes_long_waits_for_those_who_do_not() {
        let mut turns = Turns::default();
        (0..100).for_each(|number| turns.push(7, number));
        assert_eq!(turns.next(), Some((7, 0)));
        turns.took(7, SECOND);
        // Another user comes when 99 requests of a second each wait.
        (0..50).for_each(|number| turns.push(8, number));
        for number in 0..50 {
            assert_eq!(turns.next(), Some((8, number)));
            turns.took(8, MOMENT);
        }
        for number in 1..100 {
            assert_eq!(turns.next(), Some((7, number)));
            turns.took(7, SECOND);
        }
        assert!(turns.next().is_none() && turns.waiting.is_empty());
    }

    #[test]
    fn who_comes_late_does_not_make_up_for_what_he_did_not_ask() {
        let mut turns = Turns::default();
        (0..20).for_each(|number| turns.push(7, number));
        for number in 0..10 {
            assert_eq!(turns.next(), Some((7, number)));
            turns.took(7, SECOND);
        }
        (0..10).for_each(|number| turns.push(8, number));
        let order: Vec<u32> = std::iter::from_fn(|| {
            let (user, _) = turns.next()?;
            turns.took(user, SECOND);
            Some(user)
        })
        .collect();
        assert!(order[..6].contains(&7), "both have their turns: {order:?}");
    }

    #[test]
    fn users_who_ask_for_nothing_are_forgotten() {
        let mut turns = Turns::default();
        for user in 0..10 * REMEMBERED as u32 {
            turns.push(user, ());
            assert_eq!(turns.next(), Some((user, ())));
            turns.took(user, MOMENT);
        }
        assert!(turns.taken.len() <= REMEMBERED + 1, "{}", turns.taken.len());
    }
}
