//! Inside a guest, by its agent: what really arrived there.

use super::{eventually, hypervisor::Hypervisor};
use anyhow::{Context as _, ensure};
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::time::Duration;

/// A guest boots for most of a minute on an idle processor; its test shares two with many others.
pub const BOOT: Duration = Duration::from_mins(15);
impl Hypervisor {
    /// Waits until the agent of a guest answers, which is when its network is up.
    ///
    /// # Errors
    /// That it does not within [`BOOT`].
    pub async fn guest_is_up(&self, domain: &str) -> anyhow::Result<()> {
        let what = format!("the guest agent of {domain} answers");
        eventually(&what, BOOT, || async {
            let ping = json!({"execute": "guest-ping"});
            self.agent(domain, &ping).await.map(Some)
        })
        .await?;
        Ok(())
    }

    /// Runs a program in a guest whose agent answers, and gives what it wrote to its standard output.
    ///
    /// # Errors
    /// A program that fails, with its standard error.
    pub async fn in_guest(&self, domain: &str, program: &[&str]) -> anyhow::Result<Vec<u8>> {
        let (path, arguments) = program.split_first().context("a program")?;
        let arguments = json!({"path": path, "arg": arguments, "capture-output": true});
        let start = json!({"execute": "guest-exec", "arguments": arguments});
        // Amid a boot an agent that has answered once may be away again for a moment.
        let started = eventually(&format!("{program:?} starts in {domain}"), BOOT, || async {
            self.agent(domain, &start).await.map(Some)
        })
        .await?;
        let ask = json!({"execute": "guest-exec-status", "arguments": {"pid": started["pid"]}});
        let ended = eventually(
            &format!("{program:?} ends in {domain}"),
            // It may wait for what comes late in a boot.
            BOOT,
            || async {
                let status = self.agent(domain, &ask).await?;
                Ok((status["exited"] == true).then_some(status))
            },
        )
        .await?;
        let stream = |key: &str| {
            let encoded = ended[key].as_str().unwrap_or_default();
            BASE64.decode(encoded.as_bytes())
        };
        let error = String::from_utf8_lossy(&stream("err-data")?).into_owned();
        ensure!(ended["exitcode"] == 0, "{program:?} in {domain}: {error}");
        Ok(stream("out-data")?)
    }

    async fn agent(&self, domain: &str, command: &Value) -> anyhow::Result<Value> {
        let command = command.to_string();
        let said = self
            .virsh(&["qemu-agent-command", domain, &command])
            .await?;
        let mut answer: Value = serde_json::from_str(&said)?;
        Ok(answer["return"].take())
    }
}
