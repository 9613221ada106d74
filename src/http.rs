//! The HTTP servers: the lease API and the operations endpoints.
