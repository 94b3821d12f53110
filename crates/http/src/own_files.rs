//! Files that only the server's own user and root may change: who may do what, policies, and secrets.

use std::path::Path;
use surefoot_foreign::{said, way};

/// The longest secret.
const SECRET_BYTES_MAX: u64 = 4 << 10;

/// The first line of a file that holds a secret; refused where others may read it.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn secret(path: &Path) -> Result<String, String> {
    let text = secret_text(path, SECRET_BYTES_MAX).map_err(|why| format!("{}: {why}", path.display()))?;
    match text.lines().next().map(str::trim) {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(format!("{}: it is empty", path.display())),
    }
}

/// Refuses a file that other users can change or replace: members of its group, those that an ACL names, and whoever can
/// write to its directory.
///
/// # Errors
/// Who can change it, and what to do.
pub fn expect_own(path: &Path) -> Result<(), String> {
    match way::others_change(path) {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(format!(
            "{why}; run `chmod go-w` on it, or keep the file in a directory that only its owner can change"
        )),
        // Whoever reads it says so.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("could not check who can change it: {}", said(&error))),
    }
}

/// The text of a file that no other user can change.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn text(path: &Path, bytes_max: u64) -> Result<String, String> {
    text_of(path, bytes_max, Kept::Own)
}

/// The whole of a file that holds a secret; refused where others may read it.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn secret_text(path: &Path, bytes_max: u64) -> Result<String, String> {
    text_of(path, bytes_max, Kept::Secret)
}

/// The text of a file that others may change, such as a certificate that everybody is shown.
///
/// # Errors
/// What is wrong with the file, in words.
pub fn text_of_anybody(path: &Path, bytes_max: u64) -> Result<String, String> {
    text_of(path, bytes_max, Kept::Open)
}

/// From whom a file must be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// From nobody.
    Open,
    /// From others who would change it.
    Own,
    /// Also from others who would read it.
    Secret,
}

fn text_of(path: &Path, bytes_max: u64, kept: Kept) -> Result<String, String> {
    // What waits when it is opened, such as a FIFO, is none of these files.
    let file = surefoot_foreign::hold(path).and_then(|held| held.regular()).map_err(|error| said(&error))?;
    let about = *file.about();
    // A group may read it, because a service often gets its secrets so.
    if kept == Kept::Secret && about.mode & 0o007 != 0 {
        let mode = about.mode & 0o777;
        return Err(format!(
            "it holds a secret that any user can read or change (mode {mode:03o}); change its mode to 600"
        ));
    }
    if kept != Kept::Open {
        expect_own(path)?;
    }
    let bytes = file.read(bytes_max).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => format!("it has more than {bytes_max} bytes"),
        _ => said(&error),
    })?;
    String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn file(home: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = home.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn files_that_other_users_can_change_are_refused() {
        let home = tempfile::tempdir().unwrap();
        assert!(expect_own(&file(home.path(), "policy", "", 0o644)).is_ok());
        for (name, mode) in [("of-group", 0o664), ("open", 0o666)] {
            let path = file(home.path(), name, "", mode);
            let wanted = format!("mode {mode:o}");
            assert!(expect_own(&path).unwrap_err().contains(&wanted), "{mode:o}");
            assert!(text(&path, 100).unwrap_err().contains(&wanted), "{mode:o}");
        }
        // A group may read a secret, and not write to it.
        assert!(secret_text(&file(home.path(), "read", "x", 0o640), 100).is_ok());
        let written = file(home.path(), "written", "x", 0o660);
        assert!(secret_text(&written, 100).unwrap_err().contains("mode 660"));
        assert_eq!(text_of_anybody(&written, 100).as_deref(), Ok("x"));
        let open = home.path().join("directory");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o770)).unwrap();
        assert!(expect_own(&file(&open, "policy", "", 0o600)).unwrap_err().contains("can create files in"));
        assert!(expect_own(&home.path().join("none")).is_ok(), "its reader says so");
    }
}
