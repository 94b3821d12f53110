//! The numbers that the programs and user space share, taken from the headers of the programs to Rust.
//!
//! The headers are the only place where they are written. Their names are read from the text; what they are worth, how
//! large a struct is and where a field of it lies, the compiler says that compiles the programs. A name that is not in the
//! headers does not compile in Rust, and one that is misread here does not compile in C.

use crate::compiler::Compiler;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The headers that declare nothing but what is shared. Others define maps, of which one object may have each once.
const HEADERS: [&str; 6] = ["layout.h", "programs.h", "records.h", "raisers.h", "freeze.h", "task_numbers.h"];

/// What a header declares, in the order of its text.
#[derive(Default)]
struct Declared {
    /// Names of constants, each with that of its enum; unnamed enums have none.
    constants: Vec<(String, String)>,
    /// Structs with their fields.
    structs: Vec<(String, Vec<String>)>,
    /// Vectors: `VECTOR(name, cause)`.
    vectors: Vec<(String, String)>,
}

/// Writes the Rust module of the shared numbers.
pub fn generate(compiler: &Compiler, out: &Path) {
    let mut declared = Declared::default();
    for header in HEADERS {
        let path = Path::new("bpf").join(header);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        declared.read(&without_comments(&text));
    }
    let values = worth(compiler, &declared.expressions(), out);
    fs::write(out.join("shared.rs"), declared.to_rust(&values)).expect("cargo's directory can be written");
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

impl Declared {
    fn read(&mut self, code: &str) {
        for part in code.split("VECTOR(").skip(1) {
            let (name, cause) = part.split_once(')').and_then(|(both, _)| both.split_once(',')).expect("a vector");
            self.vectors.push((name.trim().to_owned(), cause.trim().to_owned()));
        }
        // Bodies hold no braces of their own: these headers nest nothing and define no function.
        let mut rest = code;
        while let Some((head, body)) = rest.split_once('{') {
            let (body, after) = body.split_once('}').expect("a brace is closed");
            let mut words = head.split_whitespace().rev();
            let (last, before) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            match (before, last) {
                ("struct", name) => self.structs.push((name.to_owned(), fields(body))),
                ("enum", name) => self.add_constants(name, body),
                (_, "enum") => self.add_constants("", body),
                _ => {}
            }
            rest = after;
        }
    }

    fn add_constants(&mut self, of: &str, body: &str) {
        // A comma within parentheses does not separate.
        let mut depth = 0;
        let separates = |letter: char| {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            letter == ',' && depth == 0
        };
        let names = body.split(separates).filter_map(|each| each.split_whitespace().next());
        self.constants.extend(names.map(|name| (name.to_owned(), of.to_owned())));
    }

    /// What the compiler is to be asked, in the order in which [`Declared::to_rust`] takes the answers.
    fn expressions(&self) -> Vec<String> {
        let constants = self.constants.iter().map(|(name, _)| name.clone());
        let structs = self.structs.iter().flat_map(|(name, fields)| {
            let of_field = move |field: &String| {
                [
                    format!("__builtin_offsetof(struct {name}, {field})"),
                    format!("sizeof(((struct {name} *)0)->{field})"),
                ]
            };
            std::iter::once(format!("sizeof(struct {name})")).chain(fields.iter().flat_map(of_field))
        });
        let vectors = self.vectors.iter().map(|(_, cause)| cause.clone());
        constants.chain(structs).chain(vectors).collect()
    }

    fn to_rust(&self, values: &[u64]) -> String {
        let mut values = values.iter();
        let mut next = || values.next().expect("one answer for each question");
        let mut rust = String::from("// Written by build/numbers.rs.\n");
        let mut put = |line: String| writeln!(rust, "{line}").expect("a string takes all");
        for (name, _) in &self.constants {
            put(format!("pub const {name}: usize = {};", next()));
        }
        for (name, fields) in &self.structs {
            put(format!("pub mod {name} {{\n    use super::Field;\n    pub const BYTES: usize = {};", next()));
            put(format!("    pub const FIELDS: usize = {};", fields.len()));
            for field in fields {
                put(format!("    pub const {field}: Field = Field {{ at: {}, bytes: {} }};", next(), next()));
            }
            put("}".to_owned());
        }
        let vectors: Vec<String> = self.vectors.iter().map(|(name, _)| format!("(\"{name}\", {})", next())).collect();
        put(format!("pub const VECTORS: [(&str, usize); {}] = [{}];", vectors.len(), vectors.join(", ")));
        let mut enums: Vec<&String> = self.constants.iter().map(|(_, of)| of).filter(|of| !of.is_empty()).collect();
        enums.dedup();
        for of in enums {
            let count = self.constants.iter().filter(|(_, each)| each == of).count();
            put(format!("pub const {}_COUNT: usize = {count};", of.to_uppercase()));
        }
        rust
    }
}

/// The names of a struct's fields: each the last word before its semicolon, without the length of an array.
fn fields(body: &str) -> Vec<String> {
    let declarations = body.split(';').map(str::trim).filter(|declaration| !declaration.is_empty());
    let name = |declaration: &str| {
        let before_length = declaration.split('[').next().unwrap_or_default();
        before_length.split_whitespace().next_back().expect("a field has a name").to_owned()
    };
    declarations.map(name).collect()
}

/// What expressions are worth, from the assembly of a table of them.
fn worth(compiler: &Compiler, expressions: &[String], out: &Path) -> Vec<u64> {
    let (source, assembly) = (out.join("numbers.c"), out.join("numbers.s"));
    let includes: String = HEADERS.iter().map(|header| format!("#include \"{header}\"\n")).collect();
    // The first entry keeps the table from being all zeros, which would be written as a length.
    let table = format!("{includes}unsigned long long numbers[] = {{\n1,\n{}\n}};\n", expressions.join(",\n"));
    fs::write(&source, table).expect("cargo's directory can be written");
    compiler.run(&["-S", "-I", "bpf"], &source, &assembly);
    let text = fs::read_to_string(&assembly).expect("the compiler wrote it");
    let entries = text.lines().filter_map(|line| line.trim().strip_prefix(".quad"));
    let number = |entry: &str| {
        let digits = entry.split('#').next().unwrap_or_default().trim();
        digits.parse::<u64>().unwrap_or_else(|_| panic!("'{digits}' is not a number"))
    };
    let values: Vec<u64> = entries.map(number).collect();
    assert_eq!(values.len(), expressions.len() + 1, "the compiler answers each question once");
    values[1..].to_vec()
}
