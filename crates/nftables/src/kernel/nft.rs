//! Running `nft`, which says what we do not say ourselves: chains, rules, and what sets there are.
//!
//! It is one process for one transaction, given its text on standard input. It gets a deadline, because a program that waits for ever
//! would keep every later change waiting too, and whatever it says on standard error is sorted into what the caller can do about
//! it.

use std::io::{Error, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::kernel::KernelError;
use crate::kernel::features::{OLDEST, Version};

/// How long a transaction may take. The largest that we know take some seconds.
const DEADLINE: Duration = Duration::from_secs(30);
/// How often something is tried that the kernel has no room for at the moment, and how long to wait at first.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(5);
/// How much of what it says is kept: it quotes our text, which may be long.
const LINES: usize = 6;
const COLUMNS: usize = 240;

/// The command.
#[derive(Debug, Clone)]
pub(crate) struct Nft {
    path: PathBuf,
    deadline: Duration,
    /// What it said about itself, once it did.
    version: Option<Version>,
}

/// What a process said and did.
pub(crate) struct Ran {
    /// Its number, which is also that of its socket, unless somebody else had that already.
    pub(crate) process: u32,
    /// What it wrote, or why it did not do what it was asked.
    pub(crate) said: Result<String, KernelError>,
}

// === impl Nft ===

impl Nft {
    pub(crate) fn new(path: PathBuf) -> Nft {
        Nft { path, deadline: DEADLINE, version: None }
    }

    pub(crate) fn deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Its version; an error if it cannot be run, or is too old for the texts that it will be given.
    pub(crate) fn version(&mut self) -> Result<Version, KernelError> {
        if let Some(version) = self.version {
            return Ok(version);
        }
        let said = self.run(&["--version"], "")?.said?;
        let version = Version::read(&said).ok_or_else(|| {
            KernelError::Missing(format!("nft: cannot read its version from {:?}", said.trim()))
        })?;
        if version < OLDEST {
            return Err(KernelError::Missing(format!(
                "nft {version} is too old: {OLDEST} or newer is needed (on Debian 12, Ubuntu 22.04 and later: apt-get install nftables)"
            )));
        }
        self.version = Some(version);
        Ok(version)
    }

    /// Does a transaction; once more, up to a limit, when the kernel has no room for it at the moment.
    pub(crate) fn transaction(&mut self, text: &str) -> Result<Ran, KernelError> {
        self.version()?;
        let mut pause = PAUSE;
        for _ in 1..TRIES {
            let ran = self.run(&["-f", "-"], text)?;
            if !matches!(ran.said, Err(KernelError::Busy(_))) {
                return Ok(ran);
            }
            std::thread::sleep(pause);
            pause *= 2;
        }
        self.run(&["-f", "-"], text)
    }

    /// Whether the kernel would take a transaction.
    pub(crate) fn check(&mut self, text: &str) -> Result<(), KernelError> {
        self.run(&["-c", "-f", "-"], text)?.said.map(|_| ())
    }

    /// What it writes about something.
    pub(crate) fn list(&mut self, arguments: &[&str]) -> Result<String, KernelError> {
        self.version()?;
        self.run(arguments, "")?.said
    }

    fn run(&self, arguments: &[&str], text: &str) -> Result<Ran, KernelError> {
        let mut child = Command::new(&self.path)
            .args(arguments)
            .env("LC_ALL", "C")
            // In a group of its own, so that Ctrl-C ends us, who know what to do then, and not half of a change.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| self.cannot_run(error))?;
        let process = child.id();
        match talk(&mut child, text.as_bytes(), Instant::now() + self.deadline) {
            Ok((status, out, said)) => Ok(Ran { process, said: sorted(status, out, &said) }),
            Err(error) => {
                // It may have ended just now; nobody else has its number before we have waited for it.
                let _ = child.kill();
                let _ = child.wait();
                match error.kind() {
                    ErrorKind::TimedOut => {
                        let seconds = self.deadline.as_secs_f64();
                        Err(KernelError::Busy(format!(
                            "nft was not done after {seconds} seconds and was ended"
                        )))
                    }
                    _ => Err(KernelError::System { what: "cannot talk to nft".to_owned(), source: error }),
                }
            }
        }
    }

    fn cannot_run(&self, error: Error) -> KernelError {
        let path = self.path.display();
        match error.kind() {
            ErrorKind::NotFound => KernelError::Missing(format!(
                "there is no command {path} (on Debian or Ubuntu: apt-get install nftables)"
            )),
            ErrorKind::PermissionDenied => KernelError::Forbidden(format!("cannot run {path}: {error}")),
            _ => KernelError::System { what: format!("cannot run {path}"), source: error },
        }
    }
}

/// Writes to a process and reads what it writes, until it ends. Reading and writing take turns, because a process that cannot write
/// does not read either.
fn talk(child: &mut Child, mut text: &[u8], until: Instant) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), Error> {
    let (mut input, mut output, mut errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    for pipe in
        [input.as_ref().map(AsFd::as_fd), output.as_ref().map(AsFd::as_fd), errors.as_ref().map(AsFd::as_fd)]
            .into_iter()
            .flatten()
    {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    let (mut out, mut said) = (Vec::new(), Vec::new());
    while output.is_some() || errors.is_some() {
        if text.is_empty() {
            // This is how it knows that there is no more.
            input = None;
        }
        let mut waiting = Vec::with_capacity(3);
        waiting.extend(input.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        waiting.extend(output.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        waiting.extend(errors.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        wait(&mut waiting, until)?;
        if let Some(pipe) = &mut input {
            match pipe.write(text) {
                Ok(written) => text = text.get(written..).unwrap_or_default(),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                // Whoever stops reading early says why on standard error.
                Err(_) => text = &[],
            }
        }
        if output.as_mut().is_some_and(|pipe| has_ended(pipe, &mut out)) {
            output = None;
        }
        if errors.as_mut().is_some_and(|pipe| has_ended(pipe, &mut said)) {
            errors = None;
        }
    }
    // It has closed everything, so that it ends at once, if it is what we think.
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, out, said));
        }
        if Instant::now() >= until {
            return Err(ErrorKind::TimedOut.into());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn wait(pipes: &mut [PollFd<'_>], until: Instant) -> Result<(), Error> {
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(|_| ErrorKind::InvalidInput)?;
    match poll(pipes, Some(&left)) {
        Ok(0) => Err(ErrorKind::TimedOut.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Reads what is there; says whether that was all there will be.
fn has_ended(pipe: &mut impl Read, all: &mut Vec<u8>) -> bool {
    let mut piece = [0; 16 * 1024];
    loop {
        match pipe.read(&mut piece) {
            Ok(0) => return true,
            Ok(length) => all.extend_from_slice(piece.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

fn sorted(status: ExitStatus, out: Vec<u8>, said: &[u8]) -> Result<String, KernelError> {
    if status.success() {
        return String::from_utf8(out).map_err(|_| KernelError::System {
            what: "cannot read what nft says".to_owned(),
            source: ErrorKind::InvalidData.into(),
        });
    }
    if let Some(signal) = status.signal() {
        let source = Error::other(format!("ended by signal {signal}"));
        return Err(KernelError::System { what: "nft".to_owned(), source });
    }
    Err(reason(&String::from_utf8_lossy(said)))
}

/// Why nft did not do what it was asked, from what it says. The first error counts: others often follow from it.
fn reason(said: &str) -> KernelError {
    // In one line: an error is a part of a message, and only its printer breaks lines. Without the marks below a quoted line.
    let words = said.lines().take(LINES).filter(|line| !line.trim_matches([' ', '\t', '^', '~']).is_empty());
    let short = words.map(|line| match line.char_indices().nth(COLUMNS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim()),
        None => line.trim().to_owned(),
    });
    let short = short.collect::<Vec<_>>().join(" | ");
    let first =
        said.lines().find(|line| line.contains("rror:")).or_else(|| said.lines().next()).unwrap_or("");
    let says = |words: &[&str]| words.iter().any(|word| first.contains(word));
    // About this it says more than one thing, in any order.
    if ["Operation not permitted", "Permission denied", "must be root"].iter().any(|word| said.contains(word))
    {
        KernelError::Forbidden(short)
    } else if says(&[
        "Device or resource busy",
        "Interrupted system call",
        "No buffer space available",
        "Resource temporarily unavailable",
        "Cannot allocate memory",
    ]) {
        KernelError::Busy(short)
    } else if says(&[
        "No such file or directory",
        "File exists",
        "Directory not empty",
        "interval overlaps with an existing one",
        "element does not exist",
    ]) {
        KernelError::Drifted(short)
    } else {
        KernelError::Refused(if short.is_empty() { "nft does not say why".to_owned() } else { short })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nft_says_is_sorted() {
        let kinds = [
            ("/dev/stdin:1:1-2: Error: Could not process rule: No such file or directory", "drifted"),
            (
                "/dev/stdin:1:1-2: Error: No such file or directory; did you mean set ‘a’ in table inet ‘b’?",
                "drifted",
            ),
            ("/dev/stdin:2:1-2: Error: Could not process rule: File exists\nx\n^", "drifted"),
            ("Error: interval overlaps with an existing one", "drifted"),
            ("Error: Could not process rule: Device or resource busy\ndelete chain a b", "busy"),
            ("netlink: Error: cache initialization failed: Operation not permitted", "forbidden"),
            ("Operation not permitted (you must be root)\nnetlink: Error: x", "forbidden"),
            ("Error: syntax error, unexpected string", "refused"),
            ("", "refused"),
        ];
        for (said, kind) in kinds {
            let sorted = match reason(said) {
                KernelError::Drifted(_) => "drifted",
                KernelError::Busy(_) => "busy",
                KernelError::Forbidden(_) => "forbidden",
                KernelError::Refused(_) => "refused",
                _ => "other",
            };
            assert_eq!(sorted, kind, "{said}");
        }
    }

    #[test]
    fn what_nft_quotes_is_cut() {
        let KernelError::Refused(short) = reason(&format!("Error: syntax\n{}\n^", "é".repeat(100_000)))
        else {
            panic!("not refused");
        };
        assert!(short.len() < 1000, "{}", short.len());
    }
}
