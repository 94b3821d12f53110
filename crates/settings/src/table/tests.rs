use super::*;
use crate::{Settings, commented, variable_of};
use std::collections::BTreeSet;

#[test]
fn names_are_unique_and_in_the_order_of_their_tables() {
    let keys: BTreeSet<&str> = SETTINGS.iter().map(|one| one.key).collect();
    let variables: BTreeSet<String> = SETTINGS.iter().map(variable_of).collect();
    assert_eq!((keys.len(), variables.len()), (SETTINGS.len(), SETTINGS.len()));
    let tables: Vec<&str> = SETTINGS.iter().filter_map(|one| one.key.split('.').next()).collect();
    let changes = tables.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1;
    assert_eq!(changes, tables.iter().collect::<BTreeSet<_>>().len(), "each table is written once");
    assert!(SETTINGS.iter().all(|one| one.about.ends_with('.') && one.key.split('.').count() == 2));
}

/// A field without a row could not be set.
#[test]
fn every_field_has_a_row() {
    let written = format!("{:?}", Settings::default());
    // Each field is `name: value`, and each table one more.
    let fields = written.matches(": ").count() - 12;
    assert_eq!(SETTINGS.len(), fields, "{written}");
}

#[test]
fn the_file_of_defaults_sets_everything_to_its_default() {
    let text = commented();
    let uncommented: String = text
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ')).unwrap_or(line).to_owned() + "\n")
        .collect();
    let held = crate::Effective::of(Some(("x".as_ref(), &uncommented)), &[], &[]).unwrap();
    for setting in SETTINGS {
        let default = setting.value_in(&Settings::default());
        let own = setting.value_in(&held.settings);
        assert!(default.is_none() || default == own, "{}: {default:?} {own:?}", setting.key);
        assert!(own.is_some(), "{} has an example", setting.key);
    }
    let commented = crate::Effective::of(Some(("x".as_ref(), &text)), &[], &[]).unwrap();
    assert_eq!(commented.settings, Settings::default());
}
