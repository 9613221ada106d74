//! Something far away, in memory, with switches for what goes wrong.

use crate::{
    connection::{
        Transfers,
        link::{Link, Refusal},
    },
    fakes::SECOND,
    system::Reply,
};
use futures::future::BoxFuture;
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    future::pending,
    ops::Deref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep},
};

/// Permits as good as without end.
const MANY: usize = Semaphore::MAX_PERMITS / 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub type Answer = Result<usize, Refusal<Fault>>;

/// A request; answered with the number of the session that it was served on.
pub struct Ask {
    pub name: usize,
    pub key: Option<&'static str>,
    pub patience: Duration,
    /// What it needs over there; it is dropped when that is not to be had.
    pub brings: Option<&'static str>,
    /// It panics instead.
    pub panics: bool,
    pub reply: Option<Reply<Answer>>,
}

impl Ask {
    pub fn new(name: usize) -> Self {
        Self {
            name,
            key: None,
            patience: 60 * SECOND,
            brings: None,
            panics: false,
            reply: None,
        }
    }
    pub fn key(self, key: &'static str) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }
    pub fn brings(self, cargo: &'static str) -> Self {
        Self {
            brings: Some(cargo),
            ..self
        }
    }
    pub fn panics(self) -> Self {
        Self {
            panics: true,
            ..self
        }
    }
    pub fn answered_at(self, reply: Reply<Answer>) -> Self {
        Self {
            reply: Some(reply),
            ..self
        }
    }
}

#[derive(Clone)]
pub enum Dial {
    Succeeds,
    /// A word that begins with `final` says that waiting is of no use.
    Fails(&'static str),
    Hangs,
    Panics,
}

pub enum Ping {
    Fails,
    Hangs,
    Panics,
}

#[derive(Clone)]
pub struct Session {
    pub number: usize,
    /// The credentials that it was dialled with.
    credentials: usize,
    lost: watch::Sender<Option<Fault>>,
    closed: Arc<AtomicBool>,
}

/// Counts what is under way, and notes when too much is.
#[derive(Clone, Default)]
pub struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

impl Gauge {
    fn enter(&self) -> Inside {
        let now = self.0.0.fetch_add(1, SeqCst) + 1;
        self.0.1.fetch_max(now, SeqCst);
        Inside(self.clone())
    }
    pub fn now(&self) -> usize {
        self.0.0.load(SeqCst)
    }
    pub fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }
}

struct Inside(Gauge);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.0.0.fetch_sub(1, SeqCst);
    }
}

pub struct Far {
    pub dial: Mutex<Dial>,
    /// When each dial began.
    pub dials: Mutex<Vec<Instant>>,
    pub dialling: Gauge,
    pub sessions: Mutex<Vec<Session>>,
    /// How the next pings end; those after that succeed.
    pub pings: Mutex<VecDeque<Ping>>,
    pub pinged: Mutex<Vec<Instant>>,
    /// Names of requests served, in order.
    pub served: Mutex<Vec<usize>>,
    pub serving: Gauge,
    pub by_key: Mutex<HashMap<&'static str, Gauge>>,
    /// Requests that may end.
    pub gate: Semaphore,
    /// Cargoes carried, in order.
    pub carried: Mutex<Vec<String>>,
    pub carrying: Gauge,
    /// So many transfers may end.
    pub arrivals: Semaphore,
    /// The credentials that there are now; each number is another key.
    pub credentials: AtomicUsize,
    /// How transfers end: with this error, if any. A panic on `panics`.
    pub carry: Mutex<Option<&'static str>>,
}

impl Default for Far {
    fn default() -> Self {
        Self {
            dial: Mutex::new(Dial::Succeeds),
            dials: Mutex::default(),
            dialling: Gauge::default(),
            sessions: Mutex::default(),
            pings: Mutex::default(),
            pinged: Mutex::default(),
            served: Mutex::default(),
            serving: Gauge::default(),
            by_key: Mutex::default(),
            gate: Semaphore::new(MANY),
            carried: Mutex::default(),
            carrying: Gauge::default(),
            arrivals: Semaphore::new(MANY),
            credentials: AtomicUsize::new(0),
            carry: Mutex::default(),
        }
    }
}

impl Far {
    pub fn dials(&self, next: Dial) {
        *self.dial.lock().unwrap() = next;
    }
    pub fn dialled(&self) -> usize {
        self.dials.lock().unwrap().len()
    }
    pub fn pinged(&self) -> usize {
        self.pinged.lock().unwrap().len()
    }
    /// What is served from here on does not end.
    pub fn hold(&self) {
        self.gate.forget_permits(usize::MAX);
    }
    /// What is carried from here on does not end.
    pub fn hold_cargo(&self) {
        self.arrivals.forget_permits(usize::MAX);
    }
    pub fn served(&self) -> Vec<usize> {
        self.served.lock().unwrap().clone()
    }
    pub fn carried(&self) -> Vec<String> {
        self.carried.lock().unwrap().clone()
    }
    /// The newest session dies.
    pub fn lose(&self, why: &str) {
        if let Some(session) = self.sessions.lock().unwrap().last() {
            session.lost.send_replace(Some(Fault(why.into())));
        }
    }
    /// That session dies.
    pub fn lose_session(&self, number: usize, why: &str) {
        let fault = Fault(why.into());
        self.sessions.lock().unwrap()[number]
            .lost
            .send_replace(Some(fault));
    }
    pub fn closed(&self, session: usize) -> bool {
        self.sessions.lock().unwrap()[session].closed.load(SeqCst)
    }
    /// Sessions that nobody has closed.
    pub fn open(&self) -> usize {
        let sessions = self.sessions.lock().unwrap();
        sessions.iter().filter(|s| !s.closed.load(SeqCst)).count()
    }
}

/// The far end, as the connection sees it; a clone is the same one.
#[derive(Clone, Default)]
pub struct FakeLink(Arc<Far>);

impl Deref for FakeLink {
    type Target = Far;
    fn deref(&self) -> &Far {
        &self.0
    }
}

impl Link for FakeLink {
    type Session = Session;
    type Request = Ask;
    type Cargo = String;
    type Error = Fault;

    fn dial(&self) -> BoxFuture<'static, Result<Session, Fault>> {
        let far = self.clone();
        Box::pin(async move {
            far.dials.lock().unwrap().push(Instant::now());
            let _inside = far.dialling.enter();
            sleep(super::DIALLING).await;
            let mode = far.dial.lock().unwrap().clone();
            match mode {
                Dial::Succeeds => {}
                Dial::Fails(why) => return Err(Fault(why.into())),
                Dial::Hangs => pending().await,
                Dial::Panics => panic!("as told"),
            }
            let mut sessions = far.sessions.lock().unwrap();
            let session = Session {
                number: sessions.len(),
                credentials: far.credentials.load(SeqCst),
                lost: watch::Sender::new(None),
                closed: Arc::default(),
            };
            sessions.push(session.clone());
            Ok(session)
        })
    }

    fn is_final(&self, error: &Fault) -> bool {
        error.0.starts_with("final")
    }

    fn lost(&self, session: &Session) -> BoxFuture<'static, Fault> {
        let mut lost = session.lost.subscribe();
        Box::pin(async move {
            let why = lost.wait_for(Option::is_some).await;
            why.ok().and_then(|why| why.clone()).expect("is kept")
        })
    }

    fn is_outdated(&self, session: &Session) -> BoxFuture<'static, bool> {
        let outdated = session.credentials != self.credentials.load(SeqCst);
        Box::pin(std::future::ready(outdated))
    }

    fn ping(&self, _: &Session) -> BoxFuture<'static, Result<(), Fault>> {
        let far = self.clone();
        Box::pin(async move {
            far.pinged.lock().unwrap().push(Instant::now());
            let how = far.pings.lock().unwrap().pop_front();
            match how {
                None => Ok(()),
                Some(Ping::Fails) => Err(Fault("no sign of life".into())),
                Some(Ping::Hangs) => pending().await,
                Some(Ping::Panics) => panic!("as told"),
            }
        })
    }

    fn silent(&self, waited: Duration) -> Fault {
        Fault(format!("silent for {} s", waited.as_secs()))
    }

    fn close(&self, session: &Session) {
        let before = session.closed.swap(true, SeqCst);
        assert!(!before, "closed twice");
    }

    fn patience(&self, ask: &Ask) -> Duration {
        ask.patience
    }

    fn key(&self, ask: &Ask) -> Option<String> {
        ask.key.map(Into::into)
    }

    fn is_wanted(&self, ask: &Ask) -> bool {
        ask.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    fn serve(
        &self,
        session: Session,
        ask: Ask,
        transfers: Transfers<Self>,
    ) -> BoxFuture<'static, ()> {
        let far = self.clone();
        Box::pin(async move {
            far.served.lock().unwrap().push(ask.name);
            let _inside = far.serving.enter();
            let of_key = ask.key.map(|key| {
                let mut by_key = far.by_key.lock().unwrap();
                by_key.entry(key).or_default().enter()
            });
            assert!(!ask.panics, "as told");
            if let Some(cargo) = ask.brings {
                let brought = transfers.bring(cargo.into(), 3600 * SECOND).await;
                let Ok(Ok(())) = brought else { return };
            }
            drop(far.gate.acquire().await);
            sleep(Duration::from_millis(5)).await;
            drop(of_key);
            let reply = ask.reply.expect("somebody asked");
            reply.send(Ok(session.number)).ok();
        })
    }

    fn refuse(&self, ask: Ask, why: Refusal<Fault>) {
        ask.reply.expect("somebody asked").send(Err(why)).ok();
    }

    fn carry(&self, session: Session, cargo: String) -> BoxFuture<'static, Result<(), Fault>> {
        let far = self.clone();
        Box::pin(async move {
            assert!(!session.closed.load(SeqCst), "carries on a closed session");
            far.carried.lock().unwrap().push(cargo);
            let _inside = far.carrying.enter();
            far.arrivals.acquire().await.expect("open").forget();
            sleep(Duration::from_millis(5)).await;
            let end = *far.carry.lock().unwrap();
            assert_ne!(end, Some("panics"), "as told");
            end.map_or(Ok(()), |why| Err(Fault(why.into())))
        })
    }
}
