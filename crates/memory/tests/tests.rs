//! The memory room through its public interface, on made-up and recorded trees and on made-up modules.
#![allow(clippy::unwrap_used, missing_docs)]

mod suite {
    mod advice;
    mod closing;
    mod doctor;
    mod fault_modes;
    #[allow(dead_code)]
    pub mod field;
    mod flood;
    mod hostile;
    mod layouts;
    mod simulate;
    mod state;
    pub mod synthetic;
    mod tree;
}
