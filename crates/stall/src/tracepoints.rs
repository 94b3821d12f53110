//! Where the programs find plain tracepoints on the running host.

use std::sync::Arc;
use surefoot_hostfs::tracefs::{Tracefs, TracefsMount};
use surefoot_hostfs::{Root, Unsupported};

/// Opens tracefs for the programs. They run on this host whatever tree is read, so its tracefs it is.
pub(crate) fn tracefs() -> surefoot_probes::Tracefs {
    match Tracefs::open(&Root::host()) {
        Ok(tracefs) => surefoot_probes::Tracefs::Open(Arc::new(tracefs.into())),
        Err(Unsupported { why, remedy, .. }) => surefoot_probes::Tracefs::Absent { why, remedy },
    }
}

/// Where tracefs is found, or why it is not.
pub(crate) fn place() -> Result<TracefsMount, Unsupported> {
    Tracefs::open(&Root::host()).map(|tracefs| tracefs.place().clone())
}
