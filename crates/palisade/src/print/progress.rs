//! What goes on, on standard error, when it takes longer than a second and somebody watches.
//!
//! A thread of its own draws, so that whoever works only counts, and what cannot be counted shows that it is alive.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use palisade_report::text::Text;

use super::output::{Cursor, Stream};
use super::time::seconds;

/// Whatever is over sooner is not worth a word.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it is drawn.
const PERIOD: Duration = Duration::from_millis(100);
const WIDTH: usize = 28;

/// Progress of one command.
#[derive(Debug)]
pub struct Progress {
    state: Arc<Mutex<State>>,
    /// Dropped at the end, which wakes the thread; `None` where nobody watches.
    drawing: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    what: &'static str,
    done: usize,
    /// 0 where nobody knows how much there is.
    total: usize,
}

// === impl Progress ===

impl Progress {
    /// Begins. Nothing is drawn where standard error is no terminal, or where the answer itself scrolls by.
    pub fn begin(what: &'static str, answer_scrolls: bool) -> Self {
        let state = Arc::new(Mutex::new(State { what, done: 0, total: 0 }));
        let watched = Stream::Stderr.is_terminal() && !(answer_scrolls && Stream::Stdout.is_terminal());
        let drawing = watched.then(|| {
            let (end, ended) = channel();
            let state = Arc::clone(&state);
            let draw = move || {
                let begun = Instant::now();
                let mut wait = PATIENCE;
                while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                    wait = PERIOD;
                    Stream::Stderr.draw(Cursor::LineStart, &line(read(&state), begun.elapsed()));
                }
                if wait == PERIOD {
                    // What was drawn goes away: the answer stands alone.
                    Stream::Stderr.draw(Cursor::ClearLine, &Text::new());
                }
            };
            (end, std::thread::spawn(draw))
        });
        Progress { state, drawing }
    }

    /// The next step; `total` is how much of it there is, 0 if nobody knows.
    pub fn step(&self, what: &'static str, total: usize) {
        self.set(State { what, done: 0, total });
    }

    /// So much of the step is done.
    pub fn at(&self, done: usize) {
        if self.drawing.is_some() {
            self.set(State { done, ..read(&self.state) });
        }
    }

    fn set(&self, state: State) {
        if let Ok(mut own) = self.state.lock() {
            *own = state;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.drawing.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

fn read(state: &Mutex<State>) -> State {
    match state.lock() {
        Ok(state) => *state,
        Err(poisoned) => *poisoned.into_inner(),
    }
}

fn line(State { what, done, total }: State, since: Duration) -> Text {
    if total == 0 {
        return text!("{what} … {}   ", seconds(since));
    }
    let full = WIDTH * done.min(total) / total;
    text!("{what} {}{} {done}/{total}   ", "█".repeat(full), "░".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_has_a_bar_and_what_is_not_has_a_clock() {
        let half = line(State { what: "rows", done: 5, total: 10 }, Duration::ZERO);
        assert_eq!(half.trim_end().as_str(), "rows ██████████████░░░░░░░░░░░░░░ 5/10");
        let open = line(State { what: "reading", done: 0, total: 0 }, Duration::from_secs(2));
        assert_eq!(open.trim_end().as_str(), "reading … 2.0 s");
    }

    #[test]
    fn nobody_watches_a_test() {
        let progress = Progress::begin("reading", false);
        progress.step("rows", 3);
        progress.at(2);
        assert_eq!(read(&progress.state).total, 3);
    }
}
