//! Slurm's words for the states of nodes and jobs, of 17.11 to 25.05 (`node_state_string` and `job_state_string` of its
//! `slurm_protocol_defs.c`; man pages sinfo, scontrol and squeue). A word that is not among them may mean anything: it is an error.

/// Letters that stand behind a word: not responding, powered down, powering up, power-down pending, powering down, maintenance, reboot pending,
/// reboot issued, planned. Until 21.08 scontrol has no other form for most of them.
const MARKS: [char; 9] = ['*', '~', '#', '!', '%', '$', '@', '^', '-'];

/// What a word says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Says {
    /// Work runs there.
    Work,
    /// It takes no new work.
    Drained,
    /// Both.
    Draining,
    /// It is out of order.
    Fault,
    /// Neither.
    Other,
}

const NODE_WORDS: &[(Says, &[&str])] = &[
    (Says::Work, &["ALLOCATED", "ALLOC", "MIXED", "MIX", "COMPLETING", "COMP"]),
    (Says::Drained, &["DRAIN", "DRAINED"]),
    (Says::Draining, &["DRAINING", "DRNG"]),
    (Says::Fault, &["DOWN", "ERROR", "FAIL", "FAILING", "FAILG", "INVALID_REG", "INVAL"]),
    (
        Says::Other,
        &[
            "IDLE",
            "CLOUD",
            "DYNAMIC_FUTURE",
            "DYNAMIC_NORM",
            "EXTERNAL",
            "PLANNED",
            "PLND",
            "BLOCKED",
            "RESERVED",
            "RESV",
            "MAINT",
            "MAINTENANCE",
            "PERFCTRS",
            "NPC",
            "NOT_RESPONDING",
            "NO_RESPOND",
            "POWER",
            "POWER_DOWN",
            "POWER_UP",
            "POWER_DRAIN",
            "POWERED_DOWN",
            "POWERING_DOWN",
            "POWERING_UP",
            "REBOOT",
            "REBOOT_REQUESTED",
            "REBOOT_ISSUED",
            "REBOOT_CANCELED",
            "RESUME",
            "UNDRAIN",
        ],
    ),
];

/// Jobs that hold their nodes.
const HOLDING: [&str; 10] = [
    "RUNNING",
    "SUSPENDED",
    "COMPLETING",
    "CONFIGURING",
    "POWER_UP_NODE",
    "RESIZING",
    "SIGNALING",
    "STAGE_OUT",
    "STOPPED",
    "UPDATE_DB",
];
/// Jobs that have left their nodes, or have none.
const GONE: [&str; 18] = [
    "PENDING",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REVOKED",
    "SPECIAL_EXIT",
    "LAUNCH_FAILED",
    "RECONFIG_FAIL",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "RESV_DEL_HOLD",
];

/// The state of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    /// As Slurm wrote it.
    pub text: String,
    pub is_drained: bool,
    /// Whether Slurm says that work runs there. Work that is suspended it does not say.
    pub is_busy: bool,
    pub is_faulty: bool,
}

impl State {
    /// Reads words that are joined by `+`, each perhaps with marks.
    ///
    /// # Errors
    /// The first word that is unknown.
    pub fn read(text: &str) -> Result<State, String> {
        let mut state = State { text: text.to_owned(), ..State::default() };
        // Behind these words alone a `+` says that jobs are completing besides those that run.
        let text = match text.strip_suffix('+') {
            Some(word @ ("ALLOCATED" | "ALLOC" | "MIXED" | "MIX")) => word,
            _ => text,
        };
        for word in text.split('+').map(|word| word.trim_end_matches(MARKS)) {
            let known = NODE_WORDS.iter().find(|(_, words)| words.contains(&word));
            match known.map(|(says, _)| *says).ok_or_else(|| word.to_owned())? {
                Says::Work => state.is_busy = true,
                Says::Drained => state.is_drained = true,
                Says::Draining => (state.is_drained, state.is_busy) = (true, true),
                Says::Fault => state.is_faulty = true,
                Says::Other => {}
            }
        }
        Ok(state)
    }

    /// For people.
    pub fn words(&self) -> String {
        self.text.to_lowercase()
    }
}

/// Whether a job in this state is on its nodes; `None` for an unknown state.
pub(super) fn holds(job: &str) -> Option<bool> {
    match (HOLDING.contains(&job), GONE.contains(&job)) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Each as a version of scontrol writes it.
    #[test]
    fn every_mark_is_read_off_its_word_and_an_unknown_word_is_an_error() {
        for (text, is_busy, is_drained) in [
            ("IDLE", false, false),
            ("IDLE*", false, false),
            ("ALLOCATED@+DRAIN", true, true),
            ("MIXED#+CLOUD", true, false),
            ("MIXED+CLOUD+POWERING_UP", true, false),
            ("ALLOCATED$", true, false),
            ("ALLOCATED$*+DRAIN", true, true),
            ("IDLE+COMPLETING+DRAIN", true, true),
            ("IDLE^+DRAIN", false, true),
            ("IDLE~+POWER", false, false),
            ("IDLE%+DRAIN", false, true),
            ("MIXED-", true, false),
            ("MIXED!+DRAIN", true, true),
            ("MAINT+DRAIN", false, true),
            ("MIXED+DRAIN+MAINTENANCE+REBOOT_REQUESTED+PLANNED", true, true),
            ("DRAINING", true, true),
            ("DRAINED*", false, true),
            ("ALLOCATED+", true, false),
            ("ALLOCATED-+DRAIN", true, true),
            ("DOWN*+DRAIN", false, true),
            ("IDLE+DRAIN+INVALID_REG", false, true),
        ] {
            let state = State::read(text).unwrap();
            assert_eq!((state.is_busy, state.is_drained), (is_busy, is_drained), "{text}");
        }
        for (text, word) in [
            ("UNKNOWN*+DRAIN", "UNKNOWN"),
            ("FUTURE+DRAIN", "FUTURE"),
            ("IDLE?+DRAIN", "IDLE?"),
            ("BUSY", "BUSY"),
            ("IDLE+", ""),
            ("DRAINED+", ""),
            ("ALLOCATED++", ""),
            ("", ""),
            ("idle", "idle"),
            ("IDLE+DRAIN+BURNING", "BURNING"),
        ] {
            assert_eq!(State::read(text).unwrap_err(), word, "{text}");
        }
    }

    #[test]
    fn a_job_is_on_its_node_is_not_or_is_in_no_known_state() {
        assert_eq!(["RUNNING", "SUSPENDED", "STAGE_OUT"].map(holds), [Some(true); 3]);
        assert_eq!(["COMPLETED", "PENDING", "OUT_OF_MEMORY"].map(holds), [Some(false); 3]);
        assert_eq!(["", "running", "THINKING"].map(holds), [None; 3]);
    }
}
