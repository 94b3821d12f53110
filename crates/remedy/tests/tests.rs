//! Remedies through the crate's public interface, with the real programs that they speak to.
#![allow(clippy::unwrap_used, missing_docs)]

mod suite {
    mod cases;
    mod checks;
    mod debug_mode;
    mod engine;
    mod evictions;
    mod faults;
    mod hands;
    mod hooks;
    mod ipmi;
    mod kubernetes;
    mod order;
    mod parts;
    mod policy;
    mod redfish;
    mod schedulers;
    mod service;
    mod settings;
    mod simulate;
    mod slurm;
    mod systems;
    mod tickets;
}
