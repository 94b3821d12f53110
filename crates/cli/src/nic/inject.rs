//! `surefoot nic inject --fault ID`: one fault, step by step. With `--run DIR --node N`, in its own file: an interface of a run
//! that goes on.

pub mod lines;
pub mod running;
mod text;

use super::campaign::options::Choice;
use super::campaign::{self, lines::FaultLine};
use anyhow::ensure;
use clap::Args;
use std::io::{self, Write};
use std::path::PathBuf;
use surefoot_console::exit::Outcome;
use surefoot_console::output;
use surefoot_nic::campaign::fault::FaultId;
use surefoot_nic::campaign::movie::{SCENES_MAX, What};
use surefoot_nic::campaign::trial::Lab;
use surefoot_nic::campaign::{Experiment, Preset};
use surefoot_nic::firmware::Build;

#[derive(Args)]
pub struct InjectOptions {
    /// The fault, as `id` in the lines of `surefoot nic campaign`
    #[arg(long, value_name = "ID")]
    pub fault: Option<String>,
    /// The file that describes its experiment, where that is no preset
    #[arg(long, value_name = "FILE")]
    pub experiment: Option<PathBuf>,
    /// The ELF file of its control program, where that is not the one that comes with Surefoot
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
    /// The most scenes that are shown
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=SCENES_MAX as i64))]
    pub scenes: u16,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub running: running::RunningOptions,
}

pub fn run(options: &InjectOptions) -> anyhow::Result<Outcome> {
    let Some(fault) = &options.fault else {
        ensure!(options.experiment.is_none(), "--experiment: it is of a fault, which --fault names");
        ensure!(options.program.is_none(), "--program: it is of a fault, which --fault names");
        return running::run(&options.running, options.json);
    };
    ensure!(
        options.running.node.is_none(),
        "--node: it is of a run, which --run names; a fault's id says what it strikes"
    );
    let id: FaultId = fault.parse()?;
    let choice = Choice {
        preset: None,
        experiment: options.experiment.clone(),
        build: None,
        program: options.program.clone(),
        iommu: false,
        trap_interrupt: false,
    };
    let mut experiment = experiment(&choice, &id)?;
    id.stack.apply(&mut experiment);
    let golden = campaign::golden(&choice, &experiment, id.seed)?;
    experiment.must_have(golden.firmware(), &id.fault)?;
    let mut lab = Lab::new(golden);
    let movie = lab.movie(&id.fault, usize::from(options.scenes))?;
    let mut out = io::BufWriter::new(surefoot_console::people::stdout());
    let line = FaultLine::of(&movie.record, None);
    if options.json {
        output::stream(&mut out, "nic inject")?;
        for scene in &movie.scenes {
            // The fault's own line is the end.
            if scene.what != What::Ended {
                output::line(&mut out, &lines::SceneLine::of(scene))?;
            }
        }
        output::line(&mut out, &line)?;
    } else {
        out.write_all(text::of(&movie, &line).as_bytes())?;
    }
    out.flush()?;
    let is_broken = id.stack.build == Build::Tolerant && movie.record.standard.breaks_promise();
    Ok(if is_broken { Outcome::Found } else { Outcome::Done })
}

fn experiment(choice: &Choice, id: &FaultId) -> anyhow::Result<Experiment> {
    if let Some(preset) = Preset::named(&id.experiment) {
        return Ok(Experiment::preset(preset));
    }
    ensure!(
        choice.experiment.is_some(),
        "--fault: '{}' is no preset; name the file that describes the experiment with --experiment FILE",
        id.experiment
    );
    let found = campaign::chosen(choice)?;
    ensure!(
        found.name == id.experiment,
        "--fault: it is of the experiment '{}', and the file describes '{}'",
        id.experiment,
        found.name
    );
    Ok(found)
}
