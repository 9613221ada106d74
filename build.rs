//! Tells the program which commit it was built from.
//!
//! `PROXY_OPERATOR_COMMIT` wins (a container build has no repository), then the repository that this
//! very folder is the top of, then `unknown`. Git's log of HEAD changes with every commit and checkout
//! and with nothing else, so watching it costs no rebuild in between.

use std::{env, path::Path, process::Command};

const VARIABLE: &str = "PROXY_OPERATOR_COMMIT";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let told = env::var(VARIABLE).ok().filter(|commit| !commit.is_empty());
    let commit = told.or_else(from_git).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env={VARIABLE}={commit}");
}

fn from_git() -> Option<String> {
    // A source archive unpacked inside somebody else's repository must not show that one's commit.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let here = env::var("CARGO_MANIFEST_DIR").ok()?;
    if Path::new(&top).canonicalize().ok()? != Path::new(&here).canonicalize().ok()? {
        return None;
    }
    // A watched file that does not exist would make every build run this again.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
