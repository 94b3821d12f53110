//! A log of lines: of the kernel, of mcelog, or of both. Each line is read by what it is itself, because syslog holds both.

use super::kernel_log::{self, KernelLog};
use super::mcelog::{self, Mcelog, Owner};
use super::{Clock, Line, Sink};

/// A reader of such a log.
#[derive(Debug)]
pub(super) struct Log {
    kernel: KernelLog,
    mcelog: Mcelog,
    /// The log is mcelog's own, whose lines have no tag.
    is_mcelogs: bool,
    /// A line had a stamp of syslog: what has none is part of another program's message.
    is_shared: bool,
    kernel_count: u64,
    mcelog_count: u64,
}

impl Log {
    pub fn new(clock: Clock, is_mcelogs: bool) -> Log {
        let (kernel, mcelog) = (KernelLog::new(clock), Mcelog::default());
        Log { kernel, mcelog, is_mcelogs, is_shared: false, kernel_count: 0, mcelog_count: 0 }
    }

    pub fn line(&mut self, line: &str, sink: &mut Sink<'_>) -> Line {
        let owner = mcelog::owner(line);
        self.is_shared |= owner != Owner::Untold;
        let is_mcelogs = match owner {
            Owner::Mcelog => true,
            Owner::Another => false,
            Owner::Untold => self.is_mcelogs && !self.is_shared && !kernel_log::is_line(line),
        };
        let before = sink.totals.report_count;
        if is_mcelogs {
            let line = self.mcelog.line(line, sink);
            self.kernel.interrupt();
            self.mcelog_count += sink.totals.report_count - before;
            return line;
        }
        let read = self.kernel.line(line, sink);
        self.kernel_count += sink.totals.report_count - before;
        if read == Line::Other { mcelog::of_program(line) } else { read }
    }

    pub fn end(&mut self, sink: &mut Sink<'_>) {
        let before = sink.totals.report_count;
        self.mcelog.end(sink);
        let mcelogs = self.mcelog_count + sink.totals.report_count - before;
        let before = sink.totals.report_count;
        self.kernel.end(sink);
        if mcelogs > 0 && self.kernel_count + sink.totals.report_count - before > 0 {
            sink.totals.note(
                "This log has errors from mcelog and from the kernel. An error that both report is counted twice.",
            );
        }
    }
}
