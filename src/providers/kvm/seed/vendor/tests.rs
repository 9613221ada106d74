use super::*;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

fn vendor(install_guest_agent: bool, document: Option<&str>) -> String {
    let document = document.map(Document::from);
    let vendor = Vendor {
        install_guest_agent,
        document,
    };
    String::from_utf8(vendor.file()).expect("text")
}

#[test]
fn one_thing_is_delivered_as_it_is() {
    assert_eq!(vendor(false, None), "");
    assert_eq!(vendor(false, Some("")), "");
    assert_eq!(
        vendor(false, Some("#cloud-config\n{}")),
        "#cloud-config\n{}"
    );
    assert_eq!(vendor(true, None), GUEST_AGENT);
    assert_eq!(vendor(true, Some("")), GUEST_AGENT);
    assert!(GUEST_AGENT.starts_with("#!/bin/sh\n"));
}

#[test]
fn two_things_travel_in_a_multipart() {
    let document = "#cloud-config\nruncmd: ['--proxy-operator', 'ä']\r\n";
    let both = vendor(true, Some(document));
    assert!(both.starts_with("MIME-Version: 1.0\n"), "{both}");
    let boundary = format!("--{}", both.split('"').nth(1).expect("a boundary"));
    let contents: Vec<_> = both
        .split(&boundary)
        .filter_map(|part| part.split_once("\n\n"))
        .map(|(head, body)| (head.trim().to_owned(), body.lines().collect::<String>()))
        .collect();
    let [_, (script_head, script), (document_head, sent)] = &contents[..] else {
        panic!("a head and two parts: {contents:?}");
    };
    assert!(
        script_head.contains("Content-Type: text/x-shellscript"),
        "{script_head}"
    );
    assert!(
        document_head.contains("Content-Type: text/plain"),
        "{document_head}"
    );
    let decoded = |text: &str| BASE64.decode(text.as_bytes()).expect("base64");
    assert_eq!(decoded(script), GUEST_AGENT.as_bytes());
    assert_eq!(decoded(sent), document.as_bytes());
    assert!(both.ends_with(&format!("{boundary}--\n")), "{both}");
    assert!(both.lines().all(|line| line.len() <= 78), "{both}");
}

#[test]
fn a_multipart_travels_inside_the_multipart() {
    let inner = "Content-Type: multipart/mixed; boundary=\"b\"\nMIME-Version: 1.0\n\n--b\n\n#cloud-config\n--b--\n";
    for document in [inner, &inner.replacen("Content", "content", 1)] {
        let both = vendor(true, Some(document));
        assert!(
            both.contains(&format!("\n{document}\n--proxy-operator-")),
            "{both}"
        );
    }
    let not = vendor(true, Some("#cloud-config\n# mime-version: 1.0\n"));
    assert!(!not.contains("#cloud-config"), "{not}");
}

/// A system that has these commands and no others. Each says how it was called; a package manager
/// whose last word is the agent's name brings `qemu-ga`.
struct System {
    folder: TempDir,
}

impl System {
    fn with(commands: &[&str]) -> Self {
        let system = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        for command in commands {
            system.has(
                command,
                "for last; do :; done\ncase \"$0 $last\" in\n\
                 *apt-get*agent|*/dnf*agent|*/yum*agent|*/zypper*agent|*/apk*agent) /bin/cp \"$0\" \"${0%/*}/qemu-ga\" ;;\nesac",
            );
        }
        system
    }

    fn has(&self, command: &str, does: &str) {
        let path = self.folder.path().join(command);
        let log = self.folder.path().join("log");
        let script = format!(
            "#!/bin/sh\necho \"${{0##*/}} $*\" >>{}\n{does}\n",
            log.display()
        );
        fs::write(&path, script).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    }

    /// Runs the script; gives what it said and which commands it ran.
    fn run(&self, shell: &Path) -> (String, Vec<String>) {
        let log = self.folder.path().join("log");
        fs::write(&log, "").expect("emptied");
        let script = self.folder.path().join("script");
        fs::write(&script, GUEST_AGENT).expect("written");
        let ran = Command::new(shell)
            .arg(&script)
            .env_clear()
            .env("PATH", self.folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("run");
        assert!(ran.status.success(), "{ran:?}");
        assert!(ran.stderr.is_empty(), "{ran:?}");
        let said = String::from_utf8(ran.stdout).expect("text");
        let log = fs::read_to_string(log).expect("a log");
        (said, log.lines().map(str::to_owned).collect())
    }
}

/// Those of the usual shells that are here.
fn shells() -> Vec<&'static Path> {
    let shells = ["/bin/sh", "/bin/dash", "/bin/bash"].map(Path::new);
    shells.into_iter().filter(|shell| shell.exists()).collect()
}

const SYSTEMD: [&str; 2] = [
    "systemctl enable qemu-guest-agent",
    "systemctl start --no-block qemu-guest-agent",
];
const OPENRC: [&str; 2] = [
    "rc-update add qemu-guest-agent default",
    "rc-service qemu-guest-agent start",
];

#[test]
fn every_distribution_installs_and_starts_the_agent() {
    let apt = [
        "apt-get -q -o Acquire::Retries=1 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15 update",
        "apt-get -q -y -o DPkg::Lock::Timeout=60 --no-install-recommends install qemu-guest-agent",
    ];
    let dnf = ["dnf -q -y --setopt=timeout=15 --setopt=retries=2 install qemu-guest-agent"];
    let yum = ["yum -q -y --setopt=timeout=15 --setopt=retries=2 install qemu-guest-agent"];
    let zypper = ["zypper --quiet --non-interactive install --no-recommends qemu-guest-agent"];
    let apk = ["apk add --no-cache qemu-guest-agent"];
    let systemd: &[&str] = &["systemctl"];
    let openrc: &[&str] = &["rc-service", "rc-update"];
    for (manager, services, installs, starts) in [
        ("apt-get", systemd, &apt[..], SYSTEMD),
        ("dnf", systemd, &dnf, SYSTEMD),
        ("yum", systemd, &yum, SYSTEMD),
        ("zypper", systemd, &zypper, SYSTEMD),
        ("apk", openrc, &apk, OPENRC),
        ("apt-get", openrc, &apt, OPENRC),
    ] {
        for shell in shells() {
            let system = System::with(&[services, &[manager]].concat());
            let (said, ran) = system.run(shell);
            assert_eq!(ran, [installs, &starts].concat(), "{said}");
            assert_eq!(said, "");
            // A second time there is nothing to install.
            assert_eq!(system.run(shell).1, starts);
        }
    }
    // Fedora has both.
    let both = System::with(&["dnf", "yum", "systemctl"]);
    assert_eq!(
        both.run(Path::new("/bin/sh")).1,
        [&dnf[..], &SYSTEMD].concat()
    );
}

#[test]
fn an_attempt_is_bounded_and_made_twice() {
    for shell in shells() {
        let system = System::with(&["systemctl", "sleep"]);
        system.has("timeout", "shift; \"$@\"");
        system.has("dnf", "exit 1");
        let (said, ran) = system.run(shell);
        let dnf = "dnf -q -y --setopt=timeout=15 --setopt=retries=2 install qemu-guest-agent";
        let attempt = [format!("timeout 120 {dnf}"), dnf.to_owned()];
        let expected = [&attempt[..], &["sleep 5".to_owned()], &attempt].concat();
        assert_eq!(ran, expected);
        assert_eq!(said, "qemu-guest-agent: not installed\n");
    }
}

#[test]
fn what_is_missing_is_told_and_fails_nothing() {
    for shell in shells() {
        let nothing = System::with(&[]);
        let (said, ran) = nothing.run(shell);
        assert!(said.contains("no package manager that is known"), "{said}");
        assert!(
            said.ends_with("not installed\n") && ran.is_empty(),
            "{said}"
        );

        let no_services = System::with(&["apk"]);
        let (said, ran) = no_services.run(shell);
        assert!(said.contains("no service manager that is known"), "{said}");
        assert_eq!(ran, ["apk add --no-cache qemu-guest-agent"]);

        // Debian's unit cannot be enabled, and is started all the same.
        let debian = System::with(&["qemu-ga"]);
        debian.has("systemctl", "[ \"$1\" = start ]");
        let (said, ran) = debian.run(shell);
        assert_eq!(
            (said.as_str(), &ran[..]),
            ("", &SYSTEMD.map(str::to_owned)[..])
        );
    }
}
