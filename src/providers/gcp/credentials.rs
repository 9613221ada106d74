//! Application Default Credentials, read anew whenever their file changes.
//!
//! Google's own library would read the file once and give up for good when it is not there. Here it is
//! looked at before each request, which costs one small read: a file that appears heals what its absence
//! broke, and a rotated one is used at once. Nothing is dialled before a request needs a token.

use actors::provider::contract::ErrorClass;
use google_cloud_auth::{
    credentials::{
        CacheableResource, Credentials, CredentialsProvider, external_account, impersonated, mds,
        service_account, user_account,
    },
    errors::CredentialsError,
};
use http::{Extensions, HeaderMap};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::Value;
use std::{
    env, fmt,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{fs::File, io::AsyncReadExt, time::Instant};

/// Real ones have some 3 KB.
const LARGEST: u64 = 64 << 10;
/// Between two attempts with credentials that got no token.
const PAUSE: Duration = Duration::from_secs(10);

/// Where credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This file and nothing else: `GOOGLE_APPLICATION_CREDENTIALS` names it.
    File(PathBuf),
    /// This file where it is, else the metadata server: gcloud writes it for people.
    Perhaps(PathBuf),
    /// The metadata server: workload identity.
    Metadata,
}

impl Source {
    /// As the environment says, in Google's order.
    #[must_use]
    pub fn from_env() -> Self {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(file) = set("GOOGLE_APPLICATION_CREDENTIALS") {
            return Self::File(file.into());
        }
        match set("HOME") {
            Some(home) => Self::Perhaps(
                Path::new(&home).join(".config/gcloud/application_default_credentials.json"),
            ),
            None => Self::Metadata,
        }
    }
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsFault {
    /// The file is not there, or not to be read.
    #[error("the credentials file {} cannot be read: {why}", path.display())]
    Unavailable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// The file is there, and wrong.
    #[error("the credentials file {} {why}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it; nothing of what it says.
        why: String,
    },
}

impl CredentialsFault {
    /// What is not there may come; what is wrong stays wrong until it is another file.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unavailable { .. } => ErrorClass::Transient,
            Self::Content { .. } => ErrorClass::Permanent,
        }
    }
}

/// The credentials of one provider, as Google's client takes them.
#[derive(Clone)]
pub struct Adc(Arc<Inner>);

struct Inner {
    source: Source,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    now: Option<Current>,
    /// Whether it was said that the file is not there.
    told: bool,
}

struct Current {
    /// Of the file's content; `None` is the metadata server.
    content: Option<u64>,
    credentials: Credentials,
    since: Instant,
    doubted: bool,
}

impl Adc {
    /// Credentials from there. Reads nothing yet.
    #[must_use]
    pub fn new(source: Source) -> Self {
        let held = Mutex::default();
        Self(Arc::new(Inner { source, held }))
    }

    /// Looks at the file. What is asked for a token from now on is what the file says now.
    ///
    /// # Errors
    /// [`CredentialsFault`]
    pub async fn ready(&self) -> Result<(), CredentialsFault> {
        let (path, is_needed) = match &self.0.source {
            Source::File(path) => (path, true),
            Source::Perhaps(path) => (path, false),
            Source::Metadata => return self.renew(None, metadata_server),
        };
        match read(path).await {
            Ok(bytes) => {
                self.tell_found(path);
                let mut hasher = DefaultHasher::new();
                bytes.hash(&mut hasher);
                let make = || {
                    parse(&bytes).map_err(|why| CredentialsFault::Content {
                        path: path.clone(),
                        why,
                    })
                };
                self.renew(Some(hasher.finish()), make)
            }
            Err(why) if !is_needed && is_absence(&why) => self.renew(None, metadata_server),
            Err(why) => {
                let path = path.clone();
                let fault = CredentialsFault::Unavailable { path, why };
                self.tell_missing(&fault);
                Err(fault)
            }
        }
    }

    /// Takes note that Google does not want these credentials. They are made anew with the next request,
    /// but not at every one.
    pub fn doubt(&self) {
        if let Some(current) = &mut self.held().now {
            current.doubted = true;
        }
    }

    fn renew(
        &self,
        content: Option<u64>,
        make: impl FnOnce() -> Result<Credentials, CredentialsFault>,
    ) -> Result<(), CredentialsFault> {
        let mut held = self.held();
        let is_good = held.now.as_ref().is_some_and(|current| {
            let again = current.doubted && current.since.elapsed() >= PAUSE;
            current.content == content && !again
        });
        if is_good {
            return Ok(());
        }
        // What the file no longer says is not used, whatever it says instead.
        held.now = None;
        held.now = Some(Current {
            content,
            credentials: make()?,
            since: Instant::now(),
            doubted: false,
        });
        Ok(())
    }

    fn tell_missing(&self, fault: &CredentialsFault) {
        if !std::mem::replace(&mut self.held().told, true) {
            tracing::warn!(error = %fault, "no credentials for Google; they are used as soon as they are there");
        }
    }

    fn tell_found(&self, path: &Path) {
        if std::mem::take(&mut self.held().told) {
            tracing::info!(file = %path.display(), "the credentials for Google are there now");
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The headers that authenticate a request.
    ///
    /// # Errors
    /// When no token can be had.
    pub async fn headers(&self) -> Result<HeaderMap, CredentialsError> {
        let credentials = self.held().now.as_ref().map(|now| now.credentials.clone());
        let missing = || CredentialsError::from_msg(true, "there are no credentials");
        let credentials = credentials.ok_or_else(missing)?;
        match credentials.headers(Extensions::new()).await? {
            CacheableResource::New { data, .. } => Ok(data),
            CacheableResource::NotModified => Err(missing()),
        }
    }
}

impl fmt::Debug for Adc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Adc({:?})", self.0.source)
    }
}

impl CredentialsProvider for Adc {
    async fn headers(
        &self,
        _: Extensions,
    ) -> Result<CacheableResource<HeaderMap>, CredentialsError> {
        let data = Adc::headers(self).await?;
        let entity_tag = google_cloud_auth::credentials::EntityTag::new();
        Ok(CacheableResource::New { entity_tag, data })
    }

    /// Google's own; to ask the credentials would be to dial.
    async fn universe_domain(&self) -> Option<String> {
        None
    }
}

/// Whether there is no such file, as opposed to one that cannot be read.
fn is_absence(why: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(why.kind(), NotFound | NotADirectory)
}

async fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe would wait for a writer.
    if !tokio::fs::metadata(path).await?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).await?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).await?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 64 KiB"));
    }
    Ok(bytes)
}

fn metadata_server() -> Result<Credentials, CredentialsFault> {
    mds::Builder::default()
        .build()
        .map_err(|why| CredentialsFault::Content {
            path: "(metadata server)".into(),
            why: why.to_string(),
        })
}

/// What a file of credentials says. An error shows nothing of it but the names of its fields.
fn parse(bytes: &[u8]) -> Result<Credentials, String> {
    let json: Value = serde_json::from_slice(bytes).map_err(|e| {
        let (line, column) = (e.line(), e.column());
        format!("is no JSON, at line {line}, column {column}")
    })?;
    let object = json.as_object().ok_or("is no JSON object")?;
    let kind = object.get("type").ok_or("has no field `type`")?;
    let kind = kind
        .as_str()
        .ok_or("has a field `type` that is no string")?
        .to_owned();
    let needed: &[&str] = match kind.as_str() {
        "service_account" => &[
            "client_email",
            "private_key_id",
            "private_key",
            "project_id",
        ],
        "authorized_user" => &["client_id", "client_secret", "refresh_token"],
        "external_account" | "impersonated_service_account" => &[],
        other => {
            let known =
                "service_account, authorized_user, external_account, impersonated_service_account";
            return Err(format!(
                "is of the type {:?}; known: {known}",
                other.chars().take(63).collect::<String>()
            ));
        }
    };
    for field in needed {
        match object.get(*field) {
            Some(Value::String(_)) => {}
            Some(_) => return Err(format!("has a field `{field}` that is no string")),
            None => return Err(format!("has no field `{field}`")),
        }
    }
    if kind == "service_account" {
        check_key(object.get("private_key").and_then(Value::as_str))?;
    }
    let built = match kind.as_str() {
        "service_account" => service_account::Builder::new(json).build(),
        "authorized_user" => user_account::Builder::new(json).build(),
        "external_account" => external_account::Builder::new(json).build(),
        _ => impersonated::Builder::new(json).build(),
    };
    // The library's words may quote a value.
    built.map_err(|error| {
        let what = if error.is_missing_field() {
            error.to_string()
        } else {
            "one of its fields is not as it has to be".to_owned()
        };
        format!("is no {kind}: {what}")
    })
}

/// Google's library would find out only when it signs.
fn check_key(pem: Option<&str>) -> Result<(), String> {
    let pem = pem.unwrap_or_default();
    let key = PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| "has a field `private_key` that is no private key in PEM")?;
    rustls::crypto::ring::sign::any_supported_type(&key)
        .map(drop)
        .map_err(|_| "has a field `private_key` that is no usable private key".to_owned())
}

#[cfg(test)]
mod tests;
