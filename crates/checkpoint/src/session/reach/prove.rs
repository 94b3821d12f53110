//! Has parts proved, each by a rank that reaches it, before anything of them is used.

use super::Inventory;
use super::scan::{Told, reachers};
use crate::generation::{Key, Manifest};
use crate::image::Healer;
use crate::session::nodes::Nodes;
use crate::session::ranks::Ranks;
use crate::session::tiers::{Reached, describe};
use crate::{Error, StoredFile};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a rank tells of its try to prove some parts.
#[derive(Default, Serialize, Deserialize)]
struct Proofs {
    /// Each with what was met.
    proved: Vec<(Manifest, String)>,
    refused: Vec<(u32, String)>,
}

/// Parts that ranks proved, the same on all ranks but for what each has itself.
#[derive(Default)]
pub struct Proved {
    /// By part: its manifest, the rank that proved it and gives of it, and what that met.
    pub parts: BTreeMap<u32, (Manifest, u32, String)>,
    /// Those that this rank proved.
    pub mine: BTreeMap<u32, Reached>,
    /// By part, what a copy was refused for.
    pub refused: Vec<(u32, String)>,
}

impl Proved {
    /// By part, who gives of it; of a part that nobody proved no rank does.
    pub fn servers(&self, parts: u32) -> Vec<u32> {
        (0..parts).map(|part| self.parts.get(&part).map_or(u32::MAX, |(_, server, _)| *server)).collect()
    }
}

impl Inventory {
    /// Has these parts of a generation proved, each by a rank that reaches it; so many are asked one after the other, one of
    /// each node before the second of any. Collective.
    pub fn prove_parts(
        &self,
        ranks: &Ranks,
        nodes: &Nodes,
        key: Key,
        wanted: &[u32],
        provers_max: usize,
    ) -> Result<Proved, Error> {
        let hosts = nodes.of_ranks();
        let mut all: Vec<Told> = self.parts.to_vec();
        all.iter_mut().for_each(|told| told.retain(|(of, _)| *of == key));
        let of_parts: Vec<(u32, Vec<u32>)> =
            wanted.iter().map(|&part| (part, reachers(&all, hosts, key, part))).collect();
        let mut proved = Proved::default();
        for round in 0..provers_max {
            let left = of_parts.iter().filter(|(part, _)| !proved.parts.contains_key(part));
            let asked: BTreeSet<(u32, u32)> =
                left.filter_map(|(part, ranks)| Some((*part, *ranks.get(round)?))).collect();
            if asked.is_empty() {
                break;
            }
            let mut own = Proofs::default();
            for (part, _) in asked.iter().filter(|(_, rank)| *rank == ranks.rank()) {
                let copies = self.found.reach.get(&key).and_then(|of_key| of_key.get(part));
                match proved_of(copies.map_or(&[][..], Vec::as_slice)) {
                    Ok((reached, met)) => {
                        own.proved.push((reached.manifest.clone(), met));
                        proved.mine.insert(*part, reached);
                    }
                    Err(why) => own.refused.push((*part, why)),
                }
            }
            for (server, proofs) in ranks.gather(&own)?.into_iter().enumerate() {
                for (manifest, met) in proofs.proved {
                    let is_asked = asked.contains(&(manifest.rank, server as u32));
                    if Key::of(&manifest) == key && is_asked && manifest.job == self.job {
                        proved.parts.insert(manifest.rank, (manifest, server as u32, met));
                    }
                }
                proved.refused.extend(proofs.refused);
            }
        }
        Ok(proved)
    }
}

/// The first copy of a part that proves intact, and what was met; else what each failed at.
fn proved_of(copies: &[Reached]) -> Result<(Reached, String), String> {
    let mut refused = Vec::new();
    for reached in copies {
        let place = reached.place_name();
        let outcome = reached.open().map_err(|error| error.to_string()).and_then(|file| tally(reached, &*file));
        match outcome {
            Ok(met) => return Ok((reached.clone(), format!("from {place}: {met}"))),
            Err(why) => refused.push(format!("{place}: {why}")),
        }
    }
    Err(if refused.is_empty() { "it is gone".to_owned() } else { refused.join(", ") })
}

fn tally(reached: &Reached, file: &dyn StoredFile) -> Result<String, String> {
    let geometry = reached.manifest.geometry().map_err(|error| error.to_string())?;
    let mut healer = Healer::open(geometry, file, reached.manifest.table_crc32c).map_err(|lost| lost.to_string())?;
    healer.read(&mut |_, _| {}).map_err(|lost| lost.to_string())?;
    Ok(describe(&healer.tally()))
}
