//! Where firmware takes the errors first, the kernel sees what firmware hands on.

use super::found;
use crate::doctor::{Facts, Rule, Verdict};
use crate::read::Driver;
use surefoot_model::Severity;

pub(super) const RULE: Rule = Rule { name: "firmware-first", check };

const CONSEQUENCE: &str = "firmware counts, filters and hands on one record for many errors, or none below its threshold: the kernel's counts are \
                           samples, and each record may stop all processors in an SMI";
const REMEDY: &str = "read the event log of the management controller as well (ipmitool sel list); for counts in the kernel turn firmware-first \
                      off in firmware setup, or give error logging back to the system";

fn check(facts: &Facts) -> Verdict {
    let by_driver = facts.reading.controllers.iter().find(|one| one.driver == Driver::Ghes);
    if let Some(controller) = by_driver {
        let evidence = format!("{} is driven by ghes_edac, which firmware feeds", controller.id);
        return Verdict::Found(found(Severity::Notice, evidence, CONSEQUENCE, REMEDY));
    }
    match &facts.hest {
        Ok(Some(hest)) if hest.is_corrected_firmware_first => {
            let evidence = "/sys/firmware/acpi/tables/HEST flags corrected machine checks FIRMWARE_FIRST".to_owned();
            Verdict::Found(found(Severity::Warning, evidence, CONSEQUENCE, REMEDY))
        }
        Ok(Some(hest)) if hest.is_cut => {
            Verdict::CannotTell("/sys/firmware/acpi/tables/HEST holds a source of an unknown kind".into())
        }
        Ok(Some(hest)) => Verdict::Fine(format!(
            "HEST leaves corrected machine checks to the kernel ({} generic sources of other errors)",
            hest.generic_sources
        )),
        Ok(None) => Verdict::Fine("firmware has no HEST table".into()),
        Err(why) => Verdict::CannotTell(why.clone()),
    }
}
