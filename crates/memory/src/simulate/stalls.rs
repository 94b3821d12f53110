//! Stalls in the order in which they begin: their sum, and the longest unbroken one.

/// Spans beyond these are not kept: a service of requests is simulated over shorter runs.
pub const SPANS_MAX: usize = 4_000_000;

/// An unbroken stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it begins.
    pub start_ns: u64,
    /// When it ends.
    pub end_ns: u64,
}

/// What was stalled so far. Work that comes while a stall lasts is done at its end and makes it longer.
#[derive(Debug, Clone, Default)]
pub struct Stalls {
    /// The sum.
    pub total_ns: u64,
    /// The longest unbroken stall.
    pub longest_ns: u64,
    start_ns: u64,
    busy_until_ns: u64,
    spans: Option<Vec<Span>>,
    /// Stalls that were not kept, because there were more than [`SPANS_MAX`].
    pub spans_left_out: u64,
}

impl Stalls {
    /// Nothing yet; keeps each unbroken stall if `keeps_spans`.
    pub fn new(keeps_spans: bool) -> Stalls {
        Stalls { spans: keeps_spans.then(Vec::new), ..Stalls::default() }
    }

    /// When the work that is known so far is done.
    pub fn busy_until_ns(&self) -> u64 {
        self.busy_until_ns
    }

    /// Whether each stall has to be added by itself.
    pub fn keeps_spans(&self) -> bool {
        self.spans.is_some()
    }

    /// Adds work that comes at `at_ns`, not before any that was added.
    pub fn add(&mut self, at_ns: u64, length_ns: u64) {
        if length_ns == 0 {
            return;
        }
        let is_new = self.total_ns == 0 || at_ns > self.busy_until_ns;
        if is_new {
            (self.start_ns, self.busy_until_ns) = (at_ns, at_ns);
        }
        self.busy_until_ns = self.busy_until_ns.saturating_add(length_ns);
        self.total_ns = self.total_ns.saturating_add(length_ns);
        self.longest_ns = self.longest_ns.max(self.busy_until_ns - self.start_ns);
        let span = Span { start_ns: self.start_ns, end_ns: self.busy_until_ns };
        match &mut self.spans {
            Some(spans) if !is_new => {
                if let Some(last) = spans.last_mut().filter(|last| last.start_ns == span.start_ns) {
                    last.end_ns = span.end_ns;
                }
            }
            Some(spans) if spans.len() < SPANS_MAX => spans.push(span),
            Some(_) => self.spans_left_out += 1,
            None => {}
        }
    }

    /// Adds `count` stalls that meet neither each other nor any other.
    pub fn add_alone(&mut self, count: u64, length_ns: u64) {
        if count > 0 {
            self.total_ns = self.total_ns.saturating_add(count.saturating_mul(length_ns));
            self.longest_ns = self.longest_ns.max(length_ns);
        }
    }

    /// The unbroken stalls, where they were kept.
    pub fn into_spans(self) -> Vec<Span> {
        self.spans.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_meets_a_stall_makes_it_longer() {
        let mut stalls = Stalls::new(true);
        for (at_ns, length_ns) in [(0, 10), (5, 10), (20, 5), (26, 1), (40, 0)] {
            stalls.add(at_ns, length_ns);
        }
        stalls.add_alone(2, 7);
        assert_eq!((stalls.total_ns, stalls.longest_ns), (40, 25));
        let span = |start_ns, end_ns| Span { start_ns, end_ns };
        assert_eq!(stalls.into_spans(), [span(0, 25), span(26, 27)]);
    }
}
