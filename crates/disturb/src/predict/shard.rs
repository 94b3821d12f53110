//! What a shard of a prediction writes, and what is read of it to put all of them together: a JSON line with everything that the
//! prediction depends on, and one per draw.

use super::{DRAWS_MAX, Draw, EVENTS_MAX};
use crate::Error;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The only version so far.
const VERSION: u32 = 1;
const KIND: &str = "prediction_shard";

/// The first line; `A` is what the prediction depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header<A> {
    #[serde(rename = "type")]
    kind: String,
    version: u32,
    /// The release that wrote it; empty where that is not stated.
    #[serde(default)]
    pub release: String,
    /// Which shard, from 1.
    pub shard: u32,
    /// Of how many.
    pub shards: u32,
    /// The undisturbed run.
    pub base_ns: u64,
    /// What the prediction depends on.
    pub about: A,
}

/// Each further line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawLine {
    end_ns: u64,
    event_count: u64,
}

impl<A: Clone + PartialEq> Header<A> {
    /// Whether both are shards of the same prediction.
    pub fn is_of_the_same(&self, other: &Self) -> bool {
        Header { shard: other.shard, ..self.clone() } == *other
    }
}

impl<A> Header<A> {
    /// That of this shard.
    pub fn new(shard: u32, shards: u32, base_ns: u64, about: A) -> Self {
        let release = env!("CARGO_PKG_VERSION").to_owned();
        Header { kind: KIND.into(), version: VERSION, release, shard, shards, base_ns, about }
    }
}

impl From<&Draw> for DrawLine {
    fn from(draw: &Draw) -> Self {
        DrawLine { end_ns: draw.end_ns, event_count: draw.event_count }
    }
}

/// Reads a shard; `draws_of` tells how many draws the whole prediction has.
///
/// # Errors
/// [`Error::Shard`] with the line: it is no shard, of another version, cut or damaged.
pub fn read<A: DeserializeOwned>(text: &str, draws_of: impl Fn(&A) -> u64) -> Result<(Header<A>, Vec<Draw>), Error> {
    let mut lines = text.lines();
    let wrong = |line: usize, why: String| Error::Shard { line, why };
    let header: Header<A> = serde_json::from_str(lines.next().unwrap_or_default()).map_err(|error| {
        wrong(1, format!("no header of a shard; `surefoot disturb predict --shard i/n` writes one: {error}"))
    })?;
    let (draws, Header { shard, shards, .. }) = (draws_of(&header.about), &header);
    let refused = if header.kind != KIND {
        Some(format!("of type '{}', not {KIND}", header.kind))
    } else if header.version != VERSION {
        Some(format!("version {}, but this is for version {VERSION}", header.version))
    } else if !(2..=DRAWS_MAX).contains(&draws) {
        Some(format!("{draws} draws: 2 to {DRAWS_MAX} are possible"))
    } else if *shard == 0 || shard > shards {
        Some(format!("shard {shard} of {shards}: they are counted from 1"))
    } else {
        None
    };
    if let Some(why) = refused {
        return Err(wrong(1, why));
    }
    let until = |number: u32| (u128::from(draws) * u128::from(number) / u128::from(*shards)) as u64;
    let wanted = until(*shard) - until(*shard - 1);
    let mut found = Vec::new();
    for (number, line) in lines.enumerate() {
        let DrawLine { end_ns, event_count } =
            serde_json::from_str(line).map_err(|error| wrong(number + 2, format!("no draw: {error}")))?;
        // Noise only takes time.
        if header.base_ns == 0 || end_ns < header.base_ns || event_count > EVENTS_MAX {
            let base_ns = header.base_ns;
            let why = format!(
                "a draw of {event_count} events ends after {end_ns} ns, undisturbed after {base_ns} ns: no prediction is so"
            );
            return Err(wrong(number + 2, why));
        }
        found.push(Draw { end_ns, event_count });
    }
    if found.len() as u64 != wanted {
        let count = found.len();
        let why = format!("{count} draws, but shard {shard} of {shards} has {wanted}; the file is cut or damaged");
        return Err(wrong(count + 1, why));
    }
    Ok((header, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        read::<u64>(text, |draws| *draws).unwrap_err().to_string()
    }

    #[test]
    fn a_shard_comes_back_as_it_was_written_and_what_is_none_is_refused_with_its_line() {
        let header = serde_json::to_string(&Header::new(2, 3, 7, 8u64)).unwrap();
        let draws = [
            Draw { end_ns: 9, event_count: 1 },
            Draw { end_ns: 8, event_count: 2 },
            Draw { end_ns: 7, event_count: 3 },
        ];
        let lines = draws.map(|draw| serde_json::to_string(&DrawLine::from(&draw)).unwrap());
        let text = [&[header.clone()][..], &lines[..]].concat().join("\n");
        let (read, found) = read::<u64>(&text, |draws| *draws).unwrap();
        assert_eq!((read, found), (Header::new(2, 3, 7, 8), draws.to_vec()));
        let with = |header: &str| format!("{header}\n{}", lines.join("\n"));
        for (text, wanted) in [
            (String::new(), "line 1: no header of a shard"),
            (with(&header.replace("prediction_shard", "other")), "line 1: of type 'other'"),
            (with(&header.replace("\"version\":1", "\"version\":2")), "line 1: version 2"),
            (with(&header.replace("\"about\":8", "\"about\":1")), "line 1: 1 draws"),
            (with(&header.replace("\"shard\":2", "\"shard\":0")), "line 1: shard 0 of 3"),
            (with(&header.replace("\"shard\":2", "\"shard\":4")), "line 1: shard 4 of 3"),
            (format!("{header}\n{}", lines[0]), "line 2: 1 draws, but shard 2 of 3 has 3"),
            (format!("{text}\n{{}}"), "line 5: no draw"),
            (text.replace("\"end_ns\":8", "\"end_ns\":6"), "line 3: a draw of 2 events ends after 6 ns"),
            (text.replace("\"base_ns\":7", "\"base_ns\":0"), "line 2: a draw"),
            (text.replace("\"event_count\":3", "\"event_count\":18446744073709551615"), "line 4: a draw"),
        ] {
            let error = said(&text);
            assert!(error.starts_with(wanted), "{error}, not {wanted}");
        }
    }
}
