use super::*;
use proptest::prelude::*;

const MARK: &str = "0123abcd";

#[test]
fn the_mark_of_an_installation_is_stable() {
    assert_eq!(installation_mark("home"), installation_mark("home"));
    assert_ne!(installation_mark("home"), installation_mark("Home"));
    // The beginning of `printf home | sha256sum`.
    assert_eq!(installation_mark("home"), "4ea14058");
}

#[test]
fn a_volume_is_owned_by_its_name_alone() {
    for (volume, owned_by) in [
        ("proxy-abc.0123abcd.qcow2", Some("proxy-abc")),
        ("proxy-abc.0123abcd-seed.iso", Some("proxy-abc")),
        ("proxy-abc.0123abce.qcow2", None),
        ("proxy-abc.qcow2", None),
        ("proxy-abc.0123abcd.raw", None),
        ("proxy-abc.0123abcd.qcow2.bak", None),
        ("proxy-abc.0123abcd-seed.qcow2", None),
        ("proxy-abc.0123abcd.iso", None),
        ("x.proxy-abc.0123abcd.qcow2", None),
        (".0123abcd.qcow2", None),
        ("Proxy.0123abcd.qcow2", None),
        ("-a.0123abcd.qcow2", None),
        ("0123abcd.qcow2", None),
        ("base-a-partial-0123abcd.qcow2", None),
        ("base-a-0123456789ab.qcow2", None),
        ("", None),
    ] {
        assert_eq!(owner(volume, MARK), owned_by, "{volume}");
    }
}

#[test]
fn a_base_image_is_known_by_its_name() {
    let sha256: Sha256Hex = "AB".repeat(32).parse().expect("a digest");
    let url: ImageUrl = "https://example.org/a.qcow2?sig=1".parse().expect("a URL");
    let key = url_key(&url);
    assert_eq!(key.len(), 15);
    let base = base_name("debian-13", &sha256, Format::Qcow2);
    assert_eq!(base, "base-debian-13-abababababab.qcow2");
    assert!(is_base(&base));
    assert!(is_base(&base_name(&key, &sha256, Format::Raw)));
    assert_eq!(marked(&marker_name(&base)), Some(&*base));
    let partial = partial_name("debian-13", MARK, Format::Qcow2);
    assert_eq!(partial, "base-debian-13-partial-0123abcd.qcow2");
    assert!(is_partial(&partial, MARK));
    assert!(!is_partial(&partial, "0123abce"));
    assert!(!is_base(&partial));
    for other in [
        "",
        "base",
        "base-",
        "base--abababababab.qcow2",
        "base-abababababab.qcow2",
        "base-a-ABABABABABAB.qcow2",
        "base-a-ababababab.qcow2",
        "base-a-abababababab.vmdk",
        "base-a-abababababab",
        "mybase-a-abababababab.qcow2",
        "base-a/b-abababababab.qcow2",
        "proxy-a.0123abcd.qcow2",
    ] {
        assert!(!is_base(other), "{other}");
        assert!(!is_partial(other, MARK), "{other}");
        assert_eq!(marked(other), None);
        assert_eq!(marked(&marker_name(other)), None);
    }
    assert_eq!(marked("base-a-partial-0123abcd.qcow2.json"), None);
}

proptest! {
    /// No name is of two kinds, so nothing is ever collected as what it is not.
    #[test]
    fn every_name_is_of_one_kind(
        name in "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?",
        key in "[A-Za-z0-9][A-Za-z0-9_.-]{0,30}",
        digest in "[0-9a-f]{64}",
    ) {
        let kinds = |volume: &str| {
            (owner(volume, MARK).is_some(), is_base(volume), is_partial(volume, MARK), marked(volume).is_some())
        };
        for volume in [overlay_name(&name, MARK), seed_name(&name, MARK)] {
            prop_assert_eq!(owner(&volume, MARK), Some(&*name));
            prop_assert_eq!(kinds(&volume), (true, false, false, false));
        }
        let base = base_name(&key, &digest.parse().expect("a digest"), Format::Raw);
        prop_assert_eq!(kinds(&base), (false, true, false, false));
        prop_assert_eq!(kinds(&marker_name(&base)), (false, false, false, true));
        prop_assert_eq!(kinds(&partial_name(&key, MARK, Format::Qcow2)), (false, false, true, false));
    }
}

#[test]
fn volumes_are_asked_for_in_bytes() {
    let flat = |xml: String| {
        xml.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace("> <", "><")
    };
    assert_eq!(
        flat(upload_xml("a-seed.iso", 378_880)),
        "<volume><name>a-seed.iso</name><capacity unit=\"bytes\">378880</capacity>\
         <allocation unit=\"bytes\">0</allocation><target><format type=\"raw\"/></target></volume>"
    );
    assert_eq!(
        flat(overlay_xml(
            "a.qcow2",
            10 << 30,
            "/pool/b&c.raw",
            Format::Raw
        )),
        "<volume><name>a.qcow2</name><capacity unit=\"bytes\">10737418240</capacity>\
         <allocation unit=\"bytes\">0</allocation><target><format type=\"qcow2\"/></target>\
         <backingStore><path>/pool/b&amp;c.raw</path><format type=\"raw\"/></backingStore></volume>"
    );
}

/// As libvirt 9.0 has it.
const OVERLAY: &str = "<volume type='file'>
  <name>vol.qcow2</name>
  <key>/pool/vol.qcow2</key>
  <capacity unit='bytes'>10737418240</capacity>
  <allocation unit='bytes'>200704</allocation>
  <physical unit='bytes'>196928</physical>
  <target>
    <path>/pool/vol.qcow2</path>
    <format type='qcow2'/>
    <permissions><mode>0600</mode><owner>0</owner><group>0</group></permissions>
    <timestamps>
      <atime>1796075000.100000000</atime>
      <mtime>1796075001.900000000</mtime>
      <ctime>1796075002.300000000</ctime>
    </timestamps>
    <compat>1.1</compat>
    <features/>
  </target>
  <backingStore>
    <path>/pool/base.qcow2</path>
    <format type='qcow2'/>
    <timestamps><mtime>7.0</mtime></timestamps>
  </backingStore>
</volume>";

#[test]
fn a_volume_is_read() {
    let volume = Volume {
        name: "vol.qcow2".into(),
        path: "/pool/vol.qcow2".into(),
        format: Some("qcow2".into()),
        capacity: 10 << 30,
        physical: 196_928,
        backing: Some(Backing {
            path: "/pool/base.qcow2".into(),
            format: Some("qcow2".into()),
        }),
        modified: Some(1_796_075_001),
    };
    assert_eq!(Volume::parse(OVERLAY), Ok(volume));
    let bare = "<volume><name>a</name><capacity>7</capacity><target><path>/a</path></target><backingStore/></volume>";
    let bare = Volume::parse(bare).expect("read");
    assert_eq!(
        (bare.format, bare.physical, bare.backing, bare.modified),
        (None, 0, None, None)
    );
}

#[test]
fn a_volume_that_says_too_little_is_refused() {
    for (from, to, complaint) in [
        ("<path>/pool/vol.qcow2</path>", "", "target/path"),
        ("<name>vol.qcow2</name>", "<name/>", "name"),
        ("'bytes'>10737418240", "'KiB'>10737418240", "capacity"),
        ("'bytes'>10737418240", "'bytes'>lots", "capacity"),
        ("</volume>", "", "not closed"),
    ] {
        let error = Volume::parse(&OVERLAY.replacen(from, to, 1)).expect_err(from);
        assert!(error.to_string().contains(complaint), "{error}");
    }
}

#[test]
fn a_marker_reads_back() {
    let marker = Marker {
        url: "https://example.org/a?…".into(),
        url_key: url_key(&"https://example.org/a?token=b".parse().expect("a URL")),
        sha256: "ab".repeat(32),
        size: 7,
        etag: None,
        fetched_at: "2026-11-30T22:00:00Z".into(),
    };
    let json = serde_json::to_string(&marker).expect("written");
    assert!(json.contains("\"fetchedAt\""), "{json}");
    assert!(!json.contains("token"), "{json}");
    let read = serde_json::from_str::<Marker>(&json).expect("read");
    assert_eq!(read, marker);
    for (url, is) in [("a?token=b", true), ("a?token=c", false), ("a", false)] {
        let url = format!("https://example.org/{url}");
        assert_eq!(read.is_from(&url.parse().expect("a URL")), is, "{url}");
    }
}
