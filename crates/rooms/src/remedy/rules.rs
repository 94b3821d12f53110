//! The findings of the periodic checks. Each check makes its own, see [`surefoot_model::HostCheck::finding`].

use crate::rules::rules;
use surefoot_model::HostCheck;

rules! { Remedy:
    CHECKS = "checks", [Ok],
        "All periodic checks passed.",
        since "", to_do "";
    CHECK = HostCheck::RULE, [Ok, Notice, Warning, Critical],
        "A periodic check did not pass, or could not be run (NOTICE). Its name follows: `read-only`, `clock` and `bmc-log` are built in, \
         others stand in the file of checks.",
        since "the first run that found this state",
        to_do "Depends on the check. With a policy, the controller opens a case: `surefoot remedy cases`.",
        next "surefoot remedy check run",
            "Changes nothing. It runs the checks once, now, and prints what each found.";
}
