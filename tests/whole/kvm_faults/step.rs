//! The steps of a VM's life that a fault can strike at.

/// A call of libvirt's, or one of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A connection of libvirt's is opened.
    Dial,
    /// The volume is made that an image is uploaded to.
    ImageVolume,
    /// The image's bytes are on their way.
    ImageUpload,
    /// The image gets its name.
    ImageCopy,
    /// The image is said to be whole.
    ImageMarker,
    /// The overlay is made.
    Overlay,
    /// The seed's volume is made.
    Seed,
    /// The seed is filled.
    SeedUpload,
    /// The domain is defined.
    Define,
    /// The domain is started.
    Start,
    /// The domain is stopped.
    Destroy,
    /// The domain is undefined.
    Undefine,
    /// The overlay is deleted.
    DeleteOverlay,
    /// The seed is deleted.
    DeleteSeed,
    /// So many calls about a domain have been made.
    Nth(usize),
}

/// When a fault strikes, seen from a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// The call was made and did not reach libvirtd.
    Before,
    /// libvirtd does it, and nobody has heard of it.
    During,
    /// It is known to be done.
    After,
}

/// Where and when something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trap {
    /// Where.
    pub step: Step,
    /// When.
    pub moment: Moment,
}

/// Of the image, each on its way once.
pub const IMAGE: [Step; 4] = [
    Step::ImageVolume,
    Step::ImageUpload,
    Step::ImageCopy,
    Step::ImageMarker,
];
/// Of a domain that is made.
pub const CREATE: [Step; 5] = [
    Step::Overlay,
    Step::Seed,
    Step::SeedUpload,
    Step::Define,
    Step::Start,
];
/// Of a domain that goes.
pub const DELETE: [Step; 4] = [
    Step::Destroy,
    Step::Undefine,
    Step::DeleteOverlay,
    Step::DeleteSeed,
];

/// Before, during and after each step of a sequence. After one is before the next, but for the last.
pub fn around(steps: &[Step]) -> Vec<Trap> {
    let traps = steps.iter().flat_map(|step| {
        let last = (Some(step) == steps.last()).then_some(Moment::After);
        let moments = [Moment::Before, Moment::During].into_iter().chain(last);
        moments.map(|moment| Trap {
            step: *step,
            moment,
        })
    });
    traps.collect()
}

impl Step {
    /// Whether a call is this step.
    pub fn is(self, procedure: u32, packet: &[u8]) -> bool {
        // As in libvirt's remote_protocol.x.
        const OPEN: u32 = 1;
        const CREATE: u32 = 9;
        const DEFINE_XML: u32 = 11;
        const DESTROY: u32 = 12;
        const VOL_CREATE_XML: u32 = 93;
        const VOL_DELETE: u32 = 94;
        const VOL_CREATE_XML_FROM: u32 = 125;
        const VOL_UPLOAD: u32 = 208;
        const UNDEFINE_FLAGS: u32 = 231;
        let has = |text: &str| find(packet, text).is_some();
        let (is_seed, is_of_domain) = (has("-seed.iso"), has("proxy-"));
        match self {
            Self::Dial => procedure == OPEN,
            Self::ImageVolume => procedure == VOL_CREATE_XML && has("-partial-"),
            Self::ImageUpload => procedure == VOL_UPLOAD && has("-partial-"),
            Self::ImageCopy => procedure == VOL_CREATE_XML_FROM,
            Self::ImageMarker => procedure == VOL_CREATE_XML && has(".qcow2.json"),
            Self::Overlay => procedure == VOL_CREATE_XML && is_of_domain && !is_seed,
            Self::Seed => procedure == VOL_CREATE_XML && is_seed,
            Self::SeedUpload => procedure == VOL_UPLOAD && is_seed,
            Self::Define => procedure == DEFINE_XML,
            Self::Start => procedure == CREATE,
            Self::Destroy => procedure == DESTROY,
            Self::Undefine => procedure == UNDEFINE_FLAGS,
            Self::DeleteOverlay => procedure == VOL_DELETE && is_of_domain && !is_seed,
            Self::DeleteSeed => procedure == VOL_DELETE && is_seed,
            Self::Nth(_) => false,
        }
    }
}

/// Where `text` begins.
pub fn find(bytes: &[u8], text: &str) -> Option<usize> {
    let text = text.as_bytes();
    bytes.windows(text.len()).position(|part| part == text)
}
