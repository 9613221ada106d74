//! Small XML documents: as a tree that is written, and as one that was read.
//!
//! Read without regard to namespaces, by local names: libvirt hands metadata back with the prefix
//! and without the declaration that the prefix needs.

use quick_xml::{
    Reader, Writer,
    escape::resolve_predefined_entity,
    events::{BytesEnd, BytesRef, BytesStart, BytesText, Event},
};
use std::{fmt, io};

/// Far deeper than anything of libvirt's.
const DEEPEST: usize = 64;

/// A text that is not the XML that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not understood as XML: {0}")]
pub struct XmlError(String);

impl XmlError {
    pub(super) fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// An element with all that is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    text: String,
    children: Vec<Element>,
}

/// An empty element of this name, prefix included.
pub(super) fn element(name: &str) -> Element {
    Element {
        name: name.to_owned(),
        ..Element::default()
    }
}

/// Writing.
impl Element {
    /// The same, with this attribute.
    pub(super) fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.attributes.push((name.to_owned(), value.to_string()));
        self
    }

    /// The same, with this text.
    pub(super) fn text(mut self, text: impl fmt::Display) -> Self {
        self.text = text.to_string();
        self
    }

    /// The same, with these children after those it has.
    pub(super) fn holding(mut self, children: impl IntoIterator<Item = Element>) -> Self {
        self.children.extend(children);
        self
    }

    fn write(&self, to: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let mut start = BytesStart::new(&self.name);
        for (name, value) in &self.attributes {
            start.push_attribute((name.as_str(), value.as_str()));
        }
        if self.text.is_empty() && self.children.is_empty() {
            return to.write_event(Event::Empty(start));
        }
        to.write_event(Event::Start(start))?;
        if !self.text.is_empty() {
            to.write_event(Event::Text(BytesText::new(&self.text)))?;
        }
        for child in &self.children {
            child.write(to)?;
        }
        to.write_event(Event::End(BytesEnd::new(&self.name)))
    }
}

/// The document, indented for those who read it with `virsh`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
        self.write(&mut writer).map_err(|_| fmt::Error)?;
        f.write_str(str::from_utf8(&writer.into_inner()).map_err(|_| fmt::Error)?)
    }
}

/// Reading.
impl Element {
    /// The root element of a document.
    ///
    /// # Errors
    /// What is no XML, or has no root, or is nested beyond reason.
    pub fn parse(document: &str) -> Result<Self, XmlError> {
        let mut reader = Reader::from_str(document);
        // What is open, outermost first, below a root that is no element.
        let mut open = vec![Self::default()];
        loop {
            match reader.read_event().map_err(XmlError::new)? {
                Event::Start(start) if open.len() > DEEPEST => {
                    let name = String::from_utf8_lossy(start.name().into_inner()).into_owned();
                    return Err(XmlError(format!("<{name}> is nested too deeply")));
                }
                Event::Start(start) => open.push(Self::begun(&start)?),
                Event::Empty(start) => Self::innermost(&mut open)?
                    .children
                    .push(Self::begun(&start)?),
                Event::End(_) => {
                    let ended = open.pop().unwrap_or_default();
                    Self::innermost(&mut open)?.children.push(ended);
                }
                Event::Text(text) => {
                    let text = text.xml_content().map_err(XmlError::new)?;
                    Self::innermost(&mut open)?.text.push_str(&text);
                }
                Event::CData(text) => {
                    let text = text.xml_content().map_err(XmlError::new)?;
                    Self::innermost(&mut open)?.text.push_str(&text);
                }
                Event::GeneralRef(reference) => {
                    let text = resolved(&reference)?;
                    Self::innermost(&mut open)?.text.push_str(&text);
                }
                Event::Eof => break,
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            }
        }
        match (open.pop(), open.is_empty()) {
            (Some(mut document), true) if document.children.len() == 1 => {
                Ok(document.children.remove(0))
            }
            (Some(unclosed), false) => Err(XmlError(format!("<{}> is not closed", unclosed.name))),
            _ => Err(XmlError("not one root element".into())),
        }
    }

    fn begun(start: &BytesStart<'_>) -> Result<Self, XmlError> {
        let utf8 = |bytes: &[u8]| {
            str::from_utf8(bytes)
                .map(str::to_owned)
                .map_err(XmlError::new)
        };
        let mut begun = element(&utf8(start.name().into_inner())?);
        for attribute in start.attributes() {
            let attribute = attribute.map_err(XmlError::new)?;
            let value = attribute.unescape_value().map_err(XmlError::new)?;
            begun
                .attributes
                .push((utf8(attribute.key.into_inner())?, value.into_owned()));
        }
        Ok(begun)
    }

    fn innermost(open: &mut [Self]) -> Result<&mut Self, XmlError> {
        open.last_mut()
            .ok_or_else(|| XmlError("an end without a start".into()))
    }

    /// The name without its prefix.
    #[must_use]
    pub fn local_name(&self) -> &str {
        self.name
            .rsplit_once(':')
            .map_or(&*self.name, |(_, local)| local)
    }

    /// The namespace, as far as this very element declares it.
    #[must_use]
    pub fn declared_namespace(&self) -> Option<&str> {
        match self.name.split_once(':') {
            Some((prefix, _)) => self.attribute(&format!("xmlns:{prefix}")),
            None => self.attribute("xmlns"),
        }
    }

    /// The value of an attribute.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All its children.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        self.children.iter()
    }

    /// The children with this local name.
    pub fn children(&self, name: &str) -> impl Iterator<Item = &Self> {
        self.children
            .iter()
            .filter(move |child| child.local_name() == name)
    }

    /// The first element down this path of local names.
    #[must_use]
    pub fn at<const N: usize>(&self, path: [&str; N]) -> Option<&Self> {
        let mut at = self;
        for name in path {
            at = at.children(name).next()?;
        }
        Some(at)
    }

    /// The text in it, without the white space around it.
    #[must_use]
    pub fn content(&self) -> &str {
        self.text.trim()
    }
}

fn resolved(reference: &BytesRef<'_>) -> Result<String, XmlError> {
    if let Some(character) = reference.resolve_char_ref().map_err(XmlError::new)? {
        return Ok(character.to_string());
    }
    let name = reference.decode().map_err(XmlError::new)?;
    match resolve_predefined_entity(&name) {
        Some(text) => Ok(text.to_owned()),
        None => Err(XmlError(format!("unknown entity &{name};"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_document_is_read_by_its_local_names() {
        let document = "<?xml version='1.0'?><!-- <x/> --><a><p:b c=\"1 &lt; 2\">one &amp; &#65;<![CDATA[<two>]]></p:b><b/></a>\n";
        let root = Element::parse(document).expect("well-formed");
        assert_eq!(root.local_name(), "a");
        assert_eq!(root.children("b").count(), 2);
        let b = root.at(["b"]).expect("there");
        assert_eq!(b.content(), "one & A<two>");
        assert_eq!(b.attribute("c"), Some("1 < 2"));
        assert_eq!(b.attribute("d"), None);
        assert!(root.at(["b", "c"]).is_none());
    }

    #[test]
    fn what_is_not_one_document_is_refused() {
        let deep = "<a>".repeat(100);
        for (document, complaint) in [
            ("", "not one root"),
            ("text", "not one root"),
            ("<a/><b/>", "not one root"),
            ("<a>", "<a> is not closed"),
            ("</a>", "</a>"),
            ("<a></b>", "</b>"),
            ("<a b=1/>", "attribute"),
            ("<a>&nope;</a>", "&nope;"),
            (&*deep, "nested too deeply"),
        ] {
            let error = Element::parse(document).expect_err(document).to_string();
            assert!(error.contains(complaint), "{document}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(text in "[ -~äß]{0,40}", value in "[ -~äß]{0,40}") {
            let written = element("a")
                .with("v", &value)
                .holding([element("p:b").text(&text), element("c")]);
            let read = Element::parse(&written.to_string()).expect("well-formed");
            prop_assert_eq!(read.attribute("v"), Some(value.as_str()));
            prop_assert_eq!(read.at(["b"]).map(Element::content), Some(text.trim()));
            prop_assert!(read.at(["c"]).is_some());
        }

        #[test]
        fn no_text_makes_it_panic(text in "[<>/a&;:='\" !\\[\\]#-]{0,60}") {
            Element::parse(&text).ok();
        }
    }
}
