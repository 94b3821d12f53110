mod ages;
mod ahead;
mod apart;
mod closed;
mod durable;
mod ends;
#[path = "../../../heal/tests/suite/faulty.rs"]
mod faulty;
mod inspect;
mod kill;
mod media;
mod mounted;
mod nodes;
mod parity;
#[path = "../../../heal/tests/suite/payload.rs"]
mod payload;
mod poison;
mod reliability;
mod resized;
mod routed;
mod session;
mod shared;
mod tiers;
#[allow(dead_code, reason = "the tests of sidecars use more of it")]
#[path = "../../../heal/tests/suite/traced.rs"]
mod traced;
mod versions;
