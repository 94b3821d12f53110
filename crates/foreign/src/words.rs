//! What the kernel said of a failed call, for a person.

use std::io::Error;

/// The words of an error without the kernel's number, which says nothing to a person.
///
/// ```
/// use surefoot_foreign::said;
/// let error = std::fs::File::open("/no/such/file").unwrap_err();
/// assert_eq!(said(&error), "No such file or directory");
/// assert_eq!(said(&std::io::Error::other("damaged")), "damaged");
/// ```
pub fn said(error: &Error) -> String {
    let text = error.to_string();
    // Only what came from the kernel ends in a number.
    match text.rfind(" (os error ") {
        Some(at) if error.raw_os_error().is_some() => text[..at].to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_of_the_kernels_is_told_and_foreign_words_stay() {
        let all = (1..=133).map(Error::from_raw_os_error).map(|error| said(&error));
        assert!(all.clone().all(|words| !words.contains("os error") && !words.is_empty()));
        assert_eq!(said(&Error::from_raw_os_error(libc::ENOSPC)), "No space left on device");
        assert_eq!(said(&Error::other("a text (os error of its own)")), "a text (os error of its own)");
    }
}
