mod gcp;
mod kvm;

use super::*;
use std::{fs, time::Instant};

const GOOD: &str = "
providers:
  - name: kubernetes
    type: kubernetes
    kubernetes:
      image: lab.local/squid:1
      connectPorts: [443, 8443]
  - name: bare
    type: kubernetes
";

fn refusal(text: &str) -> String {
    match parse(text) {
        Ok(config) => panic!("taken as {config:?}:\n{text}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn a_good_file_is_understood() {
    let config = parse(GOOD).expect("good");
    let [first, second] = &config.entries[..] else {
        panic!("two entries");
    };
    assert_eq!(
        first.to_string(),
        "kubernetes: kubernetes, image lab.local/squid:1, CONNECT to 443, 8443"
    );
    assert_eq!(
        (second.name.as_str(), second.kind()),
        ("bare", "kubernetes")
    );
    assert_eq!(
        second.settings,
        Settings::Kubernetes(KubernetesConfig::default())
    );
    let settings = KubernetesConfig {
        image: "lab.local/squid:1".into(),
        connect_ports: vec![
            443.try_into().expect("a port"),
            8443.try_into().expect("a port"),
        ],
    };
    assert_eq!(first.settings, Settings::Kubernetes(settings));
}

#[test]
fn anchors_and_empty_blocks_are_fine() {
    let text = "providers: [{name: a, type: kubernetes, kubernetes: &k {image: x}}, {name: b, type: kubernetes, kubernetes: *k}, {name: c, type: kubernetes, kubernetes: }]";
    let config = parse(text).expect("good");
    assert_eq!(config.entries[0].settings, config.entries[1].settings);
}

/// Each text is refused in one line that holds its complaint.
fn are_refused<const N: usize>(cases: [(String, &str); N]) {
    for (text, complaint) in cases {
        let refusal = refusal(&text);
        assert!(
            refusal.contains(complaint),
            "{text}\n  is refused by: {refusal}\n  not by: {complaint}"
        );
        assert!(!refusal.contains('\n'), "{refusal}");
    }
}

/// A file whose second entry is this.
fn entry(entry: &str) -> String {
    format!("providers:\n- {{name: ok, type: kubernetes}}\n- {entry}\n")
}

/// A file whose second entry has this block.
fn block(block: &str) -> String {
    entry(&format!(
        "{{name: a, type: kubernetes, kubernetes: {block}}}"
    ))
}

#[test]
fn a_file_of_another_shape_is_refused() {
    are_refused([
        (String::new(), "is empty"),
        ("# nothing but a comment\n---\n".into(), "is empty"),
        (
            "- name: a".into(),
            "must be a mapping with the key 'providers'",
        ),
        (
            "providers".into(),
            "must be a mapping with the key 'providers'",
        ),
        ("{}".into(), "providers: is missing"),
        ("providers: []".into(), "providers: must list at least one"),
        ("providers:".into(), "providers: must list at least one"),
        ("providers: {name: a}".into(), "providers: must be a list"),
        ("provider: []".into(), "provider: unknown key"),
        (format!("{GOOD}extra: 1\n"), "extra: unknown key"),
        (format!("{GOOD}1: 1\n"), "1: unknown key"),
        (
            format!("{GOOD}providers: []\n"),
            "duplicate entry with key \"providers\"",
        ),
        (format!("{GOOD}---\n{GOOD}"), "more than one document"),
        ("providers: [".into(), "line 2 column 1"),
        ("providers:\n\t- name: a".into(), "line 2"),
        ("providers: *nowhere".into(), "unknown anchor"),
        ("providers: !list []".into(), "without tags"),
    ]);
}

#[test]
fn a_wrong_entry_is_refused_by_its_index_its_name_and_the_field() {
    let long = "a".repeat(64);
    are_refused([
        (entry("ok"), "providers[1]: must be a mapping"),
        (
            entry("{type: kubernetes}"),
            "providers[1]: name: is missing",
        ),
        (
            entry("{name: 7, type: kubernetes}"),
            "providers[1]: name: must be a string",
        ),
        (
            entry("{name: '', type: kubernetes}"),
            "providers[1] (): name: not a DNS label",
        ),
        (
            entry("{name: Upper, type: kubernetes}"),
            "providers[1] (Upper): name: not a DNS label",
        ),
        (
            entry("{name: a.b, type: kubernetes}"),
            "providers[1] (a.b): name: not a DNS label",
        ),
        (
            entry("{name: -a, type: kubernetes}"),
            "providers[1] (-a): name: not a DNS label",
        ),
        (
            entry(&format!("{{name: {long}, type: kubernetes}}")),
            "name: not a DNS label: 1 to 63",
        ),
        (
            entry("{name: \"a\\nb\", type: kubernetes}"),
            "providers[1] (a\\nb): name: not a DNS label",
        ),
        (
            entry("{name: ok, type: kubernetes}"),
            "providers[1] (ok): name: providers[0] has the same name",
        ),
        (entry("{name: a}"), "providers[1] (a): type: is missing"),
        (
            entry("{name: a, type: }"),
            "providers[1] (a): type: must be a string",
        ),
        (
            entry("{name: a, type: aws}"),
            "providers[1] (a): type: unknown type 'aws'; known: gcp, kubernetes, kvm",
        ),
        (
            entry("{name: a, type: Kubernetes}"),
            "unknown type 'Kubernetes'; known: gcp, kubernetes, kvm",
        ),
        (
            entry("{name: a, name: b, type: kubernetes}"),
            "providers[1]: duplicate entry with key \"name\"",
        ),
        (
            entry("{name: a, type: kubernetes, kvm: {}}"),
            "providers[1] (a): kvm: unknown key; an entry of type kubernetes has",
        ),
        (
            entry("{name: a, type: kubernetes, image: x}"),
            "providers[1] (a): image: unknown key",
        ),
        (
            entry("{<<: {name: a}, type: kubernetes}"),
            "providers[1]: name: is missing",
        ),
    ]);
}

#[test]
fn a_wrong_block_is_refused_by_the_path_of_the_field() {
    are_refused([
        (
            block("x"),
            "providers[1] (a): kubernetes: must be a mapping",
        ),
        (
            block("[x, [443]]"),
            "providers[1] (a): kubernetes: must be a mapping",
        ),
        (
            block("{imgae: x}"),
            "providers[1] (a): kubernetes.imgae: unknown field `imgae`",
        ),
        (
            block("{image: }"),
            "providers[1] (a): kubernetes.image: invalid type",
        ),
        (block("{image: ''}"), "providers[1] (a): kubernetes.image: "),
        (
            block("{image: 'a b'}"),
            "providers[1] (a): kubernetes.image: ",
        ),
        (
            block("{image: x, image: y}"),
            "providers[1].kubernetes: duplicate entry with key \"image\"",
        ),
        (
            block("{connectPorts: 443}"),
            "providers[1] (a): kubernetes.connectPorts: invalid type",
        ),
        (
            block("{connectPorts: []}"),
            "providers[1] (a): kubernetes.connectPorts: ",
        ),
        (
            block("{connectPorts: [443, 0]}"),
            "providers[1] (a): kubernetes.connectPorts[1]: ",
        ),
        (
            block("{connectPorts: [70000]}"),
            "providers[1] (a): kubernetes.connectPorts[0]: ",
        ),
        (
            block("{connectPorts: ['443']}"),
            "providers[1] (a): kubernetes.connectPorts[0]: invalid type",
        ),
    ]);
}

#[test]
fn a_file_that_grows_without_bound_is_refused_at_once() {
    let lists = (1..12).map(|level| {
        let aliases = vec![format!("*l{}", level - 1); 10].join(", ");
        format!("l{level}: &l{level} [{aliases}]\n")
    });
    let laughs = format!("l0: &l0 [lol]\n{}", lists.collect::<String>());
    let wide = format!(
        "a: &a [{}]\nb: [{}]\n",
        "x,".repeat(50_000),
        "*a,".repeat(50_000)
    );
    let long = format!(
        "a: &a {}\nb: [{}]\n",
        "x".repeat(200_000),
        "*a,".repeat(50_000)
    );
    for (name, text) in [("laughs", laughs), ("wide", wide), ("long", long)] {
        let begun = Instant::now();
        let refusal = refusal(&text);
        assert!(
            refusal.contains("too large") || refusal.contains("limit"),
            "{name}: {refusal}"
        );
        assert!(
            begun.elapsed().as_secs() < 5,
            "{name} took {:?}",
            begun.elapsed()
        );
    }
    for deep in [
        "[".repeat(100_000),
        "- ".repeat(100_000),
        "{a: ".repeat(100_000),
    ] {
        let begun = Instant::now();
        refusal(&deep);
        assert!(
            begun.elapsed().as_secs() < 5,
            "depth took {:?}",
            begun.elapsed()
        );
    }
}

#[test]
fn what_is_no_readable_text_file_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("providers.yaml");
    let refused = |path: &Path| load(path).expect_err("refused").to_string();

    let missing = refused(&file);
    assert!(
        missing.contains("providers.yaml: No such file"),
        "{missing}"
    );
    let directory = refused(folder.path());
    assert!(directory.contains("directory"), "{directory}");
    for (content, complaint) in [
        (vec![b'#'; 10 << 20], "larger than 512 KiB"),
        (b"providers: \xff".to_vec(), "not UTF-8 text (at byte 11)"),
        (b"providers: 1".to_vec(), "providers: must be a list"),
        (b"a\0b".to_vec(), "control characters"),
    ] {
        fs::write(&file, content).expect("written");
        let refusal = refused(&file);
        assert!(refusal.contains(complaint), "{refusal}");
        assert!(refusal.contains("providers.yaml: "), "{refusal}");
    }
    fs::write(&file, GOOD).expect("written");
    assert_eq!(load(&file).expect("good"), parse(GOOD).expect("good"));
}

#[test]
fn a_fingerprint_follows_the_content_and_not_the_order() {
    let fingerprint = |text: &str| parse(text).expect(text).entries[0].fingerprint();
    let one =
        "providers: [{name: a, type: kubernetes, kubernetes: {image: x, connectPorts: [1, 2]}}]";
    let turned =
        "providers: [{kubernetes: {connectPorts: [1, 2], image: x}, type: kubernetes, name: a}]";
    assert_eq!(fingerprint(one), fingerprint(turned));
    for (from, to) in [
        ("name: a", "name: b"),
        ("image: x", "image: y"),
        ("[1, 2]", "[2, 1]"),
        ("image: x, ", ""),
    ] {
        assert_ne!(
            fingerprint(one),
            fingerprint(&one.replace(from, to)),
            "{to}"
        );
    }
}

#[test]
fn every_backend_reads_into_its_own_kind() {
    for backend in &BACKENDS {
        let text = format!("providers: [{{name: a, type: {}}}]", backend.kind);
        // A backend with required fields refuses, naming one of them.
        match parse(&text) {
            Ok(config) => assert_eq!(config.entries[0].kind(), backend.kind),
            Err(fault) => assert!(fault.to_string().contains(backend.kind), "{fault}"),
        }
    }
}
