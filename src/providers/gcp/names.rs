//! Google's grammars of names, which it would hold us to later and less clearly.

/// Whether `text` is what Compute Engine calls a name (RFC 1035): a lower-case letter, then up to 62 of
/// `[a-z0-9-]`, no hyphen last. Instances, zones, network tags, firewall rules and machine types have such.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(inner)
        && !text.ends_with('-')
}

/// Whether `text` is the value of a label: at most 63 of `[a-z0-9_-]`. (Google takes other scripts' letters
/// too, which no mark of ours has.)
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'_');
    text.len() <= 63 && text.bytes().all(good)
}

/// Whether `text` is the id of a project: `my-project`, `example.com:my-project`, or its number.
#[must_use]
pub fn is_project(text: &str) -> bool {
    let (domain, id) = match text.split_once(':') {
        Some((domain, id)) => (Some(domain), id),
        None => (None, text),
    };
    let label = |label: &str| {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    label(id) && domain.is_none_or(|domain| domain.split('.').all(label))
}

/// Whether `text` names a network as the API takes it: `global/networks/default`, or the same below
/// `projects/<project>/`.
#[must_use]
pub fn is_network(text: &str) -> bool {
    let local = match text.strip_prefix("projects/") {
        Some(rest) => match rest.split_once('/') {
            Some((project, local)) if is_project(project) => local,
            _ => return false,
        },
        None => text,
    };
    local.strip_prefix("global/networks/").is_some_and(is_name)
}

/// Whether `text` names an image or a family of images as the API takes them.
#[must_use]
pub fn is_image(text: &str) -> bool {
    let hosts = [
        "https://www.googleapis.com/compute/v1/",
        "https://compute.googleapis.com/compute/v1/",
    ];
    let path = hosts.iter().find_map(|host| text.strip_prefix(host));
    let path = path.unwrap_or(text);
    let local = match path.strip_prefix("projects/") {
        Some(rest) => match rest.split_once('/') {
            Some((project, local)) if is_project(project) => local,
            _ => return false,
        },
        None => path,
    };
    let Some(name) = local.strip_prefix("global/images/") else {
        return false;
    };
    is_name(name.strip_prefix("family/").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_rfc_1035_label() {
        let longest = "a".repeat(63);
        for good in ["a", "europe-west1-b", "e2-small", "proxy-x1", &longest] {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in [
            "", "1a", "-a", "a-", "A", "a.b", "a_b", "a/b", "a b", "ä", &long,
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_label_value_is_lower_case() {
        let longest = "a".repeat(63);
        for good in [
            "",
            "true",
            "2b1f0a52-6d0c",
            "a_b",
            "-",
            "1",
            longest.as_str(),
        ] {
            assert!(is_label_value(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["A", "a.b", "a b", "a/b", "ä", "a\"b", long.as_str()] {
            assert!(!is_label_value(bad), "{bad}");
        }
    }

    #[test]
    fn projects_networks_and_images_are_paths_of_names() {
        for good in ["my-project", "example.com:my-project", "123456789012"] {
            assert!(is_project(good), "{good}");
        }
        for bad in [
            "", "My", "a/b", "a..b:c", ":a", "a:", "a b", "-a", "a-", "../x",
        ] {
            assert!(!is_project(bad), "{bad}");
        }
        for good in [
            "global/networks/default",
            "projects/host/global/networks/shared",
        ] {
            assert!(is_network(good), "{good}");
        }
        for bad in ["default", "global/networks/", "projects/x", "networks/a"] {
            assert!(!is_network(bad), "{bad}");
        }
        for good in [
            "global/images/mine",
            "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64",
            "projects/p/global/images/ubuntu-2404-noble-amd64-v20261112",
            "https://www.googleapis.com/compute/v1/projects/p/global/images/i",
            "https://compute.googleapis.com/compute/v1/projects/p/global/images/family/i",
        ] {
            assert!(is_image(good), "{good}");
        }
        for bad in [
            "debian-13",
            "global/images/",
            "global/images/family/",
            "projects/p/images/x",
            "https://example.org/x.qcow2",
            "projects//global/images/x",
            "projects/p/global/images/x?y",
        ] {
            assert!(!is_image(bad), "{bad}");
        }
    }
}
