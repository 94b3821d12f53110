//! Where the workspace is, which files belong to it, and what cargo says about its packages.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a check came to.
pub enum Checked {
    /// Nothing to complain about; says what was looked at.
    Clean(String),
    /// One line per fault.
    Faults(Vec<String>),
    /// The check cannot run on this machine, and why.
    NotRun(String),
}

impl Checked {
    /// Clean with this summary if there are no faults.
    pub fn from_faults(faults: Vec<String>, summary: String) -> Self {
        if faults.is_empty() { Checked::Clean(summary) } else { Checked::Faults(faults) }
    }
}

/// The checkout that this program was built from.
pub struct Workspace {
    pub root: PathBuf,
}

/// A package as `cargo metadata` describes it, as far as the checks need it.
pub struct Package {
    pub name: String,
    pub version: String,
    /// An SPDX expression, if the package declares one.
    pub licence: Option<String>,
    /// The folder of its manifest.
    pub folder: PathBuf,
    pub dependencies: Vec<Dependency>,
}

/// What a package asks for in its manifest.
#[derive(Clone, PartialEq)]
pub struct Dependency {
    pub name: String,
    /// Used by tests, examples and benchmarks only.
    pub development: bool,
}

impl Workspace {
    /// The workspace of this source file, wherever the command is called from.
    pub fn here() -> Self {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = own.parent().expect("xtask lies inside the workspace").to_path_buf();
        Workspace { root }
    }

    /// The cargo that called us, in the workspace.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root);
        command
    }

    /// Where cargo puts what it builds.
    pub fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), |folder| self.root.join(folder))
    }

    /// The members of the workspace, with the dependencies that their manifests name.
    pub fn members(&self) -> Result<Vec<Package>, String> {
        self.metadata(&["--no-deps"])
    }

    /// Every package that is compiled on this platform.
    pub fn packages(&self) -> Result<Vec<Package>, String> {
        let described = output(Command::new("rustc").arg("-vV"))?;
        let platform = described.lines().find_map(|line| line.strip_prefix("host: "));
        let platform = platform.ok_or("rustc -vV does not name its host platform")?;
        self.metadata(&["--filter-platform", platform])
    }

    fn metadata(&self, options: &[&str]) -> Result<Vec<Package>, String> {
        let text = output(self.cargo().args(["metadata", "--format-version", "1"]).args(options))?;
        packages_in(&text)
    }

    /// Paths of the files under version control, and of those about to be, relative to the root.
    ///
    /// `None` where there is no checkout, as in an unpacked archive.
    pub fn files(&self) -> Option<Vec<PathBuf>> {
        let mut git = Command::new("git");
        // A checkout of another user is still only read.
        git.current_dir(&self.root).args(["-c", "safe.directory=*", "ls-files", "-z"]);
        git.args(["--cached", "--others", "--exclude-standard"]);
        let listed = output(&mut git).ok()?;
        let mut files: Vec<PathBuf> = listed.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
        files.retain(|file| self.root.join(file).is_file());
        files.sort();
        files.dedup();
        Some(files)
    }

    /// The text of a file, or `None` if it is not UTF-8 text or has just gone.
    pub fn text(&self, file: &Path) -> Option<String> {
        std::fs::read_to_string(self.root.join(file)).ok()
    }
}

/// Runs a command and gives what it prints.
pub fn output(command: &mut Command) -> Result<String, String> {
    let name = format!("{:?}", command.get_program());
    let done = command.output().map_err(|error| format!("{name} cannot be started: {error}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{name} failed ({}): {}", done.status, said.trim()));
    }
    String::from_utf8(done.stdout).map_err(|_| format!("{name} did not print UTF-8"))
}

/// Reads what `cargo metadata` prints.
pub fn packages_in(metadata: &str) -> Result<Vec<Package>, String> {
    let value: Value = serde_json::from_str(metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = value["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    packages.iter().map(package).collect()
}

fn package(value: &Value) -> Result<Package, String> {
    let text = |key: &str| value[key].as_str().map(str::to_owned);
    let name = text("name").ok_or("cargo metadata has a package without a name")?;
    let manifest = text("manifest_path").ok_or_else(|| format!("cargo metadata has no manifest_path for {name}"))?;
    let folder = Path::new(&manifest).parent().unwrap_or(Path::new("")).to_path_buf();
    let mut dependencies = Vec::new();
    for dependency in value["dependencies"].as_array().into_iter().flatten() {
        let wanted = dependency["name"].as_str();
        let wanted = wanted.ok_or_else(|| format!("cargo metadata has a nameless dependency of {name}"))?;
        let development = dependency["kind"].as_str() == Some("dev");
        dependencies.push(Dependency { name: wanted.to_owned(), development });
    }
    Ok(Package { version: text("version").unwrap_or_default(), licence: text("license"), name, folder, dependencies })
}
