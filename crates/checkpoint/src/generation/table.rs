//! The list of regions in a manifest: JSON while there are few, and a string of a few bytes for each where there are many.
//!
//! In the string each region is `SHARED,REST,BYTES;`: how many letters its name has in common with that of the one
//! before, the rest of its name, and its length, left out where it is that of the one before. Names have neither `,` nor
//! `;`, and those of one model differ little from one to the next.

use super::{NAME_BYTES_MAX, REGIONS_MAX, REGIONS_PLAIN_MAX, RegionEntry};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserializer, Serialize, Serializer};
use std::fmt::{self, Write};

pub(super) fn serialize<S: Serializer>(regions: &[RegionEntry], serializer: S) -> Result<S::Ok, S::Error> {
    match regions.len() > REGIONS_PLAIN_MAX {
        true => serializer.serialize_str(&encoded(regions)),
        false => regions.serialize(serializer),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RegionEntry>, D::Error> {
    deserializer.deserialize_any(Regions)
}

struct Regions;

impl<'de> Visitor<'de> for Regions {
    type Value = Vec<RegionEntry>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of regions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut regions = Vec::new();
        while let Some(region) = sequence.next_element()? {
            if regions.len() == REGIONS_PLAIN_MAX {
                return Err(Error::custom(format!("it lists more than {REGIONS_PLAIN_MAX} regions one by one")));
            }
            regions.push(region);
        }
        Ok(regions)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        decoded(text).map_err(Error::custom)
    }
}

fn encoded(regions: &[RegionEntry]) -> String {
    let mut text = String::new();
    let (mut name, mut bytes) = ("", 0);
    for region in regions {
        let shared = name.bytes().zip(region.name.bytes()).take_while(|(one, other)| one == other).count();
        let rest = region.name.get(shared..).unwrap_or_default();
        let _ = write!(text, "{shared},{rest},");
        if region.bytes != bytes {
            let _ = write!(text, "{}", region.bytes);
        }
        text.push(';');
        (name, bytes) = (&region.name, region.bytes);
    }
    text
}

fn decoded(text: &str) -> Result<Vec<RegionEntry>, String> {
    let mut regions: Vec<RegionEntry> = Vec::new();
    let (mut left, mut bytes) = (text, 0);
    while !left.is_empty() {
        if regions.len() == REGIONS_MAX {
            return Err(format!("it lists more than {REGIONS_MAX} regions"));
        }
        let broken = || format!("its list of regions cannot be read at number {}", regions.len());
        let (entry, rest) = left.split_once(';').ok_or_else(broken)?;
        left = rest;
        let mut columns = entry.split(',');
        let (Some(shared), Some(own), Some(length), None) =
            (columns.next(), columns.next(), columns.next(), columns.next())
        else {
            return Err(broken());
        };
        let shared: usize = shared.parse().map_err(|_| broken())?;
        let before = regions.last().map_or("", |region| region.name.as_str());
        let name = before.get(..shared).ok_or_else(broken)?.to_owned() + own;
        if name.len() > NAME_BYTES_MAX {
            return Err(broken());
        }
        if !length.is_empty() {
            bytes = length.parse().map_err(|_| broken())?;
        }
        regions.push(RegionEntry { name, bytes });
    }
    Ok(regions)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_nobody_wrote_is_refused() {
        assert_eq!(decoded("").unwrap(), []);
        let two = decoded("0,ab,5;1,c,;").unwrap();
        assert_eq!(two.iter().map(|of| (of.name.as_str(), of.bytes)).collect::<Vec<_>>(), [("ab", 5), ("ac", 5)]);
        for wrong in
            ["0,a,1", "1,a,1;", "0,a;", "0,a,1,2;", "x,a,1;", "0,a,-1;", "0,\u{e9},1;1,b,;", &"0,a,1;".repeat(3)[1..]]
        {
            assert!(decoded(wrong).is_err(), "{wrong}");
        }
        assert!(decoded(&format!("0,{},1;", "x".repeat(NAME_BYTES_MAX + 1))).is_err());
        assert!(decoded(&"0,,;".repeat(REGIONS_MAX + 1)).unwrap_err().contains("more than"));
    }

    proptest! {
        #[test]
        fn any_list_comes_back(of in proptest::collection::vec(("[a-c/]{1,9}", 0u64..4), 0..60), more in ".{0,40}") {
            let regions: Vec<RegionEntry> =
                of.into_iter().map(|(name, bytes)| RegionEntry { name, bytes }).collect();
            let text = encoded(&regions);
            prop_assert_eq!(decoded(&text).unwrap(), regions);
            let _ = decoded(&(text + &more));
        }
    }
}
