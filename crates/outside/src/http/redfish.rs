//! What every Redfish service has (DMTF DSP0266): links, and collections that may come in pages.

mod system;

pub use system::{MachineIdentity, SYSTEMS_MAX, System, Wanted};

use serde_json::Value;

/// Pages of one collection.
const PAGES_MAX: usize = 64;
/// The longest path.
const PATH_BYTES_MAX: usize = 512;

/// The path in a link, where it is one of the same service.
pub fn link(value: &Value) -> Option<String> {
    let path = value["@odata.id"].as_str()?;
    (is_own(path) && !path.contains('?')).then(|| path.trim_end_matches('/').to_owned())
}

fn is_own(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'#' | b'@');
    path.starts_with("/redfish/") && path.len() <= PATH_BYTES_MAX && !path.contains("..") && path.bytes().all(is_plain)
}

/// A collection, page by page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collection {
    /// The paths of its members.
    pub members: Vec<String>,
    /// How many members it says that it has.
    told: Option<u64>,
    pages: Vec<String>,
    /// Whether a page says that there is another which has not been taken.
    is_open: bool,
}

impl Collection {
    /// Takes a page, which was read from this path: the path of the next page, if there is one.
    ///
    /// # Errors
    /// Why it is no page of a collection; what was taken before it stays.
    pub fn take(&mut self, path: &str, page: &Value) -> Result<Option<String>, String> {
        self.is_open = true;
        let Some(members) = page["Members"].as_array() else {
            return Err("it is no collection: it has no list 'Members'".into());
        };
        self.pages.push(path.to_owned());
        let told = &page["Members@odata.count"];
        // Some count the members of each page, others those of all.
        self.told = self.told.max(told.as_u64());
        let named: Vec<String> = members.iter().filter_map(link).collect();
        let named_count = named.len();
        // A service that takes no notice of the question gives the same members again: they are no others.
        for member in named {
            if !self.members.contains(&member) {
                self.members.push(member);
            }
        }
        if !told.is_null() && !told.is_u64() {
            return Err("its 'Members@odata.count' is no number: how many members it has is unknown".into());
        }
        if named_count < members.len() {
            return Err(format!("{} of its members are named by no path of this service", members.len() - named_count));
        }
        let next = ["Members@odata.nextLink", "@odata.nextLink"].into_iter().map(|name| &page[name]);
        let Some(next) = next.into_iter().find(|next| !next.is_null()) else {
            self.is_open = false;
            return Ok(None);
        };
        let base = self.pages[0].split('?').next().unwrap_or_default();
        let next = match next.as_str() {
            Some(question) if question.starts_with('?') => format!("{base}{question}"),
            Some(path) => path.to_owned(),
            None => return Err("it leads to its next page by no path".into()),
        };
        if !is_own(&next) || self.pages.contains(&next) || self.pages.len() >= PAGES_MAX {
            let why =
                if is_own(&next) { "which was read already, or is one too many" } else { "which is another address" };
            let next: String = next.chars().take(100).collect();
            return Err(format!("its next page is {}, {why}", surefoot_model::one_line(&next)));
        }
        Ok(Some(next))
    }

    /// Why members may be missing; `None` where it is whole.
    pub fn missing(&self) -> Option<String> {
        let read = self.members.len() as u64;
        match self.told {
            Some(told) if told > read => {
                Some(format!("it has {told} members, of which {read} were read; the others are unknown"))
            }
            _ if self.is_open => Some(format!("{read} of its members were read; how many there are is unknown")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    const PATH: &str = "/redfish/v1/Systems/1/Memory";

    fn page(from: usize, to: usize, next: Value) -> Value {
        let members: Vec<Value> = (from..to).map(|number| json!({"@odata.id": format!("{PATH}/{number}")})).collect();
        json!({"Members": members, "Members@odata.count": 32, "Members@odata.nextLink": next})
    }

    #[test]
    fn links_lead_nowhere_else() {
        let path = |text: &str| link(&json!({ "@odata.id": text }));
        assert_eq!(path("/redfish/v1/Systems/1/").as_deref(), Some("/redfish/v1/Systems/1"));
        let long = format!("/redfish/{}", "x".repeat(600));
        for foreign in [
            "http://elsewhere/redfish/",
            "@elsewhere/",
            "/redfish/../etc",
            "/redfish/a b",
            "/redfish/\nurl=x",
            "/x",
            "/redfish/a?b",
            &long,
        ] {
            assert_eq!(path(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn pages_are_followed_and_what_is_missing_is_told() {
        let mut whole = Collection::default();
        let next = whole.take(PATH, &page(0, 16, json!(format!("{PATH}?$skip=16")))).unwrap().unwrap();
        assert_eq!(next, format!("{PATH}?$skip=16"));
        assert!(whole.missing().unwrap().contains("32 members, of which 16 were read"));
        // Some lead on by the question alone.
        assert_eq!(whole.take(&next, &page(16, 30, json!("?$skip=30"))).unwrap().unwrap(), format!("{PATH}?$skip=30"));
        assert_eq!(whole.take("/redfish/v1/last", &page(30, 32, Value::Null)), Ok(None));
        assert_eq!((whole.members.len(), whole.missing()), (32, None));

        let fewer = |page: Value| {
            let mut some = Collection::default();
            let taken = some.take(PATH, &page);
            (taken.err().unwrap_or_default(), some.missing().unwrap_or_default())
        };
        assert!(fewer(page(0, 16, Value::Null)).1.contains("the others are unknown"));
        for elsewhere in [json!("http://elsewhere/redfish/"), json!("/etc/passwd"), json!(7), json!(PATH)] {
            let (why, missing) = fewer(page(0, 16, elsewhere.clone()));
            assert!(why.contains("next page") && !missing.is_empty(), "{elsewhere}: {why}: {missing}");
        }
        // Nothing that is no list is an empty one.
        for list in [Value::Null, json!({}), json!(0), json!("")] {
            let (why, missing) = fewer(json!({ "Members": list }));
            assert!(why.contains("no list") && missing.contains("unknown"), "{list}: {why}");
        }
        assert!(fewer(json!({"Members": [{"@odata.id": "http://elsewhere/"}]})).0.contains("named by no path"));
        assert_eq!(fewer(json!({"Members": []})), (String::new(), String::new()));
        for count in [json!("2"), json!(-1), json!(2.5), json!([])] {
            let (why, missing) = fewer(json!({"Members": [], "Members@odata.count": count}));
            assert!(why.contains("is no number") && missing.contains("unknown"), "{count}: {why}: {missing}");
        }
    }

    /// Of a service that gives the same page to another question, and of one that counts each page by itself.
    #[test]
    fn members_that_come_again_are_no_others() {
        let next = |skip: usize| json!(format!("{PATH}?$skip={skip}"));
        let mut again = Collection::default();
        again.take(PATH, &page(0, 16, next(16))).unwrap();
        assert_eq!(again.take(&format!("{PATH}?$skip=16"), &page(0, 16, Value::Null)), Ok(None));
        assert_eq!(again.members.len(), 16);
        assert!(again.missing().unwrap().contains("32 members, of which 16 were read"), "{:?}", again.missing());
        let mut last = page(16, 20, Value::Null);
        last["Members@odata.count"] = json!(4);
        let mut each = Collection::default();
        each.take(PATH, &page(0, 16, next(16))).unwrap();
        each.take(&format!("{PATH}?$skip=16"), &last).unwrap();
        assert!(each.missing().unwrap().contains("32 members, of which 20 were read"), "{:?}", each.missing());
    }
}
