//! What a connection to a host is made of: one SSH session and, through it, libvirt's connections.
//!
//! Two lines stand as long as the session does: one for questions and one for what takes libvirtd
//! longer, so that a guest that starts slowly keeps no question waiting. A transfer opens a line of its
//! own.

use super::{
    Surroundings, check,
    config::{Host, KvmConfig},
    create, delete,
    error::{HostError, Stage},
    get,
    images::{self, Image},
    libvirt::Line,
    list, ssh, tidy, volume,
};
use actors::{
    connection::{
        ConnectionMsg, Transfers,
        link::{Link, Refusal},
    },
    leader::standing::Standing,
    provider::contract::Instance,
    system::Reply,
};
use futures::future::BoxFuture;
use std::{sync::Arc, time::Duration};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

/// How long a question waits for a connection, and a change.
const PATIENCE: Duration = Duration::from_secs(15);
const CHANGE_PATIENCE: Duration = Duration::from_secs(30);

/// The SSH part of a dial ends in time to tell those who wait which stage it came to.
const SSH: ssh::Patience = ssh::Patience {
    dial: Duration::from_secs(12),
    keepalive: Duration::from_secs(15),
};

/// What a host's connection understands.
pub type HostMsg = ConnectionMsg<HostLink>;

/// An answer of a host.
pub type Answer<T> = Result<T, HostError>;

/// What may be asked of a host.
pub enum HostRequest {
    /// Make this domain run, or find that it does.
    Create(Arc<create::Order>, Reply<Answer<()>>),
    /// How this domain is.
    Get(String, Reply<Answer<Instance>>),
    /// Remove the domain of this name and its volumes.
    Delete(String, Reply<Answer<()>>),
    /// Everything of this installation.
    List(Reply<Answer<Vec<Instance>>>),
    /// How the host is.
    Check(Reply<Answer<check::Report>>),
}

/// What there is to know about a host, the same for every session.
pub struct HostSettings {
    /// The host's name in the config.
    pub name: String,
    /// Where it is dialled, and as whom.
    pub target: ssh::Target,
    /// Our credentials and what is known of the host's.
    pub files: ssh::Files,
    /// libvirt's socket on the host.
    pub socket: String,
    /// The storage pool that is used.
    pub pool: String,
    /// Which installation of the operator this is.
    pub installation: String,
    /// What stands for it in the names of volumes.
    pub mark: String,
    /// The configured images, which are kept when no overlay needs them.
    pub images: Vec<Image>,
    /// Counts what is fetched, in bytes.
    pub downloaded: prometheus::IntCounter,
    /// How often base images that nobody needs are looked for, and how old they must be.
    pub tidy: tidy::Pace,
    /// Whether this process may act.
    pub standing: Standing,
}

impl HostSettings {
    /// The settings of `host` in the block `config` of `provider`.
    #[must_use]
    pub fn new(provider: &str, config: &KvmConfig, host: &Host, around: &Surroundings) -> Self {
        let images = config.images.iter();
        Self {
            name: host.name.to_string(),
            target: ssh::Target {
                host: host.address.host.clone(),
                port: host.address.port,
                user: host.user.clone(),
            },
            files: ssh::Files {
                key: config.ssh_key_file.clone(),
                known_hosts: config
                    .known_hosts_file
                    .clone()
                    .filter(|_| !config.insecure_ignore_host_key),
            },
            socket: host.socket.clone(),
            pool: host.pool.clone(),
            installation: around.installation.clone(),
            mark: volume::installation_mark(&around.installation),
            images: images
                .map(|(key, image)| Image::configured(key, image))
                .collect(),
            downloaded: around
                .downloaded
                .with_label_values(&[provider, host.name.as_str()]),
            tidy: around.tidy,
            standing: around.standing.clone(),
        }
    }
}

/// An open connection to a host.
#[derive(Clone)]
pub struct HostSession {
    /// What is known about the host.
    pub settings: Arc<HostSettings>,
    /// For questions.
    pub quick: Line,
    /// For changes.
    pub slow: Line,
    ssh: ssh::Session,
    _tidy: Arc<AbortOnDropHandle<()>>,
}

impl HostSession {
    async fn dial(settings: Arc<HostSettings>) -> Answer<Self> {
        let ssh = ssh::Session::dial_within(&settings.target, &settings.files, SSH).await?;
        let open = || Line::open(&ssh, &settings.socket, settings.standing.clone());
        let (quick, slow) = tokio::try_join!(open(), open())?;
        let tidy = tokio::spawn(tidy::run(Arc::clone(&settings), slow.clone()));
        Ok(Self {
            settings,
            quick,
            slow,
            ssh,
            _tidy: Arc::new(AbortOnDropHandle::new(tidy)),
        })
    }

    /// A line of its own for a transfer.
    ///
    /// # Errors
    /// As for a dial.
    pub async fn line(&self) -> Answer<Line> {
        let HostSettings {
            socket, standing, ..
        } = &*self.settings;
        Line::open(&self.ssh, socket, standing.clone()).await
    }
}

/// The way to one host.
pub struct HostLink(Arc<HostSettings>);

impl HostLink {
    /// A link that is not dialled yet.
    #[must_use]
    pub fn new(settings: HostSettings) -> Self {
        Self(Arc::new(settings))
    }
}

impl Link for HostLink {
    type Session = HostSession;
    type Request = HostRequest;
    type Cargo = Image;
    type Error = HostError;

    fn dial(&self) -> BoxFuture<'static, Answer<HostSession>> {
        let span = tracing::debug_span!("dial", host = self.0.name);
        Box::pin(HostSession::dial(Arc::clone(&self.0)).instrument(span))
    }

    /// Only files or settings mend what is wrong before libvirt is reached; the network may heal at any
    /// moment.
    fn is_final(&self, error: &HostError) -> bool {
        use actors::provider::contract::ErrorClass::Permanent;
        error.stage == Some(Stage::SshMaterial) || error.class == Permanent
    }

    fn lost(&self, session: &HostSession) -> BoxFuture<'static, HostError> {
        let ssh = session.ssh.clone();
        let (quick, slow) = (session.quick.clone(), session.slow.clone());
        Box::pin(async move {
            let what = tokio::select! {
                () = ssh.closed() => "the SSH connection ended",
                () = quick.ended() => "libvirtd closed the connection",
                () = slow.ended() => "libvirtd closed the connection",
            };
            HostError::transient(what)
        })
    }

    fn is_outdated(&self, session: &HostSession) -> BoxFuture<'static, bool> {
        let (ssh, settings) = (session.ssh.clone(), Arc::clone(&self.0));
        Box::pin(async move { ssh.is_outdated(&settings.files).await })
    }

    fn ping(&self, session: &HostSession) -> BoxFuture<'static, Answer<()>> {
        let line = session.quick.clone();
        Box::pin(async move { check::ping(&line).await })
    }

    fn silent(&self, waited: Duration) -> HostError {
        let waited = waited.as_secs();
        HostError::transient(format!("no answer within {waited} s")).because("Timeout")
    }

    fn close(&self, session: &HostSession) {
        session.quick.cut();
        session.slow.cut();
        session.ssh.close();
    }

    fn patience(&self, request: &HostRequest) -> Duration {
        match request {
            HostRequest::Create(..) | HostRequest::Delete(..) => CHANGE_PATIENCE,
            HostRequest::Get(..) | HostRequest::List(..) => PATIENCE,
            HostRequest::Check(..) => check::PATIENCE,
        }
    }

    fn key(&self, request: &HostRequest) -> Option<String> {
        match request {
            HostRequest::Create(order, _) => Some(order.name.clone()),
            HostRequest::Delete(name, _) => Some(name.clone()),
            HostRequest::Get(..) | HostRequest::List(..) | HostRequest::Check(..) => None,
        }
    }

    fn is_wanted(&self, request: &HostRequest) -> bool {
        !match request {
            HostRequest::Create(_, reply) | HostRequest::Delete(_, reply) => reply.is_closed(),
            HostRequest::Get(_, reply) => reply.is_closed(),
            HostRequest::List(reply) => reply.is_closed(),
            HostRequest::Check(reply) => reply.is_closed(),
        }
    }

    fn serve(
        &self,
        session: HostSession,
        request: HostRequest,
        transfers: Transfers<Self>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            match request {
                HostRequest::Create(order, reply) => {
                    answer(reply, create::run(&session, &order, &transfers)).await;
                }
                HostRequest::Get(name, reply) => answer(reply, get::run(&session, name)).await,
                HostRequest::Delete(name, reply) => {
                    answer(reply, delete::run(&session, name)).await;
                }
                HostRequest::List(reply) => answer(reply, list::run(&session)).await,
                HostRequest::Check(reply) => answer(reply, check::run(&session)).await,
            }
        })
    }

    fn refuse(&self, request: HostRequest, why: Refusal<HostError>) {
        let error = match why {
            Refusal::Full(limit) => {
                HostError::transient(format!("{limit} requests are waiting already"))
            }
            Refusal::Busy => HostError::transient("an earlier request for it is still under way"),
            Refusal::Unreached(Some(error)) | Refusal::Failed(error) => error,
            Refusal::Unreached(None) => {
                HostError::transient("no connection in time").because("Timeout")
            }
        };
        match request {
            HostRequest::Create(_, reply) | HostRequest::Delete(_, reply) => {
                reply.send(Err(error)).ok();
            }
            HostRequest::Get(_, reply) => {
                reply.send(Err(error)).ok();
            }
            HostRequest::List(reply) => {
                reply.send(Err(error)).ok();
            }
            HostRequest::Check(reply) => {
                reply.send(Err(error)).ok();
            }
        }
    }

    fn carry(&self, session: HostSession, image: Image) -> BoxFuture<'static, Answer<()>> {
        let span = tracing::debug_span!("download", host = self.0.name, %image);
        Box::pin(async move { images::bring(&session, &image).await }.instrument(span))
    }
}

/// Sends what `work` gives. It goes on if nobody waits any more: it is bounded, and may be done again.
async fn answer<T: Send + 'static>(reply: Reply<Answer<T>>, work: impl Future<Output = Answer<T>>) {
    let answer = work.await;
    reply.send(answer).ok();
}
