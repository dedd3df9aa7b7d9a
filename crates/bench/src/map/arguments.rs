//! Which maps are measured, as it is asked for.

use std::io;

use clap::{Args, ValueEnum};

use super::{Figures, Shape, Size, Subject, best, run};

/// Which maps, and how often.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many pods; without it, several sizes one after the other
    #[arg(long, requires = "policies")]
    pods: Option<usize>,
    /// How many policies
    #[arg(long, requires = "pods")]
    policies: Option<usize>,
    /// How many namespaces [default: one for 22 policies]
    #[arg(long, requires = "pods")]
    namespaces: Option<usize>,
    /// Another number, another cluster
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Clusters that are hard in one way instead: these, or all
    #[arg(long, value_delimiter = ',', num_args = 0.., conflicts_with = "pods", value_enum)]
    hard: Option<Vec<Shape>>,
    /// How many there are of what these have many of
    #[arg(long, default_value_t = 10_000)]
    count: usize,
    /// How often each is measured, each time in a process of its own; the best counts
    #[arg(long, default_value_t = 3)]
    pub runs: usize,
    /// With one run: ask about pairs of pods as well
    #[arg(long)]
    pairs: bool,
}

// === impl Arguments ===

impl Arguments {
    /// The figures of what was asked for.
    pub fn run(&self) -> io::Result<Vec<Figures>> {
        match self.subjects()[..] {
            // One run of one subject: this process may be its own.
            [subject] if self.runs <= 1 => Ok(vec![run(subject, self.pairs)]),
            ref subjects => subjects.iter().map(|subject| best(*subject, self.runs)).collect(),
        }
    }

    fn subjects(&self) -> Vec<Subject> {
        if let Some(named) = &self.hard {
            let shapes = if named.is_empty() { Shape::value_variants() } else { named };
            return shapes.iter().map(|shape| Subject::Hard(*shape, self.count)).collect();
        }
        let sizes = match (self.pods, self.policies) {
            (Some(pods), Some(policies)) => {
                let size = Size::new(pods, policies);
                vec![Size { namespaces: self.namespaces.unwrap_or(size.namespaces), ..size }]
            }
            _ => Size::ALL.to_vec(),
        };
        sizes.into_iter().map(|size| Subject::Real(size, self.seed)).collect()
    }
}
