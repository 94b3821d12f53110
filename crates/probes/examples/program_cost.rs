//! What each of the ledger's programs takes per event, by the kernel's own statistics, beside a program that does nothing.
//!
//!     cargo run --release -p surefoot-probes --example program_cost -- [ROUNDS] [NAME=OBJECT]...
//!
//! The statistics read a clock before and after each run, and that is in what they say: an empty program on the same
//! tracepoint tells how much of it. Other builds of the ledger's object can be named beside the one that is embedded. In
//! each round every one of them has its turn, alone attached, in changing order; what is printed are medians over the
//! rounds, and the median of the differences within a round with their quartiles. It needs root and two cores.

use libbpf_rs::{Link, Object, ObjectBuilder};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::hint::spin_loop;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

static LEDGER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger.bpf.o"));

/// Programs that print something only where they ran that often in a turn.
const RUNS: u64 = 40;

/// Of each load in a turn.
const A_WHILE: Duration = Duration::from_millis(300);

/// The part of the object's settings that it looks at; as `struct config` in bpf/layout.h.
#[repr(C)]
struct Config {
    late_threshold_ns: u64,
    workload_comm: [u64; 2],
    workload_by: u32,
    self_tgid: u32,
    cpu_count: u32,
    reserved: u32,
}

/// What is attached, each program with its tracepoint's name.
struct Attached {
    programs: Vec<(String, RawFd)>,
    _links: Vec<Link>,
    _object: Option<Object>,
    _descriptors: Vec<OwnedFd>,
}

/// Runs and time of each program.
type Runs = BTreeMap<String, (u64, u64)>;

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1).peekable();
    let rounds: usize = words.next_if(|word| !word.contains('=')).map_or(Ok(9), |word| word.parse())?;
    let mut variants: Vec<(String, Option<Vec<u8>>)> =
        vec![("empty".into(), None), ("this build".into(), Some(LEDGER.to_vec()))];
    for word in words {
        let (name, path) = word.split_once('=').ok_or("name objects as NAME=OBJECT")?;
        variants.push((name.to_owned(), Some(std::fs::read(path).map_err(|error| format!("{path}: {error}"))?)));
    }
    // SAFETY: the call takes no pointers; the descriptor lives as long as the process, and the statistics with it.
    if unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) } < 0 {
        return Err("the kernel does not measure its programs for us: this needs root".into());
    }
    let tracepoints: Vec<String> = attach(LEDGER)?.programs.into_iter().map(|(name, _)| name).collect();
    // Of each load and program: by variant, the mean of each round.
    let mut means: BTreeMap<(&str, String), Vec<Vec<Option<f64>>>> = BTreeMap::new();
    for round in 0..rounds {
        for turn in 0..variants.len() {
            let place = (round + turn) % variants.len();
            let attached = match &variants[place].1 {
                Some(object) => attach(object)?,
                None => attach_empty(&tracepoints)?,
            };
            for (load, run) in [("storm", storm as fn()), ("switches", switches), ("wake-ups", wake_ups)] {
                let before = attached.runs();
                run();
                for (name, (ns, count)) in attached.runs() {
                    let (ns, count) = (ns - before[&name].0, count - before[&name].1);
                    let of = means.entry((load, name)).or_insert_with(|| vec![vec![None; rounds]; variants.len()]);
                    of[place][round] = (count >= RUNS).then_some(ns as f64 / count as f64);
                }
            }
        }
    }
    print(&variants, &means);
    Ok(())
}

fn print(variants: &[(String, Option<Vec<u8>>)], means: &BTreeMap<(&str, String), Vec<Vec<Option<f64>>>>) {
    print!("{:<10} {:<28}", "load", "program");
    for (place, (name, _)) in variants.iter().enumerate() {
        print!(" {name:>14}{}", if place == 0 { String::new() } else { format!(" {:>24}", "less empty (quartiles)") });
    }
    println!("   ns a run");
    for ((load, program), rounds) in means {
        let medians: Vec<Option<f64>> = rounds.iter().map(|means| median(means.iter().flatten().copied())).collect();
        if medians.iter().all(Option::is_none) {
            continue;
        }
        print!("{load:<10} {program:<28}");
        for (place, middle) in medians.iter().enumerate() {
            print!(" {:>14}", middle.map_or("-".into(), |ns| format!("{ns:.0}")));
            if place > 0 {
                let pairs = rounds[place].iter().zip(&rounds[0]).filter_map(|(ours, empty)| Some((*ours)? - (*empty)?));
                print!(" {:>24}", spread(pairs.collect()));
            }
        }
        println!();
    }
}

fn median(numbers: impl Iterator<Item = f64>) -> Option<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied()
}

fn spread(mut numbers: Vec<f64>) -> String {
    numbers.sort_by(f64::total_cmp);
    let at = |quarter: usize| numbers[(numbers.len() * quarter / 4).min(numbers.len() - 1)];
    if numbers.is_empty() { "-".into() } else { format!("{:.0} ({:.0} to {:.0})", at(2), at(1), at(3)) }
}

impl Attached {
    fn runs(&self) -> Runs {
        let of = |fd: RawFd| {
            let mut info = libbpf_sys::bpf_prog_info::default();
            let mut bytes = size_of_val(&info) as u32;
            // SAFETY: the kernel writes no more bytes than it is told there are.
            let failed = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(fd, &mut info, &mut bytes) };
            assert_eq!(failed, 0, "a program that is held open has statistics");
            (info.run_time_ns, info.run_cnt)
        };
        self.programs.iter().map(|(name, fd)| (name.clone(), of(*fd))).collect()
    }
}

fn attach(object: &[u8]) -> Result<Attached, Failure> {
    let cpu_count = libbpf_rs::num_possible_cpus()?;
    let mut object = ObjectBuilder::default().open_memory(object)?;
    let config = Config {
        late_threshold_ns: 100_000,
        workload_comm: [0; 2],
        workload_by: 0,
        self_tgid: std::process::id(),
        cpu_count: cpu_count as u32,
        reserved: 0,
    };
    for mut map in object.maps_mut() {
        let entries = map.max_entries() as usize;
        match map.name().to_string_lossy().as_ref() {
            // One of each core, however many of them there are in the object.
            "slots" | "histograms" | "tape" | "late_ring" | "names" | "name_ring" => {
                map.set_max_entries((entries * cpu_count) as u32)?;
            }
            name if name.ends_with(".config") => {
                // SAFETY: the struct is repr(C) and made of integers without padding.
                let bytes = unsafe {
                    std::slice::from_raw_parts(std::ptr::from_ref(&config).cast::<u8>(), size_of::<Config>())
                };
                map.set_initial_value(bytes)?;
            }
            _ => {}
        }
    }
    for mut program in object.progs_mut() {
        // Vectors in which nothing ever comes, or that this kernel does not have, would only make attaching longer.
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(!["apic", "x86_platform", "console", "nmi"].iter().any(|silent| name.contains(silent)));
    }
    let object = object.load()?;
    let (mut programs, mut links) = (Vec::new(), Vec::new());
    for program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if !program.autoload() {
            continue;
        }
        links.push(program.attach().map_err(|error| format!("{name}: {error}"))?);
        programs.push((name, program.as_fd().as_raw_fd()));
    }
    Ok(Attached { programs, _links: links, _object: Some(object), _descriptors: Vec::new() })
}

/// Programs of two instructions: they return 0.
fn attach_empty(tracepoints: &[String]) -> Result<Attached, Failure> {
    let code = |code: u8| libbpf_sys::bpf_insn { code, ..Default::default() };
    let instructions = [code(0xb7), code(0x95)];
    let (mut programs, mut descriptors) = (Vec::new(), Vec::new());
    for name in tracepoints {
        let tracepoint = CString::new(name.as_str())?;
        // SAFETY: names and instructions live longer than the calls, which only read them; the kernel has just given us
        // the descriptors, and nobody else knows them.
        unsafe {
            let fd = libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_RAW_TRACEPOINT,
                c"empty".as_ptr(),
                c"Dual BSD/GPL".as_ptr(),
                instructions.as_ptr(),
                instructions.len() as u64,
                std::ptr::null_mut(),
            );
            let link = libbpf_sys::bpf_raw_tracepoint_open(tracepoint.as_ptr(), fd);
            if fd < 0 || link < 0 {
                return Err(format!("no empty program on {name}: {}", std::io::Error::last_os_error()).into());
            }
            descriptors.extend([OwnedFd::from_raw_fd(link), OwnedFd::from_raw_fd(fd)]);
            programs.push((name.clone(), fd));
        }
    }
    Ok(Attached { programs, _links: Vec::new(), _object: None, _descriptors: descriptors })
}

/// Core 0 unmaps touched memory, core 1 spins and is sent a shootdown each time.
fn storm() {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            take_the_core();
            while !done.load(Ordering::Relaxed) {
                spin_loop();
            }
        });
        pin(0);
        let end = Instant::now() + A_WHILE;
        while Instant::now() < end {
            unmap();
            let next = Instant::now() + Duration::from_micros(20);
            while Instant::now() < next {
                spin_loop();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn unmap() {
    const BYTES: usize = 65_536;
    // SAFETY: fresh memory is written within its bounds and given back; nothing else knows it.
    unsafe {
        let at = libc::mmap(
            std::ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(at, libc::MAP_FAILED);
        for page in (0..BYTES).step_by(4096) {
            at.cast::<u8>().add(page).write_volatile(1);
        }
        libc::munmap(at, BYTES);
    }
}

/// Two threads of core 1 pass a byte to and fro.
fn switches() {
    pass_to_and_fro(1, 1);
}

/// The same between the cores.
fn wake_ups() {
    pass_to_and_fro(0, 1);
}

fn pass_to_and_fro(first: usize, second: usize) {
    let (mut there, mut from_first) = std::io::pipe().expect("a pipe");
    let (mut back, mut from_second) = std::io::pipe().expect("a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(second);
            take_the_core();
            let mut byte = [0];
            while there.read(&mut byte).is_ok_and(|bytes| bytes == 1) {
                if from_second.write_all(&byte).is_err() {
                    break;
                }
            }
        });
        scope.spawn(move || {
            pin(first);
            if first == second {
                take_the_core();
            }
            let end = Instant::now() + A_WHILE;
            let mut byte = [1];
            while Instant::now() < end && from_first.write_all(&byte).is_ok() && back.read(&mut byte).is_ok() {}
        });
    });
}

/// So that the load of others takes its turns elsewhere; for a fraction of a second.
fn take_the_core() {
    let parameter = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameter is only read, for as long as the call lasts.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter) };
}

fn pin(cpu: usize) {
    // SAFETY: cpu_set_t is made of integers, for which zero is a value; the pointers are to a local.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0, "core {cpu} exists");
    }
}
