//! The kernel of a guest: what Debian's package holds, unpacked below the target folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where it is unpacked, below the folder into which cargo builds. `xtask/setup.sh` puts it there.
pub(super) const FOLDER: &str = "guest/kernel";
/// The real-time one.
pub(super) const FOLDER_REAL_TIME: &str = "guest/kernel-rt";

/// Folders below that of the modules that are looked into.
const FOLDERS_MAX: usize = 10_000;

/// A kernel and its modules.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    image: PathBuf,
    release: String,
    modules: PathBuf,
}

impl Kernel {
    /// The kernel that is unpacked in the target folder of this program, or of the folder that it runs in.
    pub(super) fn find(below: &str) -> Result<Self, String> {
        let missing = || format!("there is no kernel in {below} below the target folder; `make setup` unpacks one");
        let folder = target_folders().into_iter().map(|target| target.join(below)).find(|folder| folder.is_dir());
        let folder = folder.ok_or_else(missing)?;
        let mut images: Vec<PathBuf> = fs::read_dir(folder.join("boot"))
            .map_err(|_| missing())?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-")))
            .collect();
        images.sort();
        let image = images.pop().ok_or_else(missing)?;
        let name = image.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let release = name.trim_start_matches("vmlinuz-").to_owned();
        // Where /lib is a link to /usr/lib, so it is in the package.
        let modules = ["lib/modules", "usr/lib/modules"].map(|below| folder.join(below).join(&release));
        let modules = modules.into_iter().find(|folder| folder.is_dir()).ok_or_else(missing)?;
        Ok(Kernel { image, release, modules })
    }

    pub(super) fn image(&self) -> &Path {
        &self.image
    }

    #[cfg(test)]
    pub(super) fn release(&self) -> &str {
        &self.release
    }

    /// The files of these modules and of those that they depend on, in an order in which they can be loaded.
    pub(super) fn with_dependencies(&self, names: &[String]) -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for name in names {
            self.add(name, &mut files)?;
        }
        Ok(files)
    }

    fn add(&self, name: &str, files: &mut Vec<PathBuf>) -> io::Result<()> {
        let missing = || io::Error::other(format!("the kernel {} has no module {name}", self.release));
        let file = find_module(&self.modules, name)?.ok_or_else(missing)?;
        if files.contains(&file) {
            return Ok(());
        }
        for dependency in dependencies(&module(&file)?) {
            self.add(&dependency, files)?;
        }
        files.push(file);
        Ok(())
    }
}

/// Folders into which cargo may have built this program; the first that fits is it.
fn target_folders() -> Vec<PathBuf> {
    let above = |path: io::Result<PathBuf>| -> Vec<PathBuf> {
        path.iter().flat_map(|path| path.ancestors()).map(Path::to_owned).collect()
    };
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let of_program = above(std::env::current_exe());
    let of_folder = above(std::env::current_dir()).into_iter().map(|folder| folder.join("target"));
    named.into_iter().chain(of_program).chain(of_folder).collect()
}

/// The module's bytes, unpacked.
pub(super) fn module(file: &Path) -> io::Result<Vec<u8>> {
    if file.extension().is_none_or(|kind| kind == "ko") {
        return fs::read(file);
    }
    let output = Command::new("xz").args(["--decompress", "--stdout"]).arg(file).output()?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(io::Error::other(format!("{} cannot be unpacked by xz", file.display()))),
    }
}

/// Names are written with `_` or `-`, as it comes.
fn find_module(modules: &Path, name: &str) -> io::Result<Option<PathBuf>> {
    let plain = |name: &str| name.replace('-', "_");
    let is_it = |path: &Path| {
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let stem = file.strip_suffix(".ko").or_else(|| file.strip_suffix(".ko.xz"));
        stem.is_some_and(|stem| plain(stem) == plain(name))
    };
    let mut folders = vec![modules.join("kernel")];
    let mut looked_into = 0;
    while let Some(folder) = folders.pop() {
        looked_into += 1;
        if looked_into > FOLDERS_MAX {
            return Err(io::Error::other(format!("{} has more than {FOLDERS_MAX} folders", modules.display())));
        }
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false if is_it(&entry.path()) => return Ok(Some(entry.path())),
                false => {}
            }
        }
    }
    Ok(None)
}

/// The modules that a module says it depends on, in its section of text that ends in zeros.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = module.windows(KEY.len()).position(|some| some == KEY) else { return Vec::new() };
    let text = module[start + KEY.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(text).into_owned();
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_name_what_they_depend_on() {
        assert_eq!(dependencies(b"x\0license=GPL\0depends=nvme-core,t10_pi\0name=nvme\0"), ["nvme-core", "t10_pi"]);
        assert!(dependencies(b"x\0depends=\0name=nvme\0").is_empty());
        assert!(dependencies(b"nothing").is_empty());
    }

    #[test]
    fn a_module_is_found_with_what_it_needs_before_it() {
        let kernel = match Kernel::find(FOLDER) {
            Ok(kernel) => kernel,
            Err(why) => {
                return crate::not_run::not_run("guest::kernel::a_module_is_found_with_what_it_needs_before_it", &why);
            }
        };
        let files = kernel.with_dependencies(&["nvme".into()]).expect("nvme");
        let position = |name: &str| files.iter().position(|file| file.to_string_lossy().contains(name));
        assert!(position("/nvme-core.ko") < position("/nvme.ko"), "{files:?}");
        assert!(kernel.with_dependencies(&["no-such".into()]).expect_err("none").to_string().contains("no-such"));
    }
}
