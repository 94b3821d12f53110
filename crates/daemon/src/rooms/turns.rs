//! Takes what users have written in turn, so that one user who wrote a lot keeps no other user's from being seen.

use std::collections::BTreeMap;

/// The first of each user, then the second of each, and so on.
pub(crate) fn in_turn<T>(items: Vec<T>, owner: impl Fn(&T) -> u32) -> Vec<T> {
    let mut seen: BTreeMap<u32, usize> = BTreeMap::new();
    let mut numbered: Vec<(usize, T)> = items
        .into_iter()
        .map(|item| {
            let count = seen.entry(owner(&item)).or_default();
            *count += 1;
            (*count, item)
        })
        .collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_with_many_keeps_no_other_out() {
        let items: Vec<(u32, u32)> = (0..300).map(|number| (7, number)).chain([(0, 0), (0, 1), (8, 0)]).collect();
        let first: Vec<(u32, u32)> = in_turn(items, |(owner, _)| *owner).into_iter().take(5).collect();
        assert_eq!(first, [(7, 0), (0, 0), (8, 0), (7, 1), (0, 1)]);
    }
}
