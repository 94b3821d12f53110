//! `surefoot ecc verilog`: the decoders as hardware.

use anyhow::Context;
use clap::Args;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use surefoot_console::exit::Outcome;
use surefoot_ecc::{Code, hardware};

#[derive(Args)]
pub struct VerilogOptions {
    /// Codes, such as "RS(19,16)" or rs19_16; may be repeated [default: all]
    #[arg(long, value_name = "CODE", value_parser = parse_code)]
    pub code: Vec<Code>,
    /// Write the modules of all codes into this file instead of the standard output
    #[arg(long, value_name = "FILE", conflicts_with = "directory")]
    pub out: Option<PathBuf>,
    /// Write a file per code, such as rs19_16.v, into this directory
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Overwrite files that are there
    #[arg(long)]
    pub force: bool,
}

fn parse_code(text: &str) -> Result<Code, String> {
    let wanted = text.trim();
    let is_it = |code: &Code| {
        wanted.eq_ignore_ascii_case(&code.to_string()) || wanted.eq_ignore_ascii_case(&hardware::prefix(*code))
    };
    Code::ALL.into_iter().find(is_it).ok_or_else(|| {
        let known = Code::ALL.map(|code| format!("{code} or {}", hardware::prefix(code)));
        format!("the codes are {}", known.join(", "))
    })
}

pub fn run(options: &VerilogOptions) -> anyhow::Result<Outcome> {
    // Each once, however often it was named: a module must not be defined twice.
    let codes = Code::ALL.into_iter().filter(|code| options.code.is_empty() || options.code.contains(code));
    let texts = codes.map(|code| (format!("{}.v", hardware::prefix(code)), hardware::verilog(code)));
    if let Some(directory) = &options.directory {
        anyhow::ensure!(
            directory.is_dir(),
            "--directory: {} is not a directory; create it first, or name another",
            directory.display()
        );
        let files: Vec<_> = texts.map(|(name, text)| (directory.join(name), text)).collect();
        // All or none: what would stop a later file stops the first.
        if !options.force {
            files.iter().try_for_each(|(path, _)| expect_absent("--directory", path))?;
        }
        return files
            .iter()
            .try_for_each(|(path, text)| write("--directory", path, text, options.force))
            .map(|()| Outcome::Done);
    }
    let text = texts.map(|(_, text)| text).collect::<Vec<_>>().join("\n");
    match &options.out {
        Some(path) => write("--out", path, &text, options.force)?,
        None => {
            let mut out = surefoot_console::people::stdout();
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(Outcome::Done)
}

fn expect_absent(option: &str, path: &Path) -> anyhow::Result<()> {
    // A link that leads nowhere is there, too.
    let is_there = fs::symlink_metadata(path).is_ok();
    anyhow::ensure!(!is_there, "{option}: {} is there already; --force overwrites it", path.display());
    Ok(())
}

fn write(option: &str, path: &Path, text: &str, force: bool) -> anyhow::Result<()> {
    if !force {
        expect_absent(option, path)?;
    }
    let mut open = OpenOptions::new();
    // Whoever creates it between the look and this loses nothing either; a link leads nowhere.
    open.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    if force {
        open.write(true).create(true).truncate(true)
    } else {
        open.write(true).create_new(true)
    };
    let mut file = open.open(path).with_context(|| format!("{option}: cannot write {}", path.display()))?;
    file.write_all(text.as_bytes()).with_context(|| {
        // A cut file could be taken for the whole.
        let gone = !force && fs::remove_file(path).is_ok();
        let left = if gone { "nothing of it is kept" } else { "what is there is cut" };
        format!("{option}: cannot write {}; {left}", path.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_named_as_in_papers_or_as_in_files() {
        for (text, code) in [
            ("RS(19,16)", Code::Rs19_16),
            ("rs(36,32)", Code::Rs36_32),
            ("rs18_16", Code::Rs18_16),
            (" RS19_16 ", Code::Rs19_16),
        ] {
            assert_eq!(parse_code(text), Ok(code));
        }
        for text in ["", "RS(19,17)", "secded"] {
            let said = parse_code(text).unwrap_err();
            assert!(said.contains("RS(36,32) or rs36_32") && said.contains("rs19_16"), "{said}");
        }
    }
}
