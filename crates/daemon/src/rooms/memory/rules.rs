//! The findings of memory errors.

use crate::rooms::rules::rules;

rules! { Memory:
    DIMMS = "dimms", [Ok],
        "No module has a fault that asks for anything; corrected errors are counted in the sentence.",
        since "", to_do "";
    UNCORRECTED = "uncorrected", [Critical],
        "A module had uncorrected errors: the data at these addresses is lost.",
        since "", to_do "Move work away and replace the module. Where it is not known which module, find it first.";
    RATE = "rate", [Warning],
        "A module corrects more errors than its leaky bucket bears: 10 per second, and 100 on top at once.",
        since "", to_do "Move work away and plan to replace the module.";
    FAULT = "fault", [Notice, Warning, Critical],
        "Reports of errors locate a fault of a module: cell, row, column, bank, several banks or rank. A permanent fault of several banks is at least a \
         WARNING, of a rank CRITICAL.",
        since "", to_do "The sentence says it: from page offlining to replacement. See [memory](guide/memory.md).";
    UNCORRECTED_UNPLACED = "uncorrected-", [Critical],
        "A memory controller, whose name follows, had uncorrected errors of no known module.",
        since "", to_do "Look for the module in the event log of the BMC.";
    NO_INFORMATION = "no-information-", [Notice],
        "A memory controller, whose name follows, had corrected errors of no known module.",
        since "", to_do "Look for the module in the event log of the BMC.";
    SUM = "sum-", [Notice],
        "The counts of a memory controller, whose name follows, do not add up.",
        since "", to_do "Take its counts for lower bounds.";
    ACCOUNTING = "accounting-", [Notice, Warning, Critical],
        "A check of the doctor, whose name follows, found a hole in the accounting of memory errors: a count of 0 may be worth nothing.",
        since "", to_do "`surefoot memory doctor` says what to change.";
    PROBLEMS = "problems", [Notice],
        "Something that tells of memory errors could not be read. What it would say is unknown.",
        since "", to_do "The evidence names each file, and its error.";
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
