//! VMs from `apply` to nothing, on two hypervisors: fetched, booted, proven, leased, used, replaced.

use crate::lab::{
    Scene, eventually,
    guest::BOOT,
    hypervisor::{Hypervisor, Image},
    image_server::ImageServer,
    operator::Operator,
    proxy,
    proxy::{Applied, ip},
};
use actors::provider::contract::instance_name;
use anyhow::{Context as _, ensure};
use crds::Phase;
use data_encoding::{BASE64, HEXLOWER};
use futures::future::{try_join, try_join_all};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    fmt::Write as _,
    io::Write as _,
    process::{Command, Stdio},
    sync::Arc,
};

/// A Squid that serves everybody.
const SQUID: &str = "http_port 3128\nhttp_access allow all\nshutdown_lifetime 1 seconds\n";

/// What a scenario with VMs needs beside its scene.
pub struct Kvm {
    scene: Scene,
    pub images: Arc<ImageServer>,
}

impl Kvm {
    /// An image server with the images of the lab, at an address that this machine's namespaces reach.
    pub async fn new(scene: &Scene) -> anyhow::Result<Self> {
        let images = ImageServer::start(scene.lab().cluster.host().into()).await?;
        for (path, image) in [("/guest", Image::Guest), ("/halting", Image::Halting)] {
            images.give(path, image.file().await?);
        }
        Ok(Self {
            scene: scene.clone(),
            images: Arc::new(images),
        })
    }

    /// A providers file with these hosts.
    pub fn providers(&self, hosts: &[(&str, &Hypervisor)]) -> String {
        let mut text = format!(
            "providers:\n- name: home\n  type: kvm\n  kvm:\n    diskSizeGb: 1\n    images:\n      \
             debian: {{url: \"{}\"}}\n      halting: {{url: \"{}\", firmware: bios}}\n    \
             machineTypes:\n      small: {{vcpus: 1, memoryMiB: 512}}\n      \
             tiny: {{vcpus: 1, memoryMiB: 32}}\n",
            self.images.url("/guest"),
            self.images.url("/halting"),
        );
        if let [(_, host), ..] = hosts {
            let (key, known) = (host.key.display(), host.known_hosts.display());
            write!(
                text,
                "    sshKeyFile: {key}\n    knownHostsFile: {known}\n    hosts:\n"
            )
            .unwrap_or_default();
        }
        for (name, host) in hosts {
            writeln!(
                text,
                "    - {{name: {name}, address: \"{}\", user: {}, bridge: {}, pool: {}, domainType: qemu}}",
                host.address, host.user, host.bridge, host.pool
            )
            .unwrap_or_default();
        }
        text
    }

    /// A Proxy that is a VM, on one of the hosts.
    pub fn proxy(name: &str, host: &str, image: &str) -> proxy::Draft {
        let size = if image == "halting" { "tiny" } else { "small" };
        proxy(name).managed_by("home").with(json!({
            "placement": {"zone": host, "machineType": size, "image": image},
        }))
    }

    /// A Secret with this user-data, byte for byte.
    pub async fn secret(&self, name: &str, user_data: &[u8]) -> anyhow::Result<Secret> {
        let labels = json!({"crawl.example.com/cloud-init": "true"});
        self.scene
            .create(json!({
                "metadata": {"name": name, "labels": labels},
                "data": {"user-data": BASE64.encode(user_data)},
            }))
            .await
    }
}

/// User-data that configures a guest's Squid.
pub fn squid() -> String {
    format!(
        "#cloud-config\nwrite_files:\n- path: /etc/squid/squid.conf\n  content: |\n{}",
        indent(SQUID)
    )
}

/// The domain of a Proxy.
pub async fn domain(proxy: &Applied) -> anyhow::Result<String> {
    Ok(instance_name(&proxy.get().await?.uid().context("a uid")?))
}

/// Two VMs live side by side on two hosts, one is replaced, both go, and nothing of them is left. What
/// they and others were given as user-data is what a guest reads.
pub async fn vms_live_and_go(scene: Scene) -> anyhow::Result<()> {
    let kvm = Kvm::new(&scene).await?;
    let [one, two] = scene.lab().hosts.shared().await?;
    let operator = scene
        .operator()
        .with_providers(&kvm.providers(&[("one", one), ("two", two)]))
        .start()
        .await?;

    // A template, and a compressed archive of parts: both configure Squid.
    let squid = indent(SQUID);
    let jinja = format!(
        "## template: jinja\n#cloud-config\nwrite_files:\n- path: /etc/squid/squid.conf\n  content: |\n{squid}- \
         path: /etc/who\n  content: |\n    {{{{ v1.local_hostname }}}}\n"
    );
    let parts = format!(
        "Content-Type: multipart/mixed; boundary=\"zz\"\nMIME-Version: 1.0\n\n--zz\nContent-Type: \
         text/cloud-config\n\n#cloud-config\nwrite_files:\n- path: /etc/squid/squid.conf\n  content: |\n{squid}\n--zz\n\
         Content-Type: text/x-shellscript\n\n#!/bin/sh\necho by-script >/etc/who\n--zz--\n"
    );
    let gzip = compress(parts.as_bytes())?;
    kvm.secret("jinja", jinja.as_bytes()).await?;
    kvm.secret("gzip", &gzip).await?;
    let (a, b) = try_join(
        scene.apply(Kvm::proxy("a", "one", "debian").cloud_init_from("jinja")),
        scene.apply(Kvm::proxy("b", "two", "debian").cloud_init_from("gzip")),
    )
    .await?;
    // Seeds of all kinds, of VMs that only have to exist.
    let odd = odd_user_data(&parts);
    let dormant = try_join_all(odd.iter().map(|(name, bytes)| async {
        kvm.secret(name, bytes).await?;
        let draft = Kvm::proxy(name, "one", "halting").cloud_init_from(name);
        scene.apply(draft).await
    }))
    .await?;

    let (ready_a, ready_b) = try_join(
        a.becomes_within(BOOT, Phase::Ready),
        b.becomes_within(BOOT, Phase::Ready),
    )
    .await?;
    let (domain_a, domain_b) = (domain(&a).await?, domain(&b).await?);
    ensure!(
        who(one, &domain_a).await? == domain_a,
        "the template was not filled in"
    );
    ensure!(who(two, &domain_b).await? == "by-script");
    for (proxy, object) in [(&a, &ready_a), (&b, &ready_b)] {
        is_leased_and_used(&scene, &operator, proxy, &ip(object)?).await?;
    }
    for path in ["/guest", "/halting"] {
        // One download a host that needs it, however many VMs do.
        let hosts = if path == "/guest" { 2 } else { 1 };
        let tally = kvm.images.tally(path);
        ensure!(tally.gets == hosts, "{path}: {tally:?}");
    }

    let own = [("a", jinja.clone().into_bytes())];
    for ((name, bytes), proxy) in own.iter().zip([&a]).chain(odd.iter().zip(&dormant)) {
        let read = user_data_in_guest(one, &domain_a, &domain(proxy).await?).await?;
        ensure!(read == digest(bytes), "{name}: the guest reads other bytes");
    }

    let uuid = one.virsh(&["domuuid", &domain_a]).await?;
    a.change(json!({"spec": {"cloudInit": {"secretRef": {"name": "gzip"}}}}))
        .await?;
    a.event("Replacing").await?;
    // The status may say Ready of the old one for a moment yet.
    eventually("the domain is another one", BOOT, || async {
        let now = one.virsh(&["domuuid", &domain_a]).await.ok();
        Ok(now.filter(|now| *now != uuid).map(drop))
    })
    .await?;
    a.becomes_within(BOOT, Phase::Ready).await?;
    ensure!(
        uuid != one.virsh(&["domuuid", &domain_a]).await?,
        "not replaced"
    );
    ensure!(who(one, &domain_a).await? == "by-script");

    let mut all = vec![a, b];
    all.extend(dormant);
    try_join_all(all.iter().map(Applied::delete)).await?;
    try_join_all(all.iter().map(Applied::is_gone)).await?;
    for host in [one, two] {
        is_clean(host, scene.namespace()).await?;
    }
    Ok(())
}

/// Nothing of an installation is left on a host: no domain and no volume, but base images.
pub async fn is_clean(host: &Hypervisor, installation: &str) -> anyhow::Result<()> {
    let mark = proxy_operator::providers::kvm::volume::installation_mark(installation);
    let volumes = host.volumes().await?;
    let left: Vec<_> = volumes.iter().filter(|name| name.contains(&mark)).collect();
    ensure!(left.is_empty(), "left in the pool: {left:?}");
    // Of another installation's, one may go while they are read.
    let described = eventually("all domains are read", BOOT, || async {
        let mut described = String::new();
        for domain in host.domains().await?.into_keys() {
            described += &host.virsh(&["dumpxml", &domain]).await?;
        }
        Ok(Some(described))
    })
    .await?;
    ensure!(
        !described.contains(installation),
        "a domain is left: {described}"
    );
    Ok(())
}

async fn is_leased_and_used(
    scene: &Scene,
    operator: &Operator,
    proxy: &Applied,
    ip: &str,
) -> anyhow::Result<()> {
    let lease = leased(operator, &proxy.id()).await?;
    let ca = reqwest::Certificate::from_pem(scene.lab().judge.ca_pem.as_bytes())?;
    let crawler = reqwest::Client::builder()
        .proxy(reqwest::Proxy::all(format!("http://{ip}:3128"))?)
        .tls_certs_only([ca])
        .timeout(BOOT)
        .build()?;
    let page = format!("/ip/crawled/{}", proxy.id());
    let answer = crawler.get(scene.lab().url(&page)).send().await?;
    ensure!(answer.status() == 200, "{}", answer.status());
    let seen = answer.text().await?;
    ensure!(seen.contains(ip), "the judge saw {seen}, not {ip}");
    operator.release(&lease).await
}

/// A lease on this very proxy: others are handed back.
async fn leased(operator: &Operator, id: &str) -> anyhow::Result<Value> {
    let mut others = Vec::new();
    let lease = loop {
        let lease = operator.lease(json!({"target": "shop.example"})).await?;
        if lease["proxy"]["id"] == id {
            break lease;
        }
        others.push(lease);
    };
    for other in &others {
        operator.release(other).await?;
    }
    Ok(lease)
}

/// What the page of the guest says it is.
async fn who(host: &Hypervisor, domain: &str) -> anyhow::Result<String> {
    // Squid may serve before the agent does, and before cloud-init has come to its end.
    host.guest_is_up(domain).await?;
    let script = "until [ -s /etc/who ]; do sleep 0.5; done; cat /etc/who";
    let said = host.in_guest(domain, &["/bin/sh", "-c", script]).await?;
    Ok(String::from_utf8(said)?.trim().to_owned())
}

/// The digest of the user-data in the seed of `owner`, as the kernel of `domain` reads it.
async fn user_data_in_guest(
    host: &Hypervisor,
    domain: &str,
    owner: &str,
) -> anyhow::Result<String> {
    let xml = host.virsh(&["dumpxml", owner]).await?;
    let seed = xml
        .split(['\'', '"'])
        .find(|part| part.ends_with("-seed.iso"))
        .with_context(|| format!("no seed in {xml}"))?;
    let attached = domain != owner;
    if attached {
        let attach = [
            "attach-disk",
            domain,
            seed,
            "vdc",
            "--mode",
            "readonly",
            "--live",
        ];
        // libvirt may not have heard yet that the guest has let the one before go.
        eventually("the seed is attached", BOOT, || async {
            host.virsh(&attach).await.map(Some)
        })
        .await?;
    }
    let device = if attached { "vdc" } else { "vdb" };
    let script = format!(
        "until [ -b /dev/{device} ]; do sleep 0.2; done; mkdir -p /run/seed && mount -o ro /dev/{device} /run/seed && \
         sha256sum /run/seed/user-data && umount /run/seed"
    );
    let said = host.in_guest(domain, &["/bin/sh", "-c", &script]).await?;
    if attached {
        host.virsh(&["detach-disk", domain, "vdc", "--live"])
            .await?;
        let gone = format!("while [ -b /dev/{device} ]; do sleep 0.2; done");
        host.in_guest(domain, &["/bin/sh", "-c", &gone]).await?;
    }
    let said = String::from_utf8(said)?;
    Ok(said
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned())
}

/// What no YAML parser or mail reader should touch on its way.
fn odd_user_data(parts: &str) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("mime", parts.as_bytes().to_vec()),
        ("crlf", b"#!/bin/sh\r\necho a\r\n\r\n".to_vec()),
        ("binary", (0..=255u8).cycle().take(70_001).collect()),
        ("large", vec![b'#'; 512 << 10]),
    ]
}

fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

fn compress(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut gzip = Command::new("gzip")
        .arg("-c")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // Less than a pipe holds.
    gzip.stdin.take().context("a pipe")?.write_all(bytes)?;
    Ok(gzip.wait_with_output()?.stdout)
}

fn indent(text: &str) -> String {
    let lines = text.lines().flat_map(|line| ["    ", line, "\n"]);
    lines.collect()
}
