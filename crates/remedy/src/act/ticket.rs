//! `ticket:NAME`: tells people, by the system that their fleet has: a web service, mail, or files in a directory.
//!
//! A ticket carries the case's token. Filing it twice, after a crash, makes no second one: a file has the token's name, a web service
//! is told the token as `Idempotency-Key`, and a mail has it as its `Message-ID`.

use super::shown::{beginning, cut, last_words};
use super::{Order, Outcome, PriorAttempt};
use serde_json::json;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_foreign::said;
use surefoot_foreign::way;
use surefoot_model::{Observed, one_line};
use surefoot_outside::address::shown;
use surefoot_outside::http::{self, Identity, Request, Trust};
use surefoot_sys::program;

/// How long a ticket system may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest line of a mail: beyond 998 bytes (RFC 5322, 2.1.1) some servers send it back, and nobody would know.
const LINE_BYTES_MAX: usize = 900;

/// A way to tell people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketSystem {
    /// A web service takes a JSON object by POST; an answer of 2xx is a ticket, and its `id`, `key` or `number` the ticket's name.
    Webhook {
        /// The address.
        url: String,
        /// Who asks.
        identity: Identity,
        /// Whom it believes.
        trust: Trust,
    },
    /// A mail, handed to `sendmail`.
    Mail {
        /// The address that it goes to.
        to: String,
    },
    /// A file in this directory, which people or programs look into.
    Directory(PathBuf),
}

impl TicketSystem {
    /// What it would do.
    pub fn dry_run(&self, order: &Order) -> String {
        match self {
            TicketSystem::Webhook { url, .. } => format!("POST a ticket on {} to {}", cut(&order.host), shown(url)),
            TicketSystem::Mail { to } => format!("mail a ticket on {} to {to}", cut(&order.host)),
            TicketSystem::Directory(folder) => format!("write {}", file_of(folder, order).display()),
        }
    }

    /// Files the ticket; its name is in the memo.
    pub fn file(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        match self {
            TicketSystem::Webhook { url, identity, trust } => post(url, identity, trust, order, stop),
            TicketSystem::Mail { to } => mail(to, order, stop),
            TicketSystem::Directory(folder) => write(folder, order),
        }
    }

    /// Each system takes the same ticket twice as one.
    pub fn find(&self) -> PriorAttempt {
        PriorAttempt::MayRepeat
    }
}

fn filed(name: &str, how: &str) -> Outcome {
    Outcome::done(Observed::Ticket { ticket: cut(name), system: how.to_owned() }, cut(name))
}

fn later(detail: String) -> Outcome {
    Outcome::Failed { detail, memo: String::new(), is_passing: true }
}

/// The ticket as an object; also what is written to a file.
fn object(order: &Order) -> serde_json::Value {
    json!({
        "case": order.case,
        "token": token(order),
        "host": order.host,
        "service": order.service,
        "fault": order.fault,
        "subject": order.subject,
        "summary": summary(order),
        "sentence": order.told.sentence,
        "severity": order.told.severity,
        "why": order.told.why,
        "steps": order.told.done,
        "is_drained": order.told.is_drained,
        "commands": commands(order),
        "commands_for": commands_for(order),
        "evidence": order.evidence,
        "memo": order.memo,
    })
}

/// What the person who gets the ticket can type: to read the case, and to end it after the repair.
fn commands(order: &Order) -> [String; 2] {
    let case = order.case;
    [format!("surefoot remedy show {case}"), format!("surefoot remedy approve {case} --reason TEXT")]
}

/// Where the commands work, and what they need elsewhere.
fn commands_for(order: &Order) -> String {
    let on = match order.told.controller_host.as_str() {
        "" => "on the controller's host".to_owned(),
        host => format!("on {host}, the controller's host"),
    };
    format!("{on}; elsewhere, or if it listens at another address than the default, add --server ADDRESS")
}

fn summary(order: &Order) -> String {
    let about = if order.subject.is_empty() { String::new() } else { format!(" ({})", order.subject) };
    cut(&format!("{}{about} on {}: manual action needed, case {}", order.fault, order.host, order.case))
}

/// One ticket per step of a case, whatever attempt files it. The time of the case, the last part of the attempt's token, is in it: a store
/// that was begun anew counts from 1 again, and its ticket must not be taken for one of the store before.
fn token(order: &Order) -> String {
    let of_case = order.token.rsplit('-').next().unwrap_or_default();
    format!("surefoot-{}-{}-{of_case}", order.case, order.step_index)
}

fn post(url: &str, identity: &Identity, trust: &Trust, order: &Order, stop: &AtomicBool) -> Outcome {
    let headers = vec!["Content-Type: application/json".to_owned(), format!("Idempotency-Key: {}", token(order))];
    let request = Request {
        method: "POST",
        url: url.to_owned(),
        headers,
        body: object(order).to_string(),
        identity: identity.clone(),
        trust: trust.clone(),
        socket: None,
    };
    // The rest of the address may be what lets anybody post there.
    let url = shown(url);
    let answer = match http::ask(&request, PATIENCE, stop) {
        Ok(answer) => answer,
        Err(why) => return later(format!("{url}: {why}")),
    };
    if !answer.is_success() {
        // Whatever it dislikes today, somebody can mend before tomorrow; the case waits that long.
        return later(format!("{url} answered with {}: {}", answer.status_text(), cut(&answer.body)));
    }
    if answer.is_web_page() {
        return later(format!(
            "{url} answered with a web page: a login page or a proxy took the ticket, not a ticket system"
        ));
    }
    // Some services file a ticket and answer with a word, or with nothing.
    let answered = answer.json().unwrap_or_default();
    let refusal = ["ok", "success"].iter().any(|field| answered[*field] == false);
    if refusal {
        return later(format!(
            "{url} answered with HTTP {}, and says that it failed: {}",
            answer.status,
            cut(&answer.body)
        ));
    }
    let name = ["key", "id", "number"].iter().find_map(|field| match &answered[*field] {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    filed(&name.unwrap_or_else(|| token(order)), &url)
}

fn mail(to: &str, order: &Order, stop: &AtomicBool) -> Outcome {
    let Some(path) = program::find("sendmail") else {
        return later(
            "unsupported: sendmail is not installed, or in none of the folders of the system's programs".into(),
        );
    };
    let mut command = Command::new(path);
    // The recipient is in the header alone: no address is an option.
    command.args(["-t", "-i"]).env_clear().env("LC_ALL", "C").current_dir("/");
    match program::run(command, letter(to, order).as_bytes(), PATIENCE, stop) {
        Ok(ended) if ended.code == 0 => filed(&token(order), &format!("mailed to {to}")),
        Ok(ended) => later(format!("sendmail ended with {}: {}", ended.code, last_words(&ended.complaint))),
        Err(broken) => later(format!("sendmail: {broken}")),
    }
}

/// The mail with its header.
fn letter(to: &str, order: &Order) -> String {
    let mut text = format!(
        "To: {}\nSubject: {}\nMessage-ID: <{}@surefoot.invalid>\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 8bit\n\n",
        one_line(to),
        beginning(&summary(order), LINE_BYTES_MAX),
        token(order)
    );
    for line in body(order) {
        // What does not fit on a line goes on in the next.
        let mut rest = line.as_str();
        while rest.len() > LINE_BYTES_MAX {
            let (piece, more) = rest.split_at(beginning(rest, LINE_BYTES_MAX).len());
            text.push_str(&format!("{piece}\n"));
            rest = more;
        }
        text.push_str(&format!("{rest}\n"));
    }
    text
}

/// The lines of a mail: what happened to what, why a person gets it, what was done, what to type.
fn body(order: &Order) -> Vec<String> {
    let told = &order.told;
    let about = [
        ("Host", cut(&order.host)),
        ("Service", cut(&order.service)),
        ("Fault", cut(&order.fault)),
        ("About", cut(&order.subject)),
        ("Severity", told.severity.to_string()),
        ("Alert", one_line(&told.sentence)),
        ("Why manual action", one_line(&told.why)),
        ("Counts as out of service", if told.is_drained { "yes" } else { "no" }.to_owned()),
    ];
    let about =
        about.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name}: {value}"));
    let done = told.done.iter().map(|line| one_line(line));
    let evidence = order.evidence.iter().map(|line| one_line(line));
    let commands = commands(order).into_iter().map(|command| format!("    {command}"));
    let mut lines: Vec<String> = about.collect();
    for (heading, part) in [
        ("Steps:", done.collect::<Vec<_>>()),
        ("Evidence:", evidence.collect()),
        (&*format!("Commands ({}):", commands_for(order)), commands.collect()),
    ] {
        if !part.is_empty() {
            lines.extend([String::new(), one_line(heading)]);
            lines.extend(part);
        }
    }
    lines
}

fn file_of(folder: &Path, order: &Order) -> PathBuf {
    folder.join(format!("{}.json", token(order)))
}

/// Under a name of its own first, so that nobody reads half a ticket.
fn write(folder: &Path, order: &Order) -> Outcome {
    let path = file_of(folder, order);
    let put = || -> io::Result<bool> {
        // What was filed is still there after a power failure, also where the run that filed it ended before it saw to that.
        let sync = || way::sync(&way::directory(folder)?);
        if path.symlink_metadata().is_ok() {
            return sync().map(|()| false);
        }
        let part = folder.join(format!(".{}.part", token(order)));
        let _ = fs::remove_file(&part);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o640).open(&part)?;
        let text = serde_json::to_string_pretty(&object(order))? + "\n";
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        // A link takes no file's place, as a rename would.
        let put = written.and_then(|()| fs::hard_link(&part, &path));
        let _ = fs::remove_file(&part);
        put.and_then(|()| sync()).map(|()| true)
    };
    match put() {
        Ok(true) => filed(&token(order), &path.display().to_string()),
        Ok(false) => filed(&token(order), &format!("{} was there already", path.display())),
        Err(error) => later(format!("{}: {}", path.display(), said(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_testkit::durable::{calls_of, is_synced_after};

    #[test]
    #[ignore = "runs in a child process under strace"]
    fn child_files_a_ticket_twice() {
        let folder = PathBuf::from(std::env::var_os("SUREFOOT_TEST_FOLDER").unwrap());
        for _ in 0..2 {
            write(&folder, &Order { case: 7, host: "n1".to_owned(), ..Order::default() });
        }
    }

    #[test]
    fn a_filed_ticket_s_name_is_on_the_medium_also_when_another_run_filed_it() {
        let test = "act::ticket::tests::a_filed_ticket_s_name_is_on_the_medium_also_when_another_run_filed_it";
        let home = tempfile::tempdir().unwrap();
        let child = "act::ticket::tests::child_files_a_ticket_twice";
        let Some(calls) = calls_of(test, child, home.path()) else { return };
        let is_link = |call: &str| call.contains("link(") || call.contains("linkat(");
        assert!(is_synced_after(&calls, is_link, home.path()), "{calls:#?}");
        let of_folder = format!("<{}>)", home.path().display());
        let syncs = calls.iter().filter(|call| call.contains("fsync(") && call.contains(&of_folder));
        assert_eq!(syncs.count(), 2, "{calls:#?}");
    }

    #[test]
    fn a_mail_says_the_alert_why_it_is_sent_and_what_to_type() {
        let told = super::super::Told {
            sentence: "DIMM A1 has 10 errors a second.".to_owned(),
            severity: surefoot_model::Severity::Critical,
            why: "run:/repair failed: it ended with 1".to_owned(),
            done: vec!["drain done".to_owned()],
            controller_host: "ctl".to_owned(),
            is_drained: true,
        };
        let order = Order { case: 7, host: "n1".to_owned(), fault: "memory/rate".to_owned(), told, ..Order::default() };
        let text = letter("desk@example.org", &order);
        for line in [
            "Severity: critical",
            "Alert: DIMM A1 has 10 errors a second.",
            "Why manual action: run:/repair failed: it ended with 1",
            "Counts as out of service: yes",
            "drain done",
            "    surefoot remedy show 7",
            "    surefoot remedy approve 7 --reason TEXT",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        assert!(!text.contains("Evidence:"), "no heading without lines: {text}");
    }

    /// Alerts and agents bring names and evidence: none of it is a header, and none of it is lost.
    #[test]
    fn a_mail_is_one_that_every_server_takes_whatever_strangers_wrote() {
        let order = Order {
            case: 7,
            host: "n1\r\nBcc: x@example.org\r\n\r\nhello".to_owned(),
            fault: "f".repeat(2_000),
            subject: "\u{10348}".repeat(2_000),
            evidence: vec!["\u{10348}".repeat(1_000), ".".to_owned(), "\nFrom: a".to_owned()],
            ..Order::default()
        };
        let text = letter("desk@example.org\nBcc: y@example.org", &order);
        let (header, body) = text.split_once("\n\n").unwrap();
        let names: Vec<&str> = header.lines().map(|line| line.split(':').next().unwrap()).collect();
        let known = ["To", "Subject", "Message-ID", "MIME-Version", "Content-Type", "Content-Transfer-Encoding"];
        assert_eq!(names, known);
        assert!(text.lines().all(|line| line.len() <= 998 && !line.contains('\r')));
        assert!(body.contains("\n.\n?From: a\n") && body.matches('\u{10348}').count() == 1_400, "{body}");
    }
}
