//! The consoles to which the kernel prints its messages.

use crate::{Error, Root};
use surefoot_model::Digits;

/// The names of the consoles that are enabled, such as `ttyS0`; from /proc/consoles.
///
/// # Errors
/// [`Error::Read`] where the kernel does not list them.
pub fn enabled(root: &Root) -> Result<Vec<String>, Error> {
    Ok(parse(&root.read(root.proc("consoles"))?))
}

/// Whether the kernel prints its messages anywhere; where it does not, they hold nobody. On level 1 (`dmesg -n 1`) it
/// prints nothing but that the system is unusable.
pub fn any_enabled(root: &Root) -> bool {
    let level = root.read(root.proc("sys/kernel/printk")).ok();
    let level = level.and_then(|text| text.split_whitespace().next()?.digits::<u32>());
    level.is_none_or(|level| level > 1) && enabled(root).is_ok_and(|names| !names.is_empty())
}

/// `ttyS0                -W- (EC  p a)    4:64`; an E in the parentheses is an enabled one.
fn parse(text: &str) -> Vec<String> {
    let enabled = |line: &str| {
        let flags = line.split_once('(')?.1.split_once(')')?.0;
        let name = line.split_whitespace().next()?;
        flags.contains('E').then(|| name.to_owned())
    };
    text.lines().filter_map(enabled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enabled_consoles_are_listed_by_name() {
        let text =
            "tty0                 -WU (ECp  )  4:7\nttyS1   -W- (  p a)    4:65\nttyS0   -W- (E   p a)    4:64\nodd\n";
        assert_eq!(parse(text), ["tty0", "ttyS0"]);
    }
}
