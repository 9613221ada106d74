//! `egress-ips`: what a page sees when it is fetched through each proxy, the proof that a fleet egresses
//! where it should.

mod echo;

use super::{
    Failure, Output,
    client::Client,
    emit,
    leases::{Api, Filter, proxies},
    screen::{self, Line, Picture, Screen, Tone},
    table::Table,
    values,
    view::{Proxies, Proxy},
};
use crate::{http::auth, probe::NetProbe};
use actors::prober::probe::Fetch;
use clap::Args;
use echo::address_in;
use futures::{StreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};
use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};
use tokio::time::Instant;

const EXAMPLES: &str = "\
Examples:
  proxy-operator egress-ips --echo-url https://api.ipify.org
  proxy-operator egress-ips --echo-url https://api.ipify.org --attr geo=de --watch=10s
  proxy-operator egress-ips --echo-url https://ip.example.internal/ip --ca-file ca.pem --output json

The page must answer 200 with a body that holds the address it was asked from: as text, in JSON, in
HTML. It is fetched as the operator's probes fetch: https by CONNECT, http as it is. There is no default,
since that page learns every address of the fleet. This machine must reach the proxies.

Exit codes:
  0  every proxy egresses
  1  some proxy does not
  2  wrong flags, no answer from the lease API, or a refused token";

/// What is fetched, and through which proxies.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct EgressIpsArgs {
    /// The page that answers with the address it is asked from
    #[arg(long, env = "PROXY_OPERATOR_ECHO_URL", value_name = "URL")]
    echo_url: String,

    #[command(flatten)]
    filter: Filter,

    /// PEM certificates to trust beside the system's
    #[arg(long, env = "PROXY_OPERATOR_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,

    /// How long one fetch may take
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::duration)]
    timeout: Duration,

    /// How many proxies are tried at once
    #[arg(long, value_name = "COUNT", default_value = "32", value_parser = clap::value_parser!(u16).range(1..=1024))]
    parallel: u16,

    /// Try again and again, each 10 s or as given: --watch=1m
    #[arg(long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "10s", value_parser = values::duration)]
    watch: Option<Duration>,

    #[command(flatten)]
    api: Api,
}

/// What came of one proxy.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    proxy: String,
    endpoint: Option<String>,
    attributes: BTreeMap<String, String>,
    /// What the page saw.
    address: Option<IpAddr>,
    /// Why there is no address.
    error: Option<String>,
    /// How long it took, in milliseconds.
    millis: u64,
}

impl EgressIpsArgs {
    /// Does it.
    ///
    /// # Errors
    /// [`Failure`]; [`Failure::Shown`] when a proxy does not egress.
    pub async fn run(self) -> Result<(), Failure> {
        let client = Client::new(&self.api.api_url, &auth::LEASE_API)?;
        let probe = NetProbe::new(self.ca_file.as_deref())
            .map_err(|e| Failure::Setup(format!("--ca-file: {e}")))?;
        probe
            .check_url(&self.echo_url)
            .map_err(|e| Failure::Setup(format!("--echo-url: {e}")))?;
        let Some(interval) = self.watch else {
            let seen = self.look(&client, &probe).await?;
            match self.api.output {
                Output::Json => emit(&in_json(&seen))?,
                Output::Table => {
                    let picture = picture(&seen, &BTreeMap::new());
                    super::write(&Screen::of_stdout().whole(&picture))?;
                }
            }
            // A filter that is misspelt must not read as a fleet that is well.
            return if !seen.is_empty() && seen.iter().all(|seen| seen.address.is_some()) {
                Ok(())
            } else {
                Err(Failure::Shown)
            };
        };
        if self.api.output == Output::Json {
            return super::emit_again(interval, async || {
                Ok(in_json(&self.look(&client, &probe).await?))
            })
            .await;
        }
        let mut before = BTreeMap::new();
        screen::watch(interval, async || {
            let seen = self.look(&client, &probe).await?;
            let picture = picture(&seen, &before);
            before = seen
                .into_iter()
                .map(|seen| (seen.proxy, seen.address))
                .collect();
            Ok(picture)
        })
        .await
    }

    async fn look(&self, client: &Client, probe: &NetProbe) -> Result<Vec<Seen>, Failure> {
        let answer = proxies(client, &self.filter, false).await?;
        let fetches = stream::iter(Proxies::read(&answer)?.proxies)
            .map(|proxy| self.through(proxy, probe))
            .buffered(self.parallel.into());
        Ok(fetches.collect().await)
    }

    async fn through(&self, proxy: Proxy, probe: &NetProbe) -> Seen {
        let endpoint = proxy.endpoint();
        let begun = Instant::now();
        let outcome = if endpoint.is_some() {
            let fetch = Fetch {
                host: proxy.ip.into(),
                port: proxy.port,
                url: Arc::from(&*self.echo_url),
                expected_status: 200,
                timeout: self.timeout,
            };
            let page = probe.page(&fetch).await;
            page.map_err(|failure| failure.message)
                .and_then(|page| address_in(&page))
        } else {
            Err(format!("it has no address yet ({})", proxy.phase))
        };
        let (address, error) = match outcome {
            Ok(address) => (Some(address), None),
            Err(why) => (None, Some(why)),
        };
        Seen {
            proxy: proxy.id,
            endpoint,
            attributes: proxy.attributes,
            address,
            error,
            millis: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

fn in_json(seen: &[Seen]) -> Value {
    let failed = seen.iter().filter(|seen| seen.address.is_none()).count();
    json!({"proxies": seen, "count": seen.len(), "failed": failed})
}

fn picture(all: &[Seen], before: &BTreeMap<String, Option<IpAddr>>) -> Picture {
    let mut table = Table::new(&[
        "PROXY",
        "ENDPOINT",
        "ATTRIBUTES",
        "SEEN AS",
        "TIME",
        "WHY NOT",
    ]);
    let mut tones = vec![Tone::Heading];
    for seen in all {
        let attributes: Vec<_> = seen
            .attributes
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        table.row([
            seen.proxy.clone(),
            seen.endpoint.clone().unwrap_or_default(),
            attributes.join(","),
            seen.address
                .map(|address| address.to_string())
                .unwrap_or_default(),
            format!("{} ms", seen.millis),
            seen.error.clone().unwrap_or_default(),
        ]);
        tones.push(match (seen.address, before.get(&seen.proxy)) {
            (None, _) => Tone::Bad,
            (now, Some(then)) if now != *then => Tone::Changed,
            _ => Tone::Plain,
        });
    }
    let lines = table.lines().into_iter().zip(tones);
    let mut lines: Vec<_> = lines.map(|(text, tone)| Line { text, tone }).collect();
    let good = all.iter().filter(|seen| seen.address.is_some()).count();
    let tone = if good == all.len() && good > 0 {
        Tone::Plain
    } else {
        Tone::Bad
    };
    let text = format!("{good} of {} proxies egress", all.len());
    lines.push(Line { text, tone });
    Picture { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_and_what_changed_stands_out() {
        let seen = |proxy: &str, address: Option<&str>| Seen {
            proxy: proxy.into(),
            endpoint: Some("192.0.2.1:3128".into()),
            attributes: BTreeMap::from([("geo".into(), "de".into())]),
            address: address.map(|address| address.parse().expect("an address")),
            error: address.is_none().then(|| "refused".into()),
            millis: 12,
        };
        let all = [
            seen("ns/a", Some("198.51.100.7")),
            seen("ns/b", None),
            seen("ns/c", Some("::1")),
        ];
        let before = BTreeMap::from([
            ("ns/a".to_owned(), Some(IpAddr::from([198, 51, 100, 9]))),
            ("ns/c".to_owned(), Some("::1".parse().expect("an address"))),
        ]);
        let picture = picture(&all, &before);
        let lines: Vec<_> = picture
            .lines
            .iter()
            .map(|line| (&*line.text, line.tone))
            .collect();
        assert_eq!(
            lines,
            [
                (
                    "PROXY  ENDPOINT        ATTRIBUTES  SEEN AS       TIME   WHY NOT",
                    Tone::Heading
                ),
                (
                    "ns/a   192.0.2.1:3128  geo=de      198.51.100.7  12 ms  -",
                    Tone::Changed
                ),
                (
                    "ns/b   192.0.2.1:3128  geo=de      -             12 ms  refused",
                    Tone::Bad
                ),
                (
                    "ns/c   192.0.2.1:3128  geo=de      ::1           12 ms  -",
                    Tone::Plain
                ),
                ("2 of 3 proxies egress", Tone::Bad),
            ]
        );
        assert_eq!(in_json(&all)["failed"], 1);
    }
}
