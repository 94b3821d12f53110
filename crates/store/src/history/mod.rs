//! Being built.
/// dropped
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {}
impl Dropped {
    /// total
    pub fn total(&self) -> u64 {
        0
    }
}
