//! Disturbances of guests, and in them.

mod guest;
mod monitor;
mod outside;
mod tracers;
