//! Which ranks share parity, and who holds what of it. Pure.
//!
//! A group has G members, of which any M may be lost. Each member's image is cut into K = G - M chunks. Stripe s, of G,
//! has one chunk of each of K members and M chunks of parity on the M others, so that no member holds two shards of one:
//!
//! ```text
//! G = 5, M = 1, K = 4: which chunk of each member, or P, is in each stripe
//!              member 0  member 1  member 2  member 3  member 4
//! stripe 0         P         0         1         2         3
//! stripe 1         3         P         0         1         2
//! stripe 2         2         3         P         0         1
//! stripe 3         1         2         3         P         0
//! stripe 4         0         1         2         3         P
//! ```
//!
//! Member i is at distance d = (i - s) mod G from stripe s: below M it holds its row d of parity, else its chunk d - M
//! is symbol d - M of the stripe. The code is RS(19,16): symbols from K on are zeros, rows from M on are not kept.

use crate::config::ParityConfig;
use crate::image::PAGE_BYTES;
use std::collections::BTreeMap;

/// The most members that give data to a stripe: the data symbols of the code.
pub const DATA_MAX: u32 = *ParityConfig::DATA.end();

/// The most rows of parity: the parity symbols of the code.
pub const PARITY_MAX: u32 = *ParityConfig::PARITY.end();

/// A group of ranks that share parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Members.
    pub members: u32,
    /// Rows of parity: members that may be lost.
    pub parity: u32,
}

/// What a member has of a stripe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// This row of parity.
    Parity(u32),
    /// This chunk of its image, which is the symbol of the same number.
    Data(u32),
}

impl Layout {
    /// Members that give data to a stripe, which is also how many chunks an image is cut into.
    pub fn data(self) -> u32 {
        self.members - self.parity
    }

    /// The stripe in which a member holds this row of parity.
    pub fn stripe_of_row(self, member: u32, row: u32) -> u32 {
        (member + self.members - row) % self.members
    }

    /// The stripe that a chunk of a member belongs to.
    pub fn stripe_of_chunk(self, member: u32, chunk: u32) -> u32 {
        (member + 2 * self.members - self.parity - chunk) % self.members
    }

    /// What a member has of a stripe.
    pub fn role(self, member: u32, stripe: u32) -> Role {
        let distance = (member + self.members - stripe) % self.members;
        if distance < self.parity { Role::Parity(distance) } else { Role::Data(distance - self.parity) }
    }

    /// Bytes of a chunk, where the longest image of the group has this length: whole pages.
    pub fn chunk_bytes(self, longest: u64) -> u64 {
        longest.div_ceil(u64::from(self.data())).next_multiple_of(PAGE_BYTES as u64)
    }
}

/// Puts ranks into groups of K + M members or fewer, each of which lies on as many machines as can be: ranks are dealt
/// out machine by machine, so that of h ranks on one machine no group gets more than h over the number of groups,
/// rounded up. Groups differ by one member at most. Where groups would be too small for their parity, they are fewer
/// and larger.
///
/// # Errors
/// When there are not enough ranks for M rows of parity and something to protect.
pub fn groups(hosts: &[u32], data: u32, parity: u32) -> Result<Vec<Vec<u32>>, String> {
    let ranks = hosts.len() as u32;
    if ranks <= parity {
        return Err(format!("{parity} shares of parity need {} ranks or more; there are {ranks}", parity + 1));
    }
    let mut count = ranks.div_ceil(data + parity);
    while count > 1 && ranks / count <= parity {
        count -= 1;
    }
    let mut of_hosts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (rank, &host) in hosts.iter().enumerate() {
        of_hosts.entry(host).or_default().push(rank as u32);
    }
    let mut groups = vec![Vec::new(); count as usize];
    for (number, rank) in of_hosts.into_values().flatten().enumerate() {
        groups[number % count as usize].push(rank);
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn all() -> impl Iterator<Item = Layout> {
        (1..=PARITY_MAX)
            .flat_map(|parity| (parity + 1..=DATA_MAX + parity).map(move |members| Layout { members, parity }))
    }

    #[test]
    fn every_chunk_is_in_one_stripe_and_no_member_has_two_shards_of_any() {
        for layout in all() {
            let mut seen = std::collections::BTreeSet::new();
            for stripe in 0..layout.members {
                let roles: Vec<Role> = (0..layout.members).map(|member| layout.role(member, stripe)).collect();
                for row in 0..layout.parity {
                    assert_eq!(roles.iter().filter(|role| **role == Role::Parity(row)).count(), 1, "{layout:?}");
                }
                for symbol in 0..layout.data() {
                    assert_eq!(roles.iter().filter(|role| **role == Role::Data(symbol)).count(), 1, "{layout:?}");
                }
                for (member, role) in roles.into_iter().enumerate() {
                    let member = member as u32;
                    match role {
                        Role::Parity(row) => assert_eq!(layout.stripe_of_row(member, row), stripe),
                        Role::Data(chunk) => {
                            assert_eq!(layout.stripe_of_chunk(member, chunk), stripe);
                            assert!(seen.insert((member, chunk)));
                        }
                    }
                }
            }
            assert_eq!(seen.len() as u32, layout.members * layout.data(), "every chunk of every member");
        }
    }

    #[test]
    fn chunks_hold_the_longest_image() {
        let layout = Layout { members: 5, parity: 1 };
        assert_eq!([0, 1, 4 * 4096, 4 * 4096 + 1].map(|bytes| layout.chunk_bytes(bytes)), [0, 4096, 4096, 8192]);
    }

    fn hosts(of: &[u32]) -> Vec<u32> {
        (0..).zip(of).flat_map(|(host, &ranks)| vec![host; ranks as usize]).collect()
    }

    #[test]
    fn members_lie_on_different_machines_where_there_are_enough() {
        for (of, data, parity, most_together) in [
            (vec![4, 4, 4, 4, 4], 4, 1, 1),
            (vec![1; 10], 4, 1, 1),
            (vec![2; 6], 4, 2, 1),
            (vec![8, 8], 4, 1, 3),
            (vec![5], 4, 1, 5),
            (vec![3, 1, 1], 4, 1, 3),
            (vec![16; 19], 16, 3, 1),
        ] {
            let hosts = hosts(&of);
            let groups = groups(&hosts, data, parity).unwrap();
            let mut ranks: Vec<u32> = groups.iter().flatten().copied().collect();
            ranks.sort_unstable();
            assert_eq!(ranks, (0..hosts.len() as u32).collect::<Vec<u32>>());
            for group in &groups {
                assert!(group.len() as u32 > parity && group.len() as u32 <= data + parity, "{groups:?}");
                for host in 0..of.len() as u32 {
                    let together = group.iter().filter(|rank| hosts[**rank as usize] == host).count();
                    assert!(together <= most_together, "{of:?}: {groups:?}");
                }
            }
        }
    }

    #[test]
    fn any_number_of_ranks_is_cut_evenly_or_refused() {
        for parity in 1..=PARITY_MAX {
            for data in 1..=DATA_MAX {
                for ranks in 1..=60 {
                    let hosts = hosts(&[ranks]);
                    match groups(&hosts, data, parity) {
                        Err(why) => assert!(ranks <= parity && why.contains("there are"), "{why}"),
                        Ok(groups) => {
                            let sizes: Vec<u32> = groups.iter().map(|group| group.len() as u32).collect();
                            let (least, most) = (*sizes.iter().min().unwrap(), *sizes.iter().max().unwrap());
                            assert!(least > parity && most - least <= 1 && most <= DATA_MAX + parity, "{sizes:?}");
                        }
                    }
                }
            }
        }
    }
}
