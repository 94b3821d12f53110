//! The findings of the watch about itself.

use crate::rules::rules;

rules! { Watch:
    SOURCES = "sources", [Ok],
        "Every source works. The sentence counts the data that were dropped since the start.",
        since "", to_do "";
    SOURCE = "source", [Warning],
        "A source failed. The others go on; it is tried again after 1 s or more.",
        since "",
        to_do "The sentence says why. `surefoot status` says what works on this host, and what it needs.",
        next "surefoot status",
            "Changes nothing. It shows what works on this host, what does not, and what that needs.";
    DROPPED = "dropped", [Notice],
        "Events were dropped in the last minute (setting `watch.loss_notice_for`) because a queue was full; what is shown is incomplete.",
        since "", to_do "Give the watch more processor time, or ask for less: a longer `--interval`, fewer cores with `--cpu`.";
    LOST_RECORDS = "lost-records", [Notice],
        "Records of who raised interrupts were lost in the last minute (`watch.loss_notice_for`); counts by raiser are too low.",
        since "", to_do "Name fewer cores with `--who`.",
        next "surefoot status",
            "Changes nothing. It shows what works on this host, what does not, and what that needs.";
    HISTORY = "history", [Warning],
        "The history cannot be written, or lost events in the last minute (`watch.loss_notice_for`). The past has a hole.",
        since "",
        to_do "The sentence says why. Look at the file of `--history`, and at the space and the speed of its file system.";
    UNTRACED = "untraced", [Notice],
        "The kernel did not trace 60 or more interrupts, exits or program runs in the last minute (`watch.untraced_per_min`).",
        since "", to_do "Longer windows and fewer cores help. Each window says how much it lacks.";
    SETTINGS = "settings", [Notice, Warning],
        "The settings were read again. WARNING: they are wrong, and those from before hold. NOTICE: some take effect only when the watch \
         starts again.",
        since "",
        to_do "The sentence names the file, the line and the setting. After a change: `systemctl reload surefoot`, or for a NOTICE \
               `systemctl restart surefoot`.",
        next "surefoot config check",
            "Changes nothing. It reads the settings as the watch does, and says what is wrong.";
    DATA_AGE = "data-age", [Ok, Notice, Warning],
        "NOTICE: there are no data yet. WARNING: the newest are older than 3 windows and older than 10 s (`watch.stale_windows`, `watch.stale_after`).",
        since "", to_do "Look at the watch's own log: it hangs, or gets no processor time.";
}
