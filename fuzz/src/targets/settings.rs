use surefoot_checkpoint::Config;
use surefoot_hostfs::images::Mapping;
use surefoot_hostfs::tasks::TaskStat;
use surefoot_hostfs::{cpus, settings as masks};
use surefoot_model::Health;

/// Settings of checkpoints, a line each, and the lists and masks of cores that people and the kernel write.
pub fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut config = Config::new("job", "/memory", Some("/durable".into()));
    for line in text.lines() {
        let (name, value) = line.split_once('=').unwrap_or((line, ""));
        if let Err(error) = config.set(name, value) {
            assert!(!error.to_string().is_empty());
        }
        if let Ok(cores) = cpus::parse_list(line) {
            let again = cpus::parse_list(&cpus::format_list(&cores));
            assert_eq!(again.ok().as_ref(), Some(&cores), "a list says the same when it is read again");
        }
        if let Ok(cores) = masks::parse_mask(line) {
            let again = masks::parse_mask(&masks::format_mask(&cores));
            assert_eq!(again.ok().as_ref(), Some(&cores), "a mask says the same when it is read again");
        }
    }
}

/// What the kernel writes of processes and mounts, with names in it that strangers chose; and the health of a host.
pub fn proc_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for line in text.lines() {
        let _ = TaskStat::parse(line);
        if let Some(mapping) = Mapping::parse(line) {
            assert!(!mapping.file_name().chars().any(char::is_control));
        }
    }
    let _ = surefoot_hostfs::mounts::Mounts::parse(&text);
    let _ = surefoot_hostfs::interrupts::Interrupts::parse(&text);
    let _ = serde_json::from_str::<Health>(&text);
}
