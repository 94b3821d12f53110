//! Answers written after those of smartctl 7.3 and 7.4, cut to what counts; programs that hang, flood and fail.
#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

fn attribute(id: u64, name: &str, value: u64, raw: u64) -> Value {
    json!({"id": id, "name": name, "value": value, "worst": value, "raw": {"value": raw, "string": raw.to_string()}})
}

fn answer(more: Value) -> Value {
    let mut answer = json!({
        "smartctl": {"version": [7, 3], "exit_status": 0},
        "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
        "model_name": "CT1000MX500SSD1", "in_smartctl_database": true, "logical_block_size": 512,
        "power_on_time": {"hours": 21_000},
    });
    answer.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    answer
}

fn read(more: Value) -> Result<Smart, String> {
    parse(answer(more).to_string().as_bytes())
}

#[test]
fn the_standard_statistics_go_before_the_attributes() {
    let field = |offset: u64, name: &str, value: u64, valid: bool| json!({"offset": offset, "name": name, "size": 6, "value": value, "flags": {"valid": valid}});
    let statistics = json!({"pages": [
        {"number": 1, "name": "General Statistics", "table": [field(24, "Logical Sectors Written", 2_000_000_000, true)]},
        {"number": 7, "name": "Solid State Device Statistics",
         "table": [field(8, "Percentage Used Endurance Indicator", 11, true)]},
    ]});
    let table = json!({"table": [attribute(246, "Total_LBAs_Written", 100, 5), attribute(202, "Percent_Lifetime_Remain", 80, 20)]});
    let found = read(json!({"ata_device_statistics": statistics, "ata_smart_attributes": table.clone()})).unwrap();
    assert_eq!(found.written_bytes.unwrap().0, 1_024_000_000_000);
    assert_eq!(found.percent_used, Some((11, "device statistics, percentage used".into())));
    assert_eq!((found.power_on_hours, found.model.as_deref()), (Some(21_000), Some("CT1000MX500SSD1")));
    // A field that the drive does not mark as valid does not count.
    let invalid =
        json!({"pages": [{"number": 7, "table": [field(8, "Percentage Used Endurance Indicator", 11, false)]}]});
    let found = read(json!({"ata_device_statistics": invalid, "ata_smart_attributes": table})).unwrap();
    assert_eq!(found.percent_used, Some((20, "attribute 202 Percent_Lifetime_Remain".into())));
}

#[test]
fn each_makers_attribute_has_its_unit() {
    let of = |rows: Vec<Value>| read(json!({"ata_smart_attributes": {"table": rows}})).unwrap();
    let written = |id, name, raw| of(vec![attribute(id, name, 100, raw)]).written_bytes.map(|(bytes, _)| bytes);
    assert_eq!(written(241, "Total_LBAs_Written", 1_000_000), Some(512_000_000));
    assert_eq!(written(246, "Total_LBAs_Written", 1_000_000), Some(512_000_000));
    assert_eq!(written(241, "Host_Writes_32MiB", 1_000), Some(33_554_432_000));
    assert_eq!(written(225, "Host_Writes_32MiB", 1_000), Some(33_554_432_000));
    assert_eq!(written(241, "Total_Writes_GiB", 1_000), Some(1_073_741_824_000));
    assert_eq!(written(241, "Lifetime_Writes_GiB", 2), Some(2_147_483_648));
    for (id, name, raw) in [
        (241, "Unknown_Attribute", 5),
        (242, "Total_LBAs_Read", 5),
        (241, "Total_LBAs_Written", u64::MAX),
        (241, "Total_NAND_Writes_GiB", 5),
    ] {
        assert_eq!(written(id, name, raw), None, "{id} {name}");
    }
    let used = |id, name, value| of(vec![attribute(id, name, value, 7)]).percent_used.map(|(percent, _)| percent);
    assert_eq!(used(177, "Wear_Leveling_Count", 97), Some(3));
    assert_eq!(used(231, "SSD_Life_Left", 60), Some(40));
    assert_eq!(used(233, "Media_Wearout_Indicator", 100), Some(0));
    assert_eq!(used(231, "Temperature_Celsius", 60), None);
    assert_eq!(used(177, "Wear_Leveling_Count", 200), None);
    let pages = of(vec![
        attribute(247, "Host_Program_Page_Count", 100, 400),
        attribute(248, "FTL_Program_Page_Count", 100, 600),
    ]);
    assert_eq!(pages.write_amplification.unwrap().0, 2.5);
    let flash =
        of(vec![attribute(241, "Host_Writes_32MiB", 100, 32_000), attribute(249, "NAND_Writes_1GiB", 100, 3_000)]);
    assert_eq!(flash.write_amplification.unwrap().0, 3.0);
}

#[test]
fn a_model_that_nobody_knows_tells_only_by_the_standard() {
    let table = json!({"table": [attribute(241, "Total_LBAs_Written", 100, 5_000), attribute(177, "Wear_Leveling_Count", 90, 1)]});
    let found = read(json!({"in_smartctl_database": false, "ata_smart_attributes": table})).unwrap();
    assert_eq!((found.written_bytes, found.percent_used, found.power_on_hours), (None, None, Some(21_000)));
}

#[test]
fn sas_drives_tell_in_their_own_way() {
    let found = read(json!({
        "scsi_percentage_used_endurance_indicator": 4,
        "scsi_error_counter_log": {"read": {"gigabytes_processed": "1.0"}, "write": {"gigabytes_processed": "153824.516"}},
    }))
    .unwrap();
    assert_eq!((found.written_bytes.unwrap().0, found.percent_used.unwrap().0), (153_824_516_000_000, 4));
    // What 7.4 sums up.
    let found =
        read(json!({"endurance_used": {"current_percent": 7}, "spare_available": {"current_percent": 99}})).unwrap();
    assert_eq!((found.percent_used.unwrap().0, found.spare_percent.unwrap().0), (7, 99));
}

#[test]
fn what_is_no_answer_says_why() {
    let open = r#"{"smartctl":{"messages":[{"string":"/dev/vda: Unable to detect device type","severity":"error"}],"exit_status":1}}"#;
    assert_eq!(parse(open.as_bytes()).unwrap_err(), "smartctl: /dev/vda: Unable to detect device type");
    assert!(parse(b"").unwrap_err().contains("no JSON"));
    assert!(parse(b"{}").unwrap_err().contains("nothing of its wear"));
    assert!(parse(br#"{"power_on_time":{"hours":99999999999}}"#).unwrap_err().contains("nothing"));
    // A failing drive still tells.
    assert!(read(json!({"smartctl": {"exit_status": 0x58}})).is_ok());
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let nowhere = ask(Path::new("/nowhere/smartctl"), Path::new("/dev/null"), Duration::from_secs(1));
    assert!(nowhere.unwrap_err().contains("cannot be run"));
}

#[test]
fn the_program_gets_the_device_last_and_nothing_of_our_environment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("smartctl");
    let words = r#"[ -z "$HOME" ] || exit 9; printf '%s\n' "$@" > "$(dirname "$0")/words"; echo '{"power_on_time":{"hours":5}}'"#;
    std::fs::write(&path, format!("#!/bin/sh\n{words}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let found = loop {
        // A test beside this one that starts a program meanwhile holds the file open for a moment.
        match ask(&path, Path::new("/dev/-x"), Duration::from_secs(60)) {
            Err(why) if why.contains("Text file busy") => std::thread::sleep(Duration::from_millis(10)),
            found => break found.unwrap(),
        }
    };
    assert_eq!(found.power_on_hours, Some(5));
    let words = std::fs::read_to_string(folder.path().join("words")).unwrap();
    assert!(words.ends_with("--\n/dev/-x\n"), "{words}");
}

#[test]
fn the_real_program_answers_for_a_device_that_is_no_drive() {
    let Some(program) = program() else {
        return surefoot_testkit::not_run::not_run(
            "sys::drive::smartctl the_real_program_answers_for_a_device_that_is_no_drive",
            "smartctl is not installed",
        );
    };
    let error = ask(&program, Path::new("/dev/null"), Duration::from_secs(60)).unwrap_err();
    assert!(error.starts_with("smartctl: ") && error.contains("/dev/null"), "{error}");
}

proptest! {
    #[test]
    fn no_answer_makes_the_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&text);
    }

    #[test]
    fn no_value_in_any_field_makes_the_parser_panic_or_say_what_cannot_be(
        number in prop_oneof![any::<u64>().prop_map(|n| json!(n)), any::<f64>().prop_map(|n| json!(n)), Just(json!(null)),
            Just(json!("12")), Just(json!([])), Just(json!({})), any::<i64>().prop_map(|n| json!(n))],
        id in 0u64..256,
    ) {
        let found = read(json!({
            "logical_block_size": number, "power_on_time": {"hours": number}, "endurance_used": {"current_percent": number},
            "spare_available": {"current_percent": number}, "scsi_percentage_used_endurance_indicator": number,
            "scsi_error_counter_log": {"write": {"gigabytes_processed": number}},
            "ata_device_statistics": {"pages": [{"number": 1, "table": [{"offset": 24, "value": number, "flags": {"valid": true}}]}]},
            "ata_smart_attributes": {"table": [{"id": id, "name": "Host_Writes_32MiB", "value": number, "raw": {"value": number}}]},
        }));
        if let Ok(found) = found {
            prop_assert!(found.percent_used.is_none_or(|(percent, _)| percent <= 255));
            prop_assert!(found.power_on_hours.is_none_or(|hours| hours <= 876_600));
        }
    }
}
