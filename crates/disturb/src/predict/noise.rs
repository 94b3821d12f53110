//! When the nodes stop: each rank's clock, which says when a piece of work is done that begins at a moment.

use crate::Error;
use surefoot_random::{scaled, word_of};

/// How the stalls of the nodes lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// All nodes stop at the same moment.
    Same,
    /// Each at a random time.
    Random,
    /// Evenly one after the other.
    Staggered,
}

/// A stall of fixed length, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freeze {
    /// How long each is.
    pub length_ns: u64,
    /// From the start of one to the start of the next.
    pub period_ns: u64,
    /// How those of the nodes lie to each other.
    pub phase: Phase,
}

/// What stops a node, all of its ranks together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Noise {
    /// Stalls of fixed length.
    Freeze(Freeze),
    /// What was recorded on a host's cores: rank r of a node has the stalls of core r, and every node another moment of
    /// the recording to begin with, unless the phase is the same.
    Recorded(Recorded),
}

/// The stalls of a host's cores over a while, which is gone through again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// How long the recording is.
    pub span_ns: u64,
    /// Start and length of each stall, core by core.
    pub cores: Vec<Vec<(u64, u64)>>,
    /// How the nodes lie to each other.
    pub phase: Phase,
}

/// Noise and the nodes that have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What stops them.
    pub noise: Noise,
    /// How many; `None` are all that are left.
    pub nodes: Option<u64>,
}

/// No period is longer, about 36 years.
pub const PERIOD_MAX_NS: u64 = 1 << 60;

/// Stalls of one core that come again every `period_ns`.
#[derive(Debug)]
pub(super) struct Train {
    pub(super) period_ns: u64,
    /// What is left of a period for work.
    pub(super) free_ns: u64,
    /// Apart, in order; the only one of a freeze begins at 0.
    pub(super) stalls: Vec<(u64, u64)>,
}

/// The clocks of all ranks.
#[derive(Debug)]
pub(super) struct Clocks {
    trains: Vec<Train>,
    of_ranks: Vec<TrainPosition>,
}

/// Where a rank is in its train: at the first stall whose end lies ahead of it.
#[derive(Debug, Clone, Copy)]
struct TrainPosition {
    /// When that stall begins.
    stall_ns: u64,
    /// How long it is.
    length_ns: u64,
    train: u32,
    /// Which of its train.
    number: u32,
}

/// No stall ever: the ends of all clocks lie before it.
const NEVER: TrainPosition = TrainPosition { stall_ns: u64::MAX >> 1, length_ns: 0, train: u32::MAX, number: 0 };

impl Recorded {
    fn trains(&self) -> Result<Vec<Train>, Error> {
        let mut trains = Vec::new();
        for (core, stalls) in self.cores.iter().enumerate() {
            let wrong = |why| Error::Trace { core, why };
            if self.span_ns == 0 || self.span_ns > PERIOD_MAX_NS {
                return Err(wrong("it has no length, or is longer than 36 years"));
            }
            let mut end_ns = 0;
            for &(start_ns, length_ns) in stalls {
                if start_ns < end_ns || length_ns == 0 {
                    return Err(wrong("its stalls overlap, are empty or are not in order"));
                }
                end_ns = start_ns.checked_add(length_ns).ok_or(wrong("a stall never ends"))?;
            }
            let lost_ns: u64 = stalls.iter().map(|(_, length_ns)| length_ns).sum();
            if end_ns > self.span_ns || lost_ns >= self.span_ns {
                return Err(wrong("its stalls leave no time"));
            }
            trains.push(Train { period_ns: self.span_ns, free_ns: self.span_ns - lost_ns, stalls: stalls.clone() });
        }
        if trains.is_empty() {
            return Err(Error::Trace { core: 0, why: "there is none" });
        }
        Ok(trains)
    }
}

impl Noise {
    /// The longest period, and how many times as long as its work a piece of work may take.
    pub(super) fn worst(&self) -> Result<(u64, u64), Error> {
        let trains = self.trains()?;
        let stretch = |train: &Train| train.period_ns.div_ceil(train.free_ns);
        let period_ns = trains.iter().map(|train| train.period_ns).max().unwrap_or(0);
        Ok((period_ns, trains.iter().map(stretch).max().unwrap_or(1)))
    }

    fn trains(&self) -> Result<Vec<Train>, Error> {
        match self {
            Noise::Recorded(recorded) => recorded.trains(),
            &Noise::Freeze(Freeze { length_ns, period_ns, .. }) => {
                if length_ns >= period_ns {
                    return Err(Error::NoTimeLeft { length_ns, period_ns });
                }
                if period_ns > PERIOD_MAX_NS {
                    return Err(Error::OutOfRange { what: "period", value: period_ns, low: 1, high: PERIOD_MAX_NS });
                }
                let stalls = if length_ns == 0 { vec![] } else { vec![(0, length_ns)] };
                Ok(vec![Train { period_ns, free_ns: period_ns - length_ns, stalls }])
            }
        }
    }

    fn phase(&self) -> Phase {
        match self {
            Noise::Freeze(freeze) => freeze.phase,
            Noise::Recorded(recorded) => recorded.phase,
        }
    }
}

/// The nodes of each group, in order; what no group names has no noise.
///
/// # Errors
/// There are more than the job has.
pub(super) fn sizes(groups: &[Group], nodes: u64) -> Result<Vec<u64>, Error> {
    let rests = groups.iter().filter(|group| group.nodes.is_none()).count();
    if rests > 1 {
        return Err(Error::SeveralRests(rests));
    }
    let named = groups.iter().filter_map(|group| group.nodes).fold(0, u64::saturating_add);
    if named > nodes {
        return Err(Error::TooManyNodes { wanted: named, nodes });
    }
    Ok(groups.iter().map(|group| group.nodes.unwrap_or(nodes - named)).collect())
}

/// Tells train by train and rank by rank, node by node, how long ago a rank's train began at the start of a draw; the ranks of
/// nodes without noise are left out, which are the last ones.
pub(super) fn each_rank(
    groups: &[Group],
    nodes: u64,
    ranks_per_node: u64,
    seed: u64,
    draw: u64,
    mut tell: impl FnMut(&Train, u32, u64),
) -> Result<Vec<Train>, Error> {
    let mut trains = Vec::new();
    for (number, (group, size)) in groups.iter().zip(sizes(groups, nodes)?).enumerate() {
        let first = trains.len();
        trains.extend(group.noise.trains()?);
        let cores = trains.len() - first;
        let period_ns = trains[first].period_ns;
        let common_ns = scaled(word_of(seed, [draw, number as u64, u64::MAX]), period_ns);
        for node in 0..size {
            let turned_ns = match group.noise.phase() {
                Phase::Same => common_ns,
                Phase::Random => scaled(word_of(seed, [draw, number as u64, node]), period_ns),
                Phase::Staggered => {
                    let step_ns = (u128::from(period_ns) * u128::from(node) / u128::from(size)) as u64;
                    (common_ns + step_ns) % period_ns
                }
            };
            for rank in 0..ranks_per_node {
                let train = first + rank as usize % cores;
                tell(&trains[train], train as u32, turned_ns);
            }
        }
    }
    Ok(trains)
}

impl Clocks {
    /// All ranks at the start of a draw, node by node.
    pub(super) fn new(groups: &[Group], nodes: u64, ranks_per_node: u64, seed: u64, draw: u64) -> Result<Self, Error> {
        let mut of_ranks = Vec::with_capacity((nodes * ranks_per_node) as usize);
        let begin = |train: &Train, number, turned_ns| of_ranks.push(train.begin(number, turned_ns));
        let trains = each_rank(groups, nodes, ranks_per_node, seed, draw, begin)?;
        of_ranks.resize((nodes * ranks_per_node) as usize, NEVER);
        Ok(Clocks { trains, of_ranks })
    }

    /// When `work_ns` of work are done that begin at `from_ns`; each rank asks for moments in order.
    #[inline]
    pub(super) fn done(&mut self, rank: usize, from_ns: u64, work_ns: u64) -> u64 {
        let place = &mut self.of_ranks[rank];
        let done_ns = from_ns + work_ns;
        // Most work meets no stall; it may end as one begins, and cannot begin then.
        if done_ns.max(from_ns + 1) <= place.stall_ns {
            done_ns
        } else {
            self.trains[place.train as usize].done(place, from_ns, work_ns)
        }
    }
}

impl Train {
    /// A rank at moment 0 of a train that began `turned_ns` ago.
    fn begin(&self, train: u32, turned_ns: u64) -> TrainPosition {
        let ahead = self.stalls.partition_point(|(start_ns, length_ns)| start_ns + length_ns <= turned_ns);
        let (number, round) = if ahead < self.stalls.len() { (ahead, 0) } else { (0, self.period_ns) };
        let Some(&(start_ns, length_ns)) = self.stalls.get(number) else { return NEVER };
        let begins_ns = start_ns + round;
        if begins_ns >= turned_ns {
            return TrainPosition { stall_ns: begins_ns - turned_ns, length_ns, train, number: number as u32 };
        }
        // In the middle of one.
        let rest_ns = begins_ns + length_ns - turned_ns;
        TrainPosition { stall_ns: 0, length_ns: rest_ns, train, number: number as u32 }
    }

    fn next(&self, place: &mut TrainPosition) {
        let end_ns = place.stall_ns + place.length_ns;
        let (start_ns, length_ns) = self.stalls[place.number as usize];
        let following = place.number as usize + 1;
        let (number, gap_ns) = match self.stalls.get(following) {
            Some((next_ns, _)) => (following, next_ns - (start_ns + length_ns)),
            None => (0, self.period_ns - (start_ns + length_ns) + self.stalls[0].0),
        };
        *place = TrainPosition {
            stall_ns: end_ns + gap_ns,
            length_ns: self.stalls[number].1,
            train: place.train,
            number: number as u32,
        };
    }

    /// Goes on by whole periods at once.
    fn skip(&self, place: &mut TrainPosition, periods: u64) {
        // The first stall may be the rest of one.
        let whole_ns = self.stalls[place.number as usize].1;
        let cut_ns = whole_ns - place.length_ns;
        place.stall_ns = place.stall_ns + periods * self.period_ns - cut_ns;
        place.length_ns = whole_ns;
    }

    #[cold]
    fn done(&self, place: &mut TrainPosition, from_ns: u64, work_ns: u64) -> u64 {
        // Periods that ended before the work begins.
        let behind_ns = from_ns.saturating_sub(place.stall_ns + place.length_ns);
        if behind_ns >= self.period_ns {
            self.skip(place, behind_ns / self.period_ns);
        }
        while place.stall_ns + place.length_ns <= from_ns {
            self.next(place);
        }
        let (mut at_ns, mut left_ns) = (from_ns, work_ns);
        loop {
            while at_ns >= place.stall_ns {
                at_ns = place.stall_ns + place.length_ns;
                self.next(place);
            }
            let room_ns = place.stall_ns - at_ns;
            if left_ns <= room_ns {
                return at_ns + left_ns;
            }
            left_ns -= room_ns;
            at_ns = place.stall_ns;
            // What does not end within a period more than this one.
            let periods = (left_ns - 1) / self.free_ns;
            if periods > 0 {
                left_ns -= periods * self.free_ns;
                self.skip(place, periods);
                at_ns = place.stall_ns;
            }
        }
    }
}
