//! The file in which the counts of a host outlive the process: of `memory status --state` and of a watch.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use surefoot_memory::counts::{Kept, KeptFile, Loaded, TEXT_BYTES_MAX};
use surefoot_store::output::Replaced;

/// What a file that is not believed is called afterwards.
const ASIDE: &str = ".refused";

/// A regular file of this user's, or a place for one.
#[derive(Debug)]
pub struct CountsFile {
    file: Replaced,
    was_refused: bool,
}

impl CountsFile {
    /// What could not be replaced later, such as a device or another user's file, is refused now.
    ///
    /// # Errors
    /// As [`Replaced::open`].
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(CountsFile { file: Replaced::open(path)?, was_refused: false })
    }
}

/// What cannot keep counts: they are then of this run alone, and every look says why.
#[derive(Debug)]
struct Unusable {
    path: PathBuf,
    why: String,
}

/// The file, or in its place what says why there is none.
pub(super) fn or_why(path: &Path) -> Box<dyn KeptFile> {
    match CountsFile::open(path) {
        Ok(file) => Box::new(file),
        Err(error) => Box::new(Unusable { path: path.to_owned(), why: format!("it cannot keep the counts: {error}") }),
    }
}

impl KeptFile for Unusable {
    fn path(&self) -> &Path {
        &self.path
    }

    fn load(&mut self, _: Option<&str>) -> Result<Loaded, String> {
        Err(self.why.clone())
    }

    fn save(&mut self, _: &Kept) -> Result<(), String> {
        Err(self.why.clone())
    }
}

impl KeptFile for CountsFile {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn load(&mut self, machine: Option<&str>) -> Result<Loaded, String> {
        let read = match self.file.read(TEXT_BYTES_MAX) {
            Ok(None) => Ok(Kept::default()),
            Ok(Some((_, mode))) if mode & surefoot_foreign::way::OTHERS_WRITE != 0 => {
                Err(format!("others may write to it (mode {mode:o})"))
            }
            Ok(Some((bytes, _))) => Kept::from_text(&bytes),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(error.to_string()),
            Err(error) => return Err(format!("it cannot keep the counts: {error}")),
        };
        Ok(match read.and_then(|kept| kept.of_machine(machine)) {
            Ok(kept) => Loaded { kept, refused: None },
            Err(why) => {
                self.was_refused = true;
                let path = self.file.path().display();
                let refused = format!(
                    "{why}, so its counts are not used and counting restarts; the file is kept as {path}{ASIDE} when new ones \
                     are written"
                );
                Loaded { kept: Kept::default(), refused: Some(refused) }
            }
        })
    }

    fn save(&mut self, kept: &Kept) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("it could not be written, and stays as it was: {error}");
        let text = kept.to_text().map_err(|error| failed(&error))?;
        if self.was_refused {
            let aside = self.file.put_aside(ASIDE);
            aside.map_err(|error| format!("it is not believed and could not be put aside: {error}"))?;
            self.was_refused = false;
        }
        self.file.replace(&text).map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_is_not_to_be_believed_is_told_and_put_aside() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        let good = Kept::default().to_text().unwrap();
        for (content, mode, words) in [
            (b"{".to_vec(), 0o600, "damaged"),
            (vec![b' '; TEXT_BYTES_MAX as usize + 1], 0o600, "longer than"),
            (good.clone(), 0o622, "others may write to it (mode 622)"),
        ] {
            fs::write(&path, &content).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let mut file = CountsFile::open(&path).unwrap();
            let loaded = file.load(None).unwrap();
            let why = loaded.refused.unwrap();
            assert!(why.contains(words) && why.contains("state.refused"), "{why}");
            assert_eq!(loaded.kept, Kept::default());
            file.save(&loaded.kept).unwrap();
            assert_eq!(fs::read(home.path().join("state.refused")).unwrap(), content);
            assert_eq!(fs::read(&path).unwrap(), good);
            assert_eq!(CountsFile::open(&path).unwrap().load(None).unwrap().refused, None);
        }
    }

    /// The same slots of another host hold other modules.
    #[test]
    fn a_file_of_another_host_is_told_and_put_aside() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state");
        let load = |machine: Option<&str>| CountsFile::open(&path).unwrap().load(machine).unwrap();
        let own = load(Some("a")).kept;
        CountsFile::open(&path).unwrap().save(&own).unwrap();
        assert_eq!(
            (load(Some("a")), load(None)),
            (Loaded { kept: own.clone(), refused: None }, Loaded { kept: own, refused: None })
        );
        let other = load(Some("b"));
        assert!(other.refused.unwrap().contains("another host"));
        assert_ne!(other.kept, load(Some("a")).kept);
    }
}
