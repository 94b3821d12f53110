use crate::sources::{Source, Start};
use std::sync::atomic::AtomicBool;
use surefoot_hostfs::Root;
use surefoot_model::Event;
use surefoot_stall::{Collector, Config};

/// The source of lost time: the collector, which closes a window every second. Its errors are those of
/// [`surefoot_stall::Error`].
pub fn source(root: &Root, config: Config) -> Start {
    let root = root.clone();
    Box::new(move || Ok(Box::new(LostTime(Collector::start(&root, config)?))))
}

struct LostTime(Collector);

impl Source for LostTime {
    fn opening(&mut self) -> Vec<Event> {
        self.0.opening()
    }

    fn turn(&mut self, stop: &AtomicBool) -> Result<Vec<Event>, String> {
        self.0.next_window(stop).map_err(|error| error.to_string())
    }

    fn closing(&mut self) -> Vec<Event> {
        self.0.closing()
    }
}
