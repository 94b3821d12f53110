//! Places that users share, so that one who takes all he can keeps nobody else out.

use crate::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use surefoot_hostfs::Root;
use surefoot_sys::peer::Holder;

/// How many places there are.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For everybody.
    pub all: usize,
    /// Of these for one user.
    pub of_user: usize,
    /// Beyond, one each for users who have none.
    pub kept: usize,
}

/// Beyond all of these: root is let in to see who holds them.
const KEPT_FOR_ROOT: usize = 1;

/// Places that are taken, by who can be all the users that hold them.
#[derive(Clone)]
pub struct Shares {
    limits: Limits,
    root: Root,
    holders: Arc<Mutex<BTreeMap<Holder, usize>>>,
}

impl Shares {
    /// No place is taken yet.
    pub fn new(limits: Limits) -> Self {
        Shares::at(Root::host(), limits)
    }

    fn at(root: Root, limits: Limits) -> Self {
        Shares { limits, root, holders: Arc::default() }
    }

    /// A place for one more of this user, if there is one; `None` are those whom the kernel does not know.
    pub fn place(&self, uid: Option<u32>) -> Option<ClientSlot> {
        self.place_of(Holder::of(&self.root, uid))
    }

    /// A place for one more of this holder, if there is one.
    pub fn place_of(&self, holder: Holder) -> Option<ClientSlot> {
        let Limits { all: all_max, of_user, kept } = self.limits;
        let mut holders = lock(&self.holders);
        let all: usize = holders.values().sum();
        let own = holders.get(&holder).copied().unwrap_or(0);
        let has_room = all < all_max && own < of_user;
        let has_kept = own == 0 && all < all_max + kept;
        let has_roots = own == 0 && holder == Holder::User(0) && all < all_max + kept + KEPT_FOR_ROOT;
        (has_room || has_kept || has_roots).then(|| {
            *holders.entry(holder).or_default() += 1;
            ClientSlot { holder, shares: self.clone() }
        })
    }

    /// How many places are taken.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        lock(&self.holders).values().sum()
    }
}

/// A place, until it is dropped.
pub struct ClientSlot {
    holder: Holder,
    shares: Shares,
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        let mut holders = lock(&self.shares.holders);
        if let Some(count) = holders.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                holders.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    #[test]
    fn one_user_does_not_take_the_last_places_and_all_together_leave_one_to_root() {
        let tree = HostTree::new();
        let shares = Shares::at(Root::at(tree.path()), Limits { all: 64, of_user: 48, kept: 16 });
        let of = |uid| -> Vec<ClientSlot> { std::iter::from_fn(|| shares.place(uid)).collect() };
        let one = of(Some(1));
        assert_eq!(one.len(), 48);
        let another = of(Some(2));
        assert_eq!(another.len(), 16);
        let third = of(Some(3));
        assert_eq!(third.len(), 1, "one place beyond, for who has none");
        assert_eq!(of(None).len(), 1);
        let many: Vec<ClientSlot> = (10..).map_while(|uid| shares.place(Some(uid))).collect();
        assert_eq!((many.len(), of(Some(0)).len()), (15, 1), "users without end leave one place");
        drop(one);
        assert!(shares.place(Some(3)).is_some());
        drop((another, third, many));
        assert_eq!(shares.taken(), 0);
    }

    #[test]
    fn subordinate_users_hold_the_places_of_their_user() {
        let tree = HostTree::new()
            .file(
                "etc/passwd",
                "root:x:0:0::/root:/bin/sh\nmallory:x:1000:1000::/:/bin/sh\nann:x:1001:1001::/:/bin/sh\n",
            )
            .file("etc/subuid", "mallory:100000:65536\n");
        let shares = Shares::at(Root::at(tree.path()), Limits { all: 64, of_user: 48, kept: 16 });
        let mallory: Vec<ClientSlot> =
            (100_000..100_500).chain([1000]).filter_map(|uid| shares.place(Some(uid))).collect();
        assert_eq!(mallory.len(), 48, "all of them are one");
        let strangers: Vec<ClientSlot> = (300_000..300_500).filter_map(|uid| shares.place(Some(uid))).collect();
        assert_eq!(strangers.len(), 16, "and those of whom nothing is known are one");
        assert!(shares.place(Some(1001)).is_some(), "another user is let in");
        drop((mallory, strangers));
        assert_eq!(shares.taken(), 0);
    }
}
