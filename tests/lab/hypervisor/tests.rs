//! That the lab's hypervisors are what they seem, and that its faults do what they say. Needs root:
//! without it these tests say so and pass.

use crate::{
    hosts::{Hosts, OwnHost},
    hypervisor::{Daemon, Hypervisor, Image},
};
use std::{
    env, fs,
    process::{Output, Stdio},
    sync::LazyLock,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    process::Command,
    time::{sleep, timeout},
};

/// Longer than anything on a healthy host takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Long enough to say that there is no answer.
const SILENCE: Duration = Duration::from_secs(1);

async fn host() -> Option<OwnHost> {
    static HOSTS: LazyLock<Hosts> = LazyLock::new(|| {
        let index = env::var("LAB_INDEX").unwrap_or_else(|_| "1".into());
        let folder = env::temp_dir().join(format!("whole-lab-{index}"));
        Hosts::new(folder, index.parse().unwrap())
    });
    let user = Command::new("id").arg("-u").output().await.unwrap();
    if user.stdout == b"0\n" {
        return Some(HOSTS.own().await.unwrap());
    }
    eprintln!("NOT ROOT: no hypervisor can be started; nothing is tested");
    None
}

/// What the host says to the OpenSSH client, whose only trust is the host's `known_hosts`.
async fn ssh(host: &Hypervisor, command: &str) -> Output {
    let mut ssh = Command::new("ssh");
    ssh.args([
        "-F",
        "none",
        "-o",
        "BatchMode=yes",
        "-o",
        "IdentitiesOnly=yes",
    ])
    .args(["-o", "StrictHostKeyChecking=yes"])
    .arg("-o")
    .arg(format!("UserKnownHostsFile={}", host.known_hosts.display()))
    .arg("-i")
    .arg(&host.key)
    .arg(format!("{}@{}", host.user, host.address.ip()))
    .arg(command);
    ssh.stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

/// Defines and starts a domain that halts at once, and gives the pid of its QEMU.
async fn run_halting(host: &Hypervisor, name: &str) -> u32 {
    let image = Image::Halting.file().await.unwrap();
    let (image, volume) = (image.to_str().unwrap(), format!("{name}.qcow2"));
    let size = fs::metadata(image).unwrap().len().to_string();
    let create = ["vol-create-as", &host.pool, &volume, &size];
    host.virsh(&create).await.unwrap();
    let upload = ["vol-upload", "--pool", &host.pool, &volume, image];
    host.virsh(&upload).await.unwrap();
    let path = ["vol-path", "--pool", &host.pool, &volume];
    let path = host.virsh(&path).await.unwrap();
    let xml = tempfile::NamedTempFile::new().unwrap();
    let domain = format!(
        "<domain type='qemu'><name>{name}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
         <os><type machine='q35'>hvm</type></os><features><acpi/></features><devices>
         <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{}'/>
         <target dev='vda' bus='virtio'/></disk>
         <interface type='bridge'><source bridge='{}'/><model type='virtio'/></interface>
         </devices></domain>",
        path.trim(),
        host.bridge
    );
    fs::write(xml.path(), domain).unwrap();
    let xml = xml.path().to_str().unwrap();
    host.virsh(&["create", xml]).await.unwrap();
    let noted = format!("/run/libvirt/qemu/{name}.pid");
    let pid = host.exec(&["cat", &noted]).await.unwrap();
    pid.trim().parse().unwrap()
}

/// Processor time in hundredths of a second.
fn used(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    let times = after_name.split(' ').skip(11).take(2);
    times.map(|time| time.parse::<u64>().unwrap()).sum()
}

fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("qemu"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_reached_by_ssh_and_runs_guests_that_halt() {
    let Some(host) = host().await else { return };
    let said = ssh(&host, "virsh -q -c qemu:///system pool-list --name").await;
    assert_eq!(said.stdout.trim_ascii(), b"default", "{said:?}");

    let pid = run_halting(&host, "halts").await;
    let halted = async {
        // At rest: a hundredth at most in half a second.
        loop {
            let before = used(pid);
            sleep(Duration::from_millis(500)).await;
            if used(pid) - before <= 1 {
                return;
            }
        }
    };
    timeout(PATIENCE, halted).await.unwrap();
    assert_eq!(host.domains().await.unwrap()["halts"], "running");
    assert_eq!(
        host.volumes().await.unwrap(),
        ["halts.qcow2".to_owned()].into()
    );
    drop(host);
    assert!(!runs(pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn guests_run_on_without_libvirtd() {
    let Some(host) = host().await else { return };
    let pid = run_halting(&host, "stays").await;
    host.stop(Daemon::Libvirtd).await.unwrap();
    assert!(host.virsh(&["list"]).await.is_err());
    assert!(runs(pid));
    host.start_again(Daemon::Libvirtd).await.unwrap();
    assert_eq!(host.domains().await.unwrap()["stays"], "running");
    assert!(runs(pid));

    host.freeze(Daemon::Libvirtd).await.unwrap();
    assert!(timeout(SILENCE, host.virsh(&["list"])).await.is_err());
    assert!(ssh(&host, "true").await.status.success());
    host.thaw(Daemon::Libvirtd).await.unwrap();
    host.virsh(&["list"]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sshd_ends_with_its_connections() {
    let Some(host) = host().await else { return };
    for whole in [false, true] {
        let (host_, address) = (&host, host.address);
        let session = async move { ssh(host_, "echo there; sleep 1000").await };
        let fault = async move {
            // The session is there when sshd has a child for it.
            let there = async {
                while host_.exec(&["pgrep", "-f", "^sleep 1000"]).await.is_err() {
                    sleep(Duration::from_millis(20)).await;
                }
            };
            timeout(PATIENCE, there).await.unwrap();
            if whole {
                host_.stop(Daemon::Sshd).await.unwrap();
            } else {
                host_.hang_up().await.unwrap();
            }
        };
        let (session, ()) = timeout(PATIENCE, async { tokio::join!(session, fault) })
            .await
            .unwrap();
        assert!(!session.status.success());
        assert_eq!(TcpStream::connect(address).await.is_err(), whole);
    }
    host.start_again(Daemon::Sshd).await.unwrap();
    assert!(ssh(&host, "true").await.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_host_is_silent() {
    let (Some(host), Some(other)) = tokio::join!(host(), host()) else {
        return;
    };
    host.cut().await.unwrap();
    let connected = timeout(SILENCE, TcpStream::connect(host.address)).await;
    assert!(connected.is_err(), "{connected:?}");
    assert!(ssh(&other, "true").await.status.success());
    host.mend().await.unwrap();
    assert!(ssh(&host, "true").await.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_takes_nothing() {
    let Some(host) = host().await else { return };
    let take = async |name: &str, capacity: &str| {
        let create = [
            "vol-create-as",
            "default",
            name,
            capacity,
            "--allocation",
            capacity,
        ];
        host.virsh(&create).await
    };
    host.fill(1 << 20).await.unwrap();
    let full = take("large", "64MiB").await.unwrap_err();
    assert!(
        format!("{full:#}").contains("No space left on device"),
        "{full:#}"
    );
    take("small", "512KiB").await.unwrap();
    assert_eq!(host.volumes().await.unwrap(), ["small".to_owned()].into());
    host.drain().await.unwrap();
    take("large", "64MiB").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_left_behind_is_removed() {
    let Some(host) = host().await else { return };
    let pid = run_halting(&host, "left").await;
    let again = host.start_over().await.unwrap();
    assert!(!runs(pid));
    assert!(again.domains().await.unwrap().is_empty());
    assert!(again.volumes().await.unwrap().is_empty());
    assert!(ssh(&again, "true").await.status.success());
}
