//! A core that is switched off for a while.

use std::time::Duration;

/// A core that is off. Dropping it switches it on again.
#[derive(Debug)]
pub struct SwitchedOff {
    file: String,
}

/// Switches a core off, or says why that is not possible on this machine.
///
/// # Errors
/// The kernel's word; a core that the machine starts from, for instance, cannot be switched off.
pub fn switch_off(cpu: u32) -> Result<SwitchedOff, String> {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    std::fs::write(&file, "0").map_err(|error| format!("{file}: {error}"))?;
    Ok(SwitchedOff { file })
}

impl SwitchedOff {
    /// Switches it on again.
    pub fn switch_on(self) {
        // Dropping it does it.
    }
}

impl Drop for SwitchedOff {
    fn drop(&mut self) {
        // The kernel may be busy with another change of its cores.
        for _ in 0..50 {
            if std::fs::write(&self.file, "1").is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        eprintln!("{} stays off; write 1 into it", self.file);
    }
}
