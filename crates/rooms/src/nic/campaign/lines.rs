//! The JSON lines of `surefoot nic campaign`, in its output file and on standard output; the page shows the same.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use surefoot_nic::campaign::fault::FaultId;
use surefoot_nic::campaign::table::{Row, Share, Table, published};
use surefoot_nic::campaign::trial::{detector_name, finding_name};
use surefoot_nic::campaign::whole::{FaultNumber, Whole};
use surefoot_nic::campaign::{Outcome, Record, Space, Standard};
use surefoot_nic::device::Stuck;

/// One fault, and what it did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename = "fault")]
pub struct FaultLine {
    /// From which `surefoot nic inject` replays it.
    pub id: String,
    /// The experiment's name.
    pub experiment: String,
    /// The control program: plain, detecting or tolerant; with `+iommu` and `+trap` where the experiment has them.
    pub build: String,
    /// code, data, register or stuck.
    pub space: String,
    /// An address, the number of a register of the processor (32: program counter), the offset of a special register.
    pub location: u32,
    /// The location as people call it.
    pub place: String,
    /// The bit of the word.
    pub bit: u8,
    /// What a stuck bit always is: 0 or 1.
    pub stuck_at: Option<u8>,
    /// When, in instructions of the faulted interface.
    pub at_instruction: u64,
    /// The function of a bit in code.
    pub function: Option<String>,
    /// In the paper's words: hang, send_receive, dma, corrupted_control, corrupted_message, latency, host_crash, no_effect.
    pub outcome: String,
    /// In the standard words: masked, latent, detected, silent_corruption, loss, duplicate, reorder, degraded, host_crash.
    pub standard: String,
    /// watchdog, interface, self_test, library, neighbour or silence.
    pub detected_by: Option<String>,
    /// What the self-test found: missing, content, count, refused or slow.
    pub finding: Option<String>,
    /// The host whose daemon detected it.
    pub detected_on: Option<u8>,
    /// From the fault to its detection, virtual time.
    pub detection_ns: Option<u64>,
    /// From detection until all ports were back, virtual time.
    pub recovery_ns: Option<u64>,
    /// Recoveries, on both hosts.
    pub recovery_count: u32,
    /// The daemon found that reloading does not help.
    pub given_up: bool,
    /// Nobody executes the word after the fault, so it is masked by construction and was not run.
    pub pruned: bool,
    /// When it struck, virtual time.
    pub struck_ns: Option<u64>,
    /// Its place among the faults of the whole campaign, from 1; `null` of a fault that was tried alone, and absent before
    /// Surefoot numbered them.
    #[serde(default)]
    pub number: Option<u64>,
    /// Faults of the whole campaign, all shards together; `null` and absent as `number` is.
    #[serde(default)]
    pub campaign_fault_count: Option<u64>,
    /// CRC-32 of the experiment's description, so that two of one name are told apart; `null` and absent as `number` is.
    #[serde(default)]
    pub experiment_crc: Option<u32>,
}

impl FaultLine {
    /// The line of a fault that was tried, and its place where it was tried as one of a campaign's.
    pub fn of(record: &Record, place: Option<FaultNumber>) -> Self {
        let Record { id, detection, .. } = record;
        let fault = &id.fault;
        FaultLine {
            id: id.to_string(),
            experiment: id.experiment.clone(),
            build: id.stack.to_string(),
            space: fault.space.name().to_owned(),
            location: fault.location,
            place: record.place.clone(),
            bit: fault.bit,
            stuck_at: (fault.space == Space::Stuck).then(|| u8::from(fault.stuck_at == Some(Stuck::One))),
            at_instruction: fault.at_instruction,
            function: record.function.clone(),
            outcome: record.outcome.name().to_owned(),
            standard: record.standard.name().to_owned(),
            detected_by: detection.map(|one| detector_name(one.by).to_owned()),
            finding: detection.and_then(|one| finding_name(one.by)).map(str::to_owned),
            detected_on: detection.map(|one| one.place as u8),
            detection_ns: record.detection_ns,
            recovery_ns: record.recovery_ns,
            recovery_count: record.recovery_count,
            given_up: record.is_given_up,
            pruned: record.is_pruned,
            struck_ns: record.struck_ns,
            number: place.map(|place| place.number),
            campaign_fault_count: place.map(|place| place.of),
            experiment_crc: place.map(|place| place.experiment),
        }
    }

    /// Its place in the campaign, where it says one.
    pub fn place(&self) -> Option<FaultNumber> {
        let (number, of) = self.number.zip(self.campaign_fault_count)?;
        self.experiment_crc.map(|experiment| FaultNumber { number, of, experiment })
    }

    /// What the table needs of it, and its id; what is wrong with a line that cannot be of a campaign.
    pub fn row(&self) -> Result<(FaultId, Row), String> {
        let id: FaultId = self.id.parse().map_err(|error: surefoot_nic::campaign::CampaignError| error.to_string())?;
        if (&id.experiment, id.stack.to_string()) != (&self.experiment, self.build.clone()) {
            return Err("its id is of another experiment or build".to_owned());
        }
        let outcome = Outcome::named(&self.outcome).ok_or_else(|| format!("'{}' is no outcome", self.outcome))?;
        let standard = Standard::named(&self.standard).ok_or_else(|| format!("'{}' is no class", self.standard))?;
        let row = Row {
            outcome,
            standard,
            detected_by: self.detected_by.clone(),
            detection_ns: self.detection_ns,
            recovery_ns: self.recovery_ns,
            is_pruned: self.pruned,
            recovery_count: self.recovery_count,
        };
        Ok((id, row))
    }
}

/// A count as a share of another one, with its interval of Wilson at 95 %.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ShareRow {
    /// How many.
    pub count: u64,
    /// Of how many.
    pub of: u64,
    /// The share, 0 to 1.
    pub share: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl From<Share> for ShareRow {
    fn from(share: Share) -> Self {
        let (low, high) = share.interval();
        ShareRow { count: share.count, of: share.of, share: share.share(), low, high }
    }
}

/// One outcome of the table.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct OutcomeRow {
    /// In the paper's words.
    pub outcome: &'static str,
    /// How many of all faults.
    #[serde(flatten)]
    pub share: ShareRow,
    /// Those of them that were detected.
    pub detected_count: u64,
    /// The paper's share, where it made the experiment.
    pub paper_share: Option<f64>,
}

/// One class of the standard words.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StandardRow {
    /// In the standard words.
    pub class: &'static str,
    /// How many of all faults.
    #[serde(flatten)]
    pub share: ShareRow,
}

/// One who detected.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DetectorRow {
    /// As in the lines of faults.
    pub detected_by: String,
    /// How many it detected.
    pub count: u64,
}

/// Median and maximum of times.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TimesRow {
    /// The upper of the two middle ones where there are two.
    pub median: u64,
    /// The longest.
    pub max: u64,
}

/// Faults that are not at hand, by their numbers in the campaign.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MissingRow {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
}

/// No more stretches of missing faults are named.
const MISSING_MAX: usize = 10;

/// What the faults of one experiment come to.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "type", rename = "table")]
pub struct TableLine {
    /// The experiment's name.
    pub experiment: String,
    /// The control program, as in the lines of faults.
    pub build: String,
    /// The campaign's seed.
    pub seed: u64,
    /// The faults that are at hand.
    pub fault_count: u64,
    /// Faults of the whole campaign, all shards together; `null` where the lines do not say it.
    pub campaign_fault_count: Option<u64>,
    /// Faults of the campaign that are not at hand; `null` where that cannot be known.
    pub missing_count: Option<u64>,
    /// Which these are: the first ten stretches of numbers.
    pub missing: Vec<MissingRow>,
    /// Masked by construction: their word is not executed after the fault.
    pub pruned_count: u64,
    /// Faults that an application could tell.
    pub failures: ShareRow,
    /// Every outcome, those that did not occur too.
    pub outcomes: Vec<OutcomeRow>,
    /// Every class of the standard words.
    pub standard: Vec<StandardRow>,
    /// Who detected how many.
    pub detected_by: Vec<DetectorRow>,
    /// Detected by the interface's self-test or watchdog, of the failures that an application's own test sees; a host that
    /// went down tests nothing and is left out.
    pub coverage: ShareRow,
    /// The paper's coverage, where it made the experiment.
    pub paper_coverage: Option<f64>,
    /// From fault to detection, virtual time.
    pub detection_ns: Option<TimesRow>,
    /// From detection until all ports were back, virtual time.
    pub recovery_ns: Option<TimesRow>,
    /// Faults after which the interface was recovered.
    pub recovered_count: u64,
    /// Faults that lost, duplicated, reordered or corrupted a message.
    pub broken_count: u64,
}

impl TableLine {
    /// The line of a table, beside the paper's numbers.
    pub fn of(experiment: &str, build: &str, seed: u64, table: &Table, whole: &Whole) -> Self {
        let paper = published(experiment);
        let times = |times: Option<(u64, u64)>| times.map(|(median, max)| TimesRow { median, max });
        TableLine {
            experiment: experiment.to_owned(),
            build: build.to_owned(),
            seed,
            fault_count: table.fault_count,
            campaign_fault_count: whole.fault_count(),
            missing_count: whole.missing_count(),
            missing: whole
                .missing(MISSING_MAX)
                .into_iter()
                .map(|numbers| MissingRow { from: *numbers.start(), to: *numbers.end() })
                .collect(),
            pruned_count: table.pruned_count,
            failures: table.failures().into(),
            outcomes: Outcome::ALL
                .into_iter()
                .map(|outcome| OutcomeRow {
                    outcome: outcome.name(),
                    share: table.outcome(outcome).into(),
                    detected_count: table.detected(outcome).count,
                    paper_share: paper.map(|paper| paper.outcome(outcome).share()),
                })
                .collect(),
            standard: Standard::ALL
                .into_iter()
                .map(|class| StandardRow { class: class.name(), share: table.standard(class).into() })
                .collect(),
            detected_by: table
                .detectors
                .iter()
                .map(|(by, &count)| DetectorRow { detected_by: by.clone(), count })
                .collect(),
            coverage: table.coverage().into(),
            paper_coverage: paper.map(|paper| paper.coverage),
            detection_ns: times(table.detection_ns()),
            recovery_ns: times(table.recovery_ns()),
            recovered_count: table.recovered_count,
            broken_count: table.broken_count(),
        }
    }
}
