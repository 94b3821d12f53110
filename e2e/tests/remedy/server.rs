//! A real `surefoot remedy serve` with a store in a file, and how it is told of alerts.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use surefoot_e2e::command::{PATIENCE, Running, surefoot};
use surefoot_e2e::http;

/// A running server.
pub struct Server {
    /// Its process.
    pub running: Running,
    /// Its port on 127.0.0.1.
    pub port: String,
}

impl Server {
    /// Starts one by this policy, with its store in the folder.
    pub fn start(folder: &Path, policy: &str) -> Server {
        Server::start_with(folder, policy, &[])
    }

    /// As [`Server::start`], with these options.
    pub fn start_with(folder: &Path, policy: &str, options: &[&str]) -> Server {
        fs::write(folder.join("policy.toml"), policy).unwrap();
        Server::over(folder, options)
    }

    /// One by the policy and the store that lie in the folder.
    pub fn over(folder: &Path, options: &[&str]) -> Server {
        let file = folder.join("policy.toml");
        let store = format!("sqlite:{}", folder.join("cases.db").display());
        let mut command = surefoot("remedy serve --listen 127.0.0.1:0 --policy").arg(&file).arg("--store").arg(store);
        command = command.arg("--journal").arg(folder.join("deeds.jsonl"));
        for option in options {
            command = command.arg(option);
        }
        let running = command.start();
        let begun = Instant::now();
        loop {
            if let Some(rest) = running.stderr().split("http://127.0.0.1:").nth(1) {
                let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
                if rest.len() > port.len() {
                    return Server { running, port };
                }
            }
            assert!(begun.elapsed() < PATIENCE, "it does not listen: {}", running.stderr());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The cases as the API lists them.
    pub fn cases(&self) -> Vec<Value> {
        let answer = http::get(&self.address(), "/api/v1/cases?state=all");
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str::<Value>(&answer.body).unwrap()["cases"].as_array().unwrap().clone()
    }

    /// One case with its trail.
    pub fn story(&self, id: u64) -> Value {
        serde_json::from_str(&http::get(&self.address(), &format!("/api/v1/cases/{id}")).body).unwrap()
    }

    /// The story of a case as soon as it is in this state.
    pub fn until(&self, id: u64, state: &str) -> Value {
        let begun = Instant::now();
        loop {
            let story = self.story(id);
            if story["case"]["state"] == state {
                return story;
            }
            assert!(begun.elapsed() < PATIENCE, "case {id} is not {state}: {story:#}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits for a first case.
    pub fn until_any(&self, patience: Duration) -> Value {
        let begun = Instant::now();
        loop {
            if let Some(case) = self.cases().first() {
                return case.clone();
            }
            assert!(begun.elapsed() < patience, "no case was opened: {}", self.running.stderr());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Waits until it is so.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "it never came that {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An executable that is trusted: in a folder that only its owner may write to.
pub fn executable(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    let text = format!("#!/bin/sh\n{script}\n");
    // By a process of its own, so that no descriptor that may write to it is open in a process that this one starts meanwhile.
    let write = ["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", &text];
    assert!(Command::new("sh").args(write).arg(&path).status().unwrap().success());
    path
}

/// A folder for them.
pub fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap()
}
