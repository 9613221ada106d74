//! What every provider promises, tested once: the rows run against any [`Provider`], and what only
//! a backend itself can do (an instance nobody marked, a cut connection) is its [`Backend`].
//!
//! Rows that need the operation's trace are not here: the operator has no tracing yet.

use actors::provider::contract::{
    CreateRequest, ErrorClass, Instance, InstanceState, Operation, Provider, ProviderError,
    ProviderId,
};
use anyhow::{Context, bail, ensure};
use futures::future::{BoxFuture, join_all};
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    io,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};
use tracing::instrument::WithSubscriber;

/// How long a backend may take to do what it said it would.
const PATIENCE: Duration = Duration::from_secs(60);
/// What "promptly" means on a busy machine.
const PROMPTLY: Duration = Duration::from_secs(3);

/// What a test needs of a backend beside its provider. Everything is done behind the provider's back.
pub trait Backend: Send + Sync {
    /// A provider of the installation with this id.
    fn provider(&self, installation: &str) -> Arc<dyn Provider>;

    /// A provider of [`Backend::installation`] that reaches the backend over a wire of its own.
    fn wired(&self) -> BoxFuture<'_, anyhow::Result<(Arc<dyn Provider>, Box<dyn Faults>)>>;

    /// The installation whose instances this test run makes; nobody else's.
    fn installation(&self) -> &str;

    /// A request that can be satisfied, for an owner that no other request has.
    fn request(&self) -> BoxFuture<'_, anyhow::Result<CreateRequest>>;

    /// Ids that no instance can have.
    fn malformed_ids(&self) -> Vec<String>;

    /// An id that an instance could have, but none has.
    fn absent_id(&self) -> ProviderId;

    /// Makes an instance without any mark.
    fn unmarked(&self) -> BoxFuture<'_, anyhow::Result<ProviderId>>;

    /// Makes an instance that the backend reports like this.
    fn posed(&self, pose: Pose) -> BoxFuture<'_, anyhow::Result<ProviderId>>;

    /// Keeps the instance from going, however often it is deleted, until it is let go.
    fn hold<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>>;

    /// Ends [`Backend::hold`].
    fn let_go<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>>;

    /// Deletes the instance and waits until it has gone.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>>;

    /// The backend's own keys of all that was made under this name; they change when an instance is replaced.
    fn made<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Vec<String>>>;

    /// All that somebody who may look, but not into the guest, sees of the instance and around it.
    fn visible<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<String>>;

    /// Whether instances really start here.
    fn boots(&self) -> bool;
}

/// The connection to a backend, whose every step a test can break.
pub trait Faults: Send + Sync {
    /// From now on this goes wrong; steps are counted from 1 again.
    fn break_at(&self, fault: Fault);

    /// Steps since the last [`Faults::break_at`].
    fn steps(&self) -> usize;
}

/// What goes wrong with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is cut when the step begins; the backend learns nothing of it.
    CutBefore(usize),
    /// It is cut when the step is done; the backend did it, but nobody is told.
    CutAfter(usize),
    /// Everything is taken and nothing answered.
    Silence,
}

/// How an instance is, in the backend's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pose {
    /// It runs, with an address.
    Running,
    /// It runs, but has no address yet.
    RunningWithoutAddress,
    /// In a state that no version of the backend has had so far.
    Unheard,
}

/// One row of the suite.
pub struct Row {
    /// What is promised.
    pub name: &'static str,
    /// Proves it.
    pub run: for<'a> fn(&'a dyn Backend) -> BoxFuture<'a, anyhow::Result<()>>,
}

/// All rows, to be run one by one or together.
#[must_use]
pub fn rows() -> Vec<Row> {
    macro_rules! rows {
        ($($name:ident),* $(,)?) => {
            vec![$(Row { name: stringify!($name), run: |backend| Box::pin($name(backend)) }),*]
        };
    }
    rows![
        create_again_adopts,
        creates_at_once_make_one_instance,
        create_resumes_after_every_cut,
        delete_resumes_after_every_cut,
        another_owners_instance_is_never_taken_over,
        a_deleted_instance_is_not_found,
        an_instance_removed_by_hand_is_made_anew,
        deleting_twice_is_fine,
        an_instance_being_deleted_is_still_reported,
        malformed_ids_are_permanent,
        an_unheard_state_is_stopped,
        running_needs_an_address,
        a_new_instance_is_never_stopped,
        marks_and_age_are_read_back,
        list_shows_ours_and_only_ours,
        a_cancelled_call_returns_at_once_and_harms_nobody,
        no_call_outlives_its_deadline,
        user_data_never_leaks,
    ]
}

async fn create_again_adopts(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let first = provider.create(&request).await?;
    let made = backend.made(&request.name).await?;
    let second = provider.create(&request).await?;
    ensure!(first.id == second.id, "{} became {}", first.id, second.id);
    ensure!(made == backend.made(&request.name).await?, "made anew");
    gone(&*provider, &first.id).await
}

async fn creates_at_once_make_one_instance(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let all = join_all((0..8).map(|_| provider.create(&request))).await;
    let ids = all
        .into_iter()
        .map(|created| created.map(|created| created.id))
        .collect::<Result<BTreeSet<_>, _>>()?;
    ensure!(ids.len() == 1, "one name, many ids: {ids:?}");
    ensure!(backend.made(&request.name).await?.len() == 1);
    gone(&*provider, ids.first().context("an id")?).await
}

async fn create_resumes_after_every_cut(backend: &dyn Backend) -> anyhow::Result<()> {
    let (cut, wire) = backend.wired().await?;
    let (provider, request) = ours(backend).await?;
    wire.break_at(Fault::None);
    let id = cut.create(&request).await?.id;
    let steps = wire.steps();
    gone(&*provider, &id).await?;
    ensure!(steps > 0, "the wire saw nothing");
    for fault in every_cut(steps) {
        wire.break_at(fault);
        let error = expect_error(cut.create(&request).await, fault)?;
        ensure!(error.class == ErrorClass::Transient, "{fault:?}: {error}");
        wire.break_at(Fault::None);
        let again = cut
            .create(&request)
            .await
            .with_context(|| format!("after {fault:?}"))?;
        ensure!(again.id == id, "after {fault:?}: {}", again.id);
        let made = backend.made(&request.name).await?;
        ensure!(made.len() == 1, "after {fault:?}: {made:?}");
        gone(&*provider, &id).await?;
    }
    Ok(())
}

async fn delete_resumes_after_every_cut(backend: &dyn Backend) -> anyhow::Result<()> {
    let (cut, wire) = backend.wired().await?;
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    wire.break_at(Fault::None);
    cut.delete(&id).await?;
    let steps = wire.steps();
    gone(&*provider, &id).await?;
    ensure!(steps > 0, "the wire saw nothing");
    for fault in every_cut(steps) {
        provider.create(&request).await?;
        wire.break_at(fault);
        let error = expect_error(cut.delete(&id).await, fault)?;
        ensure!(error.class == ErrorClass::Transient, "{fault:?}: {error}");
        wire.break_at(Fault::None);
        cut.delete(&id)
            .await
            .with_context(|| format!("after {fault:?}"))?;
        gone(&*provider, &id).await?;
        let made = backend.made(&request.name).await?;
        ensure!(made.is_empty(), "after {fault:?} there is {made:?}");
    }
    Ok(())
}

async fn another_owners_instance_is_never_taken_over(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let squatter = CreateRequest {
        name: request.name.clone(),
        ..backend.request().await?
    };
    let theirs = provider.create(&squatter).await?.id;
    let made = backend.made(&request.name).await?;
    let error = expect_error(provider.create(&request).await, "a conflict")?;
    ensure!(error.class == ErrorClass::AdoptionConflict, "{error}");
    ensure!(
        error.message.contains(&squatter.uid),
        "whose is it? {error}"
    );
    ensure!(made == backend.made(&request.name).await?, "it was touched");
    ensure!(provider.get(&theirs).await?.uid == squatter.uid);
    gone(&*provider, &theirs).await
}

async fn a_deleted_instance_is_not_found(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    provider.get(&id).await?;
    gone(&*provider, &id).await?;
    ensure!(backend.made(&request.name).await?.is_empty());
    let error = expect_error(provider.get(&id).await, "get of nothing")?;
    ensure!(error.class == ErrorClass::NotFound, "{error}");
    ensure!(error.id.as_deref() == Some(&*id), "{error:?}");
    Ok(())
}

async fn an_instance_removed_by_hand_is_made_anew(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    let before = backend.made(&request.name).await?;
    backend.remove(&id).await?;
    let error = expect_error(provider.get(&id).await, "get of nothing")?;
    ensure!(error.class == ErrorClass::NotFound, "{error}");
    provider.create(&request).await?;
    let after = backend.made(&request.name).await?;
    ensure!(
        after.len() == 1 && after != before,
        "{before:?} became {after:?}"
    );
    gone(&*provider, &id).await
}

async fn deleting_twice_is_fine(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    provider.delete(&id).await?;
    provider.delete(&id).await?;
    gone(&*provider, &id).await?;
    provider.delete(&id).await?;
    provider.delete(&backend.absent_id()).await?;
    Ok(())
}

async fn an_instance_being_deleted_is_still_reported(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    let made = backend.made(&request.name).await?;
    backend.hold(&id).await?;
    provider.delete(&id).await?;
    provider.delete(&id).await.context("a second delete")?;
    let instance = provider.get(&id).await.context("it is not gone yet")?;
    ensure!(instance.state != InstanceState::Running, "{instance:?}");
    ensure!(provider.list().await?.iter().any(|listed| listed.id == id));
    let early = expect_error(provider.create(&request).await, "its name is taken")?;
    ensure!(early.class == ErrorClass::Transient, "{early}");
    ensure!(
        made == backend.made(&request.name).await?,
        "it was replaced"
    );
    backend.let_go(&id).await?;
    gone(&*provider, &id).await
}

async fn malformed_ids_are_permanent(backend: &dyn Backend) -> anyhow::Result<()> {
    let provider = backend.provider(backend.installation());
    for id in backend.malformed_ids() {
        for error in [
            expect_error(provider.get(&id).await, &id)?,
            expect_error(provider.delete(&id).await, &id)?,
        ] {
            ensure!(error.class == ErrorClass::Permanent, "{id:?}: {error}");
            ensure!(
                error.message.contains(&format!("{id:?}")),
                "{id:?}: {error}"
            );
        }
    }
    Ok(())
}

async fn an_unheard_state_is_stopped(backend: &dyn Backend) -> anyhow::Result<()> {
    let provider = backend.provider(backend.installation());
    let id = backend.posed(Pose::Unheard).await?;
    let state = provider.get(&id).await?.state;
    ensure!(state == InstanceState::Stopped, "{state:?}");
    gone(&*provider, &id).await
}

async fn running_needs_an_address(backend: &dyn Backend) -> anyhow::Result<()> {
    let provider = backend.provider(backend.installation());
    for (pose, expected) in [
        (Pose::RunningWithoutAddress, InstanceState::Provisioning),
        (Pose::Running, InstanceState::Running),
    ] {
        let id = backend.posed(pose).await?;
        let instance = provider.get(&id).await?;
        ensure!(instance.state == expected, "{pose:?}: {instance:?}");
        ensure!(instance.ip.is_some() == (expected == InstanceState::Running));
        gone(&*provider, &id).await?;
    }
    Ok(())
}

async fn a_new_instance_is_never_stopped(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let id = provider.create(&request).await?.id;
    let boots = backend.boots();
    eventually("the instance runs", || async {
        let instance = provider.get(&id).await?;
        let up = match instance.state {
            InstanceState::Running => instance.ip.is_some(),
            InstanceState::Provisioning => !boots,
            InstanceState::Stopped | InstanceState::Terminated => {
                bail!("it was only just created: {instance:?}")
            }
        };
        Ok(up.then_some(()))
    })
    .await?;
    gone(&*provider, &id).await
}

async fn marks_and_age_are_read_back(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let before = now()?;
    let id = provider.create(&request).await?.id;
    let after = now()?;
    let listed = provider.list().await?;
    let listed = listed.iter().find(|instance| instance.id == id);
    for instance in [&provider.get(&id).await?, listed.context("not listed")?] {
        ensure!(instance.uid == request.uid, "{instance:?}");
        ensure!(
            instance.installation == request.installation,
            "{instance:?}"
        );
        // The backend's clock counts in whole seconds, and may be another one.
        let likely = before - 5..=after + 5;
        ensure!(likely.contains(&instance.created_at), "{instance:?}");
    }
    gone(&*provider, &id).await
}

async fn list_shows_ours_and_only_ours(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, request) = ours(backend).await?;
    let stranger = format!("not-{}", backend.installation());
    let other = backend.provider(&stranger);
    let theirs = CreateRequest {
        installation: stranger,
        ..backend.request().await?
    };
    let (ours, theirs) = (
        provider.create(&request).await?.id,
        other.create(&theirs).await?.id,
    );
    let unmarked = backend.unmarked().await?;
    let ids = |list: Vec<Instance>| list.into_iter().map(|i| i.id).collect::<Vec<_>>();
    let (mine, others) = (ids(provider.list().await?), ids(other.list().await?));
    ensure!(mine.contains(&ours), "{ours} is not among {mine:?}");
    ensure!(others == [theirs.clone()], "{others:?}");
    for stranger in [&theirs, &unmarked] {
        ensure!(!mine.contains(stranger), "{stranger} is among {mine:?}");
    }
    backend.remove(&unmarked).await?;
    gone(&*other, &theirs).await?;
    gone(&*provider, &ours).await?;
    ensure!(!ids(provider.list().await?).contains(&ours));
    Ok(())
}

async fn a_cancelled_call_returns_at_once_and_harms_nobody(
    backend: &dyn Backend,
) -> anyhow::Result<()> {
    let (provider, wire) = backend.wired().await?;
    let request = backend.request().await?;
    let id = provider.create(&request).await?.id;
    wire.break_at(Fault::Silence);
    let hung = tokio::spawn({
        let (provider, id) = (Arc::clone(&provider), id.clone());
        async move { provider.get(&id).await.map(drop) }
    });
    eventually("the call is on the wire", || async {
        Ok((wire.steps() > 0).then_some(()))
    })
    .await?;
    let cancelled = Instant::now();
    hung.abort();
    ensure!(hung.await.is_err_and(|end| end.is_cancelled()));
    wire.break_at(Fault::None);
    provider.get(&id).await.context("the next call")?;
    ensure!(cancelled.elapsed() < PROMPTLY, "{:?}", cancelled.elapsed());
    gone(&*provider, &id).await
}

async fn no_call_outlives_its_deadline(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, wire) = backend.wired().await?;
    let request = backend.request().await?;
    let absent = backend.absent_id();
    wire.break_at(Fault::Silence);
    let calls: [BoxFuture<'_, (Operation, Option<ErrorClass>)>; 4] = [
        Box::pin(async { (Operation::Create, class(provider.create(&request).await)) }),
        Box::pin(async { (Operation::Get, class(provider.get(&absent).await)) }),
        Box::pin(async { (Operation::Delete, class(provider.delete(&absent).await)) }),
        Box::pin(async { (Operation::List, class(provider.list().await)) }),
    ];
    let started = Instant::now();
    for (operation, class) in join_all(calls.map(|call| async {
        let ended = call.await;
        (ended, started.elapsed())
    }))
    .await
    .into_iter()
    .map(|((operation, class), took)| ((operation, took), class))
    {
        let (operation, took) = operation;
        ensure!(
            class == Some(ErrorClass::Transient),
            "{operation}: {class:?}"
        );
        let deadline = provider.deadline(operation);
        ensure!(
            took < deadline + PROMPTLY,
            "{operation} took {took:?} of {deadline:?}"
        );
    }
    let started = Instant::now();
    for check in provider.check().await {
        ensure!(!check.ready && check.reason == "Timeout", "{check:?}");
    }
    ensure!(started.elapsed() < provider.deadline(Operation::Check) + PROMPTLY);
    wire.break_at(Fault::None);
    ensure!(provider.check().await.iter().all(|check| check.ready));
    Ok(())
}

async fn user_data_never_leaks(backend: &dyn Backend) -> anyhow::Result<()> {
    const SENTINEL: &str = "s3ntinel-b7e1";
    let (logged, log) = mpsc::channel();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || Tee(logged.clone()))
        .finish();
    let seen = async {
        let (cut, wire) = backend.wired().await?;
        let (provider, mut request) = ours(backend).await?;
        let user_data = format!("#cloud-config\npassword: {SENTINEL}\n");
        request.user_data = Some(user_data.into_bytes().into());
        let mut seen = format!("{request:?}");
        wire.break_at(Fault::CutAfter(1));
        let error = expect_error(cut.create(&request).await, "a cut")?;
        write!(
            seen,
            "{error}{error:?}{:?}",
            anyhow::Error::from(error.clone())
        )?;
        let created = provider.create(&request).await?;
        write!(seen, "{created:?}{:?}", provider.get(&created.id).await?)?;
        seen += &backend.visible(&request.name).await?;
        let squatted = CreateRequest {
            uid: backend.request().await?.uid,
            ..request.clone()
        };
        let error = expect_error(provider.create(&squatted).await, "a conflict")?;
        write!(seen, "{error}{error:?}")?;
        let impossible = CreateRequest {
            name: "Not A Name".to_owned(),
            ..request.clone()
        };
        let error = expect_error(provider.create(&impossible).await, "an impossible name")?;
        write!(seen, "{error}{error:?}")?;
        gone(&*provider, &created.id).await?;
        anyhow::Ok((request.name, seen))
    }
    .with_subscriber(subscriber)
    .await?;
    let (name, seen) = seen;
    let log: Vec<u8> = log.try_iter().flatten().collect();
    let log = String::from_utf8_lossy(&log);
    ensure!(
        seen.contains(&name) && !log.is_empty(),
        "the test looked at nothing"
    );
    ensure!(!seen.contains(SENTINEL), "seen in {seen}");
    ensure!(!log.contains(SENTINEL), "logged in {log}");
    Ok(())
}

/// Collects what is logged.
struct Tee(mpsc::Sender<Vec<u8>>);

impl io::Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The test may be over.
        self.0.send(bytes.to_vec()).ok();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn ours(backend: &dyn Backend) -> anyhow::Result<(Arc<dyn Provider>, CreateRequest)> {
    let provider = backend.provider(backend.installation());
    Ok((provider, backend.request().await?))
}

fn every_cut(steps: usize) -> impl Iterator<Item = Fault> {
    (1..=steps).flat_map(|step| [Fault::CutBefore(step), Fault::CutAfter(step)])
}

fn class<T>(result: Result<T, ProviderError>) -> Option<ErrorClass> {
    result.err().map(|error| error.class)
}

/// The error of a call that has to fail.
///
/// # Errors
/// When it did not.
pub fn expect_error<T: std::fmt::Debug>(
    result: Result<T, ProviderError>,
    what: impl std::fmt::Debug,
) -> anyhow::Result<ProviderError> {
    match result {
        Ok(value) => bail!("{what:?}: no error but {value:?}"),
        Err(error) => Ok(error),
    }
}

/// Deletes the instance and waits until it is gone; meanwhile it must never run again.
///
/// # Errors
/// When a call fails or the instance stays.
pub async fn gone(provider: &dyn Provider, id: &str) -> anyhow::Result<()> {
    provider.delete(id).await?;
    eventually("the instance is gone", || async {
        match provider.get(id).await {
            Ok(instance) if instance.state == InstanceState::Running => {
                bail!("running while it is deleted: {instance:?}")
            }
            Ok(_) => Ok(None),
            Err(error) if error.class == ErrorClass::NotFound => Ok(Some(())),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// Asks again and again until there is an answer.
///
/// # Errors
/// The question's own, or that there was no answer in [`PATIENCE`].
pub async fn eventually<T, F>(what: &str, ask: impl Fn() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let asking = async {
        let mut again = tokio::time::interval(Duration::from_millis(50));
        loop {
            again.tick().await;
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking)
        .await
        .with_context(|| format!("not in {PATIENCE:?}: {what}"))?
}

fn now() -> anyhow::Result<i64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(i64::try_from(since.as_secs())?)
}
