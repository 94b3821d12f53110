//! Takes the numbers and the layout of the C header to Rust, where `layout.rs` compares them with its own: the two
//! write the same files, and only one of them can be compiled here everywhere.
//!
//! No C compiler is needed for that. The header uses integers of a fixed width and arrays of bytes only, each aligned to
//! its own size, as both kinds of machine that it supports do; a test asks the C compiler whether that is so.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// What the header defines as a number.
const NUMBERS: [&str; 3] = ["SF_LOOP_VERSION", "SF_LOOP_CAPACITY", "SF_LOOP_NAME_BYTES"];

/// The structs that lie in a file.
const STRUCTS: [&str; 2] = ["sf_loop_header", "sf_loop_gap"];

fn main() {
    let header = Path::new("../../bindings/c/surefoot_inloop.h");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", header.display());
    let text = fs::read_to_string(header).unwrap_or_else(|error| panic!("{}: {error}", header.display()));
    let text = without_comments(&text);
    let mut rust = String::from("// Written by build.rs.\n");
    for name in NUMBERS {
        rust += &format!("pub const {name}: u64 = {};\n", number(&text, name));
    }
    rust += &format!("pub const SF_LOOP_DIRECTORY: &str = {};\n", defined(&text, "SF_LOOP_DIRECTORY"));
    for name in STRUCTS {
        rust += &layout(&text, name);
    }
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("c_header.rs"), rust).expect("cargo's directory can be written");
}

fn without_comments(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").expect("a comment ends").1;
    }
    code + rest
}

/// What a name is defined as.
fn defined<'a>(text: &'a str, name: &str) -> &'a str {
    let definition = text.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
    definition.unwrap_or_else(|| panic!("the header defines no {name}")).trim()
}

fn number(text: &str, name: &str) -> u64 {
    let value = defined(text, name);
    value.parse().unwrap_or_else(|_| panic!("{name} is '{value}', which is not a number"))
}

/// A module with the offset and the size of each field, and the size of the struct.
fn layout(text: &str, name: &str) -> String {
    let body = text.split_once(&format!("\nstruct {name} {{")).and_then(|(_, rest)| rest.split_once('}'));
    let (body, _) = body.unwrap_or_else(|| panic!("the header has no struct {name}"));
    let (mut rust, mut at, mut widest, mut fields) = (format!("pub mod {name} {{\n"), 0, 1, 0);
    for declaration in body.split(';').map(str::trim).filter(|declaration| !declaration.is_empty()) {
        let (kind, field) = declaration.split_once(char::is_whitespace).expect("a field has a type and a name");
        let width = match kind {
            "uint64_t" => 8,
            "uint32_t" => 4,
            "uint8_t" | "char" => 1,
            other => panic!("struct {name} has a field of type {other}, of which the size is not known here"),
        };
        let (field, count) = match field.trim().split_once('[') {
            None => (field.trim(), 1),
            Some((field, length)) => {
                let length = length.trim_end_matches(']').trim();
                (field, length.parse().unwrap_or_else(|_| number(text, length)))
            }
        };
        at = u64::next_multiple_of(at, width);
        writeln!(rust, "    pub const {field}: (usize, usize) = ({at}, {});", width * count)
            .expect("a string takes all");
        at += width * count;
        widest = widest.max(width);
        fields += 1;
    }
    let bytes = u64::next_multiple_of(at, widest);
    rust + &format!("    pub const FIELDS: usize = {fields};\n    pub const BYTES: usize = {bytes};\n}}\n")
}
