//! Places that users share, so that one who takes all he can keeps nobody else out.

use crate::keep::shared::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// How many places there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// For everybody.
    pub(crate) all: usize,
    /// Of these for one user.
    pub(crate) of_user: usize,
    /// Beyond, one each for users who have none.
    pub(crate) kept: usize,
}

/// Beyond all of these: root is let in to see who holds them.
const KEPT_FOR_ROOT: usize = 1;

/// Places that are taken, by user; `None` are those whom the kernel does not know.
#[derive(Clone)]
pub(crate) struct Shares {
    limits: Limits,
    users: Arc<Mutex<BTreeMap<Option<u32>, usize>>>,
}

impl Shares {
    pub(crate) fn new(limits: Limits) -> Self {
        Shares { limits, users: Arc::default() }
    }

    /// A place for one more of this user, if there is one.
    pub(crate) fn place(&self, uid: Option<u32>) -> Option<Place> {
        let Limits { all: all_max, of_user, kept } = self.limits;
        let mut users = lock(&self.users);
        let all: usize = users.values().sum();
        let own = users.get(&uid).copied().unwrap_or(0);
        let has_room = all < all_max && own < of_user;
        let has_kept = own == 0 && all < all_max + kept;
        let has_roots = own == 0 && uid == Some(0) && all < all_max + kept + KEPT_FOR_ROOT;
        (has_room || has_kept || has_roots).then(|| {
            *users.entry(uid).or_default() += 1;
            Place { uid, shares: self.clone() }
        })
    }

    /// How many places are taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        lock(&self.users).values().sum()
    }
}

/// A place, until it is dropped.
pub(crate) struct Place {
    uid: Option<u32>,
    shares: Shares,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut users = lock(&self.shares.users);
        if let Some(count) = users.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_does_not_take_the_last_places_and_all_together_leave_one_to_root() {
        let shares = Shares::new(Limits { all: 64, of_user: 48, kept: 16 });
        let of = |uid| -> Vec<Place> { std::iter::from_fn(|| shares.place(uid)).collect() };
        let one = of(Some(1));
        assert_eq!(one.len(), 48);
        let another = of(Some(2));
        assert_eq!(another.len(), 16);
        let third = of(Some(3));
        assert_eq!(third.len(), 1, "one place beyond, for who has none");
        assert_eq!(of(None).len(), 1);
        let many: Vec<Place> = (10..).map_while(|uid| shares.place(Some(uid))).collect();
        assert_eq!((many.len(), of(Some(0)).len()), (15, 1), "users without end leave one place");
        drop(one);
        assert!(shares.place(Some(3)).is_some());
        drop((another, third, many));
        assert_eq!(shares.taken(), 0);
    }
}
