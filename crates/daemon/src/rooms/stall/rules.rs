//! The findings of lost time.

use crate::rooms::rules::rules;

rules! { Stall:
    LOST_TIME = "lost-time", [Ok, Notice, Warning],
        "Where the cores' working time went in the last minute. NOTICE: a core lost at least 1 % of its busy time and 1 ms per second, or a \
         single interruption took 1 ms. WARNING: 5 % and 5 ms per second, or one of 10 ms. A core that is busy for under 5 % of the time is a \
         NOTICE from 5 ms per second on, and never a WARNING.",
        since "",
        to_do "`surefoot stall who --cpu N` names the thread that raised the interrupts, with its stack; `surefoot stall audit` lists what \
               to change. See [lost time](guide/lost-time.md).";
    IMPOSSIBLE_SUM = "impossible-sum", [Warning],
        "The ledger of a core cannot be true in some windows of the last minute, for example because more time was lost than passed. \
         They are left out of every sum.",
        since "",
        to_do "Compare the clock of the watch's process with the host's: `surefoot status` shows both. If they agree, report a bug with a recording.";
}
