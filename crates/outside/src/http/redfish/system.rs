//! Which of a service's systems is the right one: a chassis manager has several, and an address may be another machine's.

use crate::host_name::{is_other_host, is_same_host};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use surefoot_hostfs::Root;
use surefoot_model::{is_filler, is_serial, one_line};

/// Systems of one service that are told apart.
pub const SYSTEMS_MAX: usize = 64;
/// Systems that a refusal names.
const NAMED_MAX: usize = 8;
/// The longest text of a system that is used.
const TEXT_CHARACTERS_MAX: usize = 64;

/// What SMBIOS says of a machine, which its kernel and its controller both tell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineIdentity {
    /// Its UUID, 32 hexadecimal digits in lower case; `None` where it is not known, or one that many machines share.
    pub uuid: Option<String>,
    /// Its serial number; `None` where it is not known, or a filler.
    pub serial: Option<String>,
}

/// A system of a Redfish service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// Its path, such as `/redfish/v1/Systems/1`.
    pub path: String,
    /// What tells it from others.
    pub identity: MachineIdentity,
    /// The name that its operating system has, where the controller knows it.
    pub host_name: Option<String>,
}

/// Which system is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// What a person chose: a path, a UUID or a serial number.
    pub chosen: Option<&'a str>,
    /// What is known of the machine itself.
    pub own: &'a MachineIdentity,
    /// The host's name; empty where it is not known.
    pub host: &'a str,
    /// How a person chooses, such as `--redfish-system PATH, UUID or SERIAL`.
    pub option: &'a str,
}

/// Whether two identities are of the same machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Same {
    Yes,
    No,
    Unknown,
}

impl From<bool> for Same {
    fn from(is_same: bool) -> Same {
        if is_same { Same::Yes } else { Same::No }
    }
}

impl MachineIdentity {
    /// That of the machine whose files these are. Only root may read it.
    pub fn of_host(root: &Root) -> MachineIdentity {
        let read = |name: &str| root.read(root.sys("class/dmi/id").join(name)).ok();
        MachineIdentity {
            uuid: read("product_uuid").and_then(|text| uuid(text.trim())),
            serial: read("product_serial").and_then(|text| serial(text.trim())),
        }
    }

    /// The digits of a UUID that one machine alone has; `None` of any other text.
    pub fn uuid_of(text: &str) -> Option<String> {
        uuid(text)
    }

    fn has_uuid_of(&self, own: &MachineIdentity) -> bool {
        self.uuid.as_ref().zip(own.uuid.as_ref()).is_some_and(|(one, two)| is_same_uuid(one, two))
    }

    fn has_serial_of(&self, own: &MachineIdentity) -> bool {
        self.serial.as_ref().zip(own.serial.as_ref()).is_some_and(|(one, two)| one.eq_ignore_ascii_case(two))
    }

    /// A UUID decides, because machines of one chassis may share its serial number.
    fn is(&self, other: &MachineIdentity) -> Same {
        let both = |one: &Option<String>, two: &Option<String>| one.is_some() && two.is_some();
        match () {
            () if both(&self.uuid, &other.uuid) => self.has_uuid_of(other).into(),
            () if both(&self.serial, &other.serial) => self.has_serial_of(other).into(),
            () => Same::Unknown,
        }
    }
}

/// The digits of a UUID, if it is one machine's own: firmware that was never set up has the same one everywhere.
fn uuid(text: &str) -> Option<String> {
    const SHARED: [&str; 2] = ["03000200040005000006000700080009", "00020003000400050006000700080009"];
    let digits: String = text.chars().filter(|letter| *letter != '-').collect::<String>().to_ascii_lowercase();
    let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_uuid && !is_filler(&digits) && !SHARED.contains(&&*digits)).then_some(digits)
}

fn serial(text: &str) -> Option<String> {
    is_serial(text).then(|| text.to_owned())
}

/// SMBIOS keeps the first three fields with the lowest byte first (DSP0134, 7.2.1); not every controller turns them around as the kernel does.
fn is_same_uuid(one: &str, other: &str) -> bool {
    let turned = |digits: &str| {
        let pair = |at: usize| &digits[2 * at..2 * at + 2];
        let first: String = [3, 2, 1, 0, 5, 4, 7, 6].into_iter().map(pair).collect();
        first + &digits[16..]
    };
    one == other || turned(one) == other
}

impl System {
    /// What a service says of the system at this path.
    ///
    /// # Errors
    /// Why it is no system.
    pub fn of(path: &str, said: &Value) -> Result<System, String> {
        // What else may be there, such as a chassis, has its own power.
        if let Some(kind) = said["@odata.type"].as_str().filter(|kind| !kind.starts_with("#ComputerSystem.")) {
            return Err(format!("it is no ComputerSystem but a {}", shown(kind)));
        }
        let text = |name: &str| said[name].as_str().map(str::trim).filter(|text| !text.is_empty());
        Ok(System {
            path: path.to_owned(),
            identity: MachineIdentity {
                uuid: text("UUID").and_then(uuid),
                serial: text("SerialNumber").and_then(serial),
            },
            host_name: text("HostName").map(shown),
        })
    }

    /// Whether it says itself that it is this host. Names count only where no UUID or serial number contradicts them.
    pub fn is_surely(&self, own: &MachineIdentity, host: &str) -> bool {
        match self.identity.is(own) {
            Same::Yes => self.identity.has_uuid_of(own) || !self.has_other_name(host),
            Same::No => false,
            Same::Unknown => self.host_name.as_ref().is_some_and(|name| is_same_host(name, host)),
        }
    }

    fn has_other_name(&self, host: &str) -> bool {
        self.host_name.as_ref().is_some_and(|name| is_other_host(name, host))
    }

    /// Whether this cannot be the machine that the other one was.
    pub fn contradicts(&self, other: &System) -> bool {
        match self.identity.is(&other.identity) {
            Same::Yes => false,
            Same::No => true,
            Same::Unknown => self.path != other.path,
        }
    }

    /// Its path with what tells it from others.
    pub fn describe(&self) -> String {
        let MachineIdentity { uuid, serial } = &self.identity;
        let uuid = uuid.as_ref().map(|digits| format!("UUID {}", dashed(digits)));
        let serial = serial.as_ref().map(|serial| format!("serial number {}", shown(serial)));
        let name = self.host_name.as_ref().map(|name| format!("host name {name}"));
        let known: Vec<String> = [uuid, serial, name].into_iter().flatten().collect();
        let known = if known.is_empty() { "no UUID, serial number or host name".to_owned() } else { known.join(", ") };
        format!("{} ({known})", self.path)
    }

    fn is_chosen_by(&self, word: &str) -> bool {
        let MachineIdentity { uuid: own, serial } = &self.identity;
        self.path == word.trim_end_matches('/')
            || own.as_ref().zip(uuid(word)).is_some_and(|(own, word)| is_same_uuid(own, &word))
            || serial.as_ref().is_some_and(|serial| serial.eq_ignore_ascii_case(word))
    }
}

impl Wanted<'_> {
    /// The path that was chosen: no other system needs to be read.
    pub fn path(&self) -> Option<String> {
        self.chosen.filter(|word| super::is_own(word)).map(|word| word.trim_end_matches('/').to_owned())
    }

    /// The one system that is wanted. `is_whole` is false where the service has systems that could not be read.
    ///
    /// # Errors
    /// Why none is known to be it, with the systems and the option that chooses.
    pub fn of<'s>(&self, systems: &'s [System], is_whole: bool) -> Result<&'s System, String> {
        if let Some(word) = self.chosen {
            let mut found = systems.iter().filter(|system| system.is_chosen_by(word));
            return match (found.next(), found.next()) {
                (Some(one), None) if self.path().is_some() => self.fits(one),
                // The nodes of a chassis may share the serial number that a person gives.
                (Some(one), None) if uuid(word).is_none() && one.identity.is(self.own) == Same::No => {
                    Err(self.is_another(one))
                }
                // Whoever gives the controller's own UUID or serial number has looked it up.
                (Some(one), None) => Ok(one),
                (None, _) => Err(self.refused(&format!("no system has '{}'", shown(word)), systems)),
                _ => Err(self.refused(&format!("several systems have '{}'", shown(word)), systems)),
            };
        }
        let with_uuid: Vec<&System> = systems.iter().filter(|system| system.identity.has_uuid_of(self.own)).collect();
        let with_serial: Vec<&System> =
            systems.iter().filter(|system| system.identity.has_serial_of(self.own)).collect();
        let is_by_serial = with_serial.iter().any(|system| system.identity.is(self.own) == Same::Yes);
        match (&*with_uuid, &*with_serial, systems) {
            ([one], ..) => Ok(one),
            ([_, _, ..], ..) => Err(self.refused("several systems claim to be this machine", systems)),
            // A serial number that another system has, or may have, says nothing: those of one chassis may share it.
            (_, [_, _, ..], _) if is_by_serial => {
                Err(self.refused("several systems have this machine's serial number", systems))
            }
            (_, [one], _) if is_by_serial && is_whole => self.fits(one),
            (.., [one]) if is_whole => self.fits(one),
            (.., []) if is_whole => Err("it has no system".to_owned()),
            _ if is_whole => Err(self.refused(&self.unidentified(systems.len()), systems)),
            _ => Err(self.refused("not all of its systems could be read", systems)),
        }
    }

    fn unidentified(&self, count: usize) -> String {
        let MachineIdentity { uuid, serial } = self.own;
        match uuid.is_none() && serial.is_none() {
            true => format!("it has {count} systems, and this machine's UUID and serial number are not known here"),
            false => format!("it has {count} systems, and none has this machine's UUID or serial number"),
        }
    }

    /// A system that was found by its place, or by a serial number that the nodes of a chassis may share. It is refused where its UUID, its
    /// serial number or its host name says that it is another machine. An unknown UUID does not make another host name harmless: the name
    /// is then all that is known, and a restart of the wrong machine cannot be taken back.
    fn fits<'s>(&self, system: &'s System) -> Result<&'s System, String> {
        match system.identity.is(self.own) {
            Same::Yes if system.identity.has_uuid_of(self.own) => Ok(system),
            Same::No => Err(self.is_another(system)),
            _ if system.has_other_name(self.host) => {
                let name = system.host_name.as_deref().unwrap_or_default();
                Err(self.contradicted(&format!("its system calls itself {name}, not {}", shown(self.host)), system))
            }
            _ => Ok(system),
        }
    }

    fn is_another(&self, system: &System) -> String {
        self.contradicted("its system is another machine", system)
    }

    /// Why a system that was found is not taken: what the host itself reports is another machine. `None` where a person chose it by its UUID.
    pub fn another_by_report(&self, system: &System) -> Option<String> {
        let is_looked_up = self.chosen.is_some_and(|word| uuid(word).is_some());
        let why = format!("its system is another machine than the agent of {} reports", shown(self.host));
        (!is_looked_up).then(|| self.contradicted(&why, system))
    }

    /// Why a system is not taken that says of itself that it is another, and how a person who knows better chooses it. A path does not: it
    /// is a place, and may be what was chosen.
    fn contradicted(&self, why: &str, system: &System) -> String {
        let MachineIdentity { uuid, serial } = &system.identity;
        let is_serial_enough = serial.is_some() && system.identity.is(self.own) != Same::No;
        let choice = match (uuid, serial) {
            (Some(uuid), _) => format!("if it is this host, choose it by its UUID {} ({})", dashed(uuid), self.option),
            (None, Some(serial)) if is_serial_enough => {
                format!("if it is this host, choose it by its serial number {} ({})", shown(serial), self.option)
            }
            _ => "correct what its controller says of it if it is this host".to_owned(),
        };
        format!("{why}; {choice}; system: {}", system.describe())
    }

    fn refused(&self, why: &str, systems: &[System]) -> String {
        let mut names: Vec<String> = systems.iter().take(NAMED_MAX).map(System::describe).collect();
        if let Some(more) = systems.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
            names.push(format!("{more} more"));
        }
        format!("{why}; choose with {}; systems: {}", self.option, names.join("; "))
    }
}

fn dashed(digits: &str) -> String {
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| digits.get(range).unwrap_or_default());
    parts.join("-")
}

fn shown(text: &str) -> String {
    one_line(text).chars().take(TEXT_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    const ONE: &str = "4C4C4544-0042-3510-8051-B7C04F4E3233";
    /// The same with the first three fields in SMBIOS's order.
    const ONE_TURNED: &str = "44454c4c-4200-1035-8051-b7c04f4e3233";
    const TWO: &str = "4C4C4544-0042-3510-8051-B7C04F4E3234";

    fn system(number: usize, uuid: &str, serial: &str, name: &str) -> System {
        let said = json!({"@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem", "UUID": uuid, "SerialNumber": serial, "HostName": name});
        System::of(&format!("/redfish/v1/Systems/{number}"), &said).unwrap()
    }

    fn own(digits: &str, number: &str) -> MachineIdentity {
        MachineIdentity { uuid: uuid(digits), serial: serial(number) }
    }

    fn chosen(systems: &[System], own: &MachineIdentity, chosen: Option<&str>, host: &str) -> Result<String, String> {
        Wanted { chosen, own, host, option: "THE OPTION" }.of(systems, true).map(|system| system.path.clone())
    }

    #[test]
    fn the_machines_own_uuid_chooses_in_either_byte_order() {
        let systems = [system(1, TWO, "CHASSIS7", ""), system(2, ONE, "CHASSIS7", "")];
        for uuid in [ONE, ONE_TURNED] {
            assert_eq!(
                chosen(&systems, &own(uuid, "CHASSIS7"), None, ""),
                Ok("/redfish/v1/Systems/2".into()),
                "{uuid}"
            );
        }
        let by_serial = [system(1, "", "N7001", ""), system(2, "", "n7002", "")];
        assert_eq!(chosen(&by_serial, &own(ONE, "N7002"), None, ""), Ok("/redfish/v1/Systems/2".into()));
    }

    #[test]
    fn a_serial_number_that_another_system_has_chooses_none_and_a_uuid_goes_first() {
        let known = own(ONE, "CHASSIS7");
        let shared = [system(1, "", "CHASSIS7", ""), system(2, TWO, "CHASSIS7", "")];
        let why = chosen(&shared, &known, None, "").unwrap_err();
        assert!(why.contains("several systems have this machine's serial number"), "{why}");
        let own_too = [system(1, "", "CHASSIS7", ""), system(2, ONE, "CHASSIS7", "")];
        assert_eq!(chosen(&own_too, &known, None, ""), Ok("/redfish/v1/Systems/2".into()));
        // A system that could not be read may have it, too.
        let alone = [system(1, "", "CHASSIS7", "")];
        let wanted = Wanted { chosen: None, own: &known, host: "", option: "THE OPTION" };
        assert!(wanted.of(&alone, false).unwrap_err().contains("not all of its systems could be read"));
        assert!(wanted.of(&alone, true).is_ok());
        // With its own UUID it is sure all the same.
        assert!(wanted.of(&own_too[1..], false).is_ok());
    }

    #[test]
    fn several_systems_of_which_none_is_known_are_named_and_refused() {
        let systems = [system(1, TWO, "N7001", "db7"), system(2, "", "", "")];
        for own in [own("", ""), own(ONE, "N7009")] {
            let why = chosen(&systems, &own, None, "db7").unwrap_err();
            for words in ["THE OPTION", "4c4c4544-0042-3510-8051-b7c04f4e3234", "N7001", "host name db7", "Systems/2"] {
                assert!(why.contains(words), "{words}: {why}");
            }
        }
        // What all machines share is nobody's, and what two have chooses neither.
        let filler = "00000000-0000-0000-0000-000000000000";
        for uuid in [filler, "03000200-0400-0500-0006-000700080009", TWO] {
            let systems = [system(1, uuid, "", ""), system(2, uuid, "", "")];
            assert!(chosen(&systems, &own(uuid, ""), None, "").is_err(), "{uuid}");
        }
        for uuid in [filler, "03000200-0400-0500-0006-000700080009"] {
            let systems = [system(1, uuid, "", ""), system(2, "", "", "")];
            assert!(chosen(&systems, &own(uuid, ""), None, "").is_err(), "{uuid}");
        }
        let many: Vec<System> = (0..20).map(|number| system(number, "", "", "")).collect();
        assert!(chosen(&many, &own("", ""), None, "").unwrap_err().ends_with("; 12 more"));
    }

    #[test]
    fn the_only_system_is_refused_where_it_says_that_it_is_another_machine() {
        let path = Ok("/redfish/v1/Systems/1".to_owned());
        let of =
            |uuid, serial, name, own: &MachineIdentity, host| chosen(&[system(1, uuid, serial, name)], own, None, host);
        assert_eq!(of("", "", "", &own(ONE, "N7001"), "n1"), path);
        assert_eq!(of(TWO, "N7002", "n1.example", &own("", ""), "N1"), path);
        assert!(of(TWO, "", "n1", &own(ONE, ""), "n1").unwrap_err().contains("another machine"));
        // Nodes of one chassis may share its serial number.
        assert!(of(TWO, "N7001", "n1", &own(ONE, "N7001"), "n1").is_err());
        assert!(of("", "N7002", "n1", &own(ONE, "N7001"), "n1").is_err());
        assert!(of("", "", "n2", &own("", ""), "n1").unwrap_err().contains("calls itself n2, not n1"));
        for (name, host) in [("localhost.localdomain", "n1"), ("n1", "192.0.2.7"), ("n1", ""), ("Unknown", "n1")] {
            assert_eq!(of("", "", name, &own("", ""), host), path, "{name} {host}");
        }
        let none = own("", "");
        let wanted = Wanted { chosen: None, own: &none, host: "", option: "" };
        assert!(wanted.of(&[system(1, "", "", "")], false).unwrap_err().contains("could be read"));
        assert!(wanted.of(&[], true).unwrap_err().contains("no system"));
    }

    #[test]
    fn a_person_chooses_by_path_uuid_or_serial_number() {
        let systems = [system(1, TWO, "N7001", "db7"), system(2, ONE, "N7002", "db8")];
        let other = own(TWO, "N7001");
        for word in ["/redfish/v1/Systems/2", "/redfish/v1/Systems/2/", ONE, ONE_TURNED, "n7002"] {
            assert_eq!(chosen(&systems, &own("", ""), Some(word), ""), Ok("/redfish/v1/Systems/2".into()), "{word}");
        }
        assert_eq!(chosen(&systems, &other, Some(ONE), "n1"), Ok("/redfish/v1/Systems/2".into()));
        // A path names a place, where another machine may stand by now.
        assert!(chosen(&systems, &other, Some("/redfish/v1/Systems/2"), "").unwrap_err().contains("another machine"));
        assert!(chosen(&systems, &own("", ""), Some("/redfish/v1/Systems/2"), "db7").is_err());
        assert!(chosen(&systems, &other, Some("N7003"), "").unwrap_err().contains("no system has 'N7003'"));
        let shared = [system(1, "", "C7000", ""), system(2, "", "C7000", "")];
        assert!(chosen(&shared, &other, Some("C7000"), "").unwrap_err().contains("several systems"));
    }

    /// The nodes of one chassis may share its serial number, so it does not outweigh a UUID or a host name.
    #[test]
    fn a_serial_number_does_not_outweigh_what_contradicts_it() {
        let (path, known) = ("/redfish/v1/Systems/1", own(ONE, "CHASSIS7"));
        let of = |system: System, word: Option<&str>| chosen(&[system], &known, word, "n1");
        for word in [None, Some(path)] {
            let why = of(system(1, "", "CHASSIS7", "n2"), word).unwrap_err();
            assert!(why.contains("calls itself n2, not n1"), "{why}");
            assert!(why.contains("choose it by its serial number CHASSIS7 (THE OPTION)"), "{why}");
            assert_eq!(of(system(1, "", "CHASSIS7", "N1.example"), word), Ok(path.to_owned()));
            // Its UUID is the machine's own, so that only the controller's idea of the name is old.
            assert_eq!(of(system(1, ONE, "CHASSIS7", "n2"), word), Ok(path.to_owned()));
        }
        assert_eq!(of(system(1, "", "CHASSIS7", "n2"), Some("chassis7")), Ok(path.to_owned()), "a person looked it up");
        let why = of(system(1, TWO, "CHASSIS7", ""), Some("CHASSIS7")).unwrap_err();
        assert!(why.contains("another machine") && why.contains("choose it by its UUID 4c4c4544-"), "{why}");
        assert_eq!(of(system(1, TWO, "CHASSIS7", ""), Some(TWO)), Ok(path.to_owned()));
        // A path was chosen already, so that no path is asked for.
        let why = of(system(1, "", "", "n2"), Some(path)).unwrap_err();
        assert!(why.contains("correct what its controller says") && !why.contains("THE OPTION"), "{why}");
    }

    #[test]
    fn a_system_is_surely_the_host_only_where_nothing_contradicts_it() {
        let known = own(ONE, "CHASSIS7");
        let is_surely = |uuid, serial, name, host| system(1, uuid, serial, name).is_surely(&known, host);
        assert!(
            is_surely(ONE, "", "n2", "n1") && is_surely("", "CHASSIS7", "", "n1") && is_surely("", "", "N1", "n1.a")
        );
        for (uuid, serial, name, host) in [
            (TWO, "", "n1", "n1"),
            (TWO, "CHASSIS7", "n1", "n1"),
            ("", "N7002", "n1", "n1"),
            ("", "CHASSIS7", "n2", "n1"),
            // Names that are no names, and one name in two domains.
            ("", "", "localhost", "localhost"),
            ("", "", "192.0.2.7", "192.0.2.7"),
            ("", "", "n1.site-a", "n1.site-b"),
            ("", "", "", ""),
        ] {
            assert!(!is_surely(uuid, serial, name, host), "{uuid} {serial} {name} {host}");
        }
        assert!(is_surely("", "", "n1.site-a", "N1.site-a"));
    }

    #[test]
    fn what_is_no_system_is_refused_and_another_machine_at_a_place_is_seen() {
        let chassis = json!({"@odata.type": "#Chassis.v1_0_0.Chassis", "UUID": ONE});
        assert!(System::of("/redfish/v1/Chassis/1", &chassis).unwrap_err().contains("no ComputerSystem"));
        let before = system(1, ONE, "N7001", "");
        assert!(!system(2, ONE, "", "").contradicts(&before), "the same machine at another place");
        assert!(system(1, TWO, "N7001", "").contradicts(&before));
        assert!(!system(1, "", "", "").contradicts(&before), "it tells nothing while it has no power");
        assert!(system(2, "", "", "").contradicts(&before));
    }

    #[test]
    fn the_machine_is_known_by_the_files_of_its_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(MachineIdentity::of_host(&root), MachineIdentity::default());
        let place = folder.path().join("sys/class/dmi/id");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("product_uuid"), format!("{}\n", ONE.to_lowercase())).unwrap();
        std::fs::write(place.join("product_serial"), "To be filled by O.E.M.\n").unwrap();
        assert_eq!(MachineIdentity::of_host(&root), own(ONE, ""));
    }
}
