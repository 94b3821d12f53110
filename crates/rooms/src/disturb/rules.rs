//! The findings of experiments.

use crate::rules::rules;

rules! { Disturb:
    EXPERIMENTS = "experiments", [Ok],
        "No experiment runs.",
        since "", to_do "";
    UNREAD = "unread", [Notice],
        "A directory that is named for journals of experiments cannot be read; whether an experiment runs is not known.",
        since "", to_do "Correct `--experiments` or the setting `disturb.journals`, or create the directory.";
    RUNS = "runs", [Notice],
        "An experiment disturbs cores on purpose; the evidence names its process and user.",
        since "the beginning of the experiment", to_do "Expect lost time on the cores that it names until it ends.";
    MORE_RUN = "more-run", [Notice],
        "A user other than root runs more than 4 experiments; 4 of them have findings, the others this one (setting `disturb.running_of_user`).",
        since "", to_do "";
    REFUSED = "refused", [Notice],
        "The newest experiment of a user was refused in the last hour, while the watch ran. Nothing was disturbed.",
        since "when it was refused", to_do "The sentence says why.";
    FAILED = "failed", [Notice],
        "The newest experiment of a user failed in the last hour, and has no result.",
        since "when it failed", to_do "The sentence says why; the report has the rest.";
    VANISHED = "vanished", [Notice],
        "The newest experiment of a user was killed in the last hour before it reported a result.",
        since "when its process was found gone", to_do "Where it was begun with `--resume FILE`, the same command goes on where it stopped.";
}
