use surefoot_model::{CoreLedger, Event, Gap, Interrupt, Window};

/// About how much memory an event holds; strings and tables counted, allocator overhead not.
pub(crate) fn event_bytes(event: &Event) -> usize {
    size_of::<Event>()
        + match event {
            Event::Window(window) => window_bytes(window),
            Event::Gap(gap) => gap_bytes(gap),
            Event::Notice(notice) => notice.text.len(),
            Event::Who(who) => who.interrupts.iter().map(interrupt_bytes).sum(),
            Event::Host(host) => size_of_val(host.cpus.as_slice()) + host.workload.len(),
            Event::Capabilities { capabilities } => {
                capabilities.iter().map(|row| size_of_val(row) + row.reason.len() + row.remedy.len()).sum()
            }
        }
}

fn window_bytes(window: &Window) -> usize {
    let cores: usize = window.cores.iter().map(core_bytes).sum();
    let untimed: usize = window.untimed.iter().map(|row| size_of_val(row) + row.row.len() + row.name.len()).sum();
    let completeness: usize = window.completeness.iter().map(|row| size_of_val(row) + row.row.len()).sum();
    let probes: usize = window.cost.probes.iter().map(|probe| size_of_val(probe) + probe.name.len()).sum();
    cores + untimed + completeness + probes
}

fn core_bytes(core: &CoreLedger) -> usize {
    let rows = core
        .lost
        .iter()
        .map(|lost| size_of_val(lost) + lost.cause.name.len() + lost.histogram.0.len() * size_of::<(u8, u64)>());
    size_of_val(core) + rows.sum::<usize>()
}

fn gap_bytes(gap: &Gap) -> usize {
    let causes: usize = gap.causes.iter().map(|cause| size_of_val(cause) + cause.cause.name.len()).sum();
    let evidence: usize = gap.evidence.iter().map(|line| size_of_val(line) + line.len()).sum();
    causes + evidence
}

fn interrupt_bytes(interrupt: &Interrupt) -> usize {
    let frames = |stack: &[String]| stack.iter().map(|frame| size_of_val(frame) + frame.len()).sum::<usize>();
    let raisers = interrupt.raisers.iter().map(|raiser| {
        size_of_val(raiser) + raiser.function.len() + frames(&raiser.kernel_stack) + frames(&raiser.user_stack)
    });
    size_of_val(interrupt) + frames(&interrupt.detail) + raisers.sum::<usize>()
}
