//! Gives the shared library its SONAME.

#[path = "../soname.rs"]
mod soname;

fn main() -> std::io::Result<()> {
    soname::give("libsurefoot_nic_c.so")
}
