//! Why something on a host failed, and what kind of failure that is.

use actors::provider::contract::ErrorClass;
use std::{error::Error, fmt::Display, sync::Arc};

/// How far a dial came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Stage {
    /// Reading the key and the known hosts.
    SshMaterial,
    /// Opening the TCP connection.
    Tcp,
    /// Key exchange, the host's key, our authentication.
    SshHandshake,
    /// Reaching libvirt's socket through it, and opening libvirt's own connection.
    LibvirtConnect,
}

/// A failure on a host. Its text may be shown to users: it names the resource or the file, and holds
/// neither user-data nor a credential.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct HostError {
    /// What kind of failure.
    pub class: ErrorClass,
    /// How far the dial came, if it was one.
    pub stage: Option<Stage>,
    /// The reason in a check's verdict, where it is not the one of the stage.
    pub reason: Option<&'static str>,
    /// What a person should read.
    pub message: String,
    /// The cause, for the log.
    #[source]
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

impl HostError {
    /// A failure of this class, in these words.
    pub fn new(class: ErrorClass, message: impl Display) -> Self {
        Self {
            class,
            stage: None,
            reason: None,
            message: message.to_string(),
            source: None,
        }
    }

    /// One that only a change of the config or the spec mends.
    pub fn permanent(message: impl Display) -> Self {
        Self::new(ErrorClass::Permanent, message)
    }

    /// One that may pass.
    pub fn transient(message: impl Display) -> Self {
        Self::new(ErrorClass::Transient, message)
    }

    /// Whether it is about the key or the host's key, which are read anew at every dial: the files may
    /// have changed by then.
    #[must_use]
    pub fn is_of_credentials(&self) -> bool {
        matches!(self.stage, Some(Stage::SshMaterial | Stage::SshHandshake))
    }

    /// The same, as the failure of a dial at `stage`.
    #[must_use]
    pub fn at(self, stage: Stage) -> Self {
        Self {
            stage: Some(stage),
            ..self
        }
    }

    /// The same, with the reason that a check gives.
    #[must_use]
    pub fn because(self, reason: &'static str) -> Self {
        Self {
            reason: Some(reason),
            ..self
        }
    }

    /// The same, with its cause.
    #[must_use]
    pub fn caused_by(self, source: impl Error + Send + Sync + 'static) -> Self {
        Self {
            source: Some(Arc::new(source)),
            ..self
        }
    }

    /// What libvirt said, if it said something.
    #[must_use]
    pub fn fault(&self) -> Option<&virt::error::Error> {
        self.source.as_ref()?.downcast_ref()
    }
}
