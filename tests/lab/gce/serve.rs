//! The socket: takes requests, asks the parts in Google's order, and answers or does not.

use super::{
    Shared,
    call::{Call, VERSION},
    document::{Document, Found, Method as Described, UNDATED},
    faults::Act,
    line::Switch,
    log::Entry,
    methods::{IMITATED, perform},
    refusal::Refusal,
    reply::Reply,
    schema::Check,
    token_server::{self, METADATA},
};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use hyper::{body::Body, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use socket2::Socket;
use std::{collections::BTreeMap, error::Error, io, os::fd::AsFd as _, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{Instant, sleep},
};

/// Below this the methods are.
const API: &str = "/compute/v1/";
/// The longest body that is read; Google refuses larger ones, too.
const LONGEST: usize = 8 * 1024 * 1024;
/// How long a `wait` waits at most.
const WAIT: Duration = Duration::from_mins(2);
/// The longest body that the log keeps.
const LOGGED: usize = 4 * 1024;

/// Serves for ever, as `switch` has it. The connections end with it.
pub async fn accept(listener: TcpListener, shared: Arc<Shared>, switch: Option<Arc<Switch>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (shared, switch) = (Arc::clone(&shared), switch.clone());
                    // A peer that goes away is its own affair.
                    connections.spawn(async move { serve(stream, shared, switch).await.ok() });
                }
                // Out of descriptors: some come back as connections end.
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    shared: Arc<Shared>,
    switch: Option<Arc<Switch>>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Another hold on the same socket, to reset the connection with.
    let socket = Socket::from(stream.as_fd().try_clone_to_owned()?);
    let service = service_fn(|request| {
        let (shared, switch) = (Arc::clone(&shared), switch.clone());
        let socket = &socket;
        async move {
            let (reply, reset) = match switch {
                Some(switch) => switch.respond(request, &shared).await,
                None => respond(request, &shared).await,
            };
            if reset {
                socket.set_linger(Some(Duration::ZERO))?;
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            }
            reply.http()
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    // How a connection ends is the peer's affair, too.
    let _ended: Result<(), hyper::Error> = served.await;
    Ok(())
}

/// A request that was read.
struct Asked<'a> {
    head: &'a Parts,
    body: Bytes,
    /// The method's ID, or what stands for it in the log.
    id: String,
    /// What it is held to; nothing if it names a version of which there is none.
    document: Option<&'a Document>,
}

/// Says whether the connection is to be reset instead.
pub(super) async fn respond<B>(request: Request<B>, shared: &Shared) -> (Reply, bool)
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, LONGEST).collect().await else {
        return (Reply::empty(413), false);
    };
    let document = shared.documents.of(&version(&head));
    let asked = Asked {
        id: name(document, &head.method, &head.uri),
        document,
        body: body.to_bytes(),
        head: &head,
    };
    let act = shared.faults().take(&asked.id, &asked.text());
    let (reply, reset) = acted(shared, &asked, act).await;
    let body = match asked.body.len() {
        0..=LOGGED => String::from_utf8_lossy(&asked.body).into_owned(),
        _ => String::new(),
    };
    shared.log().note(Entry {
        method: asked.id,
        http: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or("").to_owned(),
        status: if reset { 0 } else { reply.status },
        body,
    });
    (reply, reset)
}

impl Asked<'_> {
    fn text(&self) -> [&[u8]; 3] {
        let uri = &self.head.uri;
        let query = uri.query().unwrap_or("");
        [uri.path().as_bytes(), query.as_bytes(), &self.body]
    }
}

async fn acted(shared: &Shared, asked: &Asked<'_>, act: Option<Act>) -> (Reply, bool) {
    match &act {
        Some(Act::Refuse(refusal)) => return (Reply::refusal(refusal), false),
        Some(Act::Raw(status, kind, body)) => return (Reply::text(*status, kind, body), false),
        Some(Act::Reset) => return (Reply::empty(500), true),
        Some(Act::Wait(time)) => shared.hang(*time).await,
        _ => {}
    }
    let mut reply = answer(shared, asked).await;
    match act {
        Some(Act::ResetAfter) => return (reply, true),
        Some(Act::Truncate) => reply.body.truncate(reply.body.len() / 2),
        Some(Act::Cut) => reply.cut = true,
        Some(Act::WaitAfter(time)) => shared.hang(time).await,
        Some(Act::RefuseAfter(refusal)) => return (Reply::refusal(&refusal), false),
        _ => {}
    }
    (reply, false)
}

/// The version of the API that a request names.
fn version(head: &Parts) -> String {
    let query = head.uri.query().unwrap_or("").as_bytes();
    let named = url::form_urlencoded::parse(query).find(|(name, _)| name == VERSION);
    let header = head.headers.get("x-goog-api-version");
    let header = header.and_then(|value| value.to_str().ok());
    let named = named.map(|(_, value)| value.into_owned());
    named
        .or_else(|| header.map(ToOwned::to_owned))
        .unwrap_or_else(|| UNDATED.into())
}

/// What a request is called in the log and in orders for trouble.
fn name(document: Option<&Document>, method: &Method, uri: &Uri) -> String {
    let path = uri.path();
    if path == "/token" {
        return "token".into();
    }
    if path.starts_with(METADATA) {
        return "metadata".into();
    }
    let below = path.strip_prefix(API).unwrap_or("");
    match document.map(|document| document.find(method.as_str(), below)) {
        Some(Found::Method(method, _)) => method.id.clone(),
        _ => String::new(),
    }
}

async fn answer(shared: &Shared, asked: &Asked<'_>) -> Reply {
    let (method, path) = (&asked.head.method, asked.head.uri.path());
    if path == "/token" {
        let here = format!("{}/token", shared.endpoint);
        return token_server::oauth(&mut shared.tokens(), method, &asked.body, &here).into();
    }
    if let Some(below) = path.strip_prefix(METADATA) {
        let project = shared.world().project.clone();
        let headers = &asked.head.headers;
        return token_server::metadata(&mut shared.tokens(), headers, below, &project).into();
    }
    let below = path.strip_prefix(API).unwrap_or("");
    let Some(document) = asked.document else {
        let message = "The requested version of the API is not supported.";
        return Reply::refusal(&Refusal::bad_request(message));
    };
    match document.find(method.as_str(), below) {
        Found::Method(method, path) => described(shared, asked, document, method, path).await,
        Found::OtherMethod => Reply::html(405),
        Found::Nothing => Reply::html(404),
    }
}

async fn described(
    shared: &Shared,
    asked: &Asked<'_>,
    document: &Document,
    method: &Described,
    path: BTreeMap<String, String>,
) -> Reply {
    if !IMITATED.contains(&method.id.as_str()) {
        shared.wrong(format!("{} is not imitated", method.id));
        return Reply::empty(501);
    }
    let call = match read(shared, asked, document, method, path) {
        Ok(call) => call,
        Err(refusal) => return Reply::refusal(&refusal),
    };
    let deadline = Instant::now() + WAIT;
    loop {
        let now = shared.clock.now();
        let outcome = perform(&mut shared.world(), &call, now);
        match outcome {
            Ok(value) if waits(&call, &value) && Instant::now() < deadline => {
                sleep(Duration::from_millis(10)).await;
            }
            Ok(value) => return checked(shared, document, method, &call, &value),
            Err(refusal) => return Reply::refusal(&refusal),
        }
    }
}

fn waits(call: &Call, value: &Value) -> bool {
    call.method.rsplit('.').next() == Some("wait") && value["status"] != "DONE"
}

fn read(
    shared: &Shared,
    asked: &Asked<'_>,
    document: &Document,
    method: &Described,
    path: BTreeMap<String, String>,
) -> Result<Call, Refusal> {
    let headers: &HeaderMap = &asked.head.headers;
    let user = shared.tokens().whose(headers, &method.scopes)?;
    let query = asked.head.uri.query().unwrap_or("");
    Call::read(document, method, path, query, &asked.body, &user)
}

/// An answer leaves only if the description has it so.
fn checked(
    shared: &Shared,
    document: &Document,
    method: &Described,
    call: &Call,
    value: &Value,
) -> Reply {
    let schema = method.response.as_deref().unwrap_or("");
    let found = Check::of_answer(document).against(schema, value, "answer");
    if found.is_empty() {
        return Reply::json(200, &call.fields.of(value));
    }
    for violation in &found {
        let (at, problem) = (&violation.at, &violation.problem);
        shared.wrong(format!("answer of {}: {at}: {problem:?}", method.id));
    }
    Reply::empty(500)
}

impl From<token_server::Answer> for Reply {
    fn from(answer: token_server::Answer) -> Self {
        let mut reply = Self::text(answer.status, answer.kind, &answer.body);
        if answer.flavored {
            let (name, value) = ("metadata-flavor", "Google".into());
            reply.headers.push((name, value));
        }
        reply
    }
}
