//! Outputs that are kept in `tests/golden`; `UPDATE_GOLDEN=1` writes them anew.

use std::path::Path;

pub fn compare(name: &str, found: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, found).unwrap();
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{name}, line {}", number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{name}: length");
}
