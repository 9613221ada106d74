//! The toolkit, from outside: a small tree whose actors do what a test says.

mod directory;
mod failure;
mod kill;
mod mail;
mod monkey;
mod span;
mod stop;

use super::{
    Actor, Addr, Broken, ChildSpec, Context, Epoch, Policy, Reply, Running, System, Work,
    directory::{Directory, End, Path, Seen},
    meter::Meters,
};
use futures::{FutureExt, future::BoxFuture};
use prometheus::Registry;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{sync::mpsc, sync::oneshot, time::Instant};

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// What an actor of these tests does.
#[derive(strum::IntoStaticStr)]
enum Do {
    /// Answer.
    Ping(Reply<()>),
    /// Keep the question and never answer it.
    Keep(Reply<()>),
    /// Panic.
    Panic,
    /// Return an error.
    Break,
    /// Start slow work that never ends by itself; tell of its epoch, and when it is dropped.
    Work,
    /// The result of slow work.
    Worked(Epoch),
    /// Wait for this when stopped.
    Last(BoxFuture<'static, ()>),
    /// Anything, with what it is handed.
    Run(Script),
}

type Script = Box<dyn FnOnce(&mut Context<Do>) + Send>;

/// What the actors tell of themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Started,
    Stopping,
    Dropped,
    WorkStarted(Epoch),
    WorkDropped,
    WorkTaken(bool),
    ChildFailed(String, u32, String),
}

/// Who told what and when.
type Word = (&'static str, Told, Instant);

/// What stands where, and what is under it.
#[derive(Clone)]
struct Plan {
    path: &'static str,
    addr: Addr<Do>,
    fails: Arc<AtomicBool>,
    children: Vec<Plan>,
    essential: bool,
}

fn plan(path: &'static str) -> Plan {
    Plan {
        path,
        addr: Addr::default(),
        fails: Arc::default(),
        children: Vec::new(),
        essential: false,
    }
}

impl Plan {
    fn with(mut self, children: impl IntoIterator<Item = Plan>) -> Self {
        self.children.extend(children);
        self
    }

    /// As impatient as the root.
    fn essential(mut self) -> Self {
        self.essential = true;
        self
    }

    fn spec(self, teller: mpsc::UnboundedSender<Word>) -> ChildSpec {
        if self.essential {
            return ChildSpec::new(self.path, self.addr.clone(), move || {
                Node::<true>::new(&self, &teller)
            });
        }
        ChildSpec::new(self.path, self.addr.clone(), move || {
            Node::<false>::new(&self, &teller)
        })
    }

    fn collect(&self, all: &mut HashMap<&'static str, Plan>) {
        all.insert(self.path, self.clone());
        for child in &self.children {
            child.collect(all);
        }
    }
}

/// The root is essential, others are patient unless their plan says so.
struct Node<const ESSENTIAL: bool> {
    plan: Plan,
    teller: mpsc::UnboundedSender<Word>,
    work: Work,
    kept: Vec<Reply<()>>,
    last_work: Option<BoxFuture<'static, ()>>,
}

impl<const ESSENTIAL: bool> Node<ESSENTIAL> {
    fn new(plan: &Plan, teller: &mpsc::UnboundedSender<Word>) -> Self {
        Self {
            plan: plan.clone(),
            teller: teller.clone(),
            work: Work::default(),
            kept: Vec::new(),
            last_work: None,
        }
    }

    fn tell(&self, told: Told) {
        self.teller
            .send((self.plan.path, told, Instant::now()))
            .ok();
    }
}

impl<const ESSENTIAL: bool> Drop for Node<ESSENTIAL> {
    fn drop(&mut self) {
        self.tell(Told::Dropped);
    }
}

impl<const ESSENTIAL: bool> Actor for Node<ESSENTIAL> {
    type Msg = Do;
    const KIND: &'static str = if ESSENTIAL { "root" } else { "node" };
    const POLICY: Policy = if ESSENTIAL {
        Policy::ESSENTIAL
    } else {
        Policy::PATIENT
    };

    fn started(&mut self, cx: &mut Context<Do>) -> Result<(), Broken> {
        assert_eq!(&**cx.path(), self.plan.path);
        self.tell(Told::Started);
        for child in &self.plan.children {
            cx.start(child.clone().spec(self.teller.clone()));
        }
        if self.plan.fails.load(Relaxed) {
            return Err(Broken("out of order".into()));
        }
        Ok(())
    }

    fn handle(&mut self, message: Do, cx: &mut Context<Do>) -> Result<(), Broken> {
        match message {
            Do::Ping(reply) => {
                reply.send(()).ok();
            }
            Do::Keep(reply) => self.kept.push(reply),
            Do::Panic => panic!("as told"),
            Do::Break => return Err(Broken("as told".into())),
            Do::Work => {
                let (path, teller) = (self.plan.path, self.teller.clone());
                self.work.start(|epoch| async move {
                    teller
                        .send((path, Told::WorkStarted(epoch), Instant::now()))
                        .ok();
                    let _end = OnDrop(path, teller);
                    std::future::pending::<()>().await;
                });
            }
            Do::Worked(epoch) => {
                let taken = self.work.finish(epoch);
                self.tell(Told::WorkTaken(taken));
            }
            Do::Last(work) => self.last_work = Some(work),
            Do::Run(run) => run(cx),
        }
        Ok(())
    }

    fn child_failed(&mut self, path: &str, failures: u32, error: &str, _: &mut Context<Do>) {
        self.tell(Told::ChildFailed(path.into(), failures, error.into()));
    }

    fn stopping(&mut self, cx: &mut Context<Do>) {
        assert!(cx.children() >= self.plan.children.len(), "too late");
        self.tell(Told::Stopping);
    }

    fn last_work(&mut self) -> Option<BoxFuture<'static, ()>> {
        self.last_work.take()
    }
}

struct OnDrop(&'static str, mpsc::UnboundedSender<Word>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        let word = (self.0, Told::WorkDropped, Instant::now());
        self.1.send(word).ok();
    }
}

/// A tree that runs.
struct Lab {
    running: Running,
    directory: Arc<Directory>,
    registry: Registry,
    words: mpsc::UnboundedReceiver<Word>,
    teller: mpsc::UnboundedSender<Word>,
    plans: HashMap<&'static str, Plan>,
}

/// Runs a root with these children, and waits until all of them have started.
async fn tree(children: impl IntoIterator<Item = Plan>) -> Lab {
    let registry = Registry::new();
    let system = System::new(Meters::new(&registry).expect("a new registry"));
    let (teller, words) = mpsc::unbounded_channel();
    let root = plan("root").with(children);
    let mut plans = HashMap::new();
    root.collect(&mut plans);
    let node = Node::<true>::new(&root, &teller);
    let mut lab = Lab {
        running: system.run(&root.addr, node).await.expect("runs"),
        directory: system.directory(),
        registry,
        words,
        teller,
        plans,
    };
    for _ in 0..lab.plans.len() {
        lab.until(|_, told| *told == Told::Started).await;
    }
    lab
}

impl Lab {
    fn addr(&self, path: &str) -> &Addr<Do> {
        &self.plans[path].addr
    }

    fn tell(&self, path: &str, message: Do) {
        self.addr(path).tell(message).expect("is alive");
    }

    /// Makes the actor at `path` fail at every start, or no longer.
    fn fails(&self, path: &str, fails: bool) {
        self.plans[path].fails.store(fails, Relaxed);
    }

    fn kill(&self, path: &str) {
        assert!(self.directory.end(path, End::Kill), "nobody at {path}");
    }

    /// The next word of anyone, of which there has to be one within ten minutes.
    async fn word(&mut self) -> Word {
        tokio::time::timeout(600 * SECOND, self.words.recv())
            .await
            .expect("a word")
            .expect("the tree lives")
    }

    /// Skips words until one is like this, and returns it.
    async fn until(&mut self, like: impl Fn(&str, &Told) -> bool) -> Word {
        loop {
            let word = self.word().await;
            if like(word.0, &word.1) {
                return word;
            }
        }
    }

    /// Waits until the actor at `path` starts, and returns when it did.
    async fn starts(&mut self, path: &str) -> Instant {
        self.until(|who, told| who == path && *told == Told::Started)
            .await
            .2
    }

    /// All words that are there or come within a second.
    async fn rest(&mut self) -> Vec<(&'static str, Told)> {
        let mut all = Vec::new();
        while let Ok(Some((who, told, _))) = tokio::time::timeout(SECOND, self.words.recv()).await {
            all.push((who, told));
        }
        all
    }

    /// Asserts that the actor answers, without any time passing.
    async fn answers(&self, path: &str) {
        let asked = Instant::now();
        self.addr(path).ask(SECOND, Do::Ping).await.expect(path);
        assert!(asked.elapsed() <= MS, "{path} was slow");
    }

    /// Runs `run` in a handler of the actor at `path`, and waits until it has run.
    async fn inside<T: Send + 'static>(
        &self,
        path: &str,
        run: impl FnOnce(&mut Context<Do>) -> T + Send + 'static,
    ) -> T {
        let (done, result) = oneshot::channel();
        let run = Do::Run(Box::new(move |cx| {
            done.send(run(cx)).ok();
        }));
        self.tell(path, run);
        result.await.expect("has run")
    }

    fn seen(&self, path: &str) -> Seen {
        let list = self.directory.list();
        let seen = list.into_iter().find(|seen| &*seen.path == path);
        seen.expect("is in the directory")
    }

    fn paths(&self) -> Vec<Path> {
        let list = self.directory.list();
        list.into_iter().map(|seen| seen.path).collect()
    }

    /// The sum of a metric over all that have these labels, as a scraper reads it.
    fn metric(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("is text");
        let samples = text
            .lines()
            .filter(|line| line.starts_with(&format!("proxy_operator_{name}{{")));
        let matching = samples.filter(|line| {
            let has = |(name, value)| line.contains(&format!("{name}=\"{value}\""));
            labels.iter().copied().all(has)
        });
        let values = matching.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum()
    }

    fn alive(&self) -> u64 {
        self.metric("actors", &[])
    }

    fn restarts(&self, reason: &str) -> u64 {
        self.metric(
            "actor_restarts_total",
            &[("kind", "node"), ("reason", reason)],
        )
    }
}

/// Lets everything run that can run without time passing.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
