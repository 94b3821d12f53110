//! What labels of EDAC's drivers tell of a module's place.
//!
//! Drivers make them up until somebody registers the words on the board: `CPU_SrcID#0_MC#1_Chan#0_DIMM#1` (skx, i10nm),
//! `CPU_SrcID#0_Ha#0_Chan#1_DIMM#0` (sb_edac), `mc#0csrow#2channel#1` (the EDAC core). Words on the board tell nothing here.

use surefoot_model::{Digits, DramLocation};

/// The coordinates in a label; of a list of labels (`A or B`) those that all of them have.
pub(super) fn location(labels: &str) -> DramLocation {
    let mut each = labels.split(SEPARATOR).map(of_one);
    let first = each.next().unwrap_or_default();
    each.fold(first, |all, one| DramLocation {
        socket: all.socket.filter(|_| all.socket == one.socket),
        controller: all.controller.filter(|_| all.controller == one.controller),
        channel: all.channel.filter(|_| all.channel == one.channel),
        slot: all.slot.filter(|_| all.slot == one.slot),
        rank: all.rank.filter(|_| all.rank == one.rank),
        ..DramLocation::default()
    })
}

/// Whether EDAC names several modules, of which any may be the one.
pub(super) fn is_list(labels: &str) -> bool {
    labels.contains(SEPARATOR)
}

/// What EDAC puts between labels where it knows no better (`edac_mc_handle_error`).
const SEPARATOR: &str = " or ";

fn of_one(label: &str) -> DramLocation {
    let mut found = DramLocation::default();
    for (at, _) in label.match_indices('#').take(16) {
        let before = &label[..at];
        let begin = before.rfind(|letter: char| !letter.is_ascii_alphabetic()).map_or(0, |last| last + 1);
        // `rfind` gives the first byte of a letter; one that is not ASCII is longer, and then no word that is known begins there.
        let (Some(word), Some(digits)) = (before.get(begin..), label.get(at + 1..)) else { continue };
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        let Some(value) = digits[..end].digits() else { continue };
        let place = match word.to_ascii_lowercase().as_str() {
            "srcid" => &mut found.socket,
            "mc" => &mut found.controller,
            "chan" | "channel" => &mut found.channel,
            "dimm" | "slot" => &mut found.slot,
            "csrow" => &mut found.rank,
            _ => continue,
        };
        *place = Some(value);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_of_drivers_tell_the_place() {
        let skx = location("CPU_SrcID#1_MC#0_Chan#2_DIMM#1");
        assert_eq!((skx.socket, skx.controller, skx.channel, skx.slot), (Some(1), Some(0), Some(2), Some(1)));
        let core = location("mc#0csrow#2channel#1");
        assert_eq!((core.controller, core.rank, core.channel), (Some(0), Some(2), Some(1)));
        assert_eq!(location("DIMM_A1"), DramLocation::default());
        let two = location("CPU_SrcID#1_MC#0_Chan#2_DIMM#0 or CPU_SrcID#1_MC#0_Chan#2_DIMM#1");
        assert_eq!((two.socket, two.controller, two.channel, two.slot), (Some(1), Some(0), Some(2), None));
        assert_eq!(location("A1 or CPU_SrcID#1_MC#0_Chan#2_DIMM#1"), DramLocation::default());
        assert_eq!(location("é#1 #2 mc#99999999999"), DramLocation::default());
    }
}
