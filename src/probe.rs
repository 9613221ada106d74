//! The probe: a fetch through a proxy over real sockets.
