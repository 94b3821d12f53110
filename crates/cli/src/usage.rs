//! The command line: read it, and say what is wrong with it.

use crate::args::{Arguments, Command, WatchOptions};
use crate::examples;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use std::ffi::OsString;
use std::io::{Write, stderr};
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::process::ExitCode;
use surefoot_console::exit::without_number;
use surefoot_console::people;
use surefoot_console::units::parse_time;
use surefoot_model::one_line;
use surefoot_sys::stdout;

/// What is wrong with a command line.
#[derive(Debug)]
pub enum Wrong {
    /// It is empty.
    NoCommand,
    /// As clap says it.
    Line(clap::Error),
}

/// The answer to a command line without a command.
const FIRST: &str = "\
Surefoot finds what steals time from a server's cores, watches its memory,
disks and network interfaces, and keeps its work alive.

Try:
  surefoot demo      a made-up day of trouble, with data in every view; needs no root
  surefoot watch     this host, live in the terminal and on http://127.0.0.1:7077/
  surefoot status    what works on this host, and why the rest does not

surefoot --help lists all commands.
";

/// What a command line names.
#[derive(Debug, Default)]
pub struct Named {
    /// The command with those above it, such as `memory import`.
    pub command: String,
    /// Files and directories.
    pub paths: Vec<PathBuf>,
}

/// Reads the command line; also returns what it names.
///
/// # Errors
/// What is wrong with it, in words that a terminal may show: clap repeats arguments as they are, so it is asked again about ones of
/// which each is one harmless line. Its own colours and line breaks stay.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<(Arguments, Named), Wrong> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.len() < 2 {
        return Err(Wrong::NoCommand);
    }
    parse_harmless(&arguments).map_err(|error| {
        let said = elsewhere(&error).or_else(|| without_option(&error, &arguments));
        Wrong::Line(said.unwrap_or_else(|| in_plain_words(error)))
    })
}

/// What to write instead, where a command of this name stands below another.
fn elsewhere(error: &clap::Error) -> Option<clap::Error> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let root = Arguments::command();
    let has = |above: &&clap::Command| above.find_subcommand(name).is_some_and(|below| !below.is_hide_set());
    let full: Vec<String> =
        root.get_subcommands().filter(has).map(|above| format!("surefoot {} {name}", above.get_name())).collect();
    let said = match full.as_slice() {
        [] => return None,
        [one] => format!("'{name}' stands below another command: write '{one}'"),
        many => format!("'{name}' stands below other commands: write one of '{}'", many.join("', '")),
    };
    Some(clap::Error::raw(error.kind(), said + "\n"))
}

/// A time that was typed without its option.
fn without_option(error: &clap::Error, arguments: &[OsString]) -> Option<clap::Error> {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(time))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return None;
    };
    parse_time(time).ok()?;
    let root = Arguments::command();
    let command = arguments
        .iter()
        .skip(1)
        .fold(&root, |command, word| word.to_str().and_then(|word| command.find_subcommand(word)).unwrap_or(command));
    let is_it = |option: &&str| command.get_arguments().any(|argument| argument.get_long() == Some(*option));
    let option = ["duration", "for"].into_iter().find(is_it)?;
    let said = error.render().to_string();
    let first = said.lines().next()?;
    let told = said.replacen(first, &format!("{first}: write --{option} {time}"), 1);
    Some(clap::Error::raw(error.kind(), told.trim_start_matches("error: ")))
}

/// clap repeats what the standard library says of a number, in words for programmers.
fn in_plain_words(error: clap::Error) -> clap::Error {
    let Some(number) = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<ParseIntError>())
    else {
        return error;
    };
    let why = match number.kind() {
        IntErrorKind::Empty => "a number is missing",
        IntErrorKind::PosOverflow => "the number is too large",
        IntErrorKind::NegOverflow => "the number is too small",
        _ => "not a whole number",
    };
    let said = error.render().to_string();
    match said.contains(&number.to_string()) {
        true => {
            clap::Error::raw(error.kind(), said.replacen(&number.to_string(), why, 1).trim_start_matches("error: "))
        }
        false => error,
    }
}

fn parse_harmless(arguments: &[OsString]) -> Result<(Arguments, Named), clap::Error> {
    let error = match read(arguments) {
        Ok(parsed) => return Ok(parsed),
        Err(error) => error,
    };
    let harmless = |argument: &OsString| argument.to_str().is_some_and(|text| one_line(text) == text);
    if arguments.iter().all(harmless) {
        return Err(error);
    }
    let shown: Vec<OsString> = arguments.iter().map(|argument| one_line(&argument.to_string_lossy()).into()).collect();
    match read(&shown) {
        Err(same) => Err(same),
        // What was wrong is what no line can show.
        Ok(_) => Err(clap::Error::raw(error.kind(), one_line(&error.render().to_string()) + "\n")),
    }
}

fn read(arguments: &[OsString]) -> Result<(Arguments, Named), clap::Error> {
    let mut matches = examples::add_to(Arguments::command()).try_get_matches_from(arguments)?;
    let mut named = Named::default();
    add_named(&matches, &mut named);
    let given = match matches.subcommand() {
        Some(("watch", watch)) => crate::config::given(watch),
        _ => Vec::new(),
    };
    let parsed = Arguments::from_arg_matches_mut(&mut matches);
    let mut parsed = parsed.map_err(|error| error.format(&mut Arguments::command()))?;
    if let Command::Watch(options) = &mut parsed.command {
        options.given = given;
    }
    Ok((parsed, named))
}

/// The options of `surefoot watch` in these words.
///
/// # Errors
/// What is wrong with them.
pub fn options_of_watch(words: &[String]) -> anyhow::Result<WatchOptions> {
    let arguments: Vec<OsString> =
        ["surefoot", "watch"].into_iter().map(OsString::from).chain(words.iter().map(OsString::from)).collect();
    // The first line says what is wrong; below it stands the usage of another command than the one that was typed.
    let wrong = |error: clap::Error| match error.render().to_string().lines().next() {
        Some(line) if error.use_stderr() => anyhow::anyhow!("{}", one_line(line.trim_start_matches("error: "))),
        _ => anyhow::anyhow!("after -- there are options of `surefoot watch`; its --help lists them"),
    };
    match read(&arguments).map_err(wrong)? {
        (Arguments { command: Command::Watch(options) }, _) => Ok(*options),
        _ => anyhow::bail!("these are not options of surefoot watch"),
    }
}

/// The values of all options that are paths, except directories of checkpoints and experiments to watch: a child of the watch
/// looks there, and shows one that does not answer.
fn add_named(matches: &ArgMatches, named: &mut Named) {
    for id in matches.ids().filter(|id| !["checkpoints", "experiments"].contains(&id.as_str())) {
        // Values of another type are no paths.
        if let Ok(Some(values)) = matches.try_get_many::<PathBuf>(id.as_str()) {
            named.paths.extend(values.cloned());
        }
    }
    if let Some((name, below)) = matches.subcommand() {
        let space = if named.command.is_empty() { "" } else { " " };
        named.command.push_str(&format!("{space}{name}"));
        add_named(below, named);
    }
}

/// Prints it, and picks the code.
pub fn tell(error: &Wrong) -> ExitCode {
    let (printed, code) = match error {
        Wrong::NoCommand => (stderr().write_all(FIRST.as_bytes()), 2),
        // 0 for help and version, 2 for what is wrong.
        Wrong::Line(error) if error.use_stderr() => (error.print(), error.exit_code()),
        Wrong::Line(error) => {
            let printed =
                stdout::expect_writable().and_then(|()| error.print()).and_then(|()| stdout::expect_written());
            (printed, error.exit_code())
        }
    };
    match printed {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
            people::tell!("surefoot: stdout cannot be written: {}", without_number(&why.to_string()));
            ExitCode::from(2)
        }
        _ => ExitCode::from(u8::try_from(code).unwrap_or(2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(arguments: &[&str]) -> String {
        let Err(Wrong::Line(error)) = parse(arguments.iter().map(OsString::from)) else {
            panic!("{arguments:?} is accepted")
        };
        error.render().to_string()
    }

    #[test]
    fn a_command_without_the_one_above_it_is_told_where_it_stands() {
        for name in ["report", "who", "audit", "record", "replay", "probe"] {
            let said = said(&["surefoot", name, "--duration", "1s"]);
            assert!(said.starts_with(&format!("error: '{name}' stands below ")), "{said}");
            assert!(said.contains(&format!("'surefoot stall {name}'")), "{said}");
        }
        let several = said(&["surefoot", "run"]);
        assert!(several.ends_with("write one of 'surefoot nic run', 'surefoot disturb run'\n"), "{several}");
        assert!(said(&["surefoot", "stats"]).contains("'status'"), "clap knows that one");
        assert!(!said(&["surefoot", "read-name"]).contains("write"));
    }

    #[test]
    fn a_time_without_its_option_is_told_with_it() {
        let mut seen = 0;
        let root = Arguments::command();
        for above in root.get_subcommands() {
            for below in above.get_subcommands().chain([above]) {
                let has = |name: &str| below.get_arguments().any(|argument| argument.get_long() == Some(name));
                let Some(option) = ["duration", "for"].into_iter().find(|name| has(name)) else { continue };
                if below.get_positionals().next().is_some() {
                    continue;
                }
                let mut words = vec!["surefoot", above.get_name()];
                if below.get_name() != above.get_name() {
                    words.push(below.get_name());
                }
                words.push("2s");
                let said = said(&words);
                let told = format!("error: unexpected argument '2s' found: write --{option} 2s\n");
                assert!(said.starts_with(&told), "{words:?}: {said}");
                seen += 1;
            }
        }
        assert!(seen > 8, "{seen}");
        assert!(!said(&["surefoot", "stall", "report", "soon"]).contains("write --"));
    }

    #[test]
    fn every_path_of_a_command_is_found() {
        let (_, Named { command, paths }) =
            parse(["surefoot", "memory", "import", "a", "b", "--into", "c", "--format", "kernel"].map(Into::into))
                .unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(command, "memory import");
        assert_eq!(
            paths.iter().map(|path| path.to_string_lossy()).collect::<std::collections::BTreeSet<_>>(),
            ["a", "b", "c"].map(Into::into).into()
        );
        let (_, Named { paths, .. }) =
            parse(["surefoot", "watch", "--checks", "x", "--checkpoints", "y", "--experiments", "z"].map(Into::into))
                .unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!(paths, [PathBuf::from("x")]);
    }

    #[test]
    fn without_a_command_three_are_named_that_exist() {
        assert!(matches!(parse(["surefoot".into()]), Err(Wrong::NoCommand)));
        let named: Vec<&str> =
            FIRST.lines().filter_map(|line| line.strip_prefix("  surefoot ")?.split(' ').next()).collect();
        assert_eq!(named, ["demo", "watch", "status"]);
        assert!(named.iter().all(|name| Arguments::command().find_subcommand(name).is_some()));
    }

    #[test]
    fn what_is_no_number_is_told_in_words_for_people() {
        for (arguments, why) in [
            (&["surefoot", "watch", "--port", "x"][..], "'x' for '--port <PORT>': not a whole number"),
            (&["surefoot", "watch", "--health-users", "1,b"], "'b' for '--health-users <USERS>': not a whole number"),
            (&["surefoot", "memory", "import", "f", "--show", ""], ": a number is missing"),
            (&["surefoot", "memory", "import", "f", "--show", "99999999999999999999999"], ": the number is too large"),
        ] {
            let said = said(arguments);
            assert!(said.starts_with("error: invalid value") && said.contains(why), "{said}");
            assert!(said.ends_with("For more information, try '--help'.\n"), "{said}");
        }
    }

    #[test]
    fn an_argument_is_repeated_on_one_line_and_help_keeps_its_lines() {
        const HOSTILE: &str = "x\nsurefoot: all is well\u{1b}[2J\u{202e}";
        for arguments in [
            &["surefoot", HOSTILE][..],
            &["surefoot", "status", HOSTILE],
            &["surefoot", "stall", "report", "--duration", HOSTILE],
            &["surefoot", "watch", &format!("--{HOSTILE}")],
            &["surefoot", "remedy", "serve", "--listen", HOSTILE],
        ] {
            let said = said(arguments);
            assert!(said.contains("x?surefoot: all is well?[2J?"), "{said:?}");
            assert!(said.lines().all(|line| !line.starts_with("surefoot: all")), "{said:?}");
            assert!(said.chars().all(|letter| letter == '\n' || !surefoot_model::is_harmful(letter)), "{said:?}");
        }
        assert!(said(&["surefoot", "--help"]).lines().count() > 10);
    }
}
