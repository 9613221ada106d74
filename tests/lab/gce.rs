//! The stand-in for Google's Compute Engine: its REST protocol over a socket, with state behind it.
//!
//! Every request is held to Google's own description of the API (`compute.v1.json`, of the version that
//! it names) and every answer is, before it leaves. What the description allows but the stand-in does not imitate, and an answer
//! that is not as described, is a failure of the test: it is answered with 501 or 500, remembered, and
//! told when the stand-in is dropped.
//!
//! | part | is |
//! |---|---|
//! | `document`, `schema`, `call`, `fields` | the description, and requests held to it |
//! | `world`, `instance`, `life`, `operation`, `firewall`, `project` | what there is |
//! | `instances`, `list`, `filter`, `methods` | the methods |
//! | `rules`, `refusal` | what Google refuses beyond types, and in which words |
//! | `tokens`, `jwt`, `token_server` | who may ask: OAuth server, metadata server, service accounts |
//! | `faults`, `line` | troubles to order: for requests of a kind, or for the next ones of one client |
//! | `backstage` | what a test does behind everybody's back |
//! | `clock` | its time, which a test sets |
//! | `addresses`, `proxies` | loopback addresses for instances, and real Squids on them |
//!
//! One port is all of it: the API at `/compute/v1/`, the OAuth server at `/token`, the metadata server
//! (`GCE_METADATA_HOST`) at `/computeMetadata/v1/`.
//!
//! Not imitated: `orderBy`, OR and wildcards and regular expressions in filters, pages
//! of anything but instances, batches, IAM (a token may do everything that its scopes allow),
//! the effect of firewalls, disks and networks as resources, entity tags, and gRPC. The JSON parser is
//! stricter than Google's: an int64 must be a string, as the description has it.

// By path, so that this file can be a module of a test binary and of the example alike.
#[path = "gce/addresses.rs"]
mod addresses;
#[path = "gce/backstage.rs"]
mod backstage;
#[path = "gce/call.rs"]
mod call;
#[path = "gce/clock.rs"]
pub mod clock;
#[path = "gce/document.rs"]
pub mod document;
#[path = "gce/faults.rs"]
pub mod faults;
#[path = "gce/fields.rs"]
mod fields;
#[path = "gce/filter.rs"]
mod filter;
#[path = "gce/firewall.rs"]
mod firewall;
#[path = "gce/instance.rs"]
pub mod instance;
#[path = "gce/instances.rs"]
mod instances;
#[path = "gce/jwt.rs"]
mod jwt;
#[path = "gce/life.rs"]
pub mod life;
#[path = "gce/line.rs"]
pub mod line;
#[path = "gce/list.rs"]
mod list;
#[path = "gce/log.rs"]
pub mod log;
#[path = "gce/methods.rs"]
mod methods;
#[path = "gce/operation.rs"]
pub mod operation;
#[path = "gce/project.rs"]
mod project;
#[path = "gce/proxies.rs"]
pub mod proxies;
#[path = "gce/refusal.rs"]
pub mod refusal;
#[path = "gce/reply.rs"]
mod reply;
#[path = "gce/rules.rs"]
mod rules;
#[path = "gce/schema.rs"]
pub mod schema;
#[path = "gce/serve.rs"]
mod serve;
#[path = "gce/token_server.rs"]
mod token_server;
#[path = "gce/tokens.rs"]
pub mod tokens;
#[path = "gce/world.rs"]
pub mod world;

use addresses::Addresses;
use anyhow::Context as _;
use clock::Clock;
use data_encoding::BASE64URL;
use document::Documents;
use faults::{Act, Faults, On};
use life::Pace;
use log::{Entry, Log};
use proxies::ProxyOf;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokens::{CLOUD_PLATFORM, Tokens};
use tokio::{net::TcpListener, task::JoinSet, time::sleep};
use world::World;

/// How a stand-in is to be.
#[derive(Clone)]
pub struct Options {
    /// Where it listens.
    pub address: IpAddr,
    /// Its port; 0 takes a free one.
    pub port: u16,
    /// The project that there is.
    pub project: String,
    /// How fast its clock goes; 0 stands still until it is told to go on.
    pub speed: f64,
    /// How long things take by its clock.
    pub pace: Pace,
    /// What listens at the address of an instance that is RUNNING; nothing by default.
    pub proxies: Option<ProxyOf>,
}

impl Default for Options {
    /// Ten times as fast as Google.
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            project: "lab-project".into(),
            speed: 10.0,
            pace: Pace::default(),
            proxies: None,
        }
    }
}

/// A running stand-in. Dropping it closes its listener and every connection, and fails the test if
/// something was wrong.
pub struct Gce {
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

/// What its tasks share.
pub struct Shared {
    documents: Arc<Documents>,
    endpoint: String,
    clock: Clock,
    world: Mutex<World>,
    tokens: Mutex<Tokens>,
    faults: Mutex<Faults>,
    log: Mutex<Log>,
    wrong: Mutex<Vec<String>>,
    /// Requests that have begun to wait, as they were told to.
    hung: AtomicU64,
}

impl Gce {
    /// Listens until the value is dropped. The descriptions are fetched first, if they are not here.
    ///
    /// # Errors
    /// An address that cannot be bound, or no descriptions.
    pub async fn start(options: Options) -> anyhow::Result<Self> {
        let documents = tokio::task::spawn_blocking(Documents::load).await??;
        let asked = SocketAddr::new(options.address, options.port);
        let listener = TcpListener::bind(asked).await;
        let listener = listener.with_context(|| format!("listening on {asked}"))?;
        let address = listener.local_addr()?;
        let world = World::new(
            &options.project,
            options.pace,
            Addresses::new(address.port()),
        );
        let shared = Arc::new(Shared {
            documents,
            endpoint: format!("http://{address}"),
            clock: Clock::new(options.speed),
            world: Mutex::new(world),
            tokens: Mutex::default(),
            faults: Mutex::default(),
            log: Mutex::default(),
            wrong: Mutex::default(),
            hung: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve::accept(listener, Arc::clone(&shared), None));
        if let Some(proxy_of) = options.proxies {
            tasks.spawn(proxies::keep(Arc::clone(&shared), proxy_of));
        }
        Ok(Self {
            shared,
            _tasks: tasks,
        })
    }

    /// What clients take instead of `https://compute.googleapis.com`.
    #[must_use]
    pub fn endpoint(&self) -> String {
        self.shared.endpoint.clone()
    }

    /// Another way in, for a client whose requests are to be cut off.
    ///
    /// # Errors
    /// No free port.
    pub async fn line(&self) -> anyhow::Result<line::Line> {
        line::Line::to(Arc::clone(&self.shared)).await
    }

    /// A new token that is good for everything.
    #[must_use]
    pub fn token(&self) -> String {
        self.tokens().issue("a.user@example.com", &[CLOUD_PLATFORM])
    }

    /// The credentials of a new user, as `gcloud auth application-default login` writes them.
    #[must_use]
    pub fn user(&self) -> Value {
        let secret = |kind| format!("{kind}{:032x}", rand::random::<u128>());
        let user = [secret("1//0"), secret("id-"), secret("GOCSPX-")];
        let [refresh, client, word] = &user;
        let file = json!({
            "type": "authorized_user",
            "client_id": client,
            "client_secret": word,
            "refresh_token": refresh,
            "token_uri": format!("{}/token", self.endpoint()),
        });
        self.tokens().refresh.push(user);
        file
    }

    /// The key file of the service account `email`, newly made.
    ///
    /// # Errors
    /// No `openssl`.
    pub fn service_account(&self, email: &str) -> anyhow::Result<Value> {
        let uri = format!("{}/token", self.endpoint());
        self.tokens().accounts.create_key(email, &uri)
    }

    /// Sets its clock forward.
    pub fn advance(&self, by: Duration) {
        self.shared.clock.advance(by);
    }

    /// From now on its clock goes so many times as fast as the real time.
    pub fn set_speed(&self, speed: f64) {
        self.shared.clock.set_speed(speed);
    }

    /// What its clock shows.
    #[must_use]
    pub fn now(&self) -> clock::Time {
        self.shared.clock.now()
    }

    /// What there is, to be looked at and changed behind everybody's back.
    pub fn world(&self) -> MutexGuard<'_, World> {
        let mut world = self.shared.world();
        world.settle(self.now());
        world
    }

    /// Tokens, and whom they are issued to.
    pub fn tokens(&self) -> MutexGuard<'_, Tokens> {
        self.shared.tokens()
    }

    /// Orders trouble for the next `times` requests of that kind.
    pub fn order(&self, on: On, times: u32, act: Act) {
        self.shared.faults().order(on, times, act);
    }

    /// Forgets the project with all that is in it, and begins with an empty one.
    pub fn begin_anew(&self, pace: Pace) {
        self.shared.faults().clear();
        self.clear_requests();
        let mut world = self.shared.world();
        let addresses = Addresses::new(world.addresses.port());
        *world = World::new(&world.project.clone(), pace, addresses);
    }

    /// How many requests have begun to wait, as they were told to, since there is a stand-in.
    #[must_use]
    pub fn hung(&self) -> u64 {
        self.shared.hung.load(Relaxed)
    }

    /// Takes back all trouble that was ordered.
    pub fn calm(&self) {
        self.shared.faults().clear();
        self.world().failures.clear();
    }

    /// How often each method was asked for.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.shared.log().counts()
    }

    /// How often one method was asked for.
    #[must_use]
    pub fn count(&self, method: &str) -> u64 {
        self.counts().get(method).copied().unwrap_or(0)
    }

    /// What was asked, the oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Entry> {
        self.shared.log().entries()
    }

    /// Forgets what was asked.
    pub fn clear_requests(&self) {
        self.shared.log().clear();
    }

    /// What was wrong so far and is to fail the test, which is forgotten then.
    #[must_use]
    pub fn take_wrongs(&self) -> Vec<String> {
        std::mem::take(&mut *open(&self.shared.wrong))
    }
}

impl Drop for Gce {
    fn drop(&mut self) {
        let wrongs = self.take_wrongs();
        // A test that fails already says why.
        if !std::thread::panicking() {
            assert!(wrongs.is_empty(), "the stand-in's own faults: {wrongs:#?}");
        }
    }
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        open(&self.world)
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        open(&self.tokens)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        open(&self.faults)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        open(&self.log)
    }

    async fn hang(&self, time: Duration) {
        self.hung.fetch_add(1, Relaxed);
        sleep(time).await;
    }

    fn wrong(&self, what: String) {
        open(&self.wrong).push(what);
    }
}

fn open<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that panicked while it held one has failed already.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The URL of a path, as Google writes it whatever the endpoint was.
fn link(path: &str) -> String {
    format!("https://www.googleapis.com/compute/v1/{path}")
}

/// A stamp of some content: 8 bytes, base64 of the URL-safe kind, as Google writes bytes.
fn fingerprint(content: &[u8]) -> String {
    BASE64URL.encode(&Sha256::digest(content)[..8])
}
