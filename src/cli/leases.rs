//! `leases`: the lease API from the terminal, as a crawler uses it.

use super::{
    Failure, Output,
    client::{Base, Client, segment},
    emit,
    table::Table,
    values,
    view::{Proxies, Proxy},
    write,
};
use crate::http::auth;
use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  proxy-operator leases                                       which proxies there are, and who holds slots
  proxy-operator leases list --attr geo=de --healthy
  proxy-operator leases acquire --selector geo=de --target shop.example --ttl 5m
  proxy-operator leases get LEASE
  proxy-operator leases renew LEASE --ttl 10m
  proxy-operator leases report LEASE banned
  proxy-operator leases release LEASE
  id=$(proxy-operator leases acquire --output json | jq -r .leaseID)

The API keeps no list of leases that can be asked for, so that nobody can use another's; `list` shows
the proxies and how many of their slots are taken. The token is taken from DISCOVERY_TOKEN or
DISCOVERY_TOKEN_FILE.

Exit codes:
  0  done
  1  the answer is no: no proxy matches, no such lease
  2  wrong flags, no answer, or a refused request";

/// What is asked of the lease API.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct LeasesArgs {
    #[command(flatten)]
    api: Api,

    #[command(subcommand)]
    command: Option<Command>,
}

/// Which API, and how its answers are shown.
#[derive(Args, Clone, Debug)]
pub struct Api {
    /// The lease API: a URL or an address
    #[arg(
        long,
        global = true,
        env = "PROXY_OPERATOR_API_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:8090"
    )]
    pub api_url: Base,

    /// What is printed: a table for people, json for programs
    #[arg(
        long,
        short,
        global = true,
        env = "PROXY_OPERATOR_OUTPUT",
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub output: Output,
}

/// Which proxies.
#[derive(Args, Clone, Debug, Default)]
pub struct Filter {
    /// Only proxies with this attribute; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub attr: Vec<(String, String)>,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Show the proxies and how many of their slots are taken (the default)
    List(ListArgs),
    /// Take a lease on a proxy
    Acquire(AcquireArgs),
    /// Show a lease
    Get {
        /// The lease's id
        lease: String,
    },
    /// Have a lease end later
    Renew {
        /// The lease's id
        lease: String,
        /// From now on [default: 5m]
        #[arg(long, value_name = "DURATION", value_parser = values::seconds)]
        ttl: Option<Duration>,
    },
    /// Give a lease back
    Release {
        /// The lease's id
        lease: String,
    },
    /// Say how a site took it
    Report {
        /// The lease's id
        lease: String,
        /// What the site did
        result: Word,
        /// The site [default: the lease's own]
        #[arg(long, value_name = "HOST")]
        target: Option<String>,
    },
}

#[derive(Args, Clone, Debug, Default)]
struct ListArgs {
    #[command(flatten)]
    filter: Filter,

    /// Only healthy ones
    #[arg(long)]
    healthy: bool,
}

#[derive(Args, Clone, Debug)]
struct AcquireArgs {
    /// An attribute that the proxy must have; may be given several times
    #[arg(long, alias = "attr", value_name = "KEY=VALUE", value_parser = pair)]
    selector: Vec<(String, String)>,

    /// The site that is to be crawled
    #[arg(long, value_name = "HOST")]
    target: Option<String>,

    /// How long [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = values::seconds)]
    ttl: Option<Duration>,

    /// Asked again with the same key, the API gives the same lease again
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Word {
    Ok,
    RateLimited,
    Banned,
}

/// A lease, just granted or looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lease {
    #[serde(rename = "leaseID")]
    id: String,
    proxy: Whose,
    expires_at: String,
    ttl_seconds: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Whose {
    Id(String),
    View(Proxy),
}

impl LeasesArgs {
    /// Does what is asked.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn run(self) -> Result<(), Failure> {
        let client = Client::new(&self.api.api_url, &auth::LEASE_API)?;
        let output = self.api.output;
        let path = |lease: &str, verb: &str| format!("/v1/leases/{}{verb}", segment(lease));
        match self.command {
            None => list(&client, output, &ListArgs::default()).await,
            Some(Command::List(args)) => list(&client, output, &args).await,
            Some(Command::Acquire(args)) => {
                let key = args.idempotency_key.clone();
                let (key, body) = (key.as_deref(), args.body());
                let asked = client.ask(Method::POST, "/v1/leases", key, Some(&body));
                show(output, &client.taken(asked.await?)?)
            }
            Some(Command::Get { lease }) => {
                let call = client.call(Method::GET, path(&lease, ""), None);
                show(output, &call.await?)
            }
            Some(Command::Renew { lease, ttl }) => {
                let body = object([("ttlSeconds", ttl.map(|ttl| json!(ttl.as_secs())))]);
                let call = client.call(Method::POST, path(&lease, "/renew"), Some(body));
                show(output, &call.await?)
            }
            Some(Command::Release { lease }) => {
                let call = client.call(Method::DELETE, path(&lease, ""), None);
                call.await?;
                done(output, "released")
            }
            Some(Command::Report {
                lease,
                result,
                target,
            }) => {
                let word = result.to_possible_value();
                let word = word.map(|word| Value::from(word.get_name()));
                let body = object([("result", word), ("target", target.map(Value::from))]);
                let call = client.call(Method::POST, path(&lease, "/report"), Some(body));
                call.await?;
                done(output, "reported")
            }
        }
    }
}

impl AcquireArgs {
    fn body(self) -> Value {
        let selector = self
            .selector
            .into_iter()
            .map(|(key, value)| (key, value.into()));
        let selector: Map<String, Value> = selector.collect();
        object([
            (
                "selector",
                (!selector.is_empty()).then_some(Value::Object(selector)),
            ),
            ("ttlSeconds", self.ttl.map(|ttl| json!(ttl.as_secs()))),
            ("target", self.target.map(Value::from)),
        ])
    }
}

fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect())
}

/// The proxies that match, as the API answers.
///
/// # Errors
/// [`Failure`]
pub async fn proxies(client: &Client, filter: &Filter, healthy: bool) -> Result<Value, Failure> {
    let attributes = filter
        .attr
        .iter()
        .map(|(key, value)| format!("attr.{}={}", segment(key), segment(value)));
    let healthy = healthy.then(|| "healthy=true".to_owned());
    let query: Vec<_> = attributes.chain(healthy).collect();
    let path = format!("/v1/proxies?{}", query.join("&"));
    let path = path.trim_end_matches('?');
    client.call(Method::GET, path, None).await
}

async fn list(client: &Client, output: Output, args: &ListArgs) -> Result<(), Failure> {
    let answer = proxies(client, &args.filter, args.healthy).await?;
    if output == Output::Json {
        return emit(&answer);
    }
    let mut table = Table::new(&[
        "PROXY",
        "ENDPOINT",
        "PHASE",
        "HEALTHY",
        "LATENCY",
        "LEASES",
        "ATTRIBUTES",
    ]);
    for proxy in Proxies::read(&answer)?.proxies {
        let latency = proxy.latency_millis.map(|millis| format!("{millis} ms"));
        table.row([
            proxy.id.clone(),
            proxy.endpoint().unwrap_or_default(),
            proxy.phase.clone(),
            if proxy.healthy { "yes" } else { "no" }.to_owned(),
            latency.unwrap_or_default(),
            format!("{}/{}", proxy.active_leases, proxy.max_leases),
            proxy.attributes(),
        ]);
    }
    write(&table.text())
}

fn show(output: Output, answer: &Value) -> Result<(), Failure> {
    if output == Output::Json {
        return emit(answer);
    }
    let lease = Lease::deserialize(answer)
        .map_err(|e| Failure::Setup(format!("the answer is not a lease: {e}")))?;
    let (proxy, endpoint) = match lease.proxy {
        Whose::Id(id) => (id, None),
        Whose::View(view) => (view.id.clone(), view.endpoint()),
    };
    let mut table = Table::new(&["LEASE", "PROXY", "ENDPOINT", "TTL", "EXPIRES"]);
    table.row([
        lease.id,
        proxy,
        endpoint.unwrap_or_default(),
        format!("{} s", lease.ttl_seconds),
        lease.expires_at,
    ]);
    write(&table.text())
}

/// For what the API answers with nothing but a yes.
fn done(output: Output, what: &str) -> Result<(), Failure> {
    match output {
        Output::Json => Ok(()),
        Output::Table => write(&format!("{what}\n")),
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    if !crds::is_attribute_key(key) {
        return Err(format!("{key:?} is not an attribute key"));
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_only_what_was_given() {
        let none = AcquireArgs {
            selector: vec![],
            target: None,
            ttl: None,
            idempotency_key: None,
        };
        assert_eq!(none.body(), json!({}));
        let all = AcquireArgs {
            selector: vec![("geo".into(), "de".into()), ("isp".into(), "a=b".into())],
            target: Some("shop.example".into()),
            ttl: Some(Duration::from_mins(5)),
            idempotency_key: None,
        };
        let body = json!({
            "selector": {"geo": "de", "isp": "a=b"}, "ttlSeconds": 300, "target": "shop.example",
        });
        assert_eq!(all.body(), body);
    }

    #[test]
    fn an_attribute_is_a_key_and_a_value() {
        assert_eq!(pair("geo=de=x"), Ok(("geo".into(), "de=x".into())));
        for bad in ["geo", "=de", "a b=c"] {
            assert!(pair(bad).is_err(), "{bad}");
        }
    }
}
