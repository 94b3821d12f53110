//! Another program that collects memory errors, and whether it can see any.

use super::found;
use crate::doctor::{Facts, Rule, Verdict};
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "other-collector", check };

fn check(facts: &Facts) -> Verdict {
    let Some(collectors) = &facts.collectors else {
        return Verdict::CannotTell(
            "the processes are not to be seen, so whether rasdaemon or mcelog runs is not known".into(),
        );
    };
    if collectors.is_empty() {
        return Verdict::Fine("neither rasdaemon nor mcelog runs".into());
    }
    if collectors.contains(&"mcelog") && !facts.has_mcelog {
        return Verdict::Found(found(
            Severity::Warning,
            "mcelog runs, and there is no /dev/mcelog that it could read".into(),
            "mcelog counts nothing: that it reports no error says nothing",
            "stop mcelog and use rasdaemon, or a kernel with CONFIG_X86_MCELOG_LEGACY",
        ));
    }
    if collectors.contains(&"rasdaemon") {
        match &facts.traces {
            None => {
                return Verdict::CannotTell(
                    "rasdaemon runs; what it follows is not to be seen, because tracefs is not".into(),
                );
            }
            Some(traces) if traces.is_empty() => {
                return Verdict::Found(found(
                    Severity::Warning,
                    "rasdaemon runs, and no trace instance follows ras:mc_event or mce:mce_record".into(),
                    "rasdaemon gets no reports of memory errors, so a database of its without any says nothing",
                    "start rasdaemon again, and read what it says about the events that it could not enable",
                ));
            }
            Some(_) => {}
        }
    }
    Verdict::Fine(format!("{} runs and can see errors", collectors.join(" and ")))
}
