//! A collector: it takes traces over http/protobuf and over gRPC, and shows them as trees.

use anyhow::{Context as _, ensure};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{AnyValue, KeyValue, any_value},
    trace::v1::{self as wire, span::SpanKind, status::StatusCode},
};
use prost::Message as _;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::{net::TcpListener, task::JoinSet};
use tonic::transport::{Server, server::TcpIncoming};
use warp::{Filter as _, http::StatusCode as HttpStatus};

/// A span as it was received; ids are in hex, as logs have them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub trace: String,
    pub id: String,
    /// Empty for a root.
    pub parent: String,
    pub name: String,
    pub kind: SpanKind,
    pub is_error: bool,
    pub attributes: BTreeMap<String, String>,
    /// Of the process.
    pub resource: BTreeMap<String, String>,
}

impl Span {
    /// The value of an attribute; empty without one.
    pub fn get(&self, attribute: &str) -> &str {
        self.attributes.get(attribute).map_or("", String::as_str)
    }
}

/// A running collector; it ends when it is dropped.
pub struct Collector {
    http: SocketAddr,
    grpc: SocketAddr,
    seen: Seen,
    _servers: JoinSet<()>,
}

/// What has come so far.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(Vec<Span>, String)>>);

impl Collector {
    /// Listens on two ports of this machine.
    ///
    /// # Errors
    /// The system's.
    pub async fn start() -> anyhow::Result<Self> {
        let seen = Seen::default();
        let mut servers = JoinSet::new();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let http = listener.local_addr()?;
        let taken = seen.clone();
        let traces = warp::path!("v1" / "traces")
            .and(warp::post())
            .and(warp::header::exact(
                "content-type",
                "application/x-protobuf",
            ))
            .and(warp::body::bytes())
            .map(move |body| match ExportTraceServiceRequest::decode(body) {
                Ok(request) => {
                    taken.take(request);
                    HttpStatus::OK
                }
                Err(_) => HttpStatus::BAD_REQUEST,
            });
        servers.spawn(warp::serve(traces).incoming(listener).run());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let grpc = listener.local_addr()?;
        let service = TraceServiceServer::new(seen.clone());
        servers.spawn(async move {
            let server = Server::builder().add_service(service);
            server
                .serve_with_incoming(TcpIncoming::from(listener))
                .await
                .ok();
        });
        Ok(Self {
            http,
            grpc,
            seen,
            _servers: servers,
        })
    }

    /// Where `protocol` is taken, as the environment of an operator says it.
    pub fn endpoint(&self, protocol: &str) -> String {
        let at = if protocol == "grpc" {
            self.grpc
        } else {
            self.http
        };
        format!("http://{at}")
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        self.seen.with(|(spans, _)| spans.clone())
    }

    /// All that was received, as text.
    pub fn text(&self) -> String {
        self.seen.with(|(_, text)| text.clone())
    }

    /// The trace that holds a span for which this is true, if all of it hangs together.
    ///
    /// # Errors
    /// That there is none yet, or that a parent is missing.
    pub fn tree(&self, of: impl Fn(&Span) -> bool) -> anyhow::Result<Tree> {
        let spans = self.spans();
        let one = spans.iter().find(|span| of(span)).context("no such span")?;
        let all = spans.iter().filter(|span| span.trace == one.trace);
        Tree::new(all.cloned().collect())
    }
}

impl Seen {
    fn with<T>(&self, act: impl FnOnce(&mut (Vec<Span>, String)) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take(&self, request: ExportTraceServiceRequest) {
        self.with(|(spans, text)| {
            write!(text, "{request:?}").unwrap_or_default();
            for of_process in request.resource_spans {
                let resource = of_process.resource.unwrap_or_default();
                let resource = values(resource.attributes);
                for of_scope in of_process.scope_spans {
                    let new = of_scope.spans.into_iter();
                    spans.extend(new.map(|span| read(span, &resource)));
                }
            }
        });
    }
}

#[tonic::async_trait]
impl TraceService for Seen {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        self.take(request.into_inner());
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

fn read(span: wire::Span, resource: &BTreeMap<String, String>) -> Span {
    Span {
        kind: span.kind(),
        is_error: span
            .status
            .is_some_and(|status| status.code() == StatusCode::Error),
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        name: span.name,
        attributes: values(span.attributes),
        resource: resource.clone(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

fn values(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let text = |value: Option<AnyValue>| match value.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    let named = |one: KeyValue| (one.key, text(one.value));
    attributes.into_iter().map(named).collect()
}

/// One trace, all of it received.
#[derive(Debug)]
pub struct Tree(Vec<Span>);

impl Tree {
    fn new(spans: Vec<Span>) -> anyhow::Result<Self> {
        let ids: BTreeSet<_> = spans.iter().map(|span| &span.id).collect();
        ensure!(ids.len() == spans.len(), "ids repeat in {spans:#?}");
        let roots: Vec<_> = spans
            .iter()
            .filter(|span| !ids.contains(&span.parent))
            .collect();
        ensure!(roots.len() == 1, "not one root: {roots:#?} of {spans:#?}");
        Ok(Self(spans))
    }

    /// The span that all others are below.
    ///
    /// # Errors
    /// Never, for a tree that was made.
    pub fn root(&self) -> anyhow::Result<&Span> {
        let root = self.0.iter().find(|span| self.parent(span).is_none());
        root.context("a root")
    }

    /// What `span` is a part of.
    pub fn parent(&self, span: &Span) -> Option<&Span> {
        self.0.iter().find(|other| other.id == span.parent)
    }

    /// The names from the root down to `span`.
    pub fn path(&self, span: &Span) -> Vec<&str> {
        let mut path = Vec::new();
        let mut at = self.0.iter().find(|other| other.id == span.id);
        while let Some(span) = at {
            path.insert(0, span.name.as_str());
            at = self.parent(span);
        }
        path
    }

    /// Each path that there is, once.
    pub fn paths(&self) -> BTreeSet<String> {
        let path = |span| self.path(span).join(" > ");
        self.0.iter().map(path).collect()
    }

    /// Those of this name.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Span> {
        self.0.iter().filter(move |span| span.name == name)
    }
}
