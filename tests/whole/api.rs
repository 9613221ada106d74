//! The lease API's contract: a fuzzer reads `/openapi.json` and finds no 5xx and no answer that the
//! document does not describe.

use std::{path::Path, process::Command};

/// Fuzzes the API at `base_url` (`http://host:port`) for about half a minute. Leases whatever there
/// is and bans it for made-up targets, so give it proxies that nobody else needs.
///
/// # Errors
/// What schemathesis printed, each failure with the `curl` that shows it.
pub fn keeps_its_contract(base_url: &str, token: Option<&str>) -> Result<(), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/schemathesis.sh");
    let mut fuzzer = Command::new(&script);
    fuzzer.arg(base_url).env_remove("DISCOVERY_TOKEN");
    if let Some(token) = token {
        fuzzer.env("DISCOVERY_TOKEN", token);
    }
    let output = fuzzer
        .output()
        .map_err(|error| format!("{} does not run: {error}", script.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Err(format!(
        "with{} token: {}\n{out}{err}",
        if token.is_some() { "" } else { "out" },
        output.status
    ))
}
