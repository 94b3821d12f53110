//! Makes the C header of the checkpoints from the Rust sources of the functions, so that the two cannot differ.
//!
//! It knows the part of Rust that those sources are written in, and refuses what it does not know: `#[repr(C)]`
//! structures, `#[repr(i32)]` enumerations, `extern "C"` functions, and documentation above each.

use crate::workspace::{Checked, Workspace};
use std::path::Path;
use std::process::ExitCode;

/// Where the header is.
const HEADER: &str = "bindings/c/surefoot_checkpoint.h";

/// What it is made from, in this order.
const SOURCES: &[&str] = &[
    "bindings/c/src/version.rs",
    "bindings/c/src/status.rs",
    "bindings/c/src/group.rs",
    "bindings/c/src/config.rs",
    "bindings/c/src/checkpoint.rs",
    "bindings/c/src/resized.rs",
];

const BEGIN: &str = "\
/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Checkpoints that survive: memory at memory speed, the SSD as often as its endurance allows, restarts that heal.
 *
 * Made from the sources of the library by `cargo xtask header`; change those. docs/guide/checkpoint-c.md shows a whole
 * program. C99 and later, C++98 and later; link with -lsurefoot.
 *
 * Functions that return an int return a surefoot_status: 0 is good, 1 is nothing to restart from, failures are
 * negative. A function that is called collective is called by all ranks of the job, in the same order.
 */
#ifndef SUREFOOT_CHECKPOINT_H
#define SUREFOOT_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>
";

const OPEN: &str = "
#ifdef __cplusplus
extern \"C\" {
#endif
";

const END: &str = "
#ifdef __cplusplus
}
#endif
#endif
";

/// Writes the header anew.
pub fn write(workspace: &Workspace) -> ExitCode {
    let written = made(workspace)
        .and_then(|text| std::fs::write(workspace.root.join(HEADER), text).map_err(|error| error.to_string()));
    match written {
        Ok(()) => {
            println!("{HEADER} is written");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{HEADER} cannot be made: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the header in the repository is the one that its sources give.
pub fn check(workspace: &Workspace) -> Result<Checked, String> {
    let text = made(workspace)?;
    let stale = workspace.text(Path::new(HEADER)).is_none_or(|found| found != text);
    let faults =
        if stale { vec![format!("{HEADER} is not what its sources say; run cargo xtask header")] } else { vec![] };
    Ok(Checked::from_faults(faults, format!("{HEADER} is what its sources say")))
}

fn made(workspace: &Workspace) -> Result<String, String> {
    let manifest = workspace.text(Path::new("Cargo.toml")).ok_or("Cargo.toml cannot be read")?;
    let mut header = BEGIN.to_owned() + &version_macros(&manifest)? + OPEN;
    for source in SOURCES {
        let text = workspace.text(Path::new(source)).ok_or_else(|| format!("{source} cannot be read"))?;
        header += &declarations(&text).map_err(|why| format!("{source}: {why}"))?;
    }
    Ok(header + END)
}

/// The workspace's version as macros.
fn version_macros(manifest: &str) -> Result<String, String> {
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let version = version.ok_or("Cargo.toml has no version of the workspace")?;
    let numbers: Vec<u32> = version.split('.').map_while(|number| number.parse().ok()).collect();
    let [major, minor, patch] = numbers[..] else { return Err(format!("{version:?} is not three numbers")) };
    Ok(format!(
        "
/* The version of this header; surefoot_version() is that of the library. SUREFOOT_VERSION_NUMBER grows with it. */
#define SUREFOOT_VERSION \"{version}\"
#define SUREFOOT_VERSION_MAJOR {major}
#define SUREFOOT_VERSION_MINOR {minor}
#define SUREFOOT_VERSION_PATCH {patch}
#define SUREFOOT_VERSION_NUMBER {}
",
        (major * 1000 + minor) * 1000 + patch
    ))
}

/// What a source declares for C.
fn declarations(source: &str) -> Result<String, String> {
    let shipped = crate::rust_text::without_tests(source);
    let mut lines = shipped.lines();
    let mut header = String::new();
    let mut documentation: Vec<&str> = Vec::new();
    let mut layout = None;
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("///") {
            documentation.push(text);
        } else if let Some(kind) = line.strip_prefix("#[repr(") {
            layout = kind.strip_suffix(")]");
        } else if line.starts_with("#[") {
            continue;
        } else if let Some(name) = declared(line, "pub enum ", layout) {
            header += &enumeration(name, &documentation, &mut lines)?;
        } else if let Some(name) = declared(line, "pub struct ", layout) {
            header += &structure(name, &documentation, &mut lines)?;
        } else if line.starts_with("pub ") && line.contains(" extern \"C\" fn ") {
            header += &function(line, &documentation, &mut lines)?;
        }
        if !line.starts_with("///") && !line.starts_with("#[") {
            documentation.clear();
            layout = None;
        }
    }
    Ok(header)
}

fn declared<'a>(line: &'a str, kind: &str, layout: Option<&str>) -> Option<&'a str> {
    layout?;
    line.strip_prefix(kind)?.strip_suffix(" {")
}

fn enumeration<'a>(
    name: &str,
    documentation: &[&str],
    lines: &mut impl Iterator<Item = &'a str>,
) -> Result<String, String> {
    let prefix = snake(name).to_uppercase();
    let mut text = format!("\n{}enum {} {{\n", comment(documentation, ""), snake(name));
    let mut above = Vec::new();
    for line in body(lines) {
        let line = line.trim();
        if let Some(documentation) = line.strip_prefix("///") {
            above.push(documentation);
            continue;
        }
        let (variant, number) =
            line.trim_end_matches(',').split_once(" = ").ok_or_else(|| format!("'{line}' gives no number"))?;
        text += &format!("{}\t{prefix}_{} = {number},\n", comment(&above, "\t"), snake(variant).to_uppercase());
        above.clear();
    }
    // C++98 has no comma after the last.
    Ok(text.trim_end_matches(",\n").to_owned() + "\n};\n")
}

fn structure<'a>(
    name: &str,
    documentation: &[&str],
    lines: &mut impl Iterator<Item = &'a str>,
) -> Result<String, String> {
    let (snake, comment_above) = (snake(name), comment(documentation, ""));
    let fields: String = body(lines).into_iter().map(|line| format!("{}\n", line.trim())).collect();
    // A long type stands on lines of its own.
    let fields = fields.replace("<\n", "<").replace(",\n>", ">");
    if fields.starts_with("_opaque:") {
        return Ok(format!("\n{comment_above}typedef struct {snake} {snake};\n"));
    }
    let mut text = format!("\n{comment_above}struct {snake} {{\n");
    let mut rest = fields.as_str();
    while !rest.trim().is_empty() {
        let field_at = rest.find("pub ").ok_or_else(|| format!("{name} has a field that is not public"))?;
        let above: Vec<&str> = rest[..field_at].lines().filter_map(|line| line.strip_prefix("///")).collect();
        let field = &rest[field_at + 4..];
        let end = end_of_part(field).ok_or_else(|| format!("a field of {name} does not end in a comma"))?;
        let (field_name, kind) = field[..end].split_once(':').ok_or_else(|| format!("{name} has a nameless field"))?;
        text += &format!("{}\t{};\n", comment(&above, "\t"), variable(field_name, kind)?);
        rest = &field[end + 1..];
    }
    Ok(text + "};\n")
}

fn function<'a>(
    line: &str,
    documentation: &[&str],
    lines: &mut impl Iterator<Item = &'a str>,
) -> Result<String, String> {
    let mut head = line.to_owned();
    while !head.ends_with('{') {
        head += lines.next().ok_or("a function has no body")?.trim();
    }
    let rest = head.split_once(" fn ").map(|(_, rest)| rest).ok_or("a function has no name")?;
    let (name, rest) = rest.split_once('(').ok_or("a function has no arguments")?;
    let (arguments, result) = rest.rsplit_once(')').ok_or("a function's arguments do not end")?;
    let result = result.trim().trim_end_matches('{').trim();
    let result = match result.strip_prefix("->") {
        Some(kind) => variable("", kind)?,
        None => "void ".into(),
    };
    let declaration = format!("{result}{name}({})", self::arguments(arguments)?);
    for line in lines {
        if line == "}" {
            break;
        }
    }
    Ok(format!("\n{}{declaration};\n", comment(documentation, "")))
}

/// The lines up to the brace that closes an item.
fn body<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    lines.take_while(|line| *line != "}").collect()
}

fn arguments(list: &str) -> Result<String, String> {
    let mut texts = Vec::new();
    let mut rest = list.trim().to_owned();
    while !rest.is_empty() {
        let end = end_of_part(&rest).unwrap_or(rest.len());
        let (name, kind) = rest[..end].split_once(':').ok_or_else(|| format!("'{rest}' has no type"))?;
        texts.push(variable(name, kind)?);
        rest = rest.get(end + 1..).unwrap_or_default().trim().to_owned();
    }
    Ok(if texts.is_empty() { "void".into() } else { texts.join(", ") })
}

/// Where the first comma is that is not inside parentheses.
fn end_of_part(text: &str) -> Option<usize> {
    let mut depth = 0i32;
    text.char_indices().find_map(|(at, sign)| {
        depth += match sign {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        (sign == ',' && depth == 0).then_some(at)
    })
}

/// A variable, a field or an argument as C declares it; without a name, the type with what separates it from one.
fn variable(name: &str, kind: &str) -> Result<String, String> {
    let (name, kind) = (name.trim(), kind.trim());
    if let Some(pointed) = kind.strip_prefix("Option<unsafe extern \"C\" fn(").and_then(|kind| kind.strip_suffix('>')) {
        let (list, result) = pointed.rsplit_once(") ->").ok_or_else(|| format!("'{kind}' returns nothing"))?;
        return Ok(format!("{}(*{name})({})", variable("", result)?, arguments(list)?));
    }
    if let Some(pointed) = kind.strip_prefix("*mut ") {
        let inner = variable("", pointed)?;
        return Ok(format!("{inner}*{name}"));
    }
    if let Some(pointed) = kind.strip_prefix("*const ") {
        let inner = variable("", pointed)?;
        // What is constant is the thing pointed to, which may be a pointer itself.
        let inner = if inner.ends_with('*') { format!("{inner}const ") } else { format!("const {inner}") };
        return Ok(format!("{inner}*{name}"));
    }
    let of_c = match kind {
        "c_char" => "char",
        "c_int" => "int",
        "c_void" => "void",
        "f64" => "double",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        "usize" => "size_t",
        // The opaque ones have a typedef; the others are named as what they are.
        "SurefootConfig" | "SurefootCheckpoint" => return Ok(format!("{} {name}", snake(kind))),
        _ if kind.starts_with("Surefoot") => return Ok(format!("struct {} {name}", snake(kind))),
        _ => return Err(format!("the type '{kind}' has no C name here")),
    };
    Ok(format!("{of_c} {name}"))
}

/// Documentation as a comment. What a Rust caller must promise, a C caller reads as a rule.
fn comment(documentation: &[&str], indent: &str) -> String {
    let lines: Vec<String> = documentation
        .iter()
        .map(|line| line.strip_prefix(' ').unwrap_or(line).replace('`', ""))
        .map(|line| if line == "# Safety" { "Rules:".to_owned() } else { line })
        .collect();
    let lines: Vec<&String> = lines
        .iter()
        .enumerate()
        .filter(|(at, line)| !(line.is_empty() && *at > 0 && lines[at - 1] == "Rules:"))
        .map(|(_, line)| line)
        .collect();
    match lines.as_slice() {
        [] => String::new(),
        [only] => format!("{indent}/* {only} */\n"),
        [first, rest @ ..] => {
            let mut text = format!("{indent}/* {first}\n");
            for line in rest {
                text += format!("{indent} * {line}").trim_end();
                text.push('\n');
            }
            text + indent + " */\n"
        }
    }
}

/// `SurefootSaved` as `surefoot_saved`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for (at, sign) in name.char_indices() {
        if sign.is_ascii_uppercase() && at > 0 {
            text.push('_');
        }
        text.push(sign.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_in_the_repository_is_what_its_sources_say() {
        match check(&Workspace::here()).unwrap() {
            Checked::Clean(_) => {}
            Checked::Faults(faults) => panic!("{faults:?}"),
            Checked::NotRun(why) => panic!("{why}"),
        }
    }

    #[test]
    fn each_kind_of_item_has_its_form_in_c() {
        let source = "\
/// A state.
#[repr(i32)]
#[derive(Debug)]
pub enum SurefootState {
    /// All is well.
    AllGood = 0,
    Bad = -1,
}

/// Somebody's.
#[repr(C)]
pub struct SurefootConfig {
    _opaque: [u8; 0],
}

#[repr(C)]
pub struct SurefootPair {
    /// First.
    pub first: *mut c_void,
    pub call: Option<
        unsafe extern \"C\" fn(
            a: *const c_void,
            bytes: usize,
        ) -> c_int,
    >,
}

/// Not for C.
pub struct Inner {
    pub a: u8,
}

/// Makes `it`.
///
/// # Safety
///
/// `out` is room.
#[unsafe(no_mangle)]
pub unsafe extern \"C\" fn surefoot_make(
    pair: *const SurefootPair,
    out: *mut *mut SurefootConfig,
) -> c_int {
    0
}

pub extern \"C\" fn surefoot_text() -> *const c_char {
}
";
        let expected = "
/* A state. */
enum surefoot_state {
\t/* All is well. */
\tSUREFOOT_STATE_ALL_GOOD = 0,
\tSUREFOOT_STATE_BAD = -1
};

/* Somebody's. */
typedef struct surefoot_config surefoot_config;

struct surefoot_pair {
\t/* First. */
\tvoid *first;
\tint (*call)(const void *a, size_t bytes);
};

/* Makes it.
 *
 * Rules:
 * out is room.
 */
int surefoot_make(const struct surefoot_pair *pair, surefoot_config **out);

const char *surefoot_text(void);
";
        assert_eq!(declarations(source).unwrap(), expected);
    }

    #[test]
    fn the_version_becomes_numbers_that_grow() {
        let macros = version_macros("[workspace.package]\nversion = \"1.20.3\"\n").unwrap();
        assert!(macros.contains("#define SUREFOOT_VERSION \"1.20.3\"\n"), "{macros}");
        assert!(macros.contains("#define SUREFOOT_VERSION_NUMBER 1020003\n"), "{macros}");
        assert!(version_macros("version = \"1.2\"").is_err() && version_macros("").is_err());
    }

    #[test]
    fn what_it_does_not_know_is_refused() {
        let odd = "pub extern \"C\" fn surefoot_odd(a: &str) {\n}\n";
        assert!(declarations(odd).unwrap_err().contains("'&str'"));
        assert!(declarations("#[repr(i32)]\npub enum SurefootA {\n    B,\n}\n").unwrap_err().contains("no number"));
        assert!(
            declarations("#[repr(C)]\npub struct SurefootA {\n    b: u32,\n}\n").unwrap_err().contains("not public")
        );
    }
}
