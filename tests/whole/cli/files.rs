//! Files that are not what they should be: providers, certificates.

use super::{GOOD, place::Place};
use anyhow::Result;
use std::fs;

pub fn a_bad_providers_file_is_named() -> Result<()> {
    let second = |entry: &str| format!("providers:\n- {{name: a, type: kubernetes}}\n- {entry}\n");
    let place = Place::new()?;
    for (content, parts) in [
        (String::new(), &["is empty"][..]),
        ("providers: []".into(), &["providers: ", "at least one"]),
        ("- name: a".into(), &["'providers'"]),
        ("providers: [".into(), &["line 2"]),
        (format!("{GOOD}---\n{GOOD}"), &["more than one document"]),
        (
            format!("{GOOD}\nproviders: []\n"),
            &["duplicate", "providers"],
        ),
        (format!("{GOOD}\nproxies: 1\n"), &["proxies: unknown key"]),
        (
            second("{name: A_b, type: kubernetes}"),
            &["providers[1] (A_b): name: ", "DNS label"],
        ),
        (
            second("{name: a, type: kubernetes}"),
            &["providers[1] (a): name: ", "same name"],
        ),
        (
            second("{type: kubernetes}"),
            &["providers[1]: name: is missing"],
        ),
        (second("{name: b}"), &["providers[1] (b): type: is missing"]),
        (
            second("{name: b, type: azure}"),
            &[
                "providers[1] (b): type: ",
                "'azure'",
                "known: gcp, kubernetes, kvm",
            ],
        ),
        (
            second("{name: b, type: kubernetes, kvm: {}}"),
            &["providers[1] (b): kvm: unknown key"],
        ),
        (
            second("{name: b, type: kubernetes, colour: red}"),
            &["providers[1] (b): colour: unknown key"],
        ),
        (
            second("{name: b, type: kubernetes, kubernetes: {img: x}}"),
            &["providers[1] (b): kubernetes.img: "],
        ),
        (
            second("{name: b, type: kubernetes, kubernetes: {image: ''}}"),
            &["providers[1] (b): kubernetes.image: "],
        ),
        (
            second("{name: b, type: kubernetes, kubernetes: {connectPorts: [0]}}"),
            &["providers[1] (b): kubernetes.connectPorts[0]: "],
        ),
        (
            second("{name: b, name: c, type: kubernetes}"),
            &["providers[1]", "duplicate", "name"],
        ),
        ("#".repeat(10 << 20), &["larger than"]),
    ] {
        let file = place.file("bad.yaml", &content)?;
        let mut parts = parts.to_vec();
        parts.push("bad.yaml");
        place
            .operator(&["--providers-config", &file])
            .refuses(&parts)?;
        place.operator(&["check-config", &file]).refuses(&parts)?;
    }
    let folder = place.path("").display().to_string();
    let missing = place.path("missing.yaml").display().to_string();
    for (path, why) in [(&folder, "directory"), (&missing, "No such file")] {
        place
            .operator(&["run", "--providers-config", path])
            .refuses(&[path, why])?;
        place
            .operator(&["check-config", path])
            .refuses(&[path, why])?;
    }
    fs::write(place.path("latin1.yaml"), b"# caf\xe9")?;
    let latin1 = place.path("latin1.yaml").display().to_string();
    place
        .operator(&["check-config", &latin1])
        .refuses(&["latin1.yaml", "UTF-8"])
}

pub fn a_ca_file_that_holds_none_is_named() -> Result<()> {
    let place = Place::new()?;
    let good = place.file("good.yaml", GOOD)?;
    let missing = place.path("ca.pem").display().to_string();
    for path in [&missing, &place.file("not.pem", "no certificate")?] {
        let flag = format!("--probe-ca-file={path}");
        place
            .operator(&["--providers-config", &good, &flag])
            .refuses(&[path])?;
    }
    Ok(())
}
