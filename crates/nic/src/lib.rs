//! A programmable network interface that survives its own faults, after "Failure detection and recovery of a
//! programmable network interface" (TPDS'07, Zhou et al.).
//!
//! # Invariants
//! - The device is a deterministic model: its state after a run is a function of its state before, of what the host's
//!   side answered, and of what arrived. Nothing here reads a clock.
//! - What is executed is what is stored: every store and every injected flip holds from the next fetch on.
//! - An engine that was reset less often than the host says does nothing (it is fenced).
//!
//! ```
//! use surefoot_nic::cpu::{Instruction, Operation, encode};
//! use surefoot_nic::device::{Bus, BusFault, Device, DeviceConfig, Stop};
//!
//! /// A host without memory.
//! struct Nowhere;
//! impl Bus for Nowhere {
//!     fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), BusFault> { Err(BusFault::WildRead) }
//!     fn write(&mut self, _: u32, _: &[u8]) -> Result<(), BusFault> { Err(BusFault::WildWrite) }
//!     fn mailbox_ready(&mut self) -> u32 { 0 }
//!     fn mailbox_first(&mut self, _: u32) -> [u32; 16] { [0; 16] }
//!     fn mailbox_pop(&mut self, _: u32) {}
//!     fn ping(&mut self) -> u32 { 0 }
//!     fn pong(&mut self, _: u32) {}
//!     fn interrupt(&mut self, _: u32) {}
//!     fn epoch(&mut self) -> u32 { 1 }
//! }
//!
//! let add = Instruction { operation: Operation::Addi, rd: 1, rs1: 1, rs2: 0, immediate: 5 };
//! let forever = Instruction { operation: Operation::Jal, rd: 0, rs1: 0, rs2: 0, immediate: 0 };
//! let image: Vec<u8> = [add, forever].into_iter().filter_map(encode).flat_map(u32::to_le_bytes).collect();
//! let mut device = Device::new(DeviceConfig::default());
//! device.load(&image)?;
//! device.reset(1);
//! assert_eq!(device.run(&mut Nowhere, 800), Stop::Reached);
//! // 100 instructions of 8 ns each.
//! assert_eq!((device.instruction_count(), device.core().x[1]), (100, 5));
//! # Ok::<(), surefoot_nic::device::Error>(())
//! ```

pub mod campaign;
pub mod check;
pub mod cpu;
pub mod device;
pub mod firmware;
pub mod host;
pub mod live;
pub mod measure;
pub mod world;
