//! Which parts of the control program an experiment uses, and which of them the self-test reaches: basic blocks, found from the
//! code, with what was executed in a run of the self-test alone and in the whole run without a fault.

use super::golden::{Golden, passed_count, turn};
use super::{CampaignError, Experiment};
use crate::cpu::{Operation as Op, decode};
use crate::firmware::Firmware;
use crate::world::World;
use crate::world::traffic::{Traffic, TrafficConfig};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A cycle of the self-test that is not over by then has failed.
const SELF_TEST_NS: u64 = 100_000_000;

/// A run of instructions that is entered at its beginning only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its first address.
    pub from: u32,
    /// The address behind its last instruction.
    pub to: u32,
    /// Its function; empty for none.
    pub function: String,
    /// The experiment executes it.
    pub is_used: bool,
    /// The self-test alone executes it.
    pub is_tested: bool,
}

/// The basic blocks of a control program: they begin where functions begin, where jumps and branches go, and behind them.
fn blocks_of(firmware: &Firmware) -> Vec<(u32, u32)> {
    let end = firmware.code_bytes & !3;
    let mut begins: BTreeSet<u32> = firmware.functions.iter().map(|function| function.address).collect();
    begins.insert(0);
    let (words, _) = firmware.image[..end as usize].as_chunks::<4>();
    for (address, word) in (0..end).step_by(4).zip(words) {
        let instruction = decode(u32::from_le_bytes(*word));
        let target = address.wrapping_add(instruction.immediate as u32);
        match instruction.operation {
            Op::Beq | Op::Bne | Op::Blt | Op::Bge | Op::Bltu | Op::Bgeu | Op::Jal => {
                begins.extend([target, address + 4]);
            }
            // Where it goes is known only when it is executed: to a function, or back behind a call.
            Op::Jalr => {
                begins.insert(address + 4);
            }
            _ => {}
        }
    }
    let begins: Vec<u32> = begins.into_iter().filter(|&at| at < end && at.is_multiple_of(4)).collect();
    let ends = begins.iter().skip(1).copied().chain([end]);
    begins.iter().copied().zip(ends).collect()
}

/// The blocks of an experiment's control program.
///
/// # Errors
/// When the experiment cannot be run, has no self-test, or the self-test fails without a fault.
pub fn blocks(experiment: &Experiment, seed: u64) -> Result<Vec<Block>, CampaignError> {
    blocks_of_run(&Golden::run(experiment, seed)?)
}

/// The same of a run that there is, with any control program.
///
/// # Errors
/// As [`blocks`].
pub fn blocks_of_run(golden: &Golden) -> Result<Vec<Block>, CampaignError> {
    let firmware = golden.firmware().clone();
    let tested = self_test(&golden.experiment, Arc::new(firmware.clone()))?;
    let is_in = |bits: &[u64], at: u32| {
        let (word, bit) = (at as usize / 4 / 64, at as usize / 4 % 64);
        bits.get(word).is_some_and(|bits| bits >> bit & 1 == 1)
    };
    let block = |(from, to): (u32, u32)| Block {
        from,
        to,
        function: firmware.function_at(from).map(|function| function.name.clone()).unwrap_or_default(),
        is_used: is_in(golden.fetched(), from),
        is_tested: is_in(&tested, from),
    };
    Ok(blocks_of(&firmware).into_iter().map(block).collect())
}

/// What the first cycle executes, with a loss in it. Applications open their ports and ask for a service; their messages wait
/// until it has passed.
fn self_test(experiment: &Experiment, firmware: Arc<Firmware>) -> Result<Vec<u64>, CampaignError> {
    let mut config = experiment.world(firmware);
    let Some(of_test) = config.daemon.as_mut().and_then(|daemon| daemon.self_test.as_mut()) else {
        return Err(CampaignError::Experiment(format!("the experiment '{}' has no self-test", experiment.name)));
    };
    of_test.loss_every = 1;
    let mut world = World::new(&config)?;
    let of_traffic = TrafficConfig { message_count: 1, both_ways: true, ..experiment.traffic(0) };
    let mut traffic = Traffic::new(&world, experiment.port(), of_traffic)?;
    let place = experiment.place;
    world.nodes[place].device.observe_fetches(true);
    while passed_count(&world, place) == 0 {
        if world.now_ns() > SELF_TEST_NS {
            return Err(CampaignError::Golden("the self-test does not pass".to_owned()));
        }
        turn(&mut world, &mut traffic);
    }
    Ok(world.nodes[place].device.fetched().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::Preset;

    #[test]
    fn blocks_cover_the_code_once_and_a_part_of_it_is_used() {
        let experiment = Experiment::preset(Preset::SendChunk);
        let blocks = blocks(&experiment, 1).unwrap();
        assert!(blocks.windows(2).all(|pair| pair[0].to == pair[1].from));
        let used = blocks.iter().filter(|block| block.is_used).count();
        assert!(used > 100 && used < blocks.len() / 2 + blocks.len() / 4, "{used} of {}", blocks.len());
        let of = |function: &str| blocks.iter().filter(|block| block.function == function).collect::<Vec<_>>();
        assert!(of("send_chunk_normal_low").iter().any(|block| block.is_used && block.is_tested));
        assert!(of("send_chunk_datagram_high").iter().all(|block| !block.is_used && !block.is_tested));
        // The self-test of one service reaches most of what its applications use.
        let tested = blocks.iter().filter(|block| block.is_used && block.is_tested).count();
        assert!(tested * 10 > used * 8, "{tested} of {used}");
    }
}
