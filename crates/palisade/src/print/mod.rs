//! What only the command line prints, and the streams it prints to. The formats of answers are in `palisade-report`.

pub mod documents;
pub mod enforce;
pub mod lab;
pub mod output;
pub mod progress;
#[cfg(test)]
mod schemas;
pub mod time;
