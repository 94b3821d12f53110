//! `surefoot generate DIRECTORY`, hidden: man pages and completions for shells, as a package installs them below `share`.

use crate::args::Arguments;
use crate::examples;
use anyhow::Context;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use surefoot_console::exit::Outcome;

/// Where each shell looks for completions below `share`, and the name that it expects.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/surefoot"),
    (Shell::Zsh, "zsh/site-functions/_surefoot"),
    (Shell::Fish, "fish/vendor_completions.d/surefoot.fish"),
];

/// As `surefoot_console::exit` has them.
const EXIT_STATUS: [(&str, &str); 4] = [
    ("0", "done"),
    ("1", "ran, and found what it reports as a failure; or failed"),
    ("2", "wrong use or bad input"),
    ("3", "not supported here; the message says what is missing"),
];

#[derive(Args)]
pub struct GenerateOptions {
    /// Create the files below this directory: man, bash-completion, zsh, fish
    pub directory: PathBuf,
}

pub fn run(options: &GenerateOptions) -> anyhow::Result<Outcome> {
    for (path, text) in files()? {
        let path = options.directory.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let written = File::create_new(&path).and_then(|mut file| file.write_all(&text));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Outcome::Done)
}

/// Every file, by its path below `share`.
fn files() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = without_hidden(&examples::add_to(Arguments::command()));
    command.build();
    let mut files = Vec::new();
    add_pages(&command, &mut files)?;
    for (shell, path) in COMPLETIONS {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "surefoot", &mut text);
        files.push((path.to_owned(), text));
    }
    Ok(files)
}

/// The command without those below it with which Surefoot starts itself: completions would offer them.
fn without_hidden(command: &Command) -> Command {
    if !command.get_subcommands().any(|below| below.is_hide_set() || below.has_subcommands()) {
        return command.clone();
    }
    let shown = command.get_subcommands().filter(|below| !below.is_hide_set()).map(without_hidden);
    // clap keeps names for the life of the program.
    let mut left = Command::new(command.get_name().to_owned().leak() as &str)
        .args(command.get_arguments().cloned())
        .groups(command.get_groups().cloned())
        .subcommands(shown)
        .subcommand_required(command.is_subcommand_required_set())
        .disable_help_subcommand(true);
    for (text, add) in [
        (command.get_about(), Command::about as fn(_, _) -> _),
        (command.get_long_about(), Command::long_about),
        (command.get_before_help(), Command::before_help),
        (command.get_after_help(), Command::after_help),
    ] {
        left = match text {
            Some(text) => add(left, text.clone()),
            None => left,
        };
    }
    match command.get_version() {
        Some(_) => left.version(env!("CARGO_PKG_VERSION")),
        None => left,
    }
}

fn add_pages(command: &Command, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let page = Man::new(command.clone()).source(concat!("Surefoot ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    write_page(command, &page, &mut text)?;
    files.push((format!("man/man1/{}", page.get_filename()), text));
    command.get_subcommands().try_for_each(|below| add_pages(below, files))
}

fn write_page(command: &Command, page: &Man, out: &mut dyn Write) -> io::Result<()> {
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    if let Some(example) = command.get_before_help() {
        let example = example.to_string();
        as_typed("EXAMPLE", example.strip_prefix("Example: ").unwrap_or(&example)).to_writer(out)?;
    }
    page.render_options_section(out)?;
    if command.has_subcommands() {
        page.render_subcommands_section(out)?;
    }
    if let Some(notes) = command.get_after_help() {
        as_typed("NOTES", &notes.to_string()).to_writer(out)?;
    }
    let mut end = Roff::new();
    end.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in EXIT_STATUS {
        end.control("TP", []).text([bold(code)]).text([roman(meaning)]);
    }
    end.control("SH", ["SEE ALSO"]);
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let above = name.rsplit_once('-').map_or("", |(above, _)| above);
    if !above.is_empty() {
        end.text([bold(above), roman("(1),")]);
    }
    end.text([roman("the guides in share/doc/surefoot/guide")]);
    end.to_writer(out)
}

/// A section whose lines stay as they are.
fn as_typed(heading: &str, lines: &str) -> Roff {
    let mut section = Roff::new();
    section.control("SH", [heading]).control("nf", []);
    for line in lines.lines() {
        section.text([roman(line)]);
    }
    section.control("fi", []);
    section
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::process::{Command as Process, Stdio};
    use surefoot_testkit::not_run::not_run;

    fn generated() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        run(&GenerateOptions { directory: folder.path().to_owned() }).unwrap();
        folder
    }

    fn names(command: &Command, before: &str, all: &mut BTreeSet<String>) {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let name = format!("{before}-{}", below.get_name());
            names(below, &name, all);
            all.insert(format!("{name}.1"));
        }
    }

    fn pages(folder: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(folder.join("man/man1")).unwrap().map(Result::unwrap);
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn every_command_that_is_shown_has_a_page_and_no_other() {
        let folder = generated();
        let mut expected = BTreeSet::from(["surefoot.1".to_owned()]);
        names(&Arguments::command(), "surefoot", &mut expected);
        assert!(expected.len() > 60, "{expected:?}");
        assert_eq!(pages(folder.path()), expected);
        for name in expected {
            let text = fs::read_to_string(folder.path().join("man/man1").join(&name)).unwrap();
            assert!(text.contains(env!("CARGO_PKG_VERSION")), "{name}");
            for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH \"EXIT STATUS\"", ".SH \"SEE ALSO\""] {
                assert!(text.contains(section), "{name} has no {section}: {text}");
            }
            let has_example = text.contains(".SH EXAMPLE");
            assert!(has_example || text.contains(".SH SUBCOMMANDS"), "{name} has no example");
        }
    }

    #[test]
    fn groff_warns_of_no_page() {
        let test = "generate::tests::groff_warns_of_no_page";
        if Process::new("groff").arg("--version").stdout(Stdio::null()).status().is_err() {
            return not_run(test, "there is no groff; install it");
        }
        let folder = generated();
        let pages = pages(folder.path());
        assert!(!pages.is_empty());
        let mut groff = Process::new("groff");
        // As lintian asks for the pages of a package.
        groff.args(["-man", "-ww", "-Tutf8", "-rLL=100n", "-K", "utf8", "-z"]);
        let said = groff.args(&pages).current_dir(folder.path().join("man/man1")).output().unwrap();
        assert!(said.status.success() && said.stderr.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
    }

    /// What bash offers for a line, as its key for completion would.
    fn offered(script: &Path, words: &[&str]) -> BTreeSet<String> {
        const ASK: &str = "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); \
             function=$(complete -p surefoot | sed 's/.*-F \\([^ ]*\\).*/\\1/'); \
             \"$function\" surefoot \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD-1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut bash = Process::new("bash");
        let said = bash.args(["--norc", "-c", ASK, "bash"]).arg(script).args(words).output().unwrap();
        assert!(said.stderr.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    #[test]
    fn bash_completes_commands_options_and_values() {
        let test = "generate::tests::bash_completes_commands_options_and_values";
        if Process::new("bash").arg("--version").stdout(Stdio::null()).status().is_err() {
            return not_run(test, "there is no bash");
        }
        let folder = generated();
        let script = folder.path().join(COMPLETIONS[0].1);
        let set = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(offered(&script, &["surefoot", "wat"]), set(&["watch"]));
        assert_eq!(offered(&script, &["surefoot", "stall", "re"]), set(&["record", "replay", "report"]));
        assert_eq!(offered(&script, &["surefoot", "stall", "report", "--min"]), set(&["--min-gap"]));
        let sources = set(&["best", "ebpf", "plain", "counters"]);
        assert_eq!(offered(&script, &["surefoot", "watch", "--source", ""]), sources);
        let all = offered(&script, &["surefoot", ""]);
        let hidden = ["read-names", "look-apart", "guard-workload", "generate"];
        assert!(all.contains("demo") && hidden.iter().all(|name| !all.contains(*name)), "{all:?}");
    }

    /// zsh and fish read their files without an error where they are installed.
    #[test]
    fn zsh_and_fish_read_their_completions() {
        let folder = generated();
        for (at, shell) in [(1, "zsh"), (2, "fish")] {
            let test = format!("generate::tests::zsh_and_fish_read_their_completions ({shell})");
            let script = folder.path().join(COMPLETIONS[at].1);
            let text = fs::read_to_string(&script).unwrap();
            assert!(text.contains("min-gap") && !text.contains("look-apart"), "{shell}");
            match Process::new(shell).arg("-n").arg(&script).output() {
                Err(_) => not_run(&test, &format!("there is no {shell}")),
                Ok(said) => assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr)),
            }
        }
    }
}
