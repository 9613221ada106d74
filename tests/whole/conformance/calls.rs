//! How a call ends, and what it must not give away.

use super::{Backend, Fault, eventually, expect_error, gone, ours};
use actors::provider::contract::{CreateRequest, ErrorClass, Operation, ProviderError};
use anyhow::{Context, ensure};
use std::{
    fmt::Write as _,
    io,
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};
use tracing::instrument::WithSubscriber;

/// What "promptly" means on a busy machine.
const PROMPTLY: Duration = Duration::from_secs(3);

pub async fn a_cancelled_call_returns_at_once_and_harms_nobody(
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

pub async fn no_call_outlives_its_deadline(backend: &dyn Backend) -> anyhow::Result<()> {
    let (provider, wire) = backend.wired().await?;
    let request = backend.request().await?;
    let absent = backend.absent_id();
    wire.break_at(Fault::Silence);
    let (create, get, delete, list) = tokio::join!(
        timed(provider.create(&request)),
        timed(provider.get(&absent)),
        timed(provider.delete(&absent)),
        timed(provider.list()),
    );
    for (operation, (class, took)) in [
        (Operation::Create, create),
        (Operation::Get, get),
        (Operation::Delete, delete),
        (Operation::List, list),
    ] {
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

pub async fn user_data_never_leaks(backend: &dyn Backend) -> anyhow::Result<()> {
    const SENTINEL: &str = "s3ntinel-b7e1";
    let (logged, log) = mpsc::channel();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || Tee(logged.clone()))
        .finish();
    let (name, seen) = async {
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

/// How a call failed, and after how long.
async fn timed<T>(
    call: impl Future<Output = Result<T, ProviderError>>,
) -> (Option<ErrorClass>, Duration) {
    let started = Instant::now();
    let class = call.await.err().map(|error| error.class);
    (class, started.elapsed())
}
