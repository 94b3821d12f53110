//! Events for somebody who is not to know which commands ran here.

use std::collections::BTreeMap;
use surefoot_model::{DisturbEvent, Event, ExperimentBegan};

/// What stands in place of a command.
pub const LEFT_OUT: &str = "(left out)";

/// Experiments whose command is remembered until they end: those that can run at one time, and more.
const COMMANDS_MAX: usize = 4096;

/// Leaves the command lines of experiments, and the folders of their plans, out of events.
#[derive(Debug, Default)]
pub struct Discreet {
    /// By experiment, the commands that its end may repeat.
    commands: BTreeMap<String, String>,
}

impl Discreet {
    /// The event without them.
    pub fn without_commands(&mut self, event: Event) -> Event {
        let Event::Disturb(seen) = event else { return event };
        Event::Disturb(match seen {
            DisturbEvent::Began(began) => {
                if self.commands.len() >= COMMANDS_MAX {
                    self.commands.pop_first();
                }
                self.commands.insert(began.experiment.clone(), began.workload.clone());
                let series = began.series.rsplit('/').next().unwrap_or_default().to_owned();
                DisturbEvent::Began(Box::new(ExperimentBegan { workload: LEFT_OUT.to_owned(), series, ..*began }))
            }
            DisturbEvent::Ended(mut ended) => {
                let command = self.commands.remove(&ended.experiment);
                let plain = |text: &mut String| {
                    if let Some(command) = command.as_deref().filter(|command| !command.is_empty()) {
                        *text = text.replace(command, LEFT_OUT);
                    }
                };
                plain(&mut ended.why);
                plain(&mut ended.summary);
                ended.warnings.iter_mut().for_each(plain);
                if let Some(effect) = &mut ended.effect {
                    effect.notes.iter_mut().chain(&mut effect.warnings).for_each(plain);
                    effect.workload = LEFT_OUT.to_owned();
                }
                DisturbEvent::Ended(ended)
            }
            other => other,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::{ExperimentEffect, ExperimentEnded, ExperimentOutcome};

    /// Whatever an experiment says, its command and where its plan lies is in none of it.
    #[test]
    fn a_command_is_in_no_event() {
        let began = ExperimentBegan {
            experiment: "e1".to_owned(),
            workload: "mysql --password=hunter2".to_owned(),
            series: "/srv/alice/secret/plan.toml".to_owned(),
            ..ExperimentBegan::default()
        };
        let said = "cannot run mysql --password=hunter2: no such file".to_owned();
        let effect = ExperimentEffect {
            workload: began.workload.clone(),
            notes: vec![said.clone()],
            warnings: vec![said.clone()],
            ..ExperimentEffect::default()
        };
        let ended = ExperimentEnded {
            experiment: "e1".to_owned(),
            at_ns: 1,
            at_realtime_ns: 1,
            outcome: ExperimentOutcome::Failed,
            why: said.clone(),
            effect: Some(Box::new(effect)),
            summary: said.clone(),
            warnings: vec![said],
        };
        let mut discreet = Discreet::default();
        let events = [DisturbEvent::Began(Box::new(began)), DisturbEvent::Ended(ended)];
        let text: String = events
            .into_iter()
            .map(|event| serde_json::to_string(&discreet.without_commands(Event::Disturb(event))).unwrap())
            .collect();
        assert!(!text.contains("hunter2") && !text.contains("alice"), "{text}");
        assert!(text.contains("plan.toml") && text.contains("cannot run (left out): no such file"), "{text}");
    }
}
