//! Policies against made-up and recorded fleets.

use super::hands::alert;
use surefoot_model::Alert;
use surefoot_remedy::policy::Policies;
use surefoot_remedy::simulate::{Plan, simulate};

const POLICY: &str = r#"
[[policy]]
service = "web"
match = { room = "memory", severity = "critical" }
steps = ["recheck", "drain", "run:/usr/lib/surefoot/hooks/repair", "return"]
hosts_at_once = 3
share_of_service = 0.05
per_hour = 6
cool_down = "24h"
approve = ["run:/usr/lib/surefoot/hooks/repair"]
"#;

fn policies(text: &str) -> Policies {
    Policies::parse(text, "policy.toml").unwrap()
}

#[test]
fn a_simulation_is_repeatable_and_keeps_its_limits() {
    let plan = Plan { hosts: 2_000, days: 90, seed: 5, ..Plan::default() };
    let result = simulate(&policies(POLICY), &plan);
    assert_eq!(result, simulate(&policies(POLICY), &plan));
    assert_ne!(result, simulate(&policies(POLICY), &Plan { seed: 6, ..plan.clone() }));
    assert_eq!((result.limit_violation_count, result.hosts_out_at_once_max <= 3), (0, true), "{result:?}");
    // 2,000 hosts, a quarter of a year, 0.093 critical memory faults per host and year: about 46.
    assert!((20..100).contains(&result.case_count), "{result:?}");
    assert!(result.repair_count > 0 && result.false_repair_count < result.repair_count, "{result:?}");
    assert!(result.availability > 0.99 && result.availability < 1.0, "{result:?}");
    assert!(result.person_hours > 0.0 && result.unmatched_count > 0, "{result:?}");
    assert_eq!(result.services["web"].host_count, 2_000);
}

#[test]
fn rechecks_spare_false_repairs_and_approvals_cost_people() {
    let plan = Plan { hosts: 20_000, days: 90, seed: 5, ..Plan::default() };
    let careful = simulate(&policies(POLICY), &plan);
    let rash = POLICY.replace("\"recheck\", ", "").replace("approve = [\"run:/usr/lib/surefoot/hooks/repair\"]", "");
    let rash = simulate(&policies(&rash), &plan);
    assert!(careful.false_repair_count < rash.false_repair_count, "{careful:?}\n{rash:?}");
    assert!(careful.person_hours > rash.person_hours, "{careful:?}\n{rash:?}");
}

/// What the result says of parts, for a policy that replaces a part after its first repair and for one that never does.
#[test]
fn policies_that_replace_can_be_compared_with_those_that_repair() {
    let plan = Plan { hosts: 20_000, days: 365, seed: 5, ..Plan::default() };
    let replacing = POLICY
        .replace("cool_down", "replace_after = { repairs = 1, within = \"365d\" }\ncool_down")
        .replace("24h", "1h");
    let repairing = simulate(&policies(&POLICY.replace("24h", "1h")), &plan);
    let replacing = simulate(&policies(&replacing), &plan);
    for result in [&repairing, &replacing] {
        assert!(0 < result.tested_good_count && result.tested_good_count < result.replaced_count, "{result:?}");
        let put_back = result.swap_count - result.replaced_count;
        assert!(put_back <= result.tested_good_count, "{result:?}");
        assert!(result.replaced_count <= result.with_person_count, "{result:?}");
        // An alert whose fault nobody knows any more would be rechecked and cleared every hour.
        assert!(result.cleared_count < result.case_count / 5, "{result:?}");
    }
    assert!(repairing.repeat_offender_count > 50, "{repairing:?}");
    assert_eq!(replacing.repeat_offender_count, 0, "{replacing:?}");
    assert!(replacing.replaced_count > repairing.replaced_count, "{replacing:?}\n{repairing:?}");
    assert!(replacing.person_hours > repairing.person_hours, "{replacing:?}\n{repairing:?}");
}

#[test]
fn a_tight_limit_makes_cases_wait() {
    let plan = Plan { hosts: 50_000, days: 20, seed: 5, ..Plan::default() };
    let wide = POLICY.replace("hosts_at_once = 3", "hosts_at_once = 100").replace("per_hour = 6", "per_hour = 100");
    let tight = POLICY.replace("hosts_at_once = 3", "hosts_at_once = 1");
    let (wide, tight) = (simulate(&policies(&wide), &plan), simulate(&policies(&tight), &plan));
    assert_eq!((wide.limit_violation_count, tight.limit_violation_count), (0, 0));
    assert!(tight.wait_hours_mean > 10.0 * wide.wait_hours_mean, "{tight:?}\n{wide:?}");
    assert_eq!(tight.hosts_out_at_once_max, 1);
}

#[test]
fn a_recorded_fleet_is_replayed() {
    let day_ns = 86_400_000_000_000;
    let at = |day: u64, host: &str, is_firing| Alert { since_realtime_ns: day * day_ns, is_firing, ..alert(host) };
    // Of the first host nothing says that its fault ended; that of the second ends by itself before it is its turn.
    let recorded = vec![at(100, "h1", true), at(100, "h2", true), at(100, "h2", false), at(101, "h3", true)];
    let mut plan = Plan { hosts: 0, days: 10, seed: 1, recorded, ..Plan::default() };
    plan.assumed.fails_for_good = 0.0;
    let text = POLICY.replace("hosts_at_once = 3", "hosts_at_once = 1");
    let result = simulate(&policies(&text), &plan);
    assert_eq!((result.services["web"].host_count, result.limit_violation_count), (3, 0), "{result:?}");
    assert!(result.case_count >= 2 && result.hosts_out_at_once_max == 1, "{result:?}");
}

#[test]
fn windows_and_several_services_keep_apart() {
    let text = r#"
        [[policy]]
        service = "web"
        steps = ["drain", "reboot", "return"]
        hosts_at_once = 5
        windows = ["night"]
        [[policy]]
        service = "db"
        steps = ["drain", "reboot", "return"]
        share_of_service = 0.001
        hosts_at_once = 50
        [[service]]
        name = "web"
        size = 3000
        [[service]]
        name = "db"
        size = 1000
        [[window]]
        name = "night"
        from = "22:00"
        to = "04:00"
    "#;
    let result = simulate(&policies(text), &Plan { hosts: 8_000, days: 30, seed: 3, ..Plan::default() });
    assert_eq!(result.limit_violation_count, 0, "{result:?}");
    assert_eq!((result.services["web"].host_count, result.services["db"].host_count), (6_000, 2_000));
    assert!(result.services["db"].hosts_out_at_once_max <= 2, "{result:?}");
    assert!(result.wait_hours_mean > 1.0, "those of the day wait for the night: {result:?}");
}
