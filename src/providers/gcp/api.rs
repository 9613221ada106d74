//! Requests to Compute Engine: Google's own client, bounded, traced, and logged.
//!
//! Each request is made once: Google's client would retry by itself, for a minute, and without the
//! request being counted anywhere. Who calls a provider knows better when to try again.

use super::{
    classify::Refusal,
    config::GcpConfig,
    credentials::Adc,
    id::VmId,
    secrecy,
    wire::{Shown, Wire},
};
use crate::telemetry::with_causes;
use actors::provider::contract::UserData;
use google_cloud_compute_v1::{
    client::{Firewalls, GlobalOperations, Instances, ZoneOperations},
    model::{Firewall, Instance, Operation},
};
use google_cloud_gax::{client_builder, error::Error, retry_policy::NeverRetry};
use std::time::{Duration, Instant};
use tokio::{sync::OnceCell, time::timeout};
use tracing::{Instrument, Span, debug_span, field::Empty};

/// How long one request may take, getting a token included.
pub(super) const REQUEST: Duration = Duration::from_secs(10);

/// Compute Engine, as one provider uses it.
pub(super) struct Api {
    pub(super) project: String,
    pub(super) endpoint: String,
    /// Of the endpoint, for traces.
    host: String,
    pub(super) credentials: Adc,
    pub(super) wire: Wire,
    clients: OnceCell<Clients>,
    pub(super) http: OnceCell<reqwest::Client>,
}

struct Clients {
    instances: Instances,
    operations: ZoneOperations,
    firewalls: Firewalls,
    global_operations: GlobalOperations,
}

/// What a request is called in spans and in the log.
pub(super) struct About<'a> {
    /// Google's name of the method.
    pub rpc: &'static str,
    pub method: &'static str,
    pub path: &'a str,
}

impl Api {
    /// Nothing is dialled, nor read, yet.
    pub(super) fn new(config: &GcpConfig, credentials: Adc, wire: Wire) -> Self {
        Self {
            project: config.project.clone(),
            endpoint: config.endpoint().to_owned(),
            host: config.host(),
            credentials,
            wire,
            clients: OnceCell::new(),
            http: OnceCell::new(),
        }
    }

    /// Asks for a new VM. The user-data is told apart so that nobody quotes it.
    pub(super) async fn insert(
        &self,
        zone: &str,
        vm: Instance,
        request_id: String,
        user_data: Option<&UserData>,
    ) -> Result<Operation, Refusal> {
        let path = self.path(&format!("/zones/{zone}/instances"));
        let about = About::of("instances.insert", "POST", &path);
        let shown = self.wire.is_on().then(|| vm.clone());
        let send = async |clients: &Clients| {
            let request = clients.instances.insert().set_project(&self.project);
            let request = request.set_zone(zone).set_request_id(request_id);
            request.set_body(vm).send().await
        };
        let shown = shown.as_ref().map(|vm| vm as &dyn Shown);
        Box::pin(self.ask(&about, shown, user_data, send)).await
    }

    /// Reads a VM.
    pub(super) async fn get(&self, id: &VmId) -> Result<Instance, Refusal> {
        let path = self.path(&format!("/{id}"));
        let about = About::of("instances.get", "GET", &path);
        let send = async |clients: &Clients| {
            let request = clients.instances.get().set_project(&self.project);
            let request = request.set_zone(&id.zone).set_instance(&id.name);
            request.send().await
        };
        Box::pin(self.ask(&about, None, None, send)).await
    }

    /// Asks for the end of a VM.
    pub(super) async fn delete(&self, id: &VmId, request_id: String) -> Result<Operation, Refusal> {
        let path = self.path(&format!("/{id}"));
        let about = About::of("instances.delete", "DELETE", &path);
        let send = async |clients: &Clients| {
            let request = clients.instances.delete().set_project(&self.project);
            let request = request.set_zone(&id.zone).set_instance(&id.name);
            request.set_request_id(request_id).send().await
        };
        Box::pin(self.ask(&about, None, None, send)).await
    }

    /// Reads how an operation goes.
    pub(super) async fn operation(&self, zone: &str, name: &str) -> Result<Operation, Refusal> {
        let path = self.path(&format!("/zones/{zone}/operations/{name}"));
        let about = About::of("zoneOperations.get", "GET", &path);
        let send = async |clients: &Clients| {
            let request = clients.operations.get().set_project(&self.project);
            request.set_zone(zone).set_operation(name).send().await
        };
        Box::pin(self.ask(&about, None, None, send)).await
    }

    /// Reads a firewall rule.
    pub(super) async fn firewall(&self, name: &str) -> Result<Firewall, Refusal> {
        let path = self.path(&format!("/global/firewalls/{name}"));
        let about = About::of("firewalls.get", "GET", &path);
        let send = async |clients: &Clients| {
            let request = clients.firewalls.get().set_project(&self.project);
            request.set_firewall(name).send().await
        };
        Box::pin(self.ask(&about, None, None, send)).await
    }

    /// Asks for a new firewall rule.
    pub(super) async fn insert_firewall(
        &self,
        rule: Firewall,
        request_id: String,
    ) -> Result<Operation, Refusal> {
        let path = self.path("/global/firewalls");
        let about = About::of("firewalls.insert", "POST", &path);
        let shown = rule.clone();
        let send = async |clients: &Clients| {
            let request = clients.firewalls.insert().set_project(&self.project);
            request
                .set_request_id(request_id)
                .set_body(rule)
                .send()
                .await
        };
        Box::pin(self.ask(&about, Some(&shown), None, send)).await
    }

    /// Asks for a change to a firewall rule: what `rule` leaves out stays as it is.
    pub(super) async fn patch_firewall(
        &self,
        name: &str,
        rule: Firewall,
        request_id: String,
    ) -> Result<Operation, Refusal> {
        let path = self.path(&format!("/global/firewalls/{name}"));
        let about = About::of("firewalls.patch", "PATCH", &path);
        let shown = rule.clone();
        let send = async |clients: &Clients| {
            let request = clients.firewalls.patch().set_project(&self.project);
            let request = request.set_firewall(name).set_request_id(request_id);
            request.set_body(rule).send().await
        };
        Box::pin(self.ask(&about, Some(&shown), None, send)).await
    }

    /// Asks for the end of a firewall rule.
    pub(super) async fn delete_firewall(&self, name: &str) -> Result<Operation, Refusal> {
        let path = self.path(&format!("/global/firewalls/{name}"));
        let about = About::of("firewalls.delete", "DELETE", &path);
        let send = async |clients: &Clients| {
            let request = clients.firewalls.delete().set_project(&self.project);
            request.set_firewall(name).send().await
        };
        Box::pin(self.ask(&about, None, None, send)).await
    }

    /// Reads how the operation on a firewall rule goes.
    pub(super) async fn global_operation(&self, name: &str) -> Result<Operation, Refusal> {
        let path = self.path(&format!("/global/operations/{name}"));
        let about = About::of("globalOperations.get", "GET", &path);
        let send = async |clients: &Clients| {
            let request = clients.global_operations.get().set_project(&self.project);
            request.set_operation(name).send().await
        };
        Box::pin(self.ask(&about, None, None, send)).await
    }

    pub(super) fn path(&self, below: &str) -> String {
        format!("/compute/v1/projects/{}{below}", self.project)
    }

    async fn ask<T: Shown>(
        &self,
        about: &About<'_>,
        body: Option<&dyn Shown>,
        user_data: Option<&UserData>,
        send: impl AsyncFnOnce(&Clients) -> Result<T, Error>,
    ) -> Result<T, Refusal> {
        self.bounded(about, async {
            let clients = self.clients.get_or_try_init(|| self.connect()).await?;
            self.wire.request(about.method, about.path, body);
            let answer = Box::pin(send(clients)).await.map_err(|error| {
                let refusal = Refusal::of_client(&error);
                let message = secrecy::guarded_of(&refusal.message, user_data);
                Refusal { message, ..refusal }
            })?;
            self.wire.answer(about.method, about.path, &answer);
            Ok(answer)
        })
        .await
    }

    /// One request, whoever sends it: with credentials that are those of now, in time, in a span.
    pub(super) async fn bounded<T>(
        &self,
        about: &About<'_>,
        request: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let span = about.span(&self.host);
        let whole = async {
            let ready = self.credentials.ready().await;
            ready.map_err(|fault| Refusal::of_credentials(&fault))?;
            request.await
        };
        let begun = Instant::now();
        let answer = timeout(REQUEST, whole.instrument(span.clone())).await;
        let answer = answer.unwrap_or_else(|_| Err(Refusal::timeout(REQUEST)));
        let _in = span.enter();
        let duration = begun.elapsed();
        match &answer {
            Ok(_) => tracing::debug!(?duration, "Compute Engine answered"),
            Err(refusal) => {
                if refusal.doubts_credentials() {
                    self.credentials.doubt();
                }
                about.refused(&span, refusal);
                self.wire.refusal(about.method, about.path, refusal);
                let (fault, error) = (&refusal.fault, &refusal.message);
                tracing::debug!(?duration, ?fault, error, "Compute Engine refused");
            }
        }
        answer
    }

    async fn connect(&self) -> Result<Clients, Refusal> {
        let build = async {
            Ok::<_, client_builder::Error>(Clients {
                instances: Instances::builder()
                    .with_endpoint(&self.endpoint)
                    .with_credentials(self.credentials.clone())
                    .with_retry_policy(NeverRetry)
                    .build()
                    .await?,
                operations: ZoneOperations::builder()
                    .with_endpoint(&self.endpoint)
                    .with_credentials(self.credentials.clone())
                    .with_retry_policy(NeverRetry)
                    .build()
                    .await?,
                firewalls: Firewalls::builder()
                    .with_endpoint(&self.endpoint)
                    .with_credentials(self.credentials.clone())
                    .with_retry_policy(NeverRetry)
                    .build()
                    .await?,
                global_operations: GlobalOperations::builder()
                    .with_endpoint(&self.endpoint)
                    .with_credentials(self.credentials.clone())
                    .with_retry_policy(NeverRetry)
                    .build()
                    .await?,
            })
        };
        build
            .await
            .map_err(|error| Refusal::no_client(&with_causes(&error)))
    }
}

impl<'a> About<'a> {
    pub(super) fn of(rpc: &'static str, method: &'static str, path: &'a str) -> Self {
        Self { rpc, method, path }
    }

    fn span(&self, host: &str) -> Span {
        debug_span!(
            "gcp",
            otel.name = self.rpc,
            otel.kind = "client",
            otel.status_code = Empty,
            rpc.service = "compute.v1",
            rpc.method = self.rpc,
            server.address = host,
            http.request.method = self.method,
            http.response.status_code = Empty,
            url.path = self.path,
            "error.type" = Empty,
        )
    }

    /// That something is not there is an answer, not an error.
    fn refused(&self, span: &Span, refusal: &Refusal) {
        if let Some(status) = refusal.status() {
            span.record("http.response.status_code", status);
            if status == 404 && self.method == "GET" {
                return;
            }
        }
        span.record("otel.status_code", "error");
        span.record("error.type", refusal.kind());
    }
}
