use super::*;
use hadris_iso::read::IsoImage;
use std::collections::BTreeMap;

/// The files in an image, by the names that ISO 9660 itself has for them. What other readers make
/// of the image is a scenario of the whole.
fn files(image: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let iso = IsoImage::open(Cursor::new(image)).expect("an image");
    let entries = iso.root_dir();
    let entries = entries.iter(&iso);
    let files = entries.entries().map(|entry| {
        let entry = entry.expect("an entry");
        let at = entry.header().extent.read() as usize * SECTOR;
        let length = entry.header().data_len.read() as usize;
        let name = String::from_utf8_lossy(entry.name()).into_owned();
        (name, image[at..at + length].to_vec())
    });
    files.filter(|(name, _)| name.len() > 1).collect()
}

#[test]
fn user_data_is_in_it_byte_for_byte() {
    for user_data in [
        Vec::new(),
        vec![0],
        b"## template: jinja\n#cloud-config\nhostname: {{ v1.local_hostname }}\n".to_vec(),
        b"#cloud-config\r\n{}\r\n".to_vec(),
        (0..=255).cycle().take(2048).collect(),
        (0..=255).cycle().take(2049).collect(),
        (0..=255).rev().cycle().take(1 << 20).collect(),
    ] {
        let image = build("proxy-abc", &user_data, &Vendor::default()).expect("built");
        let files = files(&image);
        assert_eq!(files.len(), 3, "{:?}", files.keys());
        assert!(files.values().any(|file| *file == user_data));
        let meta_data = b"instance-id: \"proxy-abc\"\nlocal-hostname: \"proxy-abc\"\n";
        assert!(files.values().any(|file| file == meta_data));
    }
}

#[test]
fn it_is_labelled_so_that_cloud_init_finds_it() {
    let image = build("a", b"", &Vendor::default()).expect("built");
    assert_eq!(image.len() % SECTOR, 0);
    assert_eq!(&image[16 * SECTOR..16 * SECTOR + 6], b"\x01CD001");
    assert_eq!(
        &image[16 * SECTOR + 40..16 * SECTOR + 72],
        format!("{LABEL:32}").as_bytes()
    );
}

#[test]
fn a_name_that_could_say_more_is_refused() {
    for name in ["", "a\"b", "a\nb: c", "a.b", "A"] {
        let refusal = build(name, b"", &Vendor::default())
            .expect_err("refused")
            .to_string();
        assert_eq!(refusal, format!("{name:?} is no name for a guest"));
    }
}
