//! Names that the operator and its users write into metadata.

/// API group of both resources.
pub const GROUP: &str = "crawl.example.com";
/// The only version so far.
pub const VERSION: &str = "v1alpha1";

/// Finalizer on a Managed `Proxy`: as long as it is there, an instance may be.
pub const FINALIZER: &str = "crawl.example.com/cleanup";
/// Annotation by which a changed spec is told from the one that was built: a hash of it.
pub const SPEC_HASH: &str = "crawl.example.com/spec-hash";
/// Annotation by which a user abandons the instance; counts only with the value [`TRUE`].
pub const SKIP_CLEANUP: &str = "crawl.example.com/skip-cleanup";
/// Label that a Secret needs to serve as user-data; counts only with the value [`TRUE`].
pub const CLOUD_INIT_LABEL: &str = "crawl.example.com/cloud-init";
/// Annotation of the election's Lease: where the leader's lease API is reached, as `host:port`.
pub const LEADER_ADDRESS: &str = "crawl.example.com/leader-address";
/// The value that switches an annotation or a label of ours on.
pub const TRUE: &str = "true";

/// Label on the objects that the operator itself creates; the value is [`FIELD_MANAGER`].
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// Field manager of every write, and the value of [`MANAGED_BY`].
pub const FIELD_MANAGER: &str = "proxy-operator";
