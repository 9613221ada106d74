//! What an error of libvirt means.

use super::error::HostError;
use actors::provider::contract::ErrorClass;
use std::fmt::Display;
use virt::{error::Error as Fault, sys};

/// The class of `fault`. What it does not know is `Transient`: a retry costs little, whereas a wrong
/// `Permanent` stops a proxy for good and a wrong `NotFound` makes a second one.
#[must_use]
pub fn classify(fault: &Fault) -> ErrorClass {
    class_of(fault.code().to_raw(), fault.message())
}

fn class_of(code: sys::virErrorNumber, message: &str) -> ErrorClass {
    if is_full(message) {
        return ErrorClass::QuotaExceeded;
    }
    match code {
        sys::VIR_ERR_NO_DOMAIN | sys::VIR_ERR_NO_STORAGE_VOL => ErrorClass::NotFound,
        sys::VIR_ERR_XML_ERROR
        | sys::VIR_ERR_XML_DETAIL
        | sys::VIR_ERR_XML_INVALID_SCHEMA
        | sys::VIR_ERR_CONFIG_UNSUPPORTED
        | sys::VIR_ERR_NO_SUPPORT
        | sys::VIR_ERR_INVALID_ARG
        | sys::VIR_ERR_AUTH_FAILED
        | sys::VIR_ERR_AUTH_CANCELLED
        | sys::VIR_ERR_AUTH_UNAVAILABLE
        | sys::VIR_ERR_ACCESS_DENIED
        | sys::VIR_ERR_OPERATION_DENIED
        | sys::VIR_ERR_NO_STORAGE_POOL => ErrorClass::Permanent,
        _ => ErrorClass::Transient,
    }
}

/// libvirt has no code of its own for a host that is full: the system's words are passed on.
fn is_full(message: &str) -> bool {
    [
        "No space left on device",
        "Disk quota exceeded",
        "Cannot allocate memory",
    ]
    .iter()
    .any(|words| message.contains(words))
}

/// Whether libvirt vouches that there is no such domain or volume.
#[must_use]
pub fn is_absent(fault: &Fault) -> bool {
    classify(fault) == ErrorClass::NotFound
}

/// Whether there is a domain or a volume of this name already.
#[must_use]
pub fn is_taken(fault: &Fault) -> bool {
    match fault.code().to_raw() {
        sys::VIR_ERR_DOM_EXIST | sys::VIR_ERR_STORAGE_VOL_EXIST => true,
        // What a define says, though there is a code for it.
        sys::VIR_ERR_OPERATION_FAILED => fault.message().contains("already exists with uuid"),
        _ => false,
    }
}

/// Whether libvirt says so by this code.
#[must_use]
pub fn is(fault: &Fault, code: sys::virErrorNumber) -> bool {
    fault.code().to_raw() == code
}

/// `fault` as the failure of `doing` ("start domain a").
#[must_use]
pub fn refused(doing: impl Display, fault: &Fault) -> HostError {
    let message = format!("{doing}: {}", fault.message());
    HostError::new(classify(fault), message)
        .because("LibvirtError")
        .caused_by(fault.clone())
}

/// Turns the absence of what was asked for into `None`.
///
/// # Errors
/// Every other fault, as the failure of `doing`.
pub fn unless_absent<T>(
    doing: impl Display,
    result: Result<T, Fault>,
) -> Result<Option<T>, HostError> {
    match result {
        Ok(there) => Ok(Some(there)),
        Err(fault) if is_absent(&fault) => Ok(None),
        Err(fault) => Err(refused(doing, &fault)),
    }
}

#[cfg(test)]
mod tests;
