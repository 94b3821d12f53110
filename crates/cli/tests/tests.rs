//! The command as a program: whole outputs, exit codes, and what is refused.
#![allow(clippy::unwrap_used)]

mod suite {
    mod audit;
    mod disturb_drift;
    mod disturb_length;
    mod disturb_plan;
    mod disturb_predict;
    mod disturb_run;
    mod ends;
    mod golden;
    mod guide;
    mod history;
    mod memory_bmc;
    mod memory_close;
    mod memory_doctor;
    mod memory_guide;
    mod memory_import;
    mod memory_simulate;
    mod memory_status;
    mod nic_campaign;
    mod nic_guide;
    mod nic_health;
    mod settings;
    mod unread;
    mod who;
}
