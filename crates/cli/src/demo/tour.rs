//! Where to look in the demo.

use surefoot_daemon::Stop;

/// Five places; the tests hold what they say against the rooms. The day ends now, so that hours are told back from now.
pub fn tour() -> Vec<Stop> {
    [
        (
            "lost-time",
            "Lost time: cores 2 and 3 lose 6 % of their busy time to TLB shootdowns. Thread 'stats' of process 4711 raises them in munmap: \
             the table of raisers has its stack and the fix.",
        ),
        (
            "memory",
            "Memory: row 0x2f4a of module CPU0_DIMM_A1 fails. The page has its corrected errors of 18 to 21 hours ago, their place, and what to do.",
        ),
        (
            "checkpoints",
            "Checkpoints: 17 hours ago job weather-demo was restored from memory, and 2 damaged pages were rebuilt. Each decision has its \
             reasons.",
        ),
        (
            "interfaces",
            "Interfaces: 12 hours ago the send queue of ens3f0np0 hung and recovered through its health reporter. Past, in the page's header, \
             shows that hour; 2 hours later an experiment measured what stalls of 2 ms cost.",
        ),
        (
            "remedies",
            "Remedies: case 17 took the host out of service, repaired the row, tested the memory and returned the host. Each step is listed.",
        ),
    ]
    .map(|(view, sentence)| Stop { view, sentence })
    .to_vec()
}
