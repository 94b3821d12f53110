//! Files that are no good recordings, disks that are full, and recordings from the future.

use crate::any_event::{plausible_gap, plausible_host, plausible_window};
use crate::child;
use flate2::{Compression, write::DeflateEncoder};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use surefoot_model::{Capability, CapabilityState, Event, Notice, Report};
use surefoot_random::Random;
use surefoot_store::Error;
use surefoot_store::recording::{End, Existing, Reader, Writer};

const EVENTS: u8 = 1;
const END: u8 = 2;
const DEFLATE: u8 = 1;

#[test]
fn names_of_megabytes_are_cut_when_they_are_read_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let notice = |text: &str| serde_json::to_string(&Event::Notice(Notice { at_ns: 1, text: text.into() })).unwrap();
    // A text of quotation marks, each escaped, and one of letters that a cut must not break.
    let lines: Vec<String> =
        [&"\"".repeat(5 << 20), &"é".repeat(1 << 20), "short"].iter().map(|text| notice(text) + "\n").collect();
    let path = Bytes::new().events(&lines.concat()).end(3).write_to(directory.path());
    let mut reader = Reader::open(&path).unwrap();
    let texts: Vec<String> = reader
        .by_ref()
        .map(|event| if let Event::Notice(notice) = event { notice.text } else { panic!("{event:?}") })
        .collect();
    assert_eq!(texts.iter().map(String::len).collect::<Vec<_>>(), [4096, 4096, 5]);
    assert!(texts[1].chars().all(|letter| letter == 'é'));
    assert_eq!((reader.end(), reader.skipped().texts, reader.skipped().fields), (End::Complete, 2, 0));
    assert_eq!(reader.skipped().to_string(), "2 texts of the recording were longer than 4096 bytes and were cut.");
}

#[test]
fn a_link_is_neither_followed_nor_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let (victim, link) = (directory.path().join("victim"), directory.path().join("link"));
    fs::write(&victim, "precious").unwrap();
    std::os::unix::fs::symlink(&victim, &link).unwrap();
    for existing in [Existing::Refuse, Existing::Replace] {
        let error = Writer::create(&link, existing).unwrap_err();
        assert!(matches!(error, Error::NotAFile { .. } | Error::Exists { .. }), "{error}");
    }
    let error = Writer::create(&link, Existing::Replace).unwrap_err().to_string();
    assert!(error.contains("symbolic link"), "{error}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

/// Builds recordings by hand from the description of the format, so that the reader is not checked by its own writer.
struct Bytes(Vec<u8>);

impl Bytes {
    fn new() -> Bytes {
        Bytes::of_version(1)
    }

    fn of_version(version: u16) -> Bytes {
        let mut bytes = b"SUREFOOT".to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        Bytes(bytes)
    }

    fn frame(mut self, kind: u8, flags: u8, payload: &[u8]) -> Bytes {
        let mut checked = vec![kind, flags];
        checked.extend(payload);
        self.0.extend((payload.len() as u32).to_le_bytes());
        self.0.extend([kind, flags]);
        self.0.extend(crc32fast::hash(&checked).to_le_bytes());
        self.0.extend(payload);
        self
    }

    fn events(self, lines: &str) -> Bytes {
        let packed = deflate(lines.as_bytes());
        self.frame(EVENTS, DEFLATE, &packed)
    }

    fn end(self, events: u64) -> Bytes {
        let mut payload = events.to_le_bytes().to_vec();
        payload.extend(0u64.to_le_bytes());
        self.frame(END, 0, &payload)
    }

    fn raw(mut self, bytes: &[u8]) -> Bytes {
        self.0.extend(bytes);
        self
    }

    fn write_to(&self, directory: &Path) -> PathBuf {
        let path = directory.join("made.surefoot");
        fs::write(&path, &self.0).unwrap();
        path
    }
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn notice(at_ns: u64) -> Event {
    Event::Notice(Notice { at_ns, text: "a word".into() })
}

fn notice_line(at_ns: u64) -> String {
    format!("{{\"type\":\"notice\",\"at_ns\":{at_ns},\"text\":\"a word\"}}\n")
}

fn read_all(path: &Path) -> (Vec<Event>, Reader) {
    let mut reader = Reader::open(path).unwrap();
    let events = reader.by_ref().collect();
    (events, reader)
}

#[test]
fn a_recording_made_by_hand_from_the_description_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = Bytes::new()
        .events(&(notice_line(1) + &notice_line(2)))
        .frame(EVENTS, 0, notice_line(3).as_bytes())
        .end(3)
        .write_to(directory.path());
    let (events, mut reader) = read_all(&path);
    assert_eq!(events, [notice(1), notice(2), notice(3)]);
    assert_eq!(reader.end(), End::Complete);
    assert_eq!(reader.events(), 3);
}

/// The events of the first release as they stand in its recordings. Later releases read them; never edit the file.
const FIRST_RELEASE: &str = include_str!("first_release.jsonl");

#[test]
fn recordings_of_the_first_release_stay_readable() {
    let directory = tempfile::tempdir().unwrap();
    let lines = FIRST_RELEASE.lines().count();
    let path = Bytes::new().events(FIRST_RELEASE).end(lines as u64).write_to(directory.path());
    let (events, mut reader) = read_all(&path);
    assert_eq!(reader.end(), End::Complete);
    assert_eq!(events.len(), lines, "{}", reader.skipped());
    assert!(reader.skipped().is_empty(), "a field was renamed: {}", reader.skipped());
    let report = Report::of(&events);
    assert_eq!(report.host.as_ref().map(|host| host.hostname.as_str()), Some("node17"));
    assert_eq!((report.capabilities.len(), report.windows, report.gap_count, report.notices.len()), (3, 1, 9, 1));
    let core = &report.cores()[0];
    assert!(core.sums_up());
    assert_eq!((core.lost.len(), core.lost[0].histogram.count()), (14, 250));
}

#[test]
fn what_a_newer_writer_adds_is_skipped_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let newer_field = "{\"type\":\"notice\",\"at_ns\":2,\"level\":{\"of\":3},\"text\":\"a word\"}\n";
    let newer_event = "{\"type\":\"thermal_trip\",\"degrees\":[1,2]}\n";
    let path = Bytes::new()
        .events(&notice_line(1))
        .frame(9, 0, b"a kind of frame from the future")
        .events(&format!("{newer_field}{newer_event}"))
        .frame(EVENTS, 0x80, b"a compression from the future")
        .events(&notice_line(3))
        .end(40)
        .write_to(directory.path());
    let (events, mut reader) = read_all(&path);
    assert_eq!(events, [notice(1), notice(2), notice(3)]);
    assert_eq!(reader.end(), End::Complete, "{}", reader.end());
    let skipped = reader.skipped();
    assert_eq!((skipped.frames, skipped.events, skipped.fields), (2, 1, 2));
    assert!(skipped.to_string().contains("2 frames, 1 events and 2 fields"), "{skipped}");
}

/// Each malformed file gives this many events of the two intact ones before the fault, and this word about the rest.
#[test]
fn malformed_files_give_their_intact_prefix_and_a_clear_word() {
    let directory = tempfile::tempdir().unwrap();
    let good = || Bytes::new().events(&(notice_line(1) + &notice_line(2)));
    let mut wrong_checksum = good().events(&notice_line(3)).0;
    *wrong_checksum.last_mut().unwrap() ^= 1;
    let half = deflate(notice_line(3).repeat(50).as_bytes());
    let cases: Vec<(Bytes, usize, &str)> = vec![
        (good(), 2, "closing frame is missing"),
        (good().raw(&[0; 10]), 2, "zeros"),
        (good().raw(&[0; 4096]), 2, "zeros"),
        (good().raw(&[1, 0, 0]), 2, "within its header"),
        (good().raw(&[200, 0, 0, 0, 1, 0, 1, 2, 3, 4, 5]), 2, "claims 200 bytes and has 1"),
        (good().raw(&[0xff, 0xff, 0xff, 0xff, 1, 0, 1, 2, 3, 4]), 2, "claims 4294967295 bytes, the limit is"),
        (Bytes(wrong_checksum), 2, "checksum"),
        (good().end(3), 2, "counts 3 events, the file holds 2"),
        (good().frame(END, 0, b"short"), 2, "closing frame is too short"),
        (good().end(2).raw(b"x"), 2, "goes on after its closing frame"),
        (good().end(2).events(&notice_line(3)).end(3), 2, "goes on after its closing frame"),
        (good().frame(EVENTS, DEFLATE, b"this is no deflate stream"), 2, "decompressed"),
        (good().frame(EVENTS, DEFLATE, &half[..half.len() / 2]), 2, "cut short"),
        (good().frame(EVENTS, DEFLATE, &[&half[..], b"x"].concat()), 2, "ends before the frame does"),
        (good().frame(EVENTS, DEFLATE, b""), 2, "cut short"),
        (good().events("no JSON at all\n"), 2, "cannot be read"),
        (good().events("{\"at_ns\":1}\n"), 2, "cannot be read"),
        (good().events("{\"type\":7}\n"), 2, "cannot be read"),
        (good().events("\n"), 2, "cannot be read"),
        (good().events("\u{feff}{}\n"), 2, "cannot be read"),
        (good().frame(EVENTS, 0, b"\xff\xfe\n"), 2, "cannot be read"),
        (good().events(notice_line(3).trim_end()), 2, "line feed"),
        (good().events(&("[".repeat(100_000) + "\n")), 2, "cannot be read"),
        (good().events(&(notice_line(3) + "{\"type\":\n")), 3, "cannot be read"),
    ];
    for (number, (bytes, intact, word)) in cases.iter().enumerate() {
        let path = bytes.write_to(directory.path());
        let (events, mut reader) = read_all(&path);
        let end = reader.end().to_string();
        assert_eq!(events.len(), *intact, "case {number}: {end}");
        assert_eq!(events, [1, 2, 3][..*intact].iter().map(|&at| notice(at)).collect::<Vec<_>>(), "case {number}");
        assert!(end.contains(word), "case {number}: {end}");
        assert!(end.contains(&format!("{intact} events before it are intact")), "case {number}: {end}");
        assert_eq!(reader.next(), None, "case {number}: goes on after its end");
    }
}

#[test]
fn an_event_of_a_known_type_with_unknown_words_is_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let newer = "{\"type\":\"capabilities\",\"capabilities\":[{\"id\":\"a\",\"name\":\"b\",\"state\":\"half\",\"reason\":\"\",\"remedy\":\"\"}]}\n";
    let path = Bytes::new().events(&(newer.to_owned() + &notice_line(1))).end(2).write_to(directory.path());
    let (events, mut reader) = read_all(&path);
    assert_eq!(events, [notice(1)]);
    assert_eq!(reader.end(), End::Complete);
    assert_eq!(reader.skipped().events, 1);
}

#[test]
fn a_compression_bomb_is_refused_within_its_limit() {
    let directory = tempfile::tempdir().unwrap();
    let bomb = deflate(&vec![b' '; 80 << 20]);
    assert!(bomb.len() < 200_000);
    let path = Bytes::new().events(&notice_line(1)).frame(EVENTS, DEFLATE, &bomb).end(1).write_to(directory.path());
    let (events, mut reader) = read_all(&path);
    assert_eq!(events, [notice(1)]);
    assert!(reader.end().to_string().contains("larger than the limit of 67108864 bytes"), "{}", reader.end());

    let mut long_line = vec![b' '; 33 << 20];
    long_line.push(b'\n');
    let path = Bytes::new().frame(EVENTS, DEFLATE, &deflate(&long_line)).write_to(directory.path());
    let (events, mut reader) = read_all(&path);
    assert!(events.is_empty());
    assert!(reader.end().to_string().contains("an event is larger than the limit"), "{}", reader.end());
}

#[test]
fn what_is_no_recording_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let refused = |path: &Path| Reader::open(path).unwrap_err().to_string();

    assert!(refused(directory.path()).contains("a directory"));
    assert!(refused(&fifo).contains("a FIFO"));
    assert!(refused(Path::new("/dev/zero")).contains("a character device"));
    assert!(refused(&path).contains("cannot be opened"));
    for (content, word) in [
        (b"".to_vec(), "the file is empty"),
        (b"S".to_vec(), "cut off after 1 bytes"),
        (b"SUREFOOT\x01\x00".to_vec(), "cut off after 10 bytes"),
        (b"not a recording at all".to_vec(), "not a recording"),
        (b"surefoot".to_vec(), "not a recording"),
        (b"SUREFOOT\x01\x00\x00\x00\x00\x00".to_vec(), "header of the recording is damaged"),
        (Bytes::of_version(2).0, "format version 2, this program reads version 1"),
        (Bytes::of_version(0).0, "format version 0, this program reads version 1"),
    ] {
        fs::write(&path, content).unwrap();
        let error = refused(&path);
        assert!(error.contains(word), "{error}");
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn creating_refuses_what_it_must_not_write_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.surefoot");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(Writer::create(&path, Existing::Refuse), Err(Error::Exists { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"precious");

    let first = Writer::create(&path, Existing::Replace).unwrap();
    let second = Writer::create(&path, Existing::Replace);
    assert!(matches!(second, Err(Error::InUse { .. })), "{second:?}");
    first.finish().unwrap();
    assert_eq!(Reader::open(&path).unwrap().end(), End::Complete);

    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (place, word) in [(directory.path(), "a directory"), (fifo.as_path(), "a FIFO")] {
        for existing in [Existing::Refuse, Existing::Replace] {
            let error = Writer::create(place, existing).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
    let nowhere = directory.path().join("no/such/directory/a.surefoot");
    assert!(matches!(Writer::create(&nowhere, Existing::Refuse), Err(Error::Open { .. })));
}

#[test]
fn a_recording_is_private_to_its_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.surefoot");
    Writer::create(&path, Existing::Refuse).unwrap().finish().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_full_device_is_told_from_the_first_byte() {
    let error = Writer::create("/dev/full", Existing::Replace).unwrap_err().to_string();
    assert!(error.contains("/dev/full") && error.contains("0 events (0 bytes) are in the file"), "{error}");
}

/// The body of a child process whose files may not grow over 64 KiB; the parent is the next test.
#[test]
#[ignore = "runs in a child process with a small file limit"]
fn child_that_records_into_a_small_limit() {
    let path = child::file();
    let mut writer = Writer::create(&path, Existing::Refuse).unwrap();
    let mut random = Random::new(1);
    let mut event = |at_ns| {
        // Text that does not compress, so that the limit is reached soon.
        let text = (0..300).map(|_| char::from(b'!' + random.below(90) as u8)).collect();
        Event::Notice(Notice { at_ns, text })
    };
    let (mut flushed, mut appended) = (0, 0);
    let error = loop {
        for _ in 0..9 {
            writer.append(&event(appended)).unwrap();
            appended += 1;
        }
        match writer.flush() {
            Ok(()) => flushed = appended,
            Err(error) => break error,
        }
    };
    let Error::RecordingWrite { safe_events, safe_bytes, waiting_events, dropped_events, .. } = error else {
        panic!("{error}")
    };
    assert!(flushed > 0);
    assert_eq!((safe_events, waiting_events, dropped_events), (flushed, 9, 0));
    assert_eq!(safe_bytes, writer.bytes());
    assert_eq!(fs::metadata(&path).unwrap().len(), safe_bytes, "the remains of the frame were not cut off");
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.by_ref().count() as u64, flushed);
    assert!(matches!(reader.end(), End::Torn { .. }));

    // Room for waiting events is limited: from some point on new ones are dropped, and counted.
    let large = |_| Event::Notice(Notice { at_ns: 0, text: "x".repeat(1 << 20) });
    let dropped = (0..20).map(large).filter(|event| writer.append(event).is_err()).count() as u64;
    assert!(dropped > 10, "{dropped}");
    assert_eq!(writer.dropped_events(), dropped);
    println!("{}", child::DONE);
}

#[test]
fn a_file_that_cannot_grow_keeps_its_whole_frames() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.surefoot");
    let limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 128; exec \"$@\"", "sh"];
    child::run(&limited, "recording_files::child_that_records_into_a_small_limit", &path);
}

#[test]
fn a_large_burst_is_split_into_frames_that_a_reader_takes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.surefoot");
    let mut writer = Writer::create(&path, Existing::Refuse).unwrap();
    let text = "y".repeat(4 << 10);
    let burst: Vec<Event> = (0..10_240).map(|at_ns| Event::Notice(Notice { at_ns, text: text.clone() })).collect();
    for event in &burst {
        writer.append(event).unwrap();
    }
    writer.finish().unwrap();
    let (events, mut reader) = read_all(&path);
    assert_eq!(reader.end(), End::Complete);
    assert!(events == burst);
}

#[test]
fn an_event_over_the_limit_is_left_out_and_said_so_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.surefoot");
    let mut writer = Writer::create(&path, Existing::Refuse).unwrap();
    let huge = Capability {
        id: "z".repeat(40 << 20),
        name: String::new(),
        state: CapabilityState::Works,
        reason: String::new(),
        remedy: String::new(),
    };
    writer.append(&plausible_host(2)).unwrap();
    let error = writer.append(&Event::Capabilities { capabilities: vec![huge] }).unwrap_err();
    assert!(matches!(error, Error::EventTooLarge { dropped_events: 1, .. }), "{error}");
    writer.append(&plausible_window(1, 2)).unwrap();
    writer.append(&plausible_gap(1, 9_000)).unwrap();
    let written = writer.finish().unwrap();
    assert_eq!((written.events, written.dropped_events), (3, 1));
    let (events, mut reader) = read_all(&path);
    assert_eq!(events, [plausible_host(2), plausible_window(1, 2), plausible_gap(1, 9_000)]);
    assert_eq!(reader.end(), End::Complete);
    assert_eq!(reader.dropped_events(), 1);
}
