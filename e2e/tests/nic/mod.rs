//! Network interfaces: a veth pair between two namespaces that the test makes, and a guest whose kernel has devices that fail.

mod carried;
mod guest;
mod page;
mod run;
mod veth;
