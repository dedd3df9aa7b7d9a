//! Forgetting connections, so that each measurement is of a connection that is opened now.

use palisade_nftables::kernel::forget_connections;

use crate::error::LabError;
use crate::namespace;

/// Forgets every connection of a namespace.
pub fn forget(name: &str) -> Result<(), LabError> {
    let failed = |error| {
        LabError::system(format!("cannot forget the connections of {name}"), std::io::Error::other(error))
    };
    namespace::inside(name, forget_connections)?.map_err(failed)
}
