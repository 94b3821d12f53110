//! Whether all ranks have the same settings, before anything is opened or written.
//!
//! In a job that is set up well that is one agreement on a digest. Where it differs, rank 0 tells its settings, and each
//! other rank in what its own differ.

use super::{Message, Ranks, ranks_in_words};
use crate::Error;
use crate::session::clock;
use crate::settings::{NOT_SET, OF_POLICY, WHOLE_POLICY};
use std::collections::BTreeMap;

/// What must be the same on all ranks, by name.
pub type ToBeEqual = Vec<(&'static str, String)>;

/// The most settings that a message names.
const NAMED_MAX: usize = 4;

/// The most bytes of a value that a message shows.
const SHOWN_BYTES: usize = 400;

/// The most bytes that rank 0 tells of its settings.
const TOLD_BYTES_MAX: u64 = 1 << 20;

impl Ranks {
    /// Agrees on the session and on what must be the same. `own` is an error where this rank has no settings.
    ///
    /// # Errors
    /// On all ranks: the first one's own error; [`Error::Option`] with the settings that differ, their values, and the
    /// ranks that have each; [`Error::Group`].
    pub fn agree_on_settings(&self, own: Result<ToBeEqual, Error>) -> Result<(), Error> {
        let digest = own.as_ref().map_or(0, |own| digest(&to_bytes(own)));
        let mut message = Message { mosts: [digest, !digest], ..Message::default() };
        if let Err(error) = &own {
            message.fail(self.rank(), &error.reason());
        }
        let told = self.tell(message, |all| all.of_root.nonce = clock::nonce())?;
        let (own, told) = self.first_of_equal_errors(own, told)?;
        self.enter_session(told.of_root.nonce);
        if told.mosts[0] == !told.mosts[1] {
            return Ok(());
        }
        Err(Error::Option { option: "settings", why: self.settings_that_differ(&own)? })
    }

    /// What all ranks got wrong in the same way the first one says.
    fn first_of_equal_errors(
        &self,
        own: Result<ToBeEqual, Error>,
        told: Message,
    ) -> Result<(ToBeEqual, Message), Error> {
        let own = match (own, told.first_failure()) {
            (Err(error), Some((rank, why))) if rank != self.rank() && error.reason().starts_with(why) => {
                return Err(Error::OtherRank { rank, why: "it has the same error as this rank".into() });
            }
            (own, _) => own?,
        };
        told.expect_all().map(|told| (own, told))
    }

    fn settings_that_differ(&self, own: &ToBeEqual) -> Result<String, Error> {
        let of_root = to_bytes(own);
        let length = self.of_root(of_root.len() as u64)?;
        let length = Some(length).filter(|length| *length <= TOLD_BYTES_MAX).and_then(|bytes| bytes.try_into().ok());
        let no_length = || Error::Group { why: "rank 0 told settings of an impossible length".into() };
        let mut told = vec![0; length.ok_or_else(no_length)?];
        if self.is_root() {
            told = of_root;
        }
        self.group.broadcast(&mut told, 0)?;
        let of_root: BTreeMap<String, String> = pairs(&told).collect();
        let differ = own.iter().filter(|(name, value)| of_root.get(*name) != Some(value));
        let differ: Vec<(&str, String)> = differ.map(|(name, value)| (*name, value.clone())).collect();
        let all = self.gather_all(&to_bytes(&differ))?;
        let mut by_name: BTreeMap<String, BTreeMap<String, Vec<u32>>> = BTreeMap::new();
        for (rank, said) in (0..).zip(&all) {
            for (name, value) in pairs(said) {
                by_name.entry(name).or_default().entry(value).or_default().push(rank);
            }
        }
        // In the order of the list.
        let order = |name: &str| own.iter().position(|(known, _)| *known == name).unwrap_or(usize::MAX);
        let mut names: Vec<&String> = by_name.keys().collect();
        names.sort_by_key(|name| order(name));
        // It says no more than a setting of the policy itself.
        let is_policy_named = by_name.keys().any(|name| OF_POLICY.contains(&name.as_str()));
        names.retain(|name| *name != WHOLE_POLICY || !is_policy_named);
        // What a rank has only because its tier is set differs where another rank has no such tier: that alone is the cause.
        let is_unset = |value: Option<&String>| value.is_some_and(|value| value == NOT_SET);
        let lacks = |tier: &str| {
            let others = by_name.get(tier);
            others.is_some_and(|others| is_unset(of_root.get(tier)) || others.keys().any(|value| is_unset(Some(value))))
        };
        let tiers: Vec<&str> = TIERS.into_iter().filter(|tier| lacks(tier)).collect();
        names.retain(|name| !tiers.iter().any(|tier| is_of_tier(name, tier)));
        // So does the default of the slots, which is one more beside a durable tier.
        let are_defaults = |others: &BTreeMap<String, Vec<u32>>| {
            others.keys().chain(of_root.get(SLOTS)).all(|value| SLOTS_DEFAULT.contains(&value.as_str()))
        };
        let is_default = tiers.iter().any(|tier| *tier != "memory") && by_name.get(SLOTS).is_some_and(are_defaults);
        names.retain(|name| *name != SLOTS || !is_default);
        // The cause first.
        names.sort_by_key(|name| !tiers.contains(&name.as_str()));
        let all_ranks = 0..self.size();
        let said = names.iter().take(NAMED_MAX).filter_map(|name| {
            let others = by_name.get(*name)?;
            let equal = all_ranks.clone().filter(|rank| !others.values().flatten().any(|other| other == rank));
            let root = (of_root.get(*name).cloned().unwrap_or_default(), equal.collect());
            let values = std::iter::once((&root.0, &root.1)).chain(others);
            let values: Vec<String> =
                values.map(|(value, ranks)| format!("{} on {}", shown(value), ranks_in_words(ranks))).collect();
            Some(format!("{name} is {}", values.join(" and is ")))
        });
        let mut said = said.collect::<Vec<_>>().join("; ");
        if names.len() > NAMED_MAX {
            said += &format!("; {} more differ", names.len() - NAMED_MAX);
        }
        Ok(format!(
            "ranks differ in {}: {said}. Set the same on all of them, in the program, its variables \
             (SUREFOOT_CHECKPOINT_...) and the hosts' files; `surefoot checkpoint settings` shows those of a host",
            if names.len() == 1 { "a setting" } else { "their settings" }
        ))
    }
}

/// The settings that say where a tier is.
const TIERS: [&str; 3] = ["memory", "durable", "shared"];

/// The setting whose default depends on the durable tiers, and its defaults.
const SLOTS: &str = "memory.slots";
const SLOTS_DEFAULT: [&str; 2] = ["2", "3"];

/// Whether a setting belongs to a tier, so that a job without that has none.
fn is_of_tier(name: &str, tier: &str) -> bool {
    match name.split_once('.') {
        Some(("endurance", _)) => tier == "durable",
        Some((of, _)) => of == tier,
        None => false,
    }
}

fn shown(value: &str) -> String {
    match value {
        "" => "\"\"".to_owned(),
        NOT_SET => "not set".to_owned(),
        _ => super::message::cut(value, SHOWN_BYTES),
    }
}

/// Names and values, each ended by a byte that no text has.
fn to_bytes<N: AsRef<str>>(settings: &[(N, String)]) -> Vec<u8> {
    let texts = settings.iter().flat_map(|(name, value)| [name.as_ref(), value.as_str()]);
    texts.flat_map(|text| text.bytes().chain([0xff])).collect()
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = (String, String)> + '_ {
    let mut texts = bytes.split(|byte| *byte == 0xff).map(|text| String::from_utf8_lossy(text).into_owned());
    std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
}

/// FNV-1a with 64 bits: the same on every machine.
pub fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::group::{ThreadGroup, thread_group};
    use std::time::Duration;

    fn on_all<T: Send>(groups: Vec<ThreadGroup>, run: impl Fn(Ranks) -> T + Sync) -> Vec<T> {
        let run = &run;
        std::thread::scope(|scope| {
            let start = |group| scope.spawn(move || run(Ranks::new(Box::new(group), "job")));
            let threads: Vec<_> = groups.into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    fn groups(size: u32) -> Vec<ThreadGroup> {
        thread_group(size, Some(Duration::from_secs(300)))
    }

    #[test]
    fn what_differs_is_told_to_all_with_its_ranks_and_values() {
        let told = on_all(groups(5), |ranks| {
            let slots = if [1, 4].contains(&ranks.rank()) { "4" } else { "3" };
            let durable = ["none", "none", "none", "a directory", "none"][ranks.rank() as usize];
            let own = vec![("job", "job".to_owned()), ("durable", durable.to_owned()), ("slots", slots.to_owned())];
            ranks.agree_on_settings(Ok(own)).unwrap_err().to_string()
        });
        let wanted = "durable is none on ranks 0-2, 4 and is a directory on rank 3; slots is 3 on ranks 0, 2-3 and is 4 \
                      on ranks 1, 4.";
        assert!(told.iter().all(|why| why.contains(wanted)), "{told:?}");
    }

    #[test]
    fn a_number_of_the_policy_that_no_setting_names_is_told_beside_others() {
        let of = |rank: u32, is_named: bool| {
            let odd = rank == 1;
            let mut own = vec![("memory.slots", if odd { "4" } else { "3" }.to_owned())];
            own.push(("priority", if odd && is_named { "endurance" } else { "staleness" }.to_owned()));
            own.push((WHOLE_POLICY, if odd { "granted_share: 0.5" } else { "granted_share: 1.0" }.to_owned()));
            own
        };
        for is_named in [false, true] {
            let told = on_all(groups(2), |ranks| {
                ranks.agree_on_settings(Ok(of(ranks.rank(), is_named))).unwrap_err().to_string()
            });
            for why in told {
                assert!(why.contains("memory.slots is 3 on rank 0 and is 4 on rank 1"), "{why}");
                assert_eq!(why.contains("the whole policy is granted_share: 1.0 on rank 0"), !is_named, "{why}");
            }
        }
    }

    #[test]
    fn a_tier_that_one_rank_lacks_is_the_cause_and_what_belongs_to_it_is_left_out() {
        let told = on_all(groups(2), |ranks| {
            let durable = (ranks.rank() == 1).then(|| std::path::PathBuf::from("/ssd"));
            let config = crate::Config::new("job", "/dev/shm", durable);
            let own = crate::settings::to_be_equal(&config);
            ranks.agree_on_settings(Ok(own)).unwrap_err().to_string()
        });
        let wanted =
            "settings: ranks differ in a setting: durable is not set on rank 0 and is set on rank 1. Set the same";
        assert!(told.iter().all(|why| why.starts_with(wanted)), "{told:?}");
        // Where all have the tier, what belongs to it is a cause of its own.
        let told = on_all(groups(2), |ranks| {
            let keep = ["2", "3"][ranks.rank() as usize].to_owned();
            let own = vec![("durable", "set".to_owned()), ("durable.keep", keep)];
            ranks.agree_on_settings(Ok(own)).unwrap_err().to_string()
        });
        assert!(told.iter().all(|why| why.contains("durable.keep is 2 on rank 0 and is 3 on rank 1")), "{told:?}");
    }

    #[test]
    fn equal_settings_pass_and_all_ranks_have_the_same_session() {
        let told = on_all(groups(3), |ranks| {
            ranks.agree_on_settings(Ok(vec![("job", "job".into())])).unwrap();
            ranks.stamp.get()
        });
        assert!(told.iter().all(|stamp| *stamp == told[0] && stamp.session != 0), "{told:?}");
    }

    #[test]
    fn a_rank_without_settings_is_named_and_equal_errors_are_said_once() {
        let refused = |why: &str| Err(Error::Option { option: "durable", why: why.into() });
        let told = on_all(groups(3), |ranks| {
            let own = if ranks.rank() == 1 { refused("not absolute") } else { Ok(vec![("job", "job".into())]) };
            ranks.agree_on_settings(own).unwrap_err()
        });
        assert!(matches!(&told[1], Error::Option { why, .. } if why == "not absolute"), "{told:?}");
        let is_told =
            |error: &Error| matches!(error, Error::OtherRank { rank: 1, why } if why.contains("not absolute"));
        assert!(is_told(&told[0]) && is_told(&told[2]), "{told:?}");
        let told = on_all(groups(3), |ranks| ranks.agree_on_settings(refused("wrong")).unwrap_err().to_string());
        assert!(told[0].contains("wrong") && told[1..].iter().all(|why| !why.contains("wrong")), "{told:?}");
    }

    #[test]
    fn texts_come_back_from_their_bytes() {
        let some = [("a", String::new()), ("b", "c\nd".to_owned())];
        let back: Vec<(String, String)> = pairs(&to_bytes(&some)).collect();
        assert_eq!(back, [("a".into(), String::new()), ("b".into(), "c\nd".into())]);
        assert_ne!(digest(&to_bytes(&[("ab", "c".to_owned())])), digest(&to_bytes(&[("a", "bc".to_owned())])));
        assert_eq!(digest(b"a"), 0xaf63_dc4c_8601_ec8c, "the published value of FNV-1a for 'a'");
    }
}
