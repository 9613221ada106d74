//! `kvm-create`: from a request to a domain that runs, its image being there.
//!
//! Baseline: the same steps with one `virsh` over `qemu+ssh`: an overlay of the same image, a volume with
//! the same seed uploaded into it, the same domain defined and started; its connection included. The two
//! take turns. What counts is the difference of the medians.

use super::{
    Backend, config,
    disk::Disk,
    hypervisor, request,
    virsh::{self, Virsh},
};
use crate::{
    hypervisor::Hypervisor,
    report::{Bar, Row, median},
};
use anyhow::{Context as _, ensure};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

const ROUNDS: usize = 15;
const KEY: &str = "halting";
/// What we may take longer, in seconds.
const BAR: f64 = 3.0;

pub async fn run() -> anyhow::Result<Vec<Row>> {
    let (disk, host) = (Disk::halting().await?, hypervisor(0).await?);
    let backend = Backend::start(config(&[&host], &[(KEY, &disk)])?).await?;
    let virsh = Virsh::to(&host)?;
    let first = request(0, 0, KEY);
    let made = backend.create(first.clone()).await?;
    let steps = Steps::like(&host, &first.name).await?;
    backend.delete(&made.id).await?;

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        if round % 2 == 0 {
            ours.push(by_us(&backend, &host, round).await?);
            theirs.push(steps.time(&virsh, &host).await?);
        } else {
            theirs.push(steps.time(&virsh, &host).await?);
            ours.push(by_us(&backend, &host, round).await?);
        }
    }
    let seconds = |times: Vec<Duration>| median(times.iter().map(Duration::as_secs_f64));
    let (ours, theirs) = (seconds(ours), seconds(theirs));
    Ok(vec![Row::of_ratio(
        "kvm-create",
        "s, ratio is the difference",
        ours,
        theirs,
        ours - theirs,
        Bar::AtMost(BAR),
    )])
}

async fn by_us(backend: &Backend, host: &Hypervisor, round: usize) -> anyhow::Result<Duration> {
    let request = request(round, 0, KEY);
    let (name, begun) = (request.name.clone(), Instant::now());
    let made = backend.create(request).await?;
    let took = begun.elapsed();
    is_running(host, &name).await?;
    backend.delete(&made.id).await?;
    virsh::settle(host).await?;
    Ok(took)
}

async fn is_running(host: &Hypervisor, name: &str) -> anyhow::Result<()> {
    let domains = host.domains().await?;
    let state = domains.get(name).map(String::as_str);
    ensure!(state == Some("running"), "{name} is {state:?}");
    Ok(())
}

/// What `virsh` is told, and what it needs for that.
struct Steps {
    home: tempfile::TempDir,
    overlay: String,
    seed: String,
    commands: String,
}

const NAME: &str = "by-virsh";

impl Steps {
    /// Those that make another domain like `name`, which is there.
    async fn like(host: &Hypervisor, name: &str) -> anyhow::Result<Self> {
        let home = tempfile::tempdir()?;
        let domain = host.virsh(&["dumpxml", "--inactive", name]).await?;
        // Its name is also in those of its volumes. What libvirt makes up itself, it makes up anew.
        let ours = |line: &&str| !line.contains("<uuid>") && !line.contains("<mac ");
        let lines: Vec<_> = domain.lines().filter(ours).collect();
        fs::write(
            home.path().join("domain.xml"),
            lines.join("\n").replace(name, NAME),
        )?;

        let volumes = host.volumes().await?;
        let volume = |end: &str| {
            let is_it = |volume: &&String| volume.starts_with(name) && volume.ends_with(end);
            volumes.iter().find(is_it).context(end.to_owned())
        };
        let (overlay, seed) = (volume(".qcow2")?, volume("-seed.iso")?);
        let (mine, its) = (overlay.replace(name, NAME), seed.replace(name, NAME));
        let pool = ["--pool", &host.pool];
        let described = host
            .virsh(&[&["vol-dumpxml", overlay], &pool[..]].concat())
            .await?;
        fs::write(home.path().join("overlay.xml"), as_new(&described, name)?)?;
        let path = host
            .virsh(&[&["vol-path", seed], &pool[..]].concat())
            .await?;
        let copy = home.path().join("seed.iso");
        let to = copy.to_str().context("UTF-8")?;
        host.exec(&["cp", path.trim(), to]).await?;

        let size = fs::metadata(&copy)?.len();
        let (at, pool) = (home.path().display(), &host.pool);
        let commands = format!(
            "vol-create {pool} {at}/overlay.xml; vol-create-as {pool} {its} {size} --format raw; \
             vol-upload --pool {pool} {its} {at}/seed.iso; define {at}/domain.xml; start {NAME}"
        );
        Ok(Self {
            home,
            overlay: mine,
            seed: its,
            commands,
        })
    }

    async fn time(&self, virsh: &Virsh, host: &Hypervisor) -> anyhow::Result<Duration> {
        ensure!(Path::exists(self.home.path()), "the files are gone");
        let took = virsh.time(&[&self.commands]).await?;
        is_running(host, NAME).await?;
        host.virsh(&["destroy", NAME]).await?;
        host.virsh(&["undefine", "--nvram", NAME]).await?;
        for volume in [&self.overlay, &self.seed] {
            host.virsh(&["vol-delete", "--pool", &host.pool, volume])
                .await?;
        }
        virsh::settle(host).await?;
        Ok(took)
    }
}

/// The description of a volume as one that is yet to be made.
fn as_new(described: &str, name: &str) -> anyhow::Result<String> {
    let between = |start: &str, end: &str| {
        let (_, rest) = described.split_once(start)?;
        Some(rest.split_once(end)?.0.to_owned())
    };
    let volume = between("<name>", "</name>").context("a name")?;
    let capacity = between("<capacity unit='bytes'>", "</capacity>").context("a capacity")?;
    let backing = between("<backingStore>", "</backingStore>").context("a backing store")?;
    let path = backing
        .split_once("<path>")
        .and_then(|(_, rest)| rest.split_once("</path>"))
        .context("a path")?
        .0;
    Ok(format!(
        "<volume><name>{}</name><capacity unit='bytes'>{capacity}</capacity><target><format type='qcow2'/></target>\
         <backingStore><path>{path}</path><format type='qcow2'/></backingStore></volume>",
        volume.replace(name, NAME)
    ))
}
