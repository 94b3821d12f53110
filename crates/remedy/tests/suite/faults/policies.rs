//! The policies of the made-up fleet: some that people write, and others that are put together at random from everything that the
//! engine itself has to get right.

use super::random::Random;

const WRITTEN: &[&str] = &[
    r#"["recheck", "drain", "run:/repair", "return"]"#,
    r#"["drain", "debug:generic", "reboot", "restore:debug:generic", "recheck", "return"]"#,
    r#"["recheck", "drain", "firmware:CeThreshold=1", "stress:1m", "run:/repair", "restore:firmware:CeThreshold=1", "return"]"#,
    r#"["restart:nginx", "recheck"]"#,
    r#"["recheck", "drain", "ticket:desk"]"#,
    r#"["drain", "firmware:CeThreshold=1", "reboot", "return"]"#,
    r#"["drain", "reboot"]"#,
];

const SETTINGS: &[&str] = &["debug:generic", "firmware:CeThreshold=1", "tune-reporting:35s"];
/// What the validator takes without a drain before it.
const MILD: &[&str] = &["run:/repair", "restart:nginx", "recheck"];
const WORK: &[&str] = &["run:/repair", "reboot", "stress:1m", "restart:nginx", "recheck"];

/// The list of steps of a policy.
pub fn steps(random: &mut Random) -> String {
    if random.permille(500) {
        return (*random.of(WRITTEN)).to_owned();
    }
    let mut steps: Vec<String> = Vec::new();
    if random.permille(500) {
        steps.push("recheck".into());
    }
    let is_drained = random.permille(750);
    if is_drained {
        steps.push("drain".into());
    }
    let work = if is_drained { WORK } else { MILD };
    let mut back: Vec<String> = Vec::new();
    for setting in SETTINGS {
        if !random.permille(400) || (!is_drained && setting.starts_with("debug")) {
            continue;
        }
        steps.push((*setting).into());
        // The debug mode must be left by a step of the policy; others may be meant to stay.
        if setting.starts_with("debug") || random.permille(500) {
            back.insert(random.below(1 + back.len() as u64) as usize, format!("restore:{setting}"));
        }
        steps.push((*random.of(work)).into());
    }
    steps.push((*random.of(work)).into());
    steps.append(&mut back);
    match random.below(10) {
        0..7 if is_drained => steps.push("return".into()),
        7 => steps.push("ticket:desk".into()),
        _ => {}
    }
    let quoted: Vec<String> = steps.iter().map(|step| format!("\"{step}\"")).collect();
    format!("[{}]", quoted.join(", "))
}
