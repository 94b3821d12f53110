//! What goes through interfaces of a network namespace, as its kernel says: routes of any table, and SSH sessions at any port.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use surefoot_e2e::command::binary;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::not_run::not_run;

/// A namespace with `v0` and `v1`, whose far ends `p0` and `p1` are in another one; both go with this.
struct Place {
    here: String,
    there: String,
}

fn ip(words: &str) -> Output {
    Command::new("ip").args(words.split_whitespace()).output().unwrap()
}

impl Place {
    /// `None`, and said, where this machine makes none.
    fn make(test: &str, tag: &str) -> Option<Self> {
        let name = |side| format!("surefoot-{tag}-{side}-{}", std::process::id());
        let place = Place { here: name("here"), there: name("there") };
        let Place { here, there } = &place;
        let mut made = [here, there].iter().all(|name| ip(&format!("netns add {name}")).status.success());
        for at in 0..2 {
            let words = format!("link add v{at} netns {here} type veth peer name p{at} netns {there}");
            made = made && ip(&words).status.success();
        }
        if !made {
            not_run(test, "iproute2 makes no network namespaces with veth here");
            return None;
        }
        place.set(&["link set lo up", "link set v0 up", "link set v1 up"]);
        place.at(there, &["link set p0 up", "link set p1 up"]);
        Some(place)
    }

    fn set(&self, all: &[&str]) {
        self.at(&self.here, all);
    }

    fn at(&self, name: &str, all: &[&str]) {
        for words in all {
            let output = ip(&format!("-n {name} {words}"));
            assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    /// What each interface carries, as kinds and words.
    fn carries(&self) -> [Vec<(String, String)>; 2] {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.here]).arg(binary()).args("nic health --json --over 1ms".split(' '));
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let words = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
        ["v0", "v1"].map(|name| {
            let line = lines.iter().find(|line| line["name"] == name).unwrap();
            line["carries"].as_array().unwrap().iter().map(|one| (words(one, "kind"), words(one, "what"))).collect()
        })
    }

    fn python(&self, name: &str, interpreter: &str, code: &str) -> Running {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name, interpreter, "-u", "-c", code]);
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        // One line says that it is ready.
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "python");
        Running(child)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for name in [&self.here, &self.there] {
            ip(&format!("netns del {name}"));
        }
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already is not told.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn reason(kind: &str, what: &str) -> (String, String) {
    (kind.to_owned(), what.to_owned())
}

#[test]
fn every_route_that_leads_beyond_the_own_network_is_carried() {
    const NAME: &str = "nic::carried::every_route_that_leads_beyond_the_own_network_is_carried";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let Some(place) = Place::make(NAME, "routes") else { return };
    place.set(&["addr add 10.9.0.1/24 dev v0", "addr add 10.9.1.1/24 dev v1"]);
    assert_eq!(place.carries(), [vec![], vec![]], "networks of their own alone");
    let default = || vec![reason("default_route", "the default route of IPv4")];

    place.set(&["route add default nexthop via 10.9.0.2 dev v0 nexthop via 10.9.1.2 dev v1"]);
    assert_eq!(place.carries(), [default(), default()], "both ways of one route");
    place.set(&["route del default"]);

    place.set(&["route add default via 10.9.1.2 dev v1 table 100"]);
    assert_eq!(place.carries(), [vec![], vec![]], "no rule leads to this table");
    place.set(&["rule add from all lookup 100"]);
    assert_eq!(place.carries(), [vec![], default()], "another table");
    place.set(&["route flush table 100", "rule del from all lookup 100"]);

    place.set(&["route add 10.0.0.0/8 dev v0 src 10.9.0.1", "route add 10.9.1.0/25 dev v1 src 10.9.1.1"]);
    let wide = vec![reason("route", "the route to 10.0.0.0/8")];
    assert_eq!(place.carries(), [wide, vec![]], "wider than the network of the address, and a part of it");
    place.set(&["route del 10.0.0.0/8", "route del 10.9.1.0/25"]);

    place.set(&["route add 0.0.0.0/1 via 10.9.0.2 dev v0", "route add 128.0.0.0/1 dev v0"]);
    let halves = vec![reason("route", "2 routes of IPv4, such as to 0.0.0.0/1")];
    assert_eq!(place.carries(), [halves, vec![]]);
    place.set(&["route del 0.0.0.0/1", "route del 128.0.0.0/1"]);

    place.set(&["-6 addr add fd00::1/64 dev v1 nodad", "-6 route add default via fd00::2 dev v1 table 7"]);
    assert_eq!(place.carries(), [vec![], vec![]]);
    place.set(&["-6 rule add from all lookup 7", "-6 route add 2000::/3 nexthop via fd00::2 nexthop via fd00::3"]);
    assert_eq!(place.carries(), [vec![], vec![reason("default_route", "the default route of IPv6")]]);
    place.set(&["-6 rule del from all lookup 7"]);
    assert_eq!(place.carries(), [vec![], vec![reason("route", "the route to 2000::/3")]]);
}

/// A server that keeps what connects and sends it a byte; under the name of an SSH server if its interpreter has it.
fn server(ports: &str) -> String {
    format!(
        "import socket,time\nkeep=[]\nfor f,a,p in {ports}:\n s=socket.socket(f);s.setsockopt(1,2,1)\n f==10 and s.setsockopt(41,26,1)\n \
         s.bind((a,p));s.listen();keep.append(s)\nprint('ready')\nwhile 1:\n import select\n \
         for s in select.select([k for k in keep if not isinstance(k,tuple)],[],[])[0]:\n  keep.append(s.accept());keep[-1][0].send(b'.')"
    )
}

/// A client that is ready when the server has its connection.
fn client(to: &str, port: u16) -> String {
    format!(
        "import socket,time\nf,t,_,_,a=socket.getaddrinfo('{to}',{port},type=socket.SOCK_STREAM)[0]\ns=socket.socket(f,t)\n\
         [None for _ in iter(lambda: s.connect_ex(a) not in (0,106) and (time.sleep(.1) or True), False)]\n\
         s.recv(1)\nprint('ready')\ntime.sleep(600)"
    )
}

#[test]
fn an_ssh_session_is_on_the_interface_that_the_kernel_sends_it_through_at_any_port() {
    const NAME: &str = "nic::carried::an_ssh_session_is_on_the_interface_that_the_kernel_sends_it_through_at_any_port";
    let Some(_turn) = turn(NAME, Need::Root) else { return };
    let Ok(python) =
        Command::new("python3").args(["-c", "import os,sys;print(os.path.realpath(sys.executable))"]).output()
    else {
        return not_run(NAME, "python3 is not installed");
    };
    let python = String::from_utf8(python.stdout).unwrap().trim().to_owned();
    let Some(place) = Place::make(NAME, "ssh") else { return };
    place.set(&["addr add 10.9.0.1/24 dev v0", "addr add 10.9.0.11/24 dev v1", "-6 addr add fe80::7/64 dev v0 nodad"]);
    place.at(&place.there, &["addr add 10.9.0.2/24 dev p0", "addr add 10.9.0.3/32 dev p0"]);
    place.at(&place.there, &["-6 addr add fe80::9/64 dev p0 nodad"]);
    let session = |peer: &str| vec![reason("ssh_session", &format!("an SSH session of {peer}"))];

    let web = place.python(&place.here, &python, &server("[(2,'0.0.0.0',22),(2,'0.0.0.0',8080),(10,'::',22)]"));
    {
        let _other = place.python(&place.there, &python, &client("10.9.0.1", 8080));
        assert_eq!(place.carries(), [vec![], vec![]], "a connection of another server");
        let _one = place.python(&place.there, &python, &client("10.9.0.1", 22));
        assert_eq!(place.carries(), [session("10.9.0.2"), vec![]], "both have this network");
    }
    {
        let _one = place.python(&place.there, &python, &client("fe80::7%p0", 22));
        assert_eq!(place.carries(), [session("fe80::9"), vec![]], "both have networks of this link's kind");
    }
    drop(web);

    // A program that is called sshd, as the kernel knows it.
    let folder = tempfile::tempdir().unwrap();
    let sshd = folder.path().join("sshd").display().to_string();
    std::os::unix::fs::symlink(&python, &sshd).unwrap();
    let _server = place.python(&place.here, &sshd, &server("[(2,'0.0.0.0',2222)]"));
    let _one = place.python(&place.there, &python, &client("10.9.0.1", 2222));
    assert_eq!(place.carries(), [session("10.9.0.2"), vec![]], "sshd at another port");
}
