//! What it prints: help, the CRDs, the sum of a good file.

use super::{
    GOOD,
    place::{Place, output},
};
use anyhow::{Context, Result, ensure};
use std::{fs, path::Path, process::Stdio};

pub fn help_and_version_go_to_stdout() -> Result<()> {
    let place = Place::new()?;
    for words in [&["--help"][..], &["-h"], &["run", "--help"]] {
        let ended = place.operator(words).end()?;
        ensure!(
            ended.succeeded() && ended.err.is_empty(),
            "{words:?}: {ended:?}"
        );
        for part in [
            "--providers-config",
            "PROXY_OPERATOR_LOG_LEVEL",
            "check-config",
            "Leases:",
        ] {
            ensure!(
                ended.out.contains(part),
                "{words:?} does not show {part}: {ended:?}"
            );
        }
    }
    let ended = place.operator(&["--version"]).end()?;
    let expected = format!("proxy-operator {} (commit ", env!("CARGO_PKG_VERSION"));
    ensure!(
        ended.succeeded() && ended.out.starts_with(&expected),
        "{ended:?}"
    );
    Ok(())
}

pub fn crds_prints_the_shipped_files() -> Result<()> {
    let ended = Place::new()?.operator(&["crds"]).end()?;
    ensure!(ended.succeeded() && ended.err.is_empty(), "{ended:?}");
    let shipped = ["proxies", "providerhealths"].map(|plural| {
        let file = format!("crds/{plural}.crawl.example.com.yaml");
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file))?;
        // The files open with a comment that says how they are made.
        let (_, yaml) = text.split_once('\n').context("has lines")?;
        anyhow::Ok(yaml.to_owned())
    });
    let [proxies, healths] = shipped;
    ensure!(
        ended.out == format!("{}---\n{}", proxies?, healths?),
        "crds prints something else than the files"
    );
    Ok(())
}

pub fn check_config_sums_up_a_good_file() -> Result<()> {
    let place = Place::new()?;
    let file = place.file("good.yaml", GOOD)?;
    let ended = place.operator(&["check-config", &file]).end()?;
    ensure!(ended.succeeded() && ended.err.is_empty(), "{ended:?}");
    let lines: Vec<_> = ended.out.lines().collect();
    ensure!(
        matches!(lines[..], [first, second] if first.starts_with("home: kubernetes, image lab.local/squid:1")
            && second.starts_with("other: kubernetes")),
        "{ended:?}"
    );
    Ok(())
}

pub fn a_closed_pipe_is_no_crash() -> Result<()> {
    let place = Place::new()?;
    let mut operator = place.operator(&["crds"]);
    operator
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = operator.command.spawn().context("starts")?;
    drop(child.stdout.take());
    let ended = output(child)?;
    ensure!(ended.succeeded() && ended.err.is_empty(), "{ended:?}");

    let mut operator = place.operator(&["--nonsense"]);
    operator
        .command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = operator.command.spawn().context("starts")?;
    drop(child.stderr.take());
    let ended = output(child)?;
    ensure!(ended.status.code() == Some(2), "{ended:?}");
    Ok(())
}
