use std::io::Write;
use surefoot_console::people::{Clean, clean, escaped};
use surefoot_model::{is_harmful, one_line};

/// Text on its way to people: nothing that commands a terminal goes through, wherever it is cut, and JSON stays what it was.
pub fn people(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else { return };
    let mut written = Vec::new();
    let (left, right) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let mut out = Clean::new(&mut written);
    for piece in [left, right] {
        out.write_all(piece).unwrap_or_else(|error| panic!("{error}"));
    }
    drop(out);
    let mut whole = Vec::new();
    Clean::new(&mut whole).write_all(bytes).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(written, whole, "it does not matter where a text is cut");
    let written = String::from_utf8(written).unwrap_or_else(|error| panic!("{error}"));
    assert!(!written.chars().any(|letter| is_harmful(letter) && letter != '\n' && letter != '\t'), "{written:?}");
    let text = String::from_utf8_lossy(bytes);
    assert!(!one_line(&text).chars().any(is_harmful));
    assert_eq!(clean(&clean(&text)), clean(&text));
    let json = escaped(serde_json::json!({ "name": text }).to_string());
    assert!(!json.chars().any(is_harmful), "{json:?}");
    let again: serde_json::Value = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
    assert_eq!(again["name"], *text, "a reader takes the same from it");
}
