//! Octal escapes in the kernel's lists of mounts.

/// Undoes the escapes of a text of `/proc/*/mountinfo`: the kernel writes blanks, tabs, line ends, backslashes and number signs as a
/// backslash and three octal digits, and file systems do so with what would end an option. Any other backslash is one.
///
/// ```
/// use surefoot_model::unescape_octal;
/// for (escaped, plain) in [("a\\134040", &b"a\\040"[..]), ("\\", b"\\"), ("\\04", b"\\04"), ("\\400", b"\\400"), ("\\303\\244", b"\xc3\xa4")] {
///     assert_eq!(unescape_octal(escaped.as_bytes()), plain);
/// }
/// ```
pub fn unescape_octal(escaped: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some((&first, after)) = rest.split_first() {
        rest = match (first, after) {
            (b'\\', [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..]) => {
                bytes.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                after
            }
            _ => {
                bytes.push(first);
                after
            }
        };
    }
    bytes
}
