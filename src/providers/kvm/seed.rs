//! The seed: the disk from which cloud-init's `NoCloud` source reads a guest's first instructions.

mod vendor;

pub use vendor::Vendor;

use crate::config::names::is_dns_label;
use hadris_iso::{
    read::PathSeparator,
    write::{
        File, InputFiles, IsoImageWriter,
        options::{CreationFeatures, IsoFormatOptions},
    },
};
use std::{
    io::{self, Cursor},
    sync::Arc,
};

/// The label by which cloud-init knows the disk.
const LABEL: &str = "cidata";
const SECTOR: usize = 2048;

/// A seed that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// The name cannot be that of a guest.
    #[error("{0:?} is no name for a guest")]
    Name(String),
    /// The image could not be written.
    #[error("the seed of {name} cannot be written: {why}")]
    Image {
        /// The guest's name.
        name: String,
        /// What the writer says.
        why: io::Error,
    },
}

/// The image for the guest `name`, which gets `user_data` byte for byte.
///
/// # Errors
/// A name that is no DNS label; what cannot become an image.
pub fn build(name: &str, user_data: &[u8], vendor: &Vendor) -> Result<Vec<u8>, SeedError> {
    if !is_dns_label(name) {
        return Err(SeedError::Name(name.to_owned()));
    }
    // Quoted, because a label such as `1e3` is a number to YAML.
    let meta_data = format!("instance-id: \"{name}\"\nlocal-hostname: \"{name}\"\n");
    let files = [
        ("user-data", user_data.to_vec()),
        ("meta-data", meta_data.into_bytes()),
        ("vendor-data", vendor.file()),
    ];
    let files = files.map(|(name, contents)| File::File {
        name: Arc::new(name.to_owned()),
        contents,
    });
    let input = InputFiles {
        path_separator: PathSeparator::ForwardSlash,
        files: files.into(),
    };
    let options = IsoFormatOptions {
        volume_name: LABEL.into(),
        system_id: None,
        volume_set_id: None,
        publisher_id: None,
        preparer_id: None,
        application_id: None,
        sector_size: SECTOR,
        // Without Rock Ridge and Joliet a guest would see `USER_DAT`.
        features: CreationFeatures::extensions(),
        path_separator: PathSeparator::ForwardSlash,
        strict_charset: false,
    };
    let mut image = Cursor::new(Vec::new());
    IsoImageWriter::create(&mut image, input, options).map_err(|e| SeedError::Image {
        name: name.to_owned(),
        why: io::Error::other(e),
    })?;
    Ok(image.into_inner())
}

#[cfg(test)]
mod tests;
