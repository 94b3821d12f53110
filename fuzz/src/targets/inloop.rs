use crate::scratch;
use std::mem::offset_of;
use surefoot_inloop::Reader;
use surefoot_inloop::layout::{CAPACITY_MIN, HEADER_BYTES, Header, MAGIC, VERSION, file_bytes};

/// A ring of a loop, whose claim to be of this thread is true: looked at, written to under the reader's hands, and looked at
/// again.
pub fn ring(bytes: &[u8]) {
    let Some((&[choice], bytes)) = bytes.split_first_chunk() else { return };
    let mut file = bytes.to_vec();
    let pid = std::process::id();
    if choice & 1 == 0 {
        // As long as its head says, so that what is in it is looked at.
        file.resize(file.len().max(HEADER_BYTES), 0);
        let mut put = |at: usize, value: &[u8]| file[at..at + value.len()].copy_from_slice(value);
        put(offset_of!(Header, magic), &MAGIC.to_ne_bytes());
        put(offset_of!(Header, version), &VERSION.to_ne_bytes());
        put(offset_of!(Header, capacity), &CAPACITY_MIN.to_ne_bytes());
        put(offset_of!(Header, pid), &pid.to_ne_bytes());
        put(offset_of!(Header, tid), &pid.to_ne_bytes());
        put(offset_of!(Header, thread_start), &start().to_ne_bytes());
        put(offset_of!(Header, pid_namespace), &[0; 8]);
        let name = offset_of!(Header, name);
        file[name] = file[name].clamp(b' ', b'~');
        file.resize(file_bytes(CAPACITY_MIN), 0);
    }
    scratch::with_folder(|folder| {
        let name = format!("{pid}-{pid}-0000000000000001.loop");
        let path = scratch::write(folder, &name, &file);
        let Ok(mut reader) = Reader::from_start(folder) else { return };
        let _ = reader.poll();
        let _ = reader.counts();
        // The writer goes on, backwards if it likes.
        if file.len() > 136 && choice & 2 != 0 {
            file[128..136].rotate_left(1);
            scratch::write(folder, &name, &file);
            let _ = reader.poll();
        }
        let _ = std::fs::remove_file(path);
        let _ = reader.poll();
    });
}

/// When this process's first thread was started.
fn start() -> u64 {
    thread_local!(static START: u64 = read_start());
    START.with(|start| *start)
}

fn read_start() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest.split_ascii_whitespace()).and_then(|mut rest| rest.nth(19));
    fields.and_then(|field| field.parse().ok()).unwrap_or(0)
}
