//! Changes whose process ended before their effect was seen.

use super::Platform;
use surefoot_model::{Deed, DeedOutcome, DeedTarget};

/// A setting that holds a value which was not verified, unless another process still verifies it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The file.
    pub name: String,
    /// What it held before.
    pub from: String,
    /// What was written.
    pub to: String,
}

/// The settings of this host whose last change, by its journal, was begun and has no end.
pub fn unfinished(platform: &Platform, deeds: &[Deed]) -> Vec<Unfinished> {
    let paths = platform.knob.iter().map(|knob| &knob.path).chain(platform.log_lever.iter().map(|lever| &lever.path));
    paths.filter_map(|path| last_of(&path.display().to_string(), deeds)).collect()
}

fn last_of(setting: &str, deeds: &[Deed]) -> Option<Unfinished> {
    let (outcome, from, to) = deeds.iter().rev().find_map(|deed| match &deed.target {
        DeedTarget::Setting { name, from, to } if name == setting => Some((&deed.outcome, from.as_deref()?, to)),
        _ => None,
    })?;
    let is_begun = matches!(outcome, DeedOutcome::Begun);
    is_begun.then(|| Unfinished { name: setting.to_owned(), from: from.to_owned(), to: to.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Actor, DeedAction, DeedReason, Observed, Room, Subject};

    fn change(name: &str, from: Option<&str>, outcome: DeedOutcome) -> Deed {
        Deed {
            at_realtime_ns: 1,
            begun_realtime_ns: 1,
            room: Room::Memory,
            subject: Subject::host(),
            actor: Actor::Command { uid: 0 },
            action: DeedAction::ChangeSetting,
            target: DeedTarget::Setting { name: name.into(), from: from.map(str::to_owned), to: "30".into() },
            reason: DeedReason::Asked,
            outcome,
        }
    }

    #[test]
    fn only_the_last_change_of_a_setting_counts() {
        let begun = |name| change(name, Some("300"), DeedOutcome::Begun);
        let done = change("/a", Some("300"), DeedOutcome::Done { observed: Observed::ReadBack });
        let told = Some(Unfinished { name: "/a".into(), from: "300".into(), to: "30".into() });
        assert_eq!(last_of("/a", &[]), None);
        assert_eq!(last_of("/a", &[begun("/a")]), told);
        assert_eq!(last_of("/a", &[begun("/a"), done.clone()]), None);
        assert_eq!(last_of("/a", &[begun("/a"), done, begun("/a"), begun("/b")]), told, "begun again");
        assert_eq!(last_of("/a", &[begun("/b")]), None);
        // A plan of a remedy says no old value, and is no change of a file.
        assert_eq!(last_of("/a", &[begun("/a"), change("/a", None, DeedOutcome::Begun)]), told);
    }
}
