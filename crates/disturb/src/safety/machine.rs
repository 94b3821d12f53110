//! What is done to no real machine unasked: its firmware and its record of errors.

use crate::Fault;
use crate::disturbance::{Spec, What};
use surefoot_hostfs::Root;
use surefoot_hostfs::identity::Identity;

/// The option by which a real machine is disturbed so all the same.
const SWITCH: &str = "--even-on-bare-metal does it all the same";

/// Whether a disturbance may be done on this kind of machine.
///
/// # Errors
/// [`Fault::Refused`] on bare metal, where nobody asked for that; [`Fault::Unsupported`] for SMIs in a guest whose
/// firmware takes none.
pub(crate) fn check_machine(spec: &Spec, root: &Root) -> Result<(), Fault> {
    if !matches!(spec.what, What::Smi | What::MemoryError) {
        return Ok(());
    }
    let hypervisor = Identity::read(root).hypervisor;
    let maker = root.read_if_present(root.sys("class/dmi/id/sys_vendor")).ok().flatten().unwrap_or_default();
    decide(spec.what, hypervisor.as_deref(), maker.trim(), spec.even_on_bare_metal)
}

fn decide(what: What, hypervisor: Option<&str>, maker: &str, even_on_bare_metal: bool) -> Result<(), Fault> {
    match (what, hypervisor) {
        (What::Smi, None) if !even_on_bare_metal => Err(Fault::Refused(format!(
            "this is a real machine, and smi has its firmware stop all of its cores for as long as the firmware likes: use a guest of \
             QEMU with OVMF's SMM build; {SWITCH}"
        ))),
        (What::MemoryError, None) if !even_on_bare_metal => Err(Fault::Refused(format!(
            "this is a real machine, and memory-error puts errors that were not among its own, where monitors count them: use a \
             guest; {SWITCH}"
        ))),
        (What::Smi, Some(name)) if maker != "QEMU" => Err(Fault::Unsupported {
            why: format!("this is a guest of {name}, and no firmware of it is known to take SMIs at port 0xB2"),
            remedy: "use a guest of QEMU (-machine q35,smm=on, OVMF_CODE_4M.secboot.fd), or bare metal".into(),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_is_asked_in_qemu_and_elsewhere_only_when_somebody_says_so() {
        let refused = |what, hypervisor, maker, even| decide(what, hypervisor, maker, even).unwrap_err();
        assert!(refused(What::Smi, None, "QEMU", false).to_string().contains("--even-on-bare-metal"));
        assert!(refused(What::MemoryError, None, "Dell Inc.", false).to_string().contains("use a guest"));
        assert!(refused(What::Smi, Some("KVM"), "Amazon EC2", true).is_unsupported());
        assert!(refused(What::Smi, Some("Hyper-V"), "", false).is_unsupported());
        for (what, hypervisor, maker, even) in [
            (What::Smi, None, "Dell Inc.", true),
            (What::MemoryError, None, "", true),
            (What::Smi, Some("QEMU without KVM"), "QEMU", false),
            (What::MemoryError, Some("KVM"), "Amazon EC2", false),
        ] {
            assert!(decide(what, hypervisor, maker, even).is_ok(), "{what:?} {hypervisor:?} {maker}");
        }
    }
}
