//! What a domain says about itself: one element among the domain's metadata.

use super::xml::{Element, XmlError, element};
use k8s_openapi::jiff::Timestamp;

/// The namespace of the element, which is also how libvirt finds it.
pub const NAMESPACE: &str = "https://crawl.example.com/proxy-operator/kvm/v1";
/// The prefix that the element is written with.
pub const PREFIX: &str = "proxy-operator";
/// A name that no other tool's element has, since prefixes come back without their namespaces.
const NAME: &str = "proxy-operator-instance";

/// Whose a domain is, and since when it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Whether the operator made it.
    pub managed: bool,
    /// UID of the Proxy object; empty when unreadable.
    pub uid: String,
    /// Which installation made it; empty when unreadable.
    pub installation: String,
    /// Seconds since the Unix epoch; 0 (very old) when unreadable.
    pub created_at: i64,
}

impl Metadata {
    /// The element for the domain's XML.
    pub(super) fn element(&self) -> Element {
        let field = |name: &str| element(&format!("{PREFIX}:{name}"));
        let created_at = Timestamp::from_second(self.created_at).unwrap_or_default();
        field(NAME)
            .with(&format!("xmlns:{PREFIX}"), NAMESPACE)
            .holding([
                field("managed").text(self.managed),
                field("uid").text(&self.uid),
                field("installation").text(&self.installation),
                field("createdAt").text(created_at),
            ])
    }

    /// Reads the element as libvirt hands it back.
    ///
    /// # Errors
    /// What is no XML, or another element.
    pub fn parse(xml: &str) -> Result<Self, XmlError> {
        let root = Element::parse(xml)?;
        Self::of(&root).ok_or_else(|| {
            let found = root.local_name();
            XmlError::new(format!("<{found}> where <{NAME}> should be"))
        })
    }

    /// What `element` says, if it is one of ours.
    pub(super) fn of(element: &Element) -> Option<Self> {
        let is_ours = element.local_name() == NAME
            && element
                .declared_namespace()
                .is_none_or(|declared| declared == NAMESPACE);
        let field = |name| element.at([name]).map_or("", Element::content);
        is_ours.then(|| Self {
            managed: field("managed") == "true",
            uid: field("uid").to_owned(),
            installation: field("installation").to_owned(),
            created_at: field("createdAt")
                .parse()
                .map_or(0, |created: Timestamp| created.as_second().max(0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        Metadata {
            managed: true,
            uid: "2b1f0a52-6d0c-4f5e-9f6b-0c7f2a9d1e11".into(),
            installation: "home <&> \"quotes\"".into(),
            created_at: 1_796_000_000,
        }
    }

    #[test]
    fn it_reads_back_with_and_without_its_namespace() {
        let written = metadata().element().to_string();
        assert!(written.contains("<proxy-operator:createdAt>2026-11-30T"));
        let declaration = format!(" xmlns:{PREFIX}=\"{NAMESPACE}\"");
        let bare = written.replace(&declaration, "");
        assert_ne!(written, bare);
        for text in [written, bare] {
            assert_eq!(Metadata::parse(&text), Ok(metadata()), "{text}");
        }
    }

    #[test]
    fn what_is_unreadable_is_empty_or_very_old() {
        let read = |fields: &str| {
            let xml = format!("<p:{NAME}>{fields}</p:{NAME}>");
            Metadata::parse(&xml).expect("ours")
        };
        let nothing = Metadata {
            managed: false,
            uid: String::new(),
            installation: String::new(),
            created_at: 0,
        };
        for (fields, expected) in [
            ("", nothing.clone()),
            ("<p:managed>yes</p:managed>", nothing.clone()),
            ("<p:createdAt>yesterday</p:createdAt>", nothing.clone()),
            (
                "<p:createdAt>1969-12-31T23:59:59Z</p:createdAt>",
                nothing.clone(),
            ),
            (
                "<p:createdAt>1970-01-01T02:00:07+02:00</p:createdAt>",
                Metadata {
                    created_at: 7,
                    ..nothing.clone()
                },
            ),
            (
                "<p:uid>\n  u\n</p:uid>",
                Metadata {
                    uid: "u".into(),
                    ..nothing.clone()
                },
            ),
        ] {
            assert_eq!(read(fields), expected, "{fields}");
        }
    }

    #[test]
    fn another_element_is_not_ours() {
        let own = metadata().element().to_string();
        for other in [
            "<a/>",
            "<nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'/>",
            &own.replace("/v1", "/v2"),
            "",
            "<",
        ] {
            assert!(Metadata::parse(other).is_err(), "{other}");
        }
    }
}
