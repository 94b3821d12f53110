use crate::Event;

/// How far a stream of events has come, and what that is on the clock of the world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamClock {
    /// End of the newest window or look, `CLOCK_MONOTONIC`; `None` before the first.
    pub newest_ns: Option<u64>,
    /// `CLOCK_REALTIME` minus `CLOCK_MONOTONIC`, as the newest description of the host says.
    pub offset_ns: Option<i64>,
}

impl StreamClock {
    /// Takes note of an event.
    pub fn take(&mut self, event: &Event) {
        if let Event::Host(host) = event {
            self.offset_ns = Some(host.realtime_offset_ns);
        }
        self.newest_ns = self.newest_ns.max(event.comes_to_ns());
    }

    /// A time of the stream as `CLOCK_REALTIME`; as it is where no host was described.
    pub fn realtime_ns(&self, monotonic_ns: u64) -> u64 {
        monotonic_ns.saturating_add_signed(self.offset_ns.unwrap_or(0))
    }

    /// The end of the stream, `CLOCK_REALTIME`; 0 before its first window or look.
    pub fn end_realtime_ns(&self) -> u64 {
        self.newest_ns.map_or(0, |newest_ns| self.realtime_ns(newest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CheckpointEvent, CheckpointLook};

    #[test]
    fn a_stream_has_come_as_far_as_its_newest_event() {
        let mut clock = StreamClock::default();
        assert_eq!(clock.end_realtime_ns(), 0);
        for at_ns in [5, 9, 7] {
            let look = CheckpointLook { at_ns, ..CheckpointLook::default() };
            clock.take(&Event::Checkpoint(CheckpointEvent::Look(look)));
        }
        assert_eq!((clock.newest_ns, clock.end_realtime_ns()), (Some(9), 9));
        clock.offset_ns = Some(-4);
        assert_eq!((clock.end_realtime_ns(), clock.realtime_ns(3)), (5, 0));
    }
}
