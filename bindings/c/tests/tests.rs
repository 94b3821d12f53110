//! The C interface, as programs in C, C++ and Fortran use it: compiled, run, killed and started again.

#![allow(clippy::unwrap_used)]

mod suite;
