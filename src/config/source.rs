//! The providers file as it is read again and again while the operator runs.

use super::{ConfigError, ProvidersConfig, parse, read};
use actors::{
    config::{Content, Reading, Source},
    providers::ProviderSet,
};
use futures::future::BoxFuture;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Makes providers of what the file says; an entry that is the same in the running set keeps its provider.
pub type Construct = dyn Fn(ProvidersConfig, &ProviderSet) -> ProviderSet + Send + Sync;

/// The file, and what its entries become.
pub struct ProvidersFile {
    /// Read by this name each time, through whatever links it consists of by then.
    pub path: PathBuf,
    /// What they become.
    pub construct: Arc<Construct>,
}

impl Source for ProvidersFile {
    fn read(
        &self,
        seen: Option<Content>,
        running: Arc<ProviderSet>,
    ) -> BoxFuture<'static, Option<Reading>> {
        let (path, construct) = (self.path.clone(), Arc::clone(&self.construct));
        Box::pin(async move {
            // A file system may take its time, and must not take ours.
            let look =
                tokio::task::spawn_blocking(move || look(&path, seen, &*construct, &running));
            look.await.unwrap_or_else(|panicked| {
                tracing::error!(error = %panicked, "reading the providers file panicked");
                None
            })
        })
    }
}

fn look(
    path: &Path,
    seen: Option<Content>,
    construct: &Construct,
    running: &ProviderSet,
) -> Option<Reading> {
    if is_stream(path) {
        return None;
    }
    let text = read(path).map_err(|why| ConfigError::Read {
        path: path.to_owned(),
        why,
    });
    let content = content(&text);
    if seen == Some(content) {
        return None;
    }
    let config = text.and_then(|text| {
        parse(&text).map_err(|fault| ConfigError::Content {
            path: path.to_owned(),
            why: fault.to_string(),
        })
    });
    let set = config
        .map(|config| construct(config, running))
        .map_err(|error| error.to_string());
    Some(Reading { content, set })
}

/// A pipe was read when the operator started. It says nothing twice, and opening it may wait for ever.
fn is_stream(path: &Path) -> bool {
    let metadata = std::fs::metadata(path);
    metadata.is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// The content, not the time it was written at: what is mounted into a pod is replaced as a whole, and a
/// clock may stand still between two writes.
fn content(text: &Result<String, ConfigError>) -> Content {
    let mut hasher = DefaultHasher::new();
    match text {
        Ok(text) => text.hash(&mut hasher),
        Err(error) => (false, error.to_string()).hash(&mut hasher),
    }
    Content(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Settings,
        providers::kubernetes::{Cluster, KubernetesProvider},
    };
    use actors::providers::Entry;
    use std::{fs, os::unix::fs::symlink};

    fn construct(config: ProvidersConfig, running: &ProviderSet) -> ProviderSet {
        let mut nobody = kube::Config::new(http::Uri::from_static("http://127.0.0.1:1"));
        nobody.accept_invalid_certs = true;
        let cluster = Cluster {
            client: kube::Client::try_from(nobody).expect("a client"),
            url: "http://127.0.0.1:1".to_owned(),
            installation: "here".to_owned(),
            namespace: None,
        };
        let entry = |entry: crate::config::ProviderEntry| {
            let (name, fingerprint) = (entry.name.clone(), entry.fingerprint());
            let Settings::Kubernetes(settings) = entry.settings else {
                panic!("another type");
            };
            let same = running.get(&name).filter(|e| e.fingerprint == fingerprint);
            let new = KubernetesProvider::new(name.clone(), settings, cluster.clone());
            let made = same.cloned().unwrap_or_else(|| Entry {
                provider: Arc::new(new),
                fingerprint,
            });
            (name, made)
        };
        config.entries.into_iter().map(entry).collect()
    }

    fn yaml(entries: &[(&str, &str)]) -> String {
        let entry = |(name, image): &(&str, &str)| {
            format!("- {{name: {name}, type: kubernetes, kubernetes: {{image: {image}}}}}\n")
        };
        let entries: String = entries.iter().map(entry).collect();
        format!("providers:\n{entries}")
    }

    #[tokio::test]
    async fn a_pipe_is_not_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo").success());
        let construct = Arc::new(construct);
        let pipe = ProvidersFile { path, construct };
        assert!(pipe.read(None, Arc::default()).await.is_none());
    }

    #[tokio::test]
    async fn what_the_file_says_is_told_apart_by_content_and_entry() {
        let folder = tempfile::tempdir().expect("a folder");
        let mounted = folder.path().join("providers.yaml");
        // As kubelet mounts a ConfigMap.
        for (version, entries) in [
            ("1", [("kept", "a"), ("other", "a")]),
            ("2", [("kept", "a"), ("other", "b")]),
        ] {
            let version = folder.path().join(version);
            fs::create_dir(&version).expect("a folder");
            fs::write(version.join("providers.yaml"), yaml(&entries)).expect("writes");
        }
        let point_at = |version: &str| {
            let next = folder.path().join("..next");
            symlink(version, &next).expect("links");
            fs::rename(next, folder.path().join("..data")).expect("renames");
        };
        point_at("1");
        symlink("..data/providers.yaml", &mounted).expect("links");

        let file = ProvidersFile {
            path: mounted.clone(),
            construct: Arc::new(construct),
        };
        let first = file.read(None, Arc::default()).await.expect("news");
        let running = Arc::new(first.set.expect("is good"));
        let seen = Some(first.content);
        assert!(file.read(seen, Arc::clone(&running)).await.is_none());

        point_at("2");
        let second = file.read(seen, Arc::clone(&running)).await.expect("news");
        let set = second.set.expect("is good");
        let same = |name: &str| Arc::ptr_eq(&set[name].provider, &running[name].provider);
        assert!(same("kept"));
        assert!(!same("other"));

        fs::write(&mounted, yaml(&[("a", "b c")])).expect("writes");
        let bad = file.read(seen, Arc::clone(&running)).await.expect("news");
        let complaint = bad.set.err().expect("is bad");
        assert!(
            complaint.contains("providers[0] (a): kubernetes.image: \"b c\""),
            "{complaint}"
        );

        fs::remove_file(&mounted).expect("removes");
        let gone = file.read(seen, Arc::clone(&running)).await.expect("news");
        assert!(gone.set.is_err());
        let again = file.read(Some(gone.content), running).await;
        assert!(again.is_none(), "the same complaint");
    }
}
