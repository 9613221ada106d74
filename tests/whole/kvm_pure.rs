//! What the kvm provider writes, judged by those that read it: libvirt's schema and libvirt itself,
//! several readers of ISO 9660, a MIME parser, `qemu-img`.

use crate::lab::Stage;
use anyhow::{Context as _, ensure};
use proxy_operator::providers::kvm::{
    config::{CpuMode, DomainType, Firmware, Format},
    domain::{self, Domain, DomainSpec},
    image_header,
    metadata::{Metadata, NAMESPACE},
    seed::{self, Vendor},
    volume,
};
use std::{collections::BTreeMap, fs, path::Path};
use strum::IntoEnumIterator as _;
use tempfile::TempDir;
use tokio::process::Command;

/// Runs a program to its end and gives what it printed.
async fn run(program: &str, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let ran = Command::new(program).args(arguments).output().await;
    let ran = ran.with_context(|| format!("{program} (tests/lab/needs.sh installs it)"))?;
    ensure!(
        ran.status.success(),
        "{program} {arguments:?}: {}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    Ok(ran.stdout)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// Every domain that a config can ask for.
fn specs() -> Vec<DomainSpec> {
    let mut specs = Vec::new();
    for firmware in [Firmware::Uefi, Firmware::Bios] {
        for domain_type in [DomainType::Kvm, DomainType::Qemu] {
            for cpu_mode in CpuMode::iter() {
                if (domain_type, cpu_mode) == (DomainType::Qemu, CpuMode::HostPassthrough) {
                    continue;
                }
                specs.push(DomainSpec {
                    name: format!("proxy-{}", specs.len()),
                    domain_type,
                    cpu_mode,
                    vcpus: 2,
                    memory_mib: 64,
                    firmware,
                    overlay: "/pool/a&b.qcow2".into(),
                    seed: "/pool/a seed.iso".into(),
                    bridge: "br0".into(),
                    metadata: Metadata {
                        managed: true,
                        uid: "2b1f0a52-6d0c-4f5e-9f6b-0c7f2a9d1e11".into(),
                        installation: "<home> & \"away\"".into(),
                        created_at: 1_796_000_000,
                    },
                });
            }
        }
    }
    specs
}

/// libvirt's own schema knows every element and every value.
pub async fn xml_keeps_to_libvirts_schema() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("it.xml");
    for spec in specs() {
        fs::write(&file, domain::build(&spec))?;
        let judged = run("virt-xml-validate", &[text(&file), "domain"]).await;
        judged.with_context(|| format!("{spec:?}"))?;
    }
    for xml in [
        volume::upload_xml("a.iso", 1),
        volume::overlay_xml("a.qcow2", 10 << 30, "/pool/b&c.raw", Format::Raw),
    ] {
        fs::write(&file, &xml)?;
        let judged = run("virt-xml-validate", &[text(&file), "storagevol"]).await;
        judged.context(xml)?;
    }
    Ok(())
}

/// A libvirt takes every emulated domain, and what it hands back says what was meant.
pub async fn libvirt_takes_and_keeps_a_domain() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    // As another user QEMU may find /dev/kvm shut, and libvirt would then try it anew at every call.
    fs::create_dir(folder.path().join("etc"))?;
    let as_root = "user = \"root\"\ngroup = \"root\"\nsecurity_driver = \"none\"\n";
    fs::write(folder.path().join("etc/qemu.conf"), as_root)?;
    let uri = format!("qemu:///embed?root={}", folder.path().display());
    for firmware in [Firmware::Uefi, Firmware::Bios] {
        let emulated = |spec: &DomainSpec| {
            (spec.domain_type, spec.cpu_mode, spec.firmware)
                == (DomainType::Qemu, CpuMode::Maximum, firmware)
        };
        let spec = specs().into_iter().find(emulated).context("one")?;
        let file = folder.path().join("it.xml");
        fs::write(&file, domain::build(&spec))?;
        let (file, name) = (text(&file), &spec.name);
        let commands = format!(
            "define --validate {file}; echo @@@; dumpxml {name}; echo @@@; \
             metadata {name} --uri {NAMESPACE}; echo @@@; undefine {name} --nvram"
        );
        let said = String::from_utf8(run("virsh", &["-q", "-c", &uri, &commands]).await?)?;
        let parts: Vec<_> = said.split("@@@").collect();
        let [_, kept, metadata, _] = parts[..] else {
            anyhow::bail!("{said}");
        };
        let expected = Domain {
            name: name.clone(),
            macs: vec![domain::mac(name)],
            disks: vec![spec.overlay, spec.seed],
            metadata: Some(spec.metadata.clone()),
        };
        ensure!(Domain::parse(kept)? == expected, "{kept}");
        ensure!(Metadata::parse(metadata)? == spec.metadata, "{metadata}");
    }
    Ok(())
}

/// User-data of every kind that cloud-init knows, and of some that it does not.
fn user_data() -> BTreeMap<&'static str, Vec<u8>> {
    let mut gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\xce\xc9\x2f\x4d\xd1".to_vec();
    gzip.extend(0..=255);
    BTreeMap::from([
        ("empty", Vec::new()),
        ("one byte", vec![b'#']),
        ("jinja", b"## template: jinja\n#cloud-config\nfqdn: {{ v1.local_hostname }}\n".to_vec()),
        ("mime", b"Content-Type: multipart/mixed; boundary=\"b\"\nMIME-Version: 1.0\n\n--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--b--\n".to_vec()),
        ("gzip", gzip),
        ("binary", (0..=255).rev().cycle().take(5000).collect()),
        ("crlf", b"#cloud-config\r\nruncmd: []\r\n".to_vec()),
        ("a sector", vec![b'x'; 2048]),
        ("256 KiB", (0..=255).cycle().take(256 << 10).collect()),
        ("1 MiB and a byte", (0..=255).cycle().take((1 << 20) + 1).collect()),
    ])
}

/// Whoever reads the seed, by Rock Ridge or by Joliet, finds the very bytes under the very names.
pub async fn a_seed_reads_back_byte_for_byte() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let image = folder.path().join("seed.iso");
    let vendor = Vendor {
        install_guest_agent: true,
        document: Some("#cloud-config\n{}\n".into()),
    };
    for (kind, user_data) in user_data() {
        fs::write(&image, seed::build("proxy-abc", &user_data, &vendor)?)?;
        let image = text(&image);
        let info = String::from_utf8(run("isoinfo", &["-d", "-i", image]).await?)?;
        ensure!(info.contains("\nVolume id: cidata\n"), "{info}");
        for names in ["-R", "-J"] {
            let listed = String::from_utf8(run("isoinfo", &["-f", names, "-i", image]).await?)?;
            let mut listed: Vec<_> = listed.lines().collect();
            listed.sort_unstable();
            ensure!(
                listed == ["/meta-data", "/user-data", "/vendor-data"],
                "{kind} {names}: {listed:?}"
            );
            let read = run("isoinfo", &[names, "-i", image, "-x", "/user-data"]).await?;
            ensure!(read == user_data, "{kind} {names}: {} bytes", read.len());
        }
        let out = folder.path().join(kind);
        let extract = [
            "-osirrox",
            "on",
            "-indev",
            image,
            "-extract",
            "/",
            text(&out),
        ];
        run("xorriso", &extract).await?;
        ensure!(fs::read(out.join("user-data"))? == user_data, "{kind}");
        ensure!(fs::read(out.join("meta-data"))?.starts_with(b"instance-id: \"proxy-abc\"\n"));
        if can_mount() {
            let mounted = mounted(image, &folder.path().join("mnt")).await?;
            ensure!(
                mounted == user_data,
                "{kind}: the kernel reads {} bytes",
                mounted.len()
            );
        }
    }
    Ok(())
}

/// Whether this kernel reads ISO 9660, and lets us ask it to.
fn can_mount() -> bool {
    let knows = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    knows.contains("\tiso9660") && Stage::is_possible()
}

async fn mounted(image: &str, at: &Path) -> anyhow::Result<Vec<u8>> {
    fs::create_dir_all(at)?;
    run("mount", &["-o", "loop,ro", image, text(at)]).await?;
    let read = fs::read(at.join("user-data"));
    run("umount", &[text(at)]).await?;
    Ok(read?)
}

/// A MIME parser finds the script and the document in the vendor-data, unchanged.
pub async fn vendor_data_is_a_multipart() -> anyhow::Result<()> {
    const PARTS: &str = "
import email, json, sys
message = email.message_from_bytes(open(sys.argv[1], 'rb').read())
assert not message.defects, message.defects
parts = [part for part in message.walk() if not part.is_multipart()]
print(json.dumps([[p.get_content_type(), p.get_payload(decode=True).decode()] for p in parts]))
";
    let folder = tempfile::tempdir()?;
    let script = vendor_data(&folder, None).await?;
    let script = fs::read_to_string(script)?;
    ensure!(script.starts_with("#!/bin/sh\n"), "{script}");
    let nested = "Content-Type: multipart/mixed; boundary=\"b\"\nMIME-Version: 1.0\n\n--b\nContent-Type: text/cloud-config\n\n{}\n--b--\n";
    for (document, kind, content) in [
        (
            "#cloud-config\r\npackages: [ä]\r\n",
            "text/plain",
            "#cloud-config\r\npackages: [ä]\r\n",
        ),
        (
            "--\n\n--b--\nFrom me\n.\n",
            "text/plain",
            "--\n\n--b--\nFrom me\n.\n",
        ),
        (nested, "text/cloud-config", "{}"),
    ] {
        let file = vendor_data(&folder, Some(document)).await?;
        let begin = fs::read(&file)?;
        let begin = String::from_utf8_lossy(&begin[..4096.min(begin.len())]).to_lowercase();
        ensure!(begin.contains("mime-version:"), "{begin}");
        let parts = run("python3", &["-c", PARTS, text(&file)]).await?;
        let parts: Vec<(String, String)> = serde_json::from_slice(&parts)?;
        let expected = [("text/x-shellscript", &*script), (kind, content)];
        let found: Vec<_> = parts
            .iter()
            .map(|(kind, text)| (&**kind, &**text))
            .collect();
        ensure!(found == expected, "{document:?}: {parts:?}");
    }
    Ok(())
}

/// The vendor-data of a seed, as a file.
async fn vendor_data(
    folder: &TempDir,
    document: Option<&str>,
) -> anyhow::Result<std::path::PathBuf> {
    let vendor = Vendor {
        install_guest_agent: true,
        document: document.map(Into::into),
    };
    let image = folder.path().join("vendor.iso");
    fs::write(&image, seed::build("a", b"", &vendor)?)?;
    let read = run("isoinfo", &["-R", "-i", text(&image), "-x", "/vendor-data"]).await?;
    let file = folder.path().join("vendor-data");
    fs::write(&file, read)?;
    Ok(file)
}

/// What `qemu-img` makes is judged rightly by its first bytes.
pub async fn disk_images_are_judged_by_their_headers() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name);
    let judge = |format, name: &str| {
        let bytes = fs::read(at(name))?;
        let begin = &bytes[..image_header::NEEDED.min(bytes.len())];
        anyhow::Ok(image_header::check(format, begin))
    };
    fs::write(at("raw"), vec![0; 1 << 20])?;
    let made: [(&str, &[&str]); 10] = [
        ("v2", &["-f", "qcow2", "-o", "compat=0.10"]),
        ("v3", &["-f", "qcow2"]),
        ("zstd", &["-f", "qcow2", "-o", "compression_type=zstd"]),
        ("small", &["-f", "qcow2", "-o", "cluster_size=512"]),
        ("backed", &["-f", "qcow2", "-F", "raw", "-b", "raw"]),
        (
            "apart",
            &["-f", "qcow2", "-o", "data_file=data,data_file_raw=on"],
        ),
        (
            "locked",
            &[
                "-f",
                "qcow2",
                "--object",
                "secret,id=s,data=x",
                "-o",
                // LUKS would be timed first, which qemu-img cannot do on every machine.
                "encrypt.format=aes,encrypt.key-secret=s",
            ],
        ),
        ("vmdk", &["-f", "vmdk"]),
        ("vdi", &["-f", "vdi"]),
        ("vhdx", &["-f", "vhdx"]),
    ];
    for (name, options) in made {
        let path = at(name);
        let in_folder = Command::new("qemu-img")
            .current_dir(folder.path())
            .args(["create", "-q"])
            .args(options)
            .args([text(&path), "5M"])
            .output()
            .await
            .context("qemu-img (tests/lab/needs.sh installs it)")?;
        ensure!(in_folder.status.success(), "{name}: {in_folder:?}");
    }
    for name in ["v2", "v3", "zstd", "small"] {
        let header = judge(Format::Qcow2, name)?.map_err(anyhow::Error::msg)?;
        ensure!(header.virtual_size == Some(5 << 20), "{name}: {header:?}");
    }
    ensure!(judge(Format::Raw, "raw")?.is_ok());
    for (format, name, complaint) in [
        (Format::Qcow2, "backed", "names a backing file"),
        (Format::Qcow2, "apart", "names an external data file"),
        (Format::Qcow2, "locked", "is encrypted"),
        (Format::Qcow2, "raw", "format is qcow2, but"),
        (
            Format::Raw,
            "v2",
            "format is raw, but the file is a qcow2 image",
        ),
        (
            Format::Raw,
            "v3",
            "format is raw, but the file is a qcow2 image",
        ),
        (
            Format::Raw,
            "vmdk",
            "format is raw, but the file is a VMDK image",
        ),
        (
            Format::Raw,
            "vdi",
            "format is raw, but the file is a VDI image",
        ),
        (
            Format::Raw,
            "vhdx",
            "format is raw, but the file is a VHDX image",
        ),
    ] {
        let refusal = judge(format, name)?
            .err()
            .with_context(|| format!("{name} is taken"))?;
        ensure!(refusal.contains(complaint), "{name}: {refusal}");
    }
    for (program, found) in [
        ("gzip", "a gzip file"),
        ("bzip2", "a bzip2 file"),
        ("xz", "an xz file"),
    ] {
        let packed = run(program, &["-c", text(&at("v3"))]).await?;
        let refusal = image_header::check(Format::Qcow2, &packed)
            .err()
            .context(program)?;
        ensure!(refusal.contains(found), "{program}: {refusal}");
    }
    Ok(())
}
