//! Which EDAC driver a controller has, and so what its counts are worth.
//!
//! Read in the sources of Linux 6.12: the Intel drivers add bits 52:38 of `MCi_STATUS`, the number of errors that the hardware counted;
//! amd64_edac and ghes_edac add 1 for each record, however many errors stand behind it.

use surefoot_model::Fidelity;

/// A driver, as far as its controllers' names tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Driver {
    /// Skylake and Cascade Lake servers.
    Skx,
    /// Ice Lake servers and later.
    I10nm,
    /// Sandy Bridge to Broadwell servers, Knights Landing.
    Sb,
    /// Nehalem and Westmere servers.
    I7core,
    /// Atom servers.
    Pnd2,
    /// AMD and Hygon.
    Amd64,
    /// Firmware reports the errors.
    Ghes,
    /// One that is not known here.
    #[default]
    Other,
}

/// What a name of a controller begins with, and the driver that gives such names (`ctl_name` in drivers/edac).
const NAMES: &[(&str, Driver)] = &[
    ("Skylake Socket", Driver::Skx),
    ("Intel_10nm Socket", Driver::I10nm),
    ("Sandy Bridge ", Driver::Sb),
    ("Ivy Bridge ", Driver::Sb),
    ("Haswell ", Driver::Sb),
    ("Broadwell ", Driver::Sb),
    ("KNL ", Driver::Sb),
    ("i7 core", Driver::I7core),
    ("Pondicherry", Driver::Pnd2),
    ("pnd2", Driver::Pnd2),
    ("ghes_edac", Driver::Ghes),
    ("amd64", Driver::Amd64),
    ("K8", Driver::Amd64),
];

impl Driver {
    /// Those that are known.
    pub const ALL: [Driver; 7] =
        [Driver::Skx, Driver::I10nm, Driver::Sb, Driver::I7core, Driver::Pnd2, Driver::Amd64, Driver::Ghes];

    /// The driver of a controller with this name.
    pub fn of(name: &str) -> Self {
        let known = NAMES.iter().find(|(begin, _)| name.starts_with(begin));
        // amd64_edac names them by family and model, such as `F19h_M10h`.
        let mut family = name.strip_prefix('F').unwrap_or_default().chars();
        let is_family = family.next().is_some_and(|digit| digit.is_ascii_hexdigit())
            && family.next().is_some_and(|digit| digit.is_ascii_hexdigit())
            && family.next() == Some('h');
        known.map_or(if is_family { Driver::Amd64 } else { Driver::Other }, |(_, driver)| *driver)
    }

    /// The kernel's name of its module; empty where the driver is not known.
    pub fn module(self) -> &'static str {
        match self {
            Driver::Skx => "skx_edac",
            Driver::I10nm => "i10nm_edac",
            Driver::Sb => "sb_edac",
            Driver::I7core => "i7core_edac",
            Driver::Pnd2 => "pnd2_edac",
            Driver::Amd64 => "amd64_edac",
            Driver::Ghes => "ghes_edac",
            Driver::Other => "",
        }
    }

    /// Whether its records come through the machine-check chain of an Intel processor, in which the corrected-errors collector
    /// stands before EDAC.
    pub fn is_behind_collector(self) -> bool {
        matches!(self, Driver::Skx | Driver::I10nm | Driver::Sb | Driver::I7core | Driver::Pnd2)
    }

    /// How much of what happened its counts hold, where the collector runs and where it does not. Of an unknown driver only that
    /// it counts no error that did not happen.
    pub fn fidelity(self, is_collected: bool) -> Fidelity {
        match self {
            Driver::Amd64 | Driver::Ghes => Fidelity::Sampled,
            Driver::Other => Fidelity::LowerBound,
            _ if is_collected => Fidelity::LowerBound,
            _ => Fidelity::Exact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_are_known_by_the_names_that_they_give() {
        for (name, driver) in [
            ("Skylake Socket#0 IMC#1", Driver::Skx),
            ("Intel_10nm Socket#1 IMC#3", Driver::I10nm),
            ("Broadwell SrcID#0_Ha#0", Driver::Sb),
            ("i7 core #0", Driver::I7core),
            ("F17h", Driver::Amd64),
            ("F19h_M10h", Driver::Amd64),
            ("F1", Driver::Other),
            ("Freescale", Driver::Other),
            ("ghes_edac", Driver::Ghes),
            ("IE31200", Driver::Other),
            ("", Driver::Other),
        ] {
            assert_eq!(Driver::of(name), driver, "{name}");
        }
    }
}
