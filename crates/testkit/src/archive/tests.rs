#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

const TEXT: &str = "surefoot-tree 1\nfile dev/msr\n>%\\x00\nlink proc/self/ns/pid pid:[1]\nfile proc/stat\n|cpu0  1\n|\n\
                    |a\tb\\\\040é\nfolder sys/fs\n";

#[test]
fn a_text_is_read_and_written_as_it_was() {
    let archive = Archive::parse(TEXT).unwrap();
    assert_eq!(archive.file("dev/msr").unwrap(), b"%\0");
    assert_eq!(archive.file("proc/stat").unwrap(), "cpu0  1\n\na\tb\\040é\n".as_bytes());
    assert_eq!((archive.file("sys/fs"), archive.file("proc/self/ns/pid"), archive.file("none")), (None, None, None));
    assert_eq!(archive.to_text(), TEXT);
}

#[test]
fn a_malformed_archive_is_refused_by_line() {
    for (text, line, reason) in [
        ("", 1, "'surefoot-tree 1' is missing"),
        ("surefoot-tree 2\n", 1, "'surefoot-tree 1' is missing"),
        ("surefoot-tree 1", 1, "cut off"),
        ("surefoot-tree 1\nfile a\n|x", 3, "cut off"),
        ("surefoot-tree 1\n|x\n", 2, "content without a file"),
        ("surefoot-tree 1\nfolder a\n|x\n", 3, "content without a file"),
        ("surefoot-tree 1\nfile a\n\n|x\n", 4, "an empty line"),
        ("surefoot-tree 1\nfile a\n>x\n|y\n", 4, "after the line without"),
        ("surefoot-tree 1\nfile a\n>\n", 3, "must not be empty"),
        ("surefoot-tree 1\nfile\n", 2, "the path is missing"),
        ("surefoot-tree 1\nfile a b\n", 2, "a blank in a path is \\x20"),
        ("surefoot-tree 1\nlink a\n", 2, "the target of the link is missing"),
        ("surefoot-tree 1\nlink a b c\n", 2, "too many words"),
        ("surefoot-tree 1\nmode a\n", 2, "neither 'file'"),
        ("surefoot-tree 1\nfile a\n|\u{1b}\n", 3, "a bare control character; write \\x1b"),
        ("surefoot-tree 1\nfile a\r\n", 2, "a bare control character; write \\x0d"),
        ("surefoot-tree 1\nfile a\n|\\x0\n", 3, "a backslash that begins neither"),
        ("surefoot-tree 1\nfile a\n|\\x0G\n", 3, "'G' is not a lower-case hexadecimal digit"),
        ("surefoot-tree 1\nfile a\nfile b\nfile a\n", 4, "'a' is there already"),
        ("surefoot-tree 1\nfile a\nfile a/b\n", 3, "'a/b' is below 'a'"),
        ("surefoot-tree 1\nlink a b\nfile a/b/c\n", 3, "'a/b/c' is below 'a'"),
        ("surefoot-tree 1\nfile a/b\nfile a-b\nlink a b\n", 4, "'a' is a folder already"),
    ] {
        let error = Archive::parse(text).unwrap_err();
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.reason.contains(reason), "{text:?}: {error}");
    }
}

#[test]
fn no_path_and_no_link_leads_out_of_the_tree() {
    for path in ["/etc/passwd", "..", "../a", "a/../b", "a/..", ".", "./a", "a//b", "a/", "\\x2e\\x2e/a", "a\\x00b"] {
        for line in [format!("file {path}"), format!("folder {path}"), format!("link {path} x")] {
            let error = Archive::parse(&format!("{FIRST_LINE}\n{line}\n")).unwrap_err();
            assert!(error.reason.contains("is not a path below the tree"), "{line}: {error}");
        }
    }
    for (path, target, is_inside) in [
        ("a", "../b", false),
        ("a", "/etc", false),
        ("a/b", "../c", true),
        ("a/b", "../../c", false),
        ("a/b", "c/../../../a", false),
        ("sys/class/net/lo", "../../devices/virtual/net/lo", true),
        ("proc/self/ns/pid", "pid:[1]", true),
    ] {
        let read = Archive::parse(&format!("{FIRST_LINE}\nlink {path} {target}\n"));
        assert_eq!(read.is_ok(), is_inside, "{path} to {target}: {read:?}");
    }
}

#[test]
fn more_than_the_limit_is_refused() {
    let lines = |count: usize| (0..count).map(|number| format!("folder {number}\n")).collect::<String>();
    assert!(Archive::parse(&format!("{FIRST_LINE}\n{}", lines(ENTRIES_MAX))).is_ok());
    let error = Archive::parse(&format!("{FIRST_LINE}\n{}", lines(ENTRIES_MAX + 1))).unwrap_err();
    assert_eq!(error.to_string(), "line 10002: more than 10000 files, folders and links");
}

#[test]
fn what_is_no_file_is_not_packed() {
    let folder = tempfile::tempdir().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    let error = Archive::of_folder(folder.path()).unwrap_err().to_string();
    assert!(error.ends_with("socket: neither a file, nor a folder, nor a link"), "{error}");
    let full = Archive::default().unpack(folder.path()).unwrap_err().to_string();
    assert!(full.ends_with("is not empty"), "{full}");
}

/// Trees with odd names and odd content. Names that a file system refuses are left out.
fn archives() -> impl Strategy<Value = Archive> {
    let name = prop::collection::vec(
        prop_oneof![Just(b'a'), Just(b'b'), Just(b' '), Just(b'\\'), Just(b'\n'), Just(b'|'), 1u8..=255],
        1..6,
    )
    .prop_map(|mut name| {
        name.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b'-');
        if matches!(name.as_slice(), b"." | b"..") { b"dots".to_vec() } else { name }
    });
    let path = prop::collection::vec(name, 1..4).prop_map(|names| PathBuf::from(OsString::from_vec(names.join(&b'/'))));
    let line = prop::collection::vec(
        prop_oneof![Just(b'\n'), Just(b'|'), Just(b'>'), Just(b'\\'), Just(b'x'), Just(b'\r'), any::<u8>()],
        0..40,
    );
    let entry = prop_oneof![
        4 => line.prop_map(Entry::File),
        1 => Just(Entry::Folder),
        1 => path.clone().prop_map(Entry::Link),
    ];
    prop::collection::vec((path, entry), 0..12).prop_map(|entries| {
        let mut archive = Archive::default();
        for (path, entry) in entries {
            // What stands in another's way is left out.
            let _ = archive.add(path, entry);
        }
        archive
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(archive in archives()) {
        let text = archive.to_text();
        prop_assert_eq!(Archive::parse(&text).unwrap(), archive);
        prop_assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n' && letter != '\t'));
    }

    #[test]
    fn what_is_unpacked_is_packed_as_it_was(archive in archives()) {
        let folder = tempfile::tempdir().unwrap();
        archive.unpack(folder.path()).unwrap();
        let packed = Archive::of_folder(folder.path()).unwrap();
        // Folders that hold something need no line of their own.
        let is_needed = |path: &Path, entry: &Entry| {
            let below = archive.entries.range::<Path, _>((Excluded(path), Unbounded)).next();
            *entry != Entry::Folder || !below.is_some_and(|(below, _)| below.starts_with(path))
        };
        let mut expected = archive.clone();
        expected.entries.retain(|path, entry| is_needed(path, entry));
        prop_assert_eq!(packed, expected);
    }

    #[test]
    fn no_text_makes_it_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "surefoot-tree 1\n", "file ", "folder ", "link ", "a", "b/", "/", "..", "|", ">", "\n", "\\x", "\\", "0a", " ", "é", "\0",
        ]), 0..30),
    ) {
        let text = words.concat();
        if let Ok(archive) = Archive::parse(&text) {
            prop_assert_eq!(Archive::parse(&archive.to_text()).unwrap(), archive);
        }
        let _ = Archive::parse(&format!("{FIRST_LINE}\n{text}"));
    }
}
