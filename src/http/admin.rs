//! The admin server: the actors from outside.
//!
//! Talks to: the directory (reads it, ends actors through it) and the monkey.
//!
//! Guarantees: it answers whatever the actors do, since it asks none of them but the monkey, and that
//! with a deadline. Without chaos every call but the list is 404, whoever asks; with a token, nobody
//! learns even that without it.

pub mod chaos;
pub mod refusal;
pub mod route;
pub mod view;

use super::{answers::json, auth::Auth, reading, refusal::Refusal};
use actors::{
    monkey::MonkeyMsg,
    system::{
        Addr, AskError, Reply,
        directory::{Directory, End},
    },
};
use bytes::{Buf, Bytes};
use futures::Stream;
use hyper::{body::Incoming, service::Service};
use hyper_util::service::TowerToHyperService;
use refusal::AdminRefusal;
use route::Call;
use std::{convert::Infallible, net::IpAddr, pin::pin, sync::Arc, time::Duration};
use tokio::time::Instant;
use view::{ActorList, Ended, RunView};
use warp::{
    Filter,
    http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header, uri::Authority},
    path::FullPath,
    reply::Response,
};

/// How long the monkey may take to answer.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long a body may take.
const BODY: Duration = Duration::from_secs(10);

/// The server's service.
pub struct Admin {
    directory: Arc<Directory>,
    auth: Auth,
    /// None where chaos is not enabled.
    monkey: Option<Addr<MonkeyMsg>>,
}

impl Admin {
    /// A service that shows the actors of `directory`, and ends them where there is a monkey.
    #[must_use]
    pub fn new(directory: Arc<Directory>, auth: Auth, monkey: Option<Addr<MonkeyMsg>>) -> Self {
        Self {
            directory,
            auth,
            monkey,
        }
    }

    /// The service as something that [`serve`](super::serve) takes.
    #[must_use]
    pub fn service(
        self,
    ) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
    + Clone
    + Send
    + 'static {
        let admin = Arc::new(self);
        let filter = warp::method()
            .and(warp::path::full())
            .and(warp::header::headers_cloned())
            .and(warp::body::stream())
            .then(move |method, path, headers, body| {
                let admin = Arc::clone(&admin);
                async move { admin.answer(&method, &path, &headers, body).await }
            });
        TowerToHyperService::new(warp::service(filter))
    }

    async fn answer<S, B, E>(
        &self,
        method: &Method,
        path: &FullPath,
        headers: &HeaderMap,
        body: S,
    ) -> Response
    where
        S: Stream<Item = Result<B, E>>,
        B: Buf,
    {
        let until = Instant::now() + BODY;
        let mut body = pin!(body);
        let token = headers.get(header::AUTHORIZATION);
        let outcome = if !self.auth.admits(token.map(HeaderValue::as_bytes)) {
            Err(Refusal::Unauthorized.into())
        } else if !self.auth.required() && !is_at_home(headers) {
            Err(AdminRefusal::Foreign)
        } else {
            let body = reading::body(&mut body, until);
            self.call(method, path.as_str(), body).await
        };
        let response = outcome.unwrap_or_else(|refusal| refusal.response());
        reading::drain(&mut body, until).await;
        response
    }

    /// `body` reads the body when it is awaited.
    async fn call(
        &self,
        method: &Method,
        path: &str,
        body: impl Future<Output = Result<Bytes, Refusal>>,
    ) -> Result<Response, AdminRefusal> {
        let call = route::resolve(method, path, self.monkey.is_some())?;
        let monkey = || self.monkey.as_ref().ok_or(AdminRefusal::NotFound);
        match call {
            Call::List => Ok(self.list().await),
            Call::End(path, how) => self.end(&path, how),
            Call::Start => {
                let plan = chaos::plan(&body.await?)?;
                let start = |reply| MonkeyMsg::Start(plan, reply);
                let run = ask(monkey()?, start).await?;
                let run = run.map_err(|_| AdminRefusal::Running)?;
                Ok(json(StatusCode::ACCEPTED, &RunView::from(&run)))
            }
            Call::Show => shown(ask(monkey()?, MonkeyMsg::Show).await?),
            Call::Stop => shown(ask(monkey()?, MonkeyMsg::End).await?),
        }
    }

    /// On a thread that may take its time: a list of twenty thousand actors is megabytes.
    async fn list(&self) -> Response {
        let directory = Arc::clone(&self.directory);
        let listed = tokio::task::spawn_blocking(move || {
            json(StatusCode::OK, &ActorList::new(directory.list()))
        });
        listed.await.unwrap_or_else(|error| {
            tracing::error!(%error, "listing the actors failed");
            Refusal::Internal.response()
        })
    }

    fn end(&self, path: &str, how: End) -> Result<Response, AdminRefusal> {
        let unknown = || AdminRefusal::UnknownActor(path.to_owned());
        let epoch = self.directory.epoch(path).ok_or_else(unknown)?;
        tracing::warn!(actor = path, ?how, "ended from outside");
        if !self.directory.end(path, how) {
            return Err(unknown());
        }
        Ok(json(
            StatusCode::ACCEPTED,
            &Ended {
                path: path.to_owned(),
                epoch: epoch.number(),
            },
        ))
    }
}

fn shown(run: Option<actors::monkey::Run>) -> Result<Response, AdminRefusal> {
    let run = run.ok_or(AdminRefusal::NoRun)?;
    Ok(json(StatusCode::OK, &RunView::from(&run)))
}

async fn ask<R: Send + 'static>(
    monkey: &Addr<MonkeyMsg>,
    question: impl FnOnce(Reply<R>) -> MonkeyMsg,
) -> Result<R, AdminRefusal> {
    let asked: Result<R, AskError> = monkey.ask(DEADLINE, question).await;
    asked.map_err(|_| AdminRefusal::NoMonkey)
}

/// Whether somebody on this machine asks who knows whom. A web page in a browser here is neither let in by its
/// own name (it has an `Origin`) nor by a name of ours that it made lead to this machine.
fn is_at_home(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).map(HeaderValue::to_str);
    let is_loopback = |host: &str| {
        let authority: Option<Authority> = host.parse().ok();
        authority.is_some_and(|authority| {
            let name = authority.host().trim_matches(['[', ']']);
            let ip = name.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
            ip || name.eq_ignore_ascii_case("localhost")
        })
    };
    !headers.contains_key(header::ORIGIN) && host.is_none_or(|host| host.is_ok_and(is_loopback))
}

#[cfg(test)]
mod tests;
