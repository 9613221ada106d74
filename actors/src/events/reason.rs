//! The reasons of Events.

use strum::{Display, EnumMessage, IntoStaticStr, VariantArray};

/// Why an Event is recorded. Users' alerts match on these words, so none is ever renamed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumMessage, IntoStaticStr, VariantArray,
)]
pub enum EventReason {
    /// An instance was made.
    Created,
    /// The spec changed: the old instance goes, then a new one is made.
    Replacing,
    /// The instance is gone, as wanted.
    Deleted,
    /// Enough fetches through the proxy went through.
    Healthy,
    /// Enough fetches through the proxy failed.
    Unhealthy,
    /// The instance was found stopped, and is made anew.
    Stopped,
    /// The instance vanished behind the operator's back, and is made anew.
    Lost,
    /// The instance exists, but does not get to run.
    InstanceStuck,
    /// The provider refused or failed; told once for each message.
    ProvisioningFailed,
    /// The instance of a deleted Proxy does not go.
    CleanupFailed,
    /// A Proxy was released without deleting its instance, as its annotation asks.
    CleanupSkipped,
    /// The user-data cannot be had from its Secret.
    CloudInitError,
    /// cloud-init would ignore this user-data, or part of it.
    SuspiciousCloudInit,
    /// The provider runs no cloud-init, so that the user-data has no effect.
    CloudInitIgnored,
    /// On a `ProviderHealth`: a target passes its check again.
    TargetReady,
    /// On a `ProviderHealth`: a target fails its check, or fails it for another reason.
    TargetNotReady,
    /// On the operator itself: a new content of the providers file is refused, and the old one kept.
    InvalidProvidersConfig,
}

impl EventReason {
    /// The word in the Event.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// What it means.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.get_documentation().unwrap_or_default()
    }
}
