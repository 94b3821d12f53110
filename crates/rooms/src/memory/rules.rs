//! The findings of memory errors.

use crate::rules::rules;

rules! { Memory:
    DIMMS = "dimms", [Ok, Notice],
        "No module needs action; the sentence counts corrected errors. NOTICE: not every counter could be \
         read, or a controller counted errors that no module has.",
        since "", to_do "";
    UNCORRECTED = "uncorrected", [Critical],
        "A module had uncorrected errors: the data at these addresses is lost.",
        since "", to_do "Move work away and replace the module. Where it is not known which module, find it first.",
        next "surefoot memory status",
            "Changes nothing. It shows every module with its place, errors and fault.";
    RATE = "rate", [Warning],
        "A module corrects more errors than its leaky bucket bears: 10 per second, and 100 on top at once (settings `memory.rate_limit_per_s`, `memory.burst`).",
        since "", to_do "A count alone is no reason to replace a module: look whether reports locate a fault. `surefoot memory tune` names the polling interval that \
         loses no report at this rate.",
        next "surefoot memory status",
            "Changes nothing. It shows every module with its place, errors and fault.";
    FAULT = "fault", [Notice, Warning, Critical],
        "Reports of errors locate a fault of a module: cell, row, column, bank, several banks or rank. A permanent fault of several banks is at least a \
         WARNING, of a rank CRITICAL.",
        since "", to_do "The sentence says it: from page offlining to replacement. See [memory](guide/memory.md).",
        next "surefoot memory status",
            "Changes nothing. It shows every module with its place, errors and fault. `surefoot memory page-offline` lists the pages of a fault.";
    UNCORRECTED_UNPLACED = "uncorrected-", [Critical],
        "A memory controller, whose name follows, had uncorrected errors of no known module.",
        since "", to_do "Look for the module in the event log of the BMC.",
        next "surefoot memory status --event-log",
            "Changes nothing. It also reads the event log of the BMC, which may name the module.";
    NO_INFORMATION = "no-information-", [Notice],
        "A memory controller, whose name follows, had corrected errors of no known module.",
        since "", to_do "Look for the module in the event log of the BMC.",
        next "surefoot memory status --event-log",
            "Changes nothing. It also reads the event log of the BMC, which may name the module.";
    GONE = "controller-gone-", [Warning],
        "A memory controller, whose name follows, was there when the watch began and is gone. Errors of its modules are no longer counted.",
        since "when the watch saw it last", to_do "Load its EDAC driver again; the kernel's log says why it went.",
        next "surefoot memory doctor",
            "Changes nothing. It says which EDAC driver is loaded, and what it reports.";
    RENUMBERED = "controller-renumbered-", [Ok],
        "A memory controller, whose former name follows, has another number since its driver was loaded again; the counts of its modules go on.",
        since "when the watch last saw it under that name", to_do "";
    MIXED = "mixed", [Notice],
        "Modules of one kind without serial numbers may have changed places, in a boot or with the numbers of their controllers: what was \
         counted of each before may be another's.",
        since "", to_do "Before a module is replaced, find out which it is.",
        next "surefoot memory status",
            "Changes nothing. It shows which modules cannot be told apart, and with root's rights the serial numbers.";
    SUM = "sum-", [Notice],
        "The counts of a memory controller, whose name follows, do not add up.",
        since "", to_do "Take its counts for lower bounds.",
        next "surefoot memory doctor",
            "Changes nothing. It says which counters can be read, and which of them disagree.";
    ACCOUNTING = "accounting-", [Notice, Warning, Critical],
        "A check of the doctor, whose name follows, found a hole in the accounting of memory errors: a count of 0 may be worth nothing.",
        since "", to_do "`surefoot memory doctor` says what to change.",
        next "surefoot memory doctor",
            "Changes nothing. It says of each check what was found, and how to mend it.";
    PROBLEMS = "problems", [Notice],
        "Something that tells of memory errors could not be read. What it would say is unknown.",
        since "", to_do "The evidence names each file, and its error.",
        next "surefoot memory doctor",
            "Changes nothing. It says which counters can be read, and which of them disagree.";
    NOT_READ = "reports-not-read", [Notice],
        "The kernel dropped reports of errors before they were read. The counters are unaffected; where these errors are is unknown.",
        since "", to_do "";
    NOT_UNDERSTOOD = "reports-not-understood", [Notice],
        "Reports of errors have a form that this release does not know. The counters are read all the same.",
        since "", to_do "Report a bug, with the lines of the kernel's log.";
    NOT_LISTED = "reports-not-listed", [Notice],
        "Reports of errors came too fast to be listed one by one. Each counts for the fault of its module.",
        since "", to_do "";
}
