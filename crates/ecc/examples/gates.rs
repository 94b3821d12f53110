//! Prints the gates and the logic depth of the generated decoders, as Yosys maps them to gates of two inputs:
//!
//!     cargo run -p surefoot-ecc --example gates
//!
//! It takes about two minutes. A gate has two inputs (AND, NAND, OR, NOR, XOR, XNOR, and those with one input inverted) or is
//! an inverter. The depth is the number of gates, inverters included, on the longest path from an input to an output;
//! wires and fan-out are not counted.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, ExitCode};
use surefoot_ecc::Code;
use surefoot_ecc::hardware::{Unit, module_name, prefix, verilog};

/// Ways to gates, all of which take one unit of time: the module flattened before or after it is mapped, and the script
/// for ABC. `&dch` and `&nf` use structural choices; `map` takes the structure as the Verilog has it. Mappers are
/// heuristics and none is always best: the result with the smallest depth counts, then the one with the fewest gates.
const WAYS: [(&str, &str, &str); 3] = [
    ("-flatten", "+strash;map;topo", ""),
    ("-flatten", "+strash;&get,-n;&dch,-f;&nf;&put", ""),
    ("", "+strash;&get,-n;&dch,-f;&nf;&put", "flatten;"),
];

fn main() -> ExitCode {
    match table() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("gates: {why}");
            ExitCode::from(3)
        }
    }
}

fn table() -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    println!("| code | unit | gates | of them XOR, XNOR | depth |\n|---|---|---|---|---|");
    for code in Code::ALL {
        let file = directory.path().join(format!("{}.v", prefix(code)));
        std::fs::write(&file, verilog(code)).map_err(|error| format!("{}: {error}", file.display()))?;
        for unit in Unit::ALL {
            let mut mapped = Vec::new();
            for way in WAYS {
                mapped.push(synthesize(directory.path(), code, unit, way)?);
            }
            let mapped = mapped.into_iter().min_by_key(|mapped| (mapped.depth, mapped.gates)).unwrap();
            println!("| {code} | {} | {} | {} | {} |", unit.name(), mapped.gates, mapped.xors, mapped.depth);
        }
    }
    Ok(())
}

struct Mapped {
    gates: usize,
    xors: usize,
    depth: usize,
}

fn synthesize(directory: &Path, code: Code, unit: Unit, way: (&str, &str, &str)) -> Result<Mapped, String> {
    let top = module_name(code, unit);
    let (before, mapping, after) = way;
    let script = format!(
        "read_verilog {}.v; synth {before} -noabc -top {top}; \
         abc -g AND,NAND,OR,NOR,XOR,XNOR,ANDNOT,ORNOT -script {mapping}; {after} opt_clean; tee -o stat.txt stat; tee -o depth.txt ltp",
        prefix(code)
    );
    let output = Command::new("yosys")
        .current_dir(directory)
        .args(["-q", "-p", &script])
        .output()
        .map_err(|error| format!("yosys cannot be run ({error}); install yosys"))?;
    if !output.status.success() {
        return Err(format!("yosys: {top}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let read = |name: &str| {
        std::fs::read_to_string(directory.join(name)).map_err(|error| format!("yosys wrote no {name}: {error}"))
    };
    let (stat, depth) = (read("stat.txt")?, read("depth.txt")?);
    let count = |name: &str| {
        let line = stat.lines().find_map(|line| line.trim().strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<usize>().ok())
    };
    let gates = count("Number of cells:").ok_or(format!("no number of cells in: {stat}"))?;
    let xors = count("$_XOR_").unwrap_or(0) + count("$_XNOR_").unwrap_or(0);
    let depth = depth.split("length=").nth(1).and_then(|rest| rest.split(')').next()?.parse().ok());
    Ok(Mapped { gates, xors, depth: depth.ok_or(format!("no length of the longest path of {top}"))? })
}
