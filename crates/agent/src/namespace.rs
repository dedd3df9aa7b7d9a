//! Network namespaces by name, and how to work in one for a moment.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Component, Path};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thiserror::Error;

/// The folder in which `ip netns` keeps names.
pub const NAMESPACES: &str = "/run/netns";

/// Why a network namespace cannot be entered.
#[derive(Debug, Error)]
pub enum NamespaceError {
    /// There is none of that name. Retryable: it may be made later.
    #[error("there is no network namespace {0}")]
    Missing(String),
    /// The system refuses. Retryable, but for missing rights (`CAP_SYS_ADMIN`).
    #[error("cannot enter the network namespace {name}: {source}")]
    System {
        /// The name of the namespace.
        name: String,
        /// What the system answered.
        source: io::Error,
    },
}

/// Runs a task in a network namespace, on a thread that enters it and ends with the task: the calling thread stays where it is.
/// A panic of the task is passed on.
pub fn enter<T: Send>(name: &str, task: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    let is_name = matches!(Path::new(name).components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
    if !is_name {
        return Err(NamespaceError::Missing(name.to_owned()));
    }
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => NamespaceError::Missing(name.to_owned()),
        _ => NamespaceError::System { name: name.to_owned(), source },
    };
    let file = File::open(Path::new(NAMESPACES).join(name)).map_err(failed)?;
    let entered = std::thread::scope(|scope| {
        let thread = scope.spawn(|| -> Result<T, rustix::io::Errno> {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(task())
        });
        thread.join()
    });
    match entered {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(failed(error.into())),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
