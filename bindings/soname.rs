// What the build scripts of the libraries for C share.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Gives a shared library its SONAME, which programs ask for when they start: `libsurefoot.so.0.1`, say. Versions that share
/// their first number (their first two while the first is 0) have one interface and one SONAME.
///
/// # Errors
/// What the system says, and when cargo did not start this.
pub fn give(library: &str) -> io::Result<()> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../soname.rs");
    let number = |part: &str| env::var(format!("CARGO_PKG_VERSION_{part}")).map_err(io::Error::other);
    let soname = match (number("MAJOR")?.as_str(), number("MINOR")?) {
        ("0", minor) => format!("{library}.0.{minor}"),
        (major, _) => format!("{library}.{major}"),
    };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // Who runs a program beside a library that is not installed, as tests do, finds it by that name, too. The folder is
    // PROFILE of PROFILE/build/PACKAGE-HASH/out, and the library is in PROFILE and in PROFILE/deps.
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let Some(profile) = out.ancestors().nth(3).filter(|profile| profile.is_dir()) else { return Ok(()) };
    for folder in [profile.to_owned(), profile.join("deps")] {
        fs::create_dir_all(&folder)?;
        link(library, &folder.join(&soname))?;
    }
    Ok(())
}

fn link(library: &str, path: &Path) -> io::Result<()> {
    match std::os::unix::fs::symlink(library, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}
