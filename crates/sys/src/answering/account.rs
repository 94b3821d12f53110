//! What a child says of its work, for its parent to repeat.

use std::fs::File;
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileExt;
use surefoot_hostfs::Error;

/// Length and text fit one page of memory, which is written whole or not at all.
const TEXT_BYTES_MAX: usize = 4000;
const LENGTH_BYTES: usize = 4;

/// What has been done so far, in memory that parent and child share: it is there however the child ends.
#[derive(Debug)]
pub struct Account(File);

impl Account {
    pub(super) fn new() -> Result<Account, Error> {
        // SAFETY: the name is a text that ends in zero; the descriptor is new and belongs to the file alone.
        unsafe {
            match libc::memfd_create(c"surefoot-account".as_ptr(), libc::MFD_CLOEXEC) {
                -1 => Err(Error::last_system("make a file in memory".to_owned(), "")),
                file => Ok(Account(File::from_raw_fd(file))),
            }
        }
    }

    /// Replaces what was said before. What is too long is cut.
    pub fn say(&self, text: &str) {
        let end = (0..=text.len().min(TEXT_BYTES_MAX)).rev().find(|end| text.is_char_boundary(*end));
        let text = &text[..end.unwrap_or(0)];
        let bytes = [&(text.len() as u32).to_ne_bytes()[..], text.as_bytes()].concat();
        // Without memory for a page the former account stays: it says less, and nothing wrong.
        let _ = self.0.write_all_at(&bytes, 0);
    }

    /// What was said last.
    pub(super) fn said(&self) -> String {
        let mut bytes = vec![0; LENGTH_BYTES + TEXT_BYTES_MAX];
        let read = self.0.read_at(&mut bytes, 0).unwrap_or(0);
        let said = bytes[..read].split_first_chunk::<LENGTH_BYTES>().and_then(|(length, text)| {
            let length = u32::from_ne_bytes(*length) as usize;
            text.get(..length)
        });
        String::from_utf8_lossy(said.unwrap_or_default()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_last_account_counts_and_a_long_one_is_cut_between_letters() {
        let account = Account::new().unwrap();
        assert_eq!(account.said(), "");
        account.say("2 of 3 removed");
        account.say("3 of 3");
        assert_eq!(account.said(), "3 of 3");
        account.say(&"ä".repeat(TEXT_BYTES_MAX));
        assert_eq!(account.said(), "ä".repeat(TEXT_BYTES_MAX / 2));
    }
}
