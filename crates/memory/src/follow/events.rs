//! The trace events that tell of memory errors.

use surefoot_hostfs::tracefs::Tracefs;
use surefoot_model::MemorySource;

/// Which event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    McEvent,
    MceRecord,
    Extlog,
    MemoryFailure,
    CxlDram,
    CxlGeneralMedia,
}

impl Kind {
    /// All of them.
    pub(super) const ALL: [Kind; 6] =
        [Kind::McEvent, Kind::MceRecord, Kind::Extlog, Kind::MemoryFailure, Kind::CxlDram, Kind::CxlGeneralMedia];

    /// Its folder below `events`, and its name in a line. Newer kernels have moved one of them.
    pub(super) fn places(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::McEvent => &[("ras", "mc_event")],
            Kind::MceRecord => &[("mce", "mce_record")],
            Kind::Extlog => &[("ras", "extlog_mem_event")],
            Kind::MemoryFailure => &[("ras", "memory_failure_event"), ("memory_failure", "memory_failure_event")],
            Kind::CxlDram => &[("cxl", "cxl_dram")],
            Kind::CxlGeneralMedia => &[("cxl", "cxl_general_media")],
        }
    }

    /// The event of this name.
    pub(super) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.places().iter().any(|(_, known)| *known == name))
    }

    /// Whose reports they are.
    pub(super) fn source(self) -> MemorySource {
        match self {
            Kind::McEvent => MemorySource::McEvent,
            Kind::MceRecord => MemorySource::MceRecord,
            Kind::Extlog => MemorySource::Extlog,
            Kind::MemoryFailure => MemorySource::MemoryFailure,
            Kind::CxlDram | Kind::CxlGeneralMedia => MemorySource::CxlEvent,
        }
    }

    /// Fields without which its line cannot be read: a kernel whose event has others prints another line.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Kind::McEvent => &["error_type", "label", "error_count", "mc_index", "address", "driver_detail"],
            Kind::MceRecord => &["status", "addr", "bank", "cpuvendor", "socketid"],
            Kind::Extlog => &["sev", "pa"],
            Kind::MemoryFailure => &["pfn", "type", "result"],
            Kind::CxlDram => &["memdev", "serial", "dpa", "descriptor", "validity_flags", "row", "column"],
            Kind::CxlGeneralMedia => &["memdev", "serial", "dpa", "descriptor", "validity_flags", "channel"],
        }
    }

    /// Where this kernel has it; `None` where it has not.
    ///
    /// # Errors
    /// A sentence where it has it in another form.
    pub(super) fn found(self, tracefs: &Tracefs) -> Result<Option<(&'static str, &'static str)>, String> {
        let Some((group, name)) = self.places().iter().copied().find(|(group, name)| tracefs.event_exists(group, name))
        else {
            return Ok(None);
        };
        let format = tracefs.event_format(group, name).map_err(|error| error.to_string())?;
        match self.fields().iter().find(|field| format.field(field).is_none()) {
            None => Ok(Some((group, name))),
            Some(missing) => Err(format!(
                "the event {group}:{name} of this kernel has no field '{missing}', so that its lines cannot be read; its \
                 reports are not followed"
            )),
        }
    }
}
