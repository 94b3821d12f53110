//! The findings of the host's network interfaces.

use crate::rules::rules;

rules! { Nic:
    INTERFACES = "interfaces", [Ok],
        "No interface is hung, losing packets or slow. The sentence counts those that are down or have no link.",
        since "", to_do "";
    SLOW = "slow", [Warning],
        "The median round trip of probes to a neighbour is over 3 times the usual plus 200 us, or over `--slow-over`.",
        since "", to_do "The evidence has both times. Look for load on the path, and for the interface in `surefoot stall who`. See [interfaces](guide/nic.md).",
        next "surefoot nic health --interface {name}",
            "Changes nothing. It shows the counters and health reporters of the interface.";
    LOSING = "losing", [Warning],
        "Over 10 packets, and over 0.1 % of all, were damaged or missed; the link came or went more than 3 times; a health reporter of \
         a queue or of the firmware saw errors and recovered, or is in the state *error* while some packets pass (probable); or over 1 % of the probes were not answered (settings `nic.damaged_packets`, `nic.damaged_share`, `nic.link_changes`).",
        since "", to_do "The evidence names the counters. Check the cable, the transceiver and the port of the switch.",
        next "surefoot nic health --interface {name}",
            "Changes nothing. It shows the counters and health reporters of the interface.";
    HUNG = "hung", [Critical],
        "The kernel counted a transmit timeout; or (probable) a neighbour that used to answer probes answers none, or a health reporter of the \
         driver is in the state *error* and no packets have passed since. The last two together are certain.",
        since "",
        to_do "`surefoot nic health --interface NAME --recover` lists the recovery steps, mildest first; `--yes` runs them.",
        next "surefoot nic health --interface {name} --recover",
            "Changes nothing without --yes. It lists the recovery steps, mildest first.";
    REPORTER = "reporter", [Notice, Warning],
        "A health reporter of the driver is in the state *error* (or in one that Surefoot does not know: notice), and packets pass, or it \
         watches something else, such as a temperature. The interface is not called hung for it.",
        since "", to_do "`devlink health show` lists the reporters, `devlink health diagnose` and `devlink health dump show` what the driver knows of the error. Its name is in the evidence.",
        next "surefoot nic health --interface {name}",
            "Changes nothing. It shows the counters and health reporters of the interface.";
    PROBLEMS = "problems", [Notice],
        "A file or request with the state of interfaces could not be read, so that part of their state is unknown.",
        since "", to_do "The evidence names each file or request, and its error.",
        next "surefoot nic health",
            "Changes nothing. It shows what could be read about each interface.";
}
