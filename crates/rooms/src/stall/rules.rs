//! The findings of lost time.

use crate::rules::rules;

rules! { Stall:
    LOST_TIME = "lost-time", [Ok, Notice, Warning],
        "Where the cores' working time went in the last minute. NOTICE: a core lost at least 1 % of its busy time and 1 ms per second, or a \
         single interruption took 1 ms. WARNING: 5 % and 5 ms per second, or one of 10 ms. The limits are about lost and unexplained \
         time together. A core that is busy for under 5 % of the time is a NOTICE from 5 ms per second on, and never a WARNING (settings `stall.notice_*`, `stall.warning_*`, `stall.little_busy_share`).",
        since "",
        to_do "`surefoot stall who --cpu N` names the thread that raised the interrupts, with its stack; `surefoot stall audit` lists what \
               to change. See [lost time](guide/lost-time.md).",
        next "surefoot stall who --cpu {cores} --duration 10s",
            "Changes no settings. It names what interrupts each core, who raised it and how to stop it. Each busy core gets about 360 interrupts at its start and as many at its end. It needs root.";
    IMPOSSIBLE_SUM = "impossible-sum", [Warning],
        "The ledger of a core cannot be true in some windows of the last minute, for example because more time was lost than passed. \
         They are left out of every sum.",
        since "",
        to_do "See the row `time namespace` of `surefoot status`: in a time namespace the watch's clocks are not the host's. If it is the initial \
               one, report a bug with a recording.",
        next "surefoot stall record --duration 10s --output impossible-sum.surefoot",
            "Changes nothing. It writes a recording, to be attached to a bug report.";
}
