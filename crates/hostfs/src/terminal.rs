//! The terminal, where there is one.

/// Width of the terminal that standard output is, or `None` when it is none or does not tell.
pub fn columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ fills the winsize that the pointer leads to.
    let told = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (told == 0 && size.ws_col > 0).then_some(usize::from(size.ws_col))
}
