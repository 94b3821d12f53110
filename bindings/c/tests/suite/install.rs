//! The library below a prefix of its own, and programs that are built and run against that alone.

use super::build::{Linked, bindings, can_run, compile, exists, libraries};
use super::run::{Tiers, line, mpirun, said, text_of};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use surefoot_testkit::not_run::not_run;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// `make` of a target, for what this test run has built.
pub fn make(target: &str, prefix: &Path, more: &[&str]) -> Output {
    let mut command = Command::new("make");
    command.args(["--no-print-directory", "-C"]).arg(bindings().join("../..")).arg(target).args(more);
    command.arg(format!("PREFIX={}", prefix.display())).arg(format!("BUILT={}", libraries().display()));
    // What cargo or an outer make said is not for this one.
    for name in ["MAKEFLAGS", "MFLAGS", "DESTDIR", "LIBDIR"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

/// Whether a test can install; if not, says that it does not run.
fn can_install(test: &str, programs: &[&str], remedy: &str) -> bool {
    can_run(test, &["make", "objcopy"], "install make and binutils") && can_run(test, programs, remedy)
}

/// A prefix with the library, in the tiers of a test.
fn installed(tiers: &Tiers) -> PathBuf {
    let prefix = tiers.path("prefix");
    let output = make("install-library", &prefix, &[]);
    assert!(output.status.success(), "{}", said(&output));
    prefix
}

/// What the library may have when it is installed: it is copied to every node of a cluster, or into every image.
const LIBRARY_BYTES_MAX: u64 = 3 << 20;

#[test]
#[ignore = "optimising it takes two minutes of a processor: make soak runs it"]
fn the_library_as_it_is_installed_has_at_most_three_mib() {
    let test = "suite::install::the_library_as_it_is_installed_has_at_most_three_mib";
    if !can_install(test, &["cargo"], "install cargo") {
        return;
    }
    // As xtask/install.sh builds it: what these tests have built has no optimisation.
    let mut cargo = Command::new("cargo");
    cargo.args(["rustc", "--quiet", "--locked", "--profile", "library", "--package", "surefoot-c", "--lib"]);
    run(cargo.args(["--crate-type", "cdylib,staticlib"]).current_dir(bindings().join("../..")));
    let built = libraries().join("../../library/libsurefoot.so");
    let home = tempfile::tempdir().unwrap();
    let stripped = home.path().join("libsurefoot.so");
    run(Command::new("objcopy").arg("--strip-unneeded").arg(&built).arg(&stripped));
    let bytes = fs::metadata(&stripped).unwrap().len();
    assert!(
        bytes <= LIBRARY_BYTES_MAX,
        "{bytes} bytes, {LIBRARY_BYTES_MAX} are allowed: see bench/results/build.md on its size"
    );
}

/// Every file and link below a folder, by its path in it.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path().strip_prefix(folder).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What pkg-config says of the library below a prefix.
fn pkg_config(prefix: &Path, words: &[&str]) -> Vec<String> {
    let text = run(Command::new("pkg-config")
        .args(words)
        .arg("surefoot")
        .env("PKG_CONFIG_LIBDIR", prefix.join("lib/pkgconfig"))
        .env_remove("PKG_CONFIG_PATH"));
    text.split_whitespace().map(str::to_owned).collect()
}

/// Runs a program with the library of a prefix, and its checkpoints in the tiers of the test.
fn start(program: &Path, prefix: &Path, tiers: &Tiers) -> Command {
    let mut command = Command::new(program);
    surround(&mut command, prefix, tiers);
    command
}

fn surround(command: &mut Command, prefix: &Path, tiers: &Tiers) {
    command.env("LD_LIBRARY_PATH", prefix.join("lib")).env("SUREFOOT_CHECKPOINT_SETTINGS", "none");
    command.env("SUREFOOT_CHECKPOINT_MEMORY", tiers.path("memory")).env("SUREFOOT_CHECKPOINT_POLICY", "memory");
}

/// Runs for 30 steps, then for 50 from where that was, and expects what 50 steps give that nobody stopped.
fn goes_on(what: &str, says_where: &str, of_steps: impl Fn(&str, &Tiers) -> Command) -> String {
    let (tiers, fresh) = (Tiers::new(), Tiers::new());
    run(&mut of_steps("30", &tiers));
    let text = run(&mut of_steps("50", &tiers));
    assert!(line(&text, says_where).contains("from memory") && text.contains(", intact"), "{what}: {text}");
    let whole = run(&mut of_steps("50", &fresh));
    assert_eq!(line(&text, "after 50 steps"), line(&whole, "after 50 steps"), "{what}");
    text
}

#[test]
fn what_is_installed_is_versioned_and_goes_again_alone() {
    let test = "what_is_installed_is_versioned_and_goes_again_alone";
    if !can_install(test, &["readelf"], "install binutils") {
        return;
    }
    let tiers = Tiers::new();
    let prefix = tiers.path("prefix");
    fs::create_dir_all(prefix.join("lib/pkgconfig")).unwrap();
    fs::write(prefix.join("lib/pkgconfig/other.pc"), "another's").unwrap();
    let output = make("uninstall", &prefix, &[]);
    assert!(said(&output).contains("nothing is installed below") && !output.status.success(), "{}", said(&output));
    // What was there before is another's, and is not written over.
    let header = prefix.join("include/surefoot_checkpoint.h");
    fs::create_dir_all(prefix.join("include")).unwrap();
    fs::write(&header, "theirs").unwrap();
    let output = make("install-library", &prefix, &[]);
    assert!(said(&output).contains("is not ours") && !output.status.success(), "{}", said(&output));
    assert_eq!(fs::read_to_string(&header).unwrap(), "theirs");
    assert!(!prefix.join("lib/libsurefoot.a").exists(), "nothing was put there");
    fs::remove_file(&header).unwrap();
    installed(&tiers);
    // The command that was installed beside it stays, and goes with all else.
    let list = prefix.join("share/surefoot/installed");
    fs::create_dir_all(prefix.join("bin")).unwrap();
    fs::write(prefix.join("bin/surefoot"), "the command").unwrap();
    fs::write(&list, fs::read_to_string(&list).unwrap() + "bin/surefoot\n").unwrap();
    installed(&tiers);
    assert!(prefix.join("bin/surefoot").exists() && fs::read_to_string(&list).unwrap().contains("bin/surefoot"));
    fs::remove_file(prefix.join("bin/surefoot")).unwrap();
    fs::write(&list, fs::read_to_string(&list).unwrap().replace("bin/surefoot\n", "")).unwrap();
    let found = files(&prefix);
    for expected in [
        "include/surefoot_checkpoint.h",
        "include/surefoot_checkpoint_mpi.h",
        "lib/libsurefoot.a",
        "lib/libsurefoot.so",
        "lib/cmake/surefoot/surefootConfig.cmake",
        "lib/pkgconfig/surefoot.pc",
        "share/surefoot/fortran/surefoot_checkpoint_mpi.f90",
        "share/surefoot/installed",
    ] {
        assert!(found.iter().any(|path| path == expected), "{expected} is not among {found:?}");
    }
    assert!(!found.iter().any(|path| path.starts_with("bin/")), "{found:?}");
    // The names that a library has: for the linker, for programs that start, for itself.
    let lib = prefix.join("lib");
    let real = fs::canonicalize(lib.join("libsurefoot.so")).unwrap();
    assert_eq!(real.file_name().unwrap().to_str(), Some(format!("libsurefoot.so.{VERSION}").as_str()));
    let dynamic = run(Command::new("readelf").arg("--dynamic").arg(&real));
    let soname = dynamic.lines().find(|line| line.contains("SONAME")).unwrap();
    let soname = soname.split(['[', ']']).nth(1).unwrap();
    assert_eq!(fs::canonicalize(lib.join(soname)).unwrap(), real);
    assert!(!run(Command::new("readelf").arg("--sections").arg(&real)).contains(".debug_"), "it has debug data");

    // What an earlier version had and this one has not goes; what a list should not name stays.
    let list = prefix.join("share/surefoot/installed");
    fs::write(lib.join("libsurefoot.so.0.0.9"), "earlier").unwrap();
    let outside = tiers.path("outside");
    fs::write(&outside, "not ours").unwrap();
    let listed = fs::read_to_string(&list).unwrap();
    fs::write(&list, format!("lib/libsurefoot.so.0.0.9\n../outside\n{listed}")).unwrap();
    installed(&tiers);
    assert!(!lib.join("libsurefoot.so.0.0.9").exists() && outside.exists());
    assert_eq!(files(&prefix), found);
    assert!(make("uninstall", &prefix, &[]).status.success());
    assert_eq!(files(&prefix), ["lib/pkgconfig/other.pc"]);
    assert!(!prefix.join("share/surefoot").exists() && !lib.join("cmake/surefoot").exists());
}

#[test]
fn a_package_is_made_below_a_folder_that_stands_for_the_root() {
    let test = "a_package_is_made_below_a_folder_that_stands_for_the_root";
    if !can_install(test, &["pkg-config"], "install pkg-config") {
        return;
    }
    let tiers = Tiers::new();
    let destdir = format!("DESTDIR={}", tiers.path("package").display());
    let more = [destdir.as_str(), "LIBDIR=lib/x86_64-linux-gnu"];
    let output = make("install-library", Path::new("/usr"), &more);
    assert!(output.status.success(), "{}", said(&output));
    let lib = tiers.path("package/usr/lib/x86_64-linux-gnu");
    let said_by = |words: &[&str]| {
        run(Command::new("pkg-config").args(words).arg("surefoot").env("PKG_CONFIG_LIBDIR", lib.join("pkgconfig")))
    };
    assert_eq!(said_by(&["--variable=libdir"]), "/usr/lib/x86_64-linux-gnu\n");
    assert_eq!(said_by(&["--modversion"]), format!("{VERSION}\n"));
    assert!(make("uninstall", Path::new("/usr"), &more).status.success());
    assert_eq!(files(&tiers.path("package")), Vec::<String>::new());
    for (prefix, more, why) in [
        ("relative", "LIBDIR=lib", "PREFIX is a path from the root"),
        ("/a b", "LIBDIR=lib", "letters, digits and"),
        ("/usr", "LIBDIR=../lib", "LIBDIR is a folder below PREFIX"),
        ("/usr", "LIBDIR=/usr/lib", "LIBDIR is a folder below PREFIX"),
    ] {
        let output = make("install-library", Path::new(prefix), &[&destdir, more]);
        assert!(!output.status.success() && said(&output).contains(why), "{prefix} {more}: {}", said(&output));
    }
}

#[test]
fn programs_in_c_and_cpp_need_nothing_but_what_is_installed() {
    let test = "programs_in_c_and_cpp_need_nothing_but_what_is_installed";
    let remedy = "install gcc, g++, binutils and pkg-config";
    if !can_install(test, &["cc", "c++", "pkg-config", "readelf"], remedy) {
        return;
    }
    let tiers = Tiers::new();
    let prefix = installed(&tiers);
    let examples = prefix.join("share/surefoot/examples");
    let shared = pkg_config(&prefix, &["--cflags", "--libs"]);
    let header: Vec<&String> = shared.iter().filter(|word| word.starts_with("-I")).collect();
    let strict = ["-O2", "-Wall", "-Wextra", "-Wshadow", "-Wpedantic", "-Werror"];
    let mut archive = pkg_config(&prefix, &["--static", "--cflags", "--libs"]);
    archive.push("-static".to_owned());
    for (name, compiler, source, standard, linked) in [
        ("c", "cc", "checkpoint.c", "-std=gnu99", &shared[..]),
        ("c-archive", "cc", "checkpoint.c", "-std=gnu99", &archive),
        ("cpp98", "c++", "checkpoint.cpp", "-std=c++98", &shared),
        ("cpp17", "c++", "checkpoint.cpp", "-std=c++17", &shared),
    ] {
        let program = tiers.path(name);
        let mut command = Command::new(compiler);
        command.args(strict).arg(standard).arg("-o").arg(&program).arg(examples.join(source)).args(&header);
        // The archive needs what pkg-config says and no more; the program needs the library of mathematics.
        run(command.args(linked).args((name != "c-archive").then_some("-lm")));
        let dynamic = run(Command::new("readelf").arg("--dynamic").arg(&program));
        assert_eq!(dynamic.contains("libsurefoot.so"), name != "c-archive", "{name}: {dynamic}");
        let says_where = if name.starts_with("cpp") { "at step 30 with 30 walkers" } else { "restarted at step 30" };
        let text = goes_on(name, says_where, |steps, tiers| {
            let mut command = start(&program, &prefix, tiers);
            command.arg(steps);
            command
        });
        assert!(!name.starts_with("cpp") || text.contains(&format!("surefoot {VERSION}")), "{text}");
    }
}

#[test]
fn a_program_with_ports_needs_nothing_but_what_is_installed() {
    let test = "a_program_with_ports_needs_nothing_but_what_is_installed";
    if !libraries().join("libsurefoot_nic_c.so").exists() {
        return not_run(test, "the library of ports is not built; cargo build -p surefoot-nic-c");
    }
    if !can_install(test, &["cc", "pkg-config", "readelf"], "install gcc, binutils and pkg-config") {
        return;
    }
    let tiers = Tiers::new();
    let prefix = installed(&tiers);
    let program = tiers.path("exchange");
    let packages = |words: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.args(words).arg("surefoot-nic").env("PKG_CONFIG_LIBDIR", prefix.join("lib/pkgconfig"));
        run(command.env_remove("PKG_CONFIG_PATH"))
    };
    for (words, is_shared) in [(&["--cflags", "--libs"][..], true), (&["--static", "--cflags", "--libs"], false)] {
        let mut command = Command::new("cc");
        command.args(["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program);
        command.arg(prefix.join("share/surefoot/examples/exchange.c")).args(packages(words).split_whitespace());
        run(command.args((!is_shared).then_some("-static")));
        let dynamic = run(Command::new("readelf").arg("--dynamic").arg(&program));
        assert_eq!(dynamic.contains("[libsurefoot_nic_c.so."), is_shared, "{dynamic}");
        // Without a run there is only a refusal, and it is the library that says it.
        let refused = start(&program, &prefix, &tiers).args(["/nowhere", "5"]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        assert!(said(&refused).contains("cannot open the run directory /nowhere"), "{}", said(&refused));
    }
    assert!(make("uninstall", &prefix, &[]).status.success());
    assert_eq!(files(&prefix), Vec::<String>::new());
}

#[test]
fn the_headers_are_clean_for_the_oldest_and_newest_languages() {
    let test = "the_headers_are_clean_for_the_oldest_and_newest_languages";
    if !can_run(test, &["cc", "c++"], "install gcc and g++") {
        return;
    }
    let tiers = Tiers::new();
    let text = format!(
        "#include <surefoot_checkpoint.h>\n\
         int number = SUREFOOT_VERSION_NUMBER + (int)sizeof(SUREFOOT_VERSION);\n\
         int compared[sizeof(SUREFOOT_VERSION) == {} ? 1 : -1];\n",
        VERSION.len() + 1
    );
    for (compiler, standard) in [("cc", "-std=c99"), ("cc", "-std=c17"), ("c++", "-std=c++98"), ("c++", "-std=c++20")] {
        let source = tiers.path("headers").with_extension(if compiler == "cc" { "c" } else { "cpp" });
        fs::write(&source, &text).unwrap();
        let mut command = Command::new(compiler);
        command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"]);
        run(command.arg(bindings()).arg(source));
    }
    if exists("mpicxx") {
        let source = tiers.path("ranks.cpp");
        fs::write(&source, "#include <surefoot_checkpoint_mpi.h>\n").unwrap();
        let mut command = Command::new("mpicxx");
        // Open MPI's own C++ classes, gone since, do not compile without a warning.
        command.args(["-std=c++98", "-DOMPI_SKIP_MPICXX", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]);
        run(command.arg(bindings()).arg(source));
    }
}

#[test]
fn cmake_finds_the_package_wherever_its_prefix_is() {
    let test = "cmake_finds_the_package_wherever_its_prefix_is";
    if !can_install(test, &["cmake", "cc", "c++"], "install cmake, gcc and g++") {
        return;
    }
    let tiers = Tiers::new();
    let old = installed(&tiers);
    let prefix = tiers.path("moved");
    fs::rename(&old, &prefix).unwrap();
    let source = tiers.path("project");
    fs::create_dir(&source).unwrap();
    let project = "cmake_minimum_required(VERSION 3.13)\nproject(walkers C CXX)\n\
                   find_package(surefoot VERSION_WANTED REQUIRED)\n\
                   add_executable(shared ${surefoot_EXAMPLES}/checkpoint.cpp)\n\
                   target_link_libraries(shared surefoot::surefoot)\n\
                   add_executable(static ${surefoot_EXAMPLES}/checkpoint.cpp)\n\
                   target_link_libraries(static surefoot::surefoot-static)\n";
    let configure = |wanted: &str, build: &Path| {
        fs::write(source.join("CMakeLists.txt"), project.replace("VERSION_WANTED", wanted)).unwrap();
        let mut command = Command::new("cmake");
        command.arg("-S").arg(&source).arg("-B").arg(build);
        command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        command.arg(format!("-Dsurefoot_EXAMPLES={}", prefix.join("share/surefoot/examples").display()));
        command.output().unwrap()
    };
    for too_new in ["0.2", "1.0"] {
        let output = configure(too_new, &tiers.path("refused"));
        assert!(!output.status.success() && said(&output).contains(VERSION), "{too_new}: {}", said(&output));
    }
    let build = tiers.path("build");
    let output = configure("0.1", &build);
    assert!(output.status.success(), "{}", said(&output));
    run(Command::new("cmake").arg("--build").arg(&build));
    for name in ["shared", "static"] {
        goes_on(name, "at step 30 with 30 walkers", |steps, tiers| {
            // It finds the library where it was built against.
            let mut command = start(&build.join(name), &prefix, tiers);
            command.env_remove("LD_LIBRARY_PATH").arg(steps);
            command
        });
    }
}

/// Compiles a Fortran example with the modules of a prefix.
fn fortran(compiler: &str, modules: &[&str], example: &str, prefix: &Path, tiers: &Tiers) -> PathBuf {
    let program = tiers.path("fortran");
    let folder = PathBuf::from(&pkg_config(prefix, &["--variable=fortrandir"])[0]);
    let mut command = Command::new(compiler);
    command.args(["-std=f2008", "-O2", "-Wall", "-Wextra", "-Werror", "-J"]).arg(tiers.path("tmp"));
    command.args(modules.iter().map(|module| folder.join(module)));
    command.arg(prefix.join("share/surefoot/examples").join(example)).arg("-o").arg(&program);
    run(command.args(pkg_config(prefix, &["--libs"])));
    program
}

#[test]
fn a_fortran_program_needs_nothing_but_what_is_installed() {
    let test = "a_fortran_program_needs_nothing_but_what_is_installed";
    if !can_install(test, &["gfortran", "pkg-config"], "install gfortran and pkg-config") {
        return;
    }
    let tiers = Tiers::new();
    let prefix = installed(&tiers);
    let program = fortran("gfortran", &["surefoot_checkpoint.f90"], "checkpoint.f90", &prefix, &tiers);
    goes_on("fortran", "rank 0: generation 3", |steps, tiers| {
        let mut command = start(&program, &prefix, tiers);
        command.arg(tiers.path("memory")).arg(steps);
        command
    });
}

#[test]
fn a_fortran_program_with_mpi_uses_the_modules_alone() {
    let test = "a_fortran_program_with_mpi_uses_the_modules_alone";
    let remedy = "install gfortran and Open MPI (libopenmpi-dev, openmpi-bin)";
    if !can_install(test, &["gfortran", "mpif90", "mpirun", "pkg-config"], remedy) {
        return;
    }
    let tiers = Tiers::new();
    let prefix = installed(&tiers);
    let modules = ["surefoot_checkpoint.f90", "surefoot_checkpoint_mpi.f90"];
    let program = fortran("mpif90", &modules, "checkpoint_mpi.f90", &prefix, &tiers);
    let ranks = |steps: &str, tiers: &Tiers| {
        let mut command = mpirun(3, tiers, &program);
        surround(&mut command, &prefix, tiers);
        command.arg(steps);
        command
    };
    goes_on("fortran with mpi", "rank 0: generation 3", ranks);
    // What a partner keeps is exchanged between ranks, of which none says how long its part is.
    let (tiers, fresh) = (Tiers::new(), Tiers::new());
    let with_partner = |steps: &str| {
        let mut command = ranks(steps, &tiers);
        command.env("SUREFOOT_CHECKPOINT_PARTNER", "yes");
        text_of(&mut command)
    };
    with_partner("30");
    for lost in ["rank-00001", "partner-00001"] {
        fs::remove_dir_all(tiers.path("memory/fortran-mpi").join(lost)).unwrap();
    }
    let text = with_partner("50");
    assert!(line(&text, "rank 1: generation 3 ").contains("from its partner"), "{text}");
    assert_eq!(line(&text, "after 50 steps"), line(&text_of(&mut ranks("50", &fresh)), "after 50 steps"));
}

/// A Python of this machine that has these modules.
pub fn python_with(modules: &[&str]) -> Option<&'static str> {
    // Looked for and not imported, which takes seconds for the largest.
    let program = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))";
    ["python3", "/usr/bin/python3"].into_iter().find(|python| {
        let output = Command::new(python).args(["-c", program]).args(modules).output();
        output.is_ok_and(|output| output.status.success())
    })
}

/// One that can make environments and build wheels without the network, and has these modules.
pub fn python_that_builds(modules: &[&str]) -> Option<&'static str> {
    let build = ["ensurepip", "venv", "setuptools"];
    ["wheel", "setuptools.command.bdist_wheel"]
        .into_iter()
        .find_map(|wheel| python_with(&[&build[..], &[wheel], modules].concat()))
}

/// What pip is told through variables: to build with what is here, and to ask no index.
pub fn pip_offline(command: &mut Command) -> &mut Command {
    // Of an option that is a negation pip takes the value for what it negates.
    command.env("PIP_NO_BUILD_ISOLATION", "0").env("PIP_NO_INDEX", "1").env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
}

#[test]
fn a_wheel_brings_its_library_along() {
    let test = "a_wheel_brings_its_library_along";
    let Some(python) = python_that_builds(&[]) else {
        return not_run(
            test,
            "no Python here builds wheels; install python3-venv, python3-setuptools and python3-wheel",
        );
    };
    let tiers = Tiers::new();
    let home = tiers.path("venv");
    run(Command::new(python).args(["-m", "venv", "--system-site-packages"]).arg(&home));
    let mut pip = Command::new(home.join("bin/python3"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]).arg(bindings().join("../python"));
    run(pip_offline(&mut pip).env("SUREFOOT_BUILD_LIBRARY", libraries().join("libsurefoot.so")));
    let program = "
import importlib.metadata, os, sys, surefoot
from surefoot import _library
assert os.path.dirname(surefoot.__file__).startswith(sys.argv[1]), surefoot.__file__
state = bytearray(b'\\7' * 100000)
with surefoot.Checkpoint('wheel') as job:
    job.protect('state', state)
    assert job.save()
    state[:] = bytes(100000)
    assert job.restart() and state == b'\\7' * 100000
loaded = _library.library()
assert os.path.dirname(loaded._name) == os.path.dirname(surefoot.__file__), loaded._name
print(surefoot.__version__, importlib.metadata.version('surefoot'), loaded.surefoot_version().decode())
";
    let mut command = Command::new(home.join("bin/python3"));
    command.args(["-c", program]).arg(&home).current_dir(tiers.path("tmp"));
    for name in ["SUREFOOT_LIBRARY", "LD_LIBRARY_PATH", "PYTHONPATH"] {
        command.env_remove(name);
    }
    command.env("SUREFOOT_CHECKPOINT_MEMORY", tiers.path("memory")).env("SUREFOOT_CHECKPOINT_POLICY", "memory");
    assert_eq!(run(&mut command), format!("{VERSION} {VERSION} {VERSION}\n"));
    assert!(tiers.path("memory/wheel").is_dir(), "the variable names its memory");
}

#[test]
fn a_program_says_which_variable_or_line_is_wrong() {
    let test = "a_program_says_which_variable_or_line_is_wrong";
    if !can_run(test, &["cc"], "install gcc or clang") {
        return;
    }
    let tiers = Tiers::new();
    let program = compile("cc", &["-std=gnu11"], "examples/checkpoint.c", Linked::Shared, &tiers.path("tmp"));
    let file = tiers.path("checkpoint.conf");
    fs::write(&file, "# here\nmemory.slots = many\n").unwrap();
    let file_name = file.to_str().unwrap();
    for (name, value, text) in [
        ("SUREFOOT_CHECKPOINT_COLOUR", "red", "SUREFOOT_CHECKPOINT_COLOUR: there is no such setting"),
        ("SUREFOOT_CHECKPOINT_PARTNER", "maybe", "SUREFOOT_CHECKPOINT_PARTNER: partner: \"maybe\" is not valid"),
        ("SUREFOOT_CHECKPOINT_SETTINGS", file_name, "checkpoint.conf, line 2: memory.slots: \"many\" is not valid"),
    ] {
        let output = Command::new(&program).arg("10").args(tiers.settings(&[])).env(name, value).output().unwrap();
        assert!(!output.status.success() && said(&output).contains(text), "{name}: {}", said(&output));
    }
}
