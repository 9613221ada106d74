//! The providers file: which backends there are, under which names.
//!
//! Read strictly, because a misread file would create machines in the wrong place or forget some:
//! whatever is not understood in full is refused in full, with the entry and the field named.
//! Each backend reads its own block; the backends are listed in one table, `BACKENDS`.

mod expansion;
pub mod names;
pub mod source;

use crate::providers::{
    gcp::{config::GcpConfig, firewall},
    kubernetes::config::KubernetesConfig,
    kvm::config::KvmConfig,
};
use serde::de::DeserializeOwned;
use serde_yaml::{Mapping, Value};
use std::{
    fmt,
    fs::File,
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The largest file that is read. A thousand hypervisors take a fifth of it.
const LARGEST: u64 = 512 << 10;

/// A providers file that has been understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvidersConfig {
    /// At least one, with names of their own, in the file's order.
    pub entries: Vec<ProviderEntry>,
}

/// One provider: a name, and what its backend is to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderEntry {
    /// What `spec.provider` names.
    pub name: String,
    /// The block that belongs to its type.
    pub settings: Settings,
    fingerprint: u64,
}

/// The settings of one provider, by type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the types carry the names of their backends")]
pub enum Settings {
    Gcp(GcpConfig),
    Kubernetes(KubernetesConfig),
    Kvm(KvmConfig),
}

/// A type of provider: its word in the file, which is also the key of its block, and how the block
/// is read.
struct Backend {
    kind: &'static str,
    read: fn(Value) -> Result<Settings, Fault>,
}

/// Every type that a file may name.
const BACKENDS: [Backend; 3] = [
    Backend {
        kind: "gcp",
        read: |block| read_block(block).map(Settings::Gcp),
    },
    Backend {
        kind: "kubernetes",
        read: |block| read_block(block).map(Settings::Kubernetes),
    },
    Backend {
        kind: "kvm",
        read: |block| read_block(block).map(Settings::Kvm),
    },
];

/// Why a providers file is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be had.
    #[error("providers file {}: {why}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// The file is there, and wrong.
    #[error("providers file {}: {why}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong where.
        why: String,
    },
}

/// What is wrong with which field, seen from where it was found.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    field: String,
    problem: String,
}

/// Reads and checks the file.
///
/// # Errors
/// [`ConfigError`], one line that names the file, the entry and the field.
pub fn load(path: &Path) -> Result<ProvidersConfig, ConfigError> {
    let text = read(path).map_err(|why| ConfigError::Read {
        path: path.to_owned(),
        why,
    })?;
    parse(&text).map_err(|fault| ConfigError::Content {
        path: path.to_owned(),
        why: fault.to_string(),
    })
}

fn read(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file at the limit from one over it, pipes included.
    File::open(path)?
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other(format!(
            "larger than {} KiB",
            LARGEST >> 10
        )));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        io::Error::other(format!("not UTF-8 text (at byte {at})"))
    })
}

fn parse(text: &str) -> Result<ProvidersConfig, Fault> {
    expansion::check(text).map_err(|e| Fault::of_file(e.to_string()))?;
    let root: Value = serde_yaml::from_str(text).map_err(|e| Fault::of_file(e.to_string()))?;
    let mut root = match root {
        Value::Mapping(root) => root,
        Value::Null => return Err(Fault::of_file("is empty; it needs a list of providers")),
        _ => return Err(Fault::of_file("must be a mapping with the key 'providers'")),
    };
    let list = root.remove("providers");
    if let Some(key) = root.keys().next() {
        return Err(Fault::new(
            spelt(key),
            "unknown key; the only one is 'providers'",
        ));
    }
    let list = match list {
        Some(Value::Sequence(list)) if !list.is_empty() => list,
        Some(Value::Sequence(_) | Value::Null) => {
            return Err(Fault::new("providers", "must list at least one provider"));
        }
        Some(_) => return Err(Fault::new("providers", "must be a list")),
        None => return Err(Fault::new("providers", "is missing")),
    };
    let mut entries: Vec<ProviderEntry> = Vec::with_capacity(list.len());
    for (index, value) in list.into_iter().enumerate() {
        let place = place(index, &value);
        let entry = entry(value).map_err(|fault| fault.within(&place))?;
        if let Some(first) = entries.iter().position(|other| other.name == entry.name) {
            let problem = format!("providers[{first}] has the same name");
            return Err(Fault::new("name", problem).within(&place));
        }
        entries.push(entry);
    }
    Ok(ProvidersConfig { entries })
}

/// How an entry is spoken of: `providers[1] (kvm-home)`.
fn place(index: usize, entry: &Value) -> String {
    match entry.get("name").and_then(Value::as_str) {
        Some(name) => format!("providers[{index}] ({})", name.escape_debug()),
        None => format!("providers[{index}]"),
    }
}

fn entry(value: Value) -> Result<ProviderEntry, Fault> {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    let Value::Mapping(mut keys) = value else {
        return Err(Fault::of_file(
            "must be a mapping with the keys 'name' and 'type'",
        ));
    };
    let name = string(&mut keys, "name")?;
    let name = names::dns_label(&name).map_err(|problem| Fault::new("name", problem))?;
    let kind = string(&mut keys, "type")?;
    let Some(backend) = BACKENDS.iter().find(|backend| backend.kind == kind) else {
        let known: Vec<_> = BACKENDS.iter().map(|backend| backend.kind).collect();
        let problem = format!(
            "unknown type '{}'; known: {}",
            kind.escape_debug(),
            known.join(", ")
        );
        return Err(Fault::new("type", problem));
    };
    let block = keys.remove(backend.kind);
    if let Some(key) = keys.keys().next() {
        let problem = format!(
            "unknown key; an entry of type {0} has 'name', 'type' and '{0}'",
            backend.kind
        );
        return Err(Fault::new(spelt(key), problem));
    }
    let settings = (backend.read)(block.unwrap_or_default())
        .map_err(|fault| fault.within_block(backend.kind))?;
    if let Settings::Gcp(config) = &settings {
        firewall::name_fits(&name, config).map_err(|problem| Fault::new("name", problem))?;
    }
    Ok(ProviderEntry {
        name,
        settings,
        fingerprint: hasher.finish(),
    })
}

fn string(keys: &mut Mapping, key: &str) -> Result<String, Fault> {
    match keys.remove(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Fault::new(key, "must be a string")),
        None => Err(Fault::new(key, "is missing")),
    }
}

/// Reads a backend's block; one that is left out is an empty one, so that the backend names the
/// field that it cannot do without.
fn read_block<T: DeserializeOwned>(block: Value) -> Result<T, Fault> {
    let block = match block {
        Value::Null => Value::Mapping(Mapping::new()),
        Value::Mapping(_) => block,
        _ => return Err(Fault::of_file("must be a mapping")),
    };
    serde_path_to_error::deserialize(block).map_err(|e| {
        let field = e.path().to_string();
        let field = if field == "." { String::new() } else { field };
        Fault::new(field, e.inner().to_string())
    })
}

fn spelt(key: &Value) -> String {
    match key {
        Value::String(text) => text.escape_debug().to_string(),
        other => serde_yaml::to_string(other)
            .unwrap_or_default()
            .trim()
            .to_owned(),
    }
}

impl ProviderEntry {
    /// Changes when anything in the entry does, and not with the order of its keys. Good for
    /// comparing two files read by one process; not for keeping.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The backend's type, as the file spells it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.settings {
            Settings::Gcp(_) => "gcp",
            Settings::Kubernetes(_) => "kubernetes",
            Settings::Kvm(_) => "kvm",
        }
    }
}

/// The line that `check-config` prints.
impl fmt::Display for ProviderEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.kind())?;
        match &self.settings {
            Settings::Gcp(config) => write!(f, ", {config}"),
            Settings::Kubernetes(config) => {
                let ports = joined(&config.connect_ports);
                write!(f, ", image {}, CONNECT to {ports}", config.image)
            }
            Settings::Kvm(config) => {
                let hosts = config.hosts.iter();
                let hosts = hosts.map(|host| format!("{} at {}", host.name, host.address));
                let types = joined(config.machine_types.keys());
                write!(f, ", hosts {}, machine types {types}", joined(hosts))?;
                if !config.images.is_empty() {
                    write!(f, ", images {}", joined(config.images.keys()))?;
                }
                if config.insecure_ignore_host_key {
                    f.write_str(", host keys NOT checked")?;
                }
                Ok(())
            }
        }
    }
}

fn joined(items: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let items: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(", ")
}

impl Fault {
    fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    fn of_file(problem: impl Into<String>) -> Self {
        Self::new("", problem)
    }

    fn within(self, place: &str) -> Self {
        let field = match self.field.as_str() {
            "" => place.to_owned(),
            field => format!("{place}: {field}"),
        };
        Self { field, ..self }
    }

    fn within_block(self, block: &str) -> Self {
        let field = match self.field.as_str() {
            "" => block.to_owned(),
            field => format!("{block}.{field}"),
        };
        Self { field, ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.problem),
            field => write!(f, "{field}: {}", self.problem),
        }
    }
}

#[cfg(test)]
mod tests;
