//! Packs a folder into one text archive, or unpacks one, to change a made-up machine or to add a new one.
//!
//! ```text
//! cargo run -p surefoot-testkit --example pack -- FOLDER ARCHIVE
//! cargo run -p surefoot-testkit --example pack -- --unpack ARCHIVE FOLDER
//! ```

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use surefoot_testkit::Archive;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["--unpack", archive, folder] => unpack(Path::new(archive), Path::new(folder)),
        [folder, archive] if !folder.starts_with('-') => pack(Path::new(folder), Path::new(archive)),
        _ => Err("usage: pack FOLDER ARCHIVE, or pack --unpack ARCHIVE FOLDER".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pack: {error}");
            ExitCode::from(2)
        }
    }
}

fn pack(folder: &Path, archive: &Path) -> Result<(), Box<dyn Error>> {
    let text = Archive::of_folder(folder)?.to_text();
    std::fs::write(archive, text).map_err(|error| format!("{}: {error}", archive.display()).into())
}

fn unpack(archive: &Path, folder: &Path) -> Result<(), Box<dyn Error>> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", archive.display());
    let text = std::fs::read_to_string(archive).map_err(|error| named(&error))?;
    let read = Archive::parse(&text).map_err(|error| named(&error))?;
    std::fs::create_dir_all(folder)?;
    Ok(read.unpack(folder)?)
}
