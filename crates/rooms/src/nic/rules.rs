//! The findings of the host's network interfaces.

use crate::rules::rules;

rules! { Nic:
    INTERFACES = "interfaces", [Ok],
        "No interface is hung, losing packets or slow. Those that are switched off or have no link are counted in the sentence.",
        since "", to_do "";
    SLOW = "slow", [Warning],
        "Probes of a neighbour take a median round trip of over 3 times the usual one plus 200 us, or over `--slow-over`.",
        since "", to_do "The evidence has both times. Look for load on the path, and for the interface in `surefoot stall who`. See [interfaces](guide/nic.md).",
        next "surefoot nic health --interface {name}",
            "Changes nothing. It shows the counters and health reporters of the interface.";
    LOSING = "losing", [Warning],
        "Over 10 packets, and over 0.1 % of all, were damaged or missed; the link came or went more than 3 times; a health reporter saw \
         errors and recovered; or over 1 % of the probes were not answered (settings `nic.damaged_packets`, `nic.damaged_share`, `nic.link_changes`).",
        since "", to_do "The evidence names the counters. Check the cable, the transceiver and the port of the switch.",
        next "surefoot nic health --interface {name}",
            "Changes nothing. It shows the counters and health reporters of the interface.";
    HUNG = "hung", [Critical],
        "A health reporter of the driver is in the state *error*, the kernel found a send queue stuck, or (probable) a neighbour that answered \
         before answers no probe.",
        since "",
        to_do "`surefoot nic health --interface NAME --recover` shows the steps of recovery, the mildest first; with `--yes` it takes them.",
        next "surefoot nic health --interface {name} --recover",
            "Changes nothing without --yes. It lists the steps of recovery, the mildest first.";
    PROBLEMS = "problems", [Notice],
        "Something that says how interfaces are could not be read. What it would say is unknown.",
        since "", to_do "The evidence names each file or request, and its error.",
        next "surefoot nic health",
            "Changes nothing. It shows of each interface what could be read.";
}
