//! Every world of every suite in the repository, after each of its steps: for every pair of endpoints and every stretch of
//! traffic that its policies tell apart, the symbolic answer is the plain one.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod judge;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use palisade_dialects::source::tree::Source;
use palisade_model::flow::Flow;
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::verdicts::Verdicts;
use palisade_policytest::packets::{PacketError, PacketOutcome, PacketSender, run_packets};
use palisade_policytest::{FileError, RunSettings, TestFiles};

use judge::{Ask, agrees};

fn manifests(path: &Path) -> Vec<Arc<Source>> {
    let is_manifest = |path: &PathBuf| path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml");
    let mut files = Vec::new();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap().path();
            if entry.is_dir() {
                files.extend(
                    fs::read_dir(entry).unwrap().map(|file| file.unwrap().path()).filter(is_manifest),
                );
            } else if is_manifest(&entry) {
                files.push(entry);
            }
        }
    } else {
        files.push(path.to_owned());
    }
    files.sort();
    let source =
        |path: &PathBuf| Arc::new(Source::new(path.to_str().unwrap(), fs::read_to_string(path).unwrap()));
    files.iter().map(source).collect()
}

struct Beside;

impl TestFiles for Beside {
    fn open(&self, from: &Source, path: &str) -> Result<Vec<Arc<Source>>, FileError> {
        let path = Path::new(&**from.name()).parent().unwrap().join(path);
        if path.exists() {
            Ok(manifests(&path))
        } else {
            Err(FileError::Unreadable(format!("no {}", path.display())))
        }
    }
}

/// Nobody who sends anything: it holds the world of each step to the judge, each world once.
#[derive(Clone, Default)]
struct Judged {
    asked: Arc<AtomicUsize>,
    seen: Arc<Mutex<BTreeSet<String>>>,
}

impl PacketSender for Judged {
    fn send(&mut self, objects: Objects, flows: &[Flow]) -> Result<Vec<PacketOutcome>, PacketError> {
        let fresh = self.seen.lock().unwrap().insert(format!("{objects:?}"));
        let snapshot = Snapshot::new(objects);
        let options = Options::default();
        if fresh {
            self.asked.fetch_add(agrees(&snapshot, &options, Ask::Fast), Ordering::Relaxed);
        }
        let verdicts = Verdicts::new(&snapshot, &options);
        Ok(flows.iter().map(|flow| PacketOutcome::Verdict(verdicts.verdict(flow))).collect())
    }
}

fn judged(suite: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(suite);
    let judged = Judged::default();
    let makes = || -> Result<Box<dyn PacketSender>, PacketError> { Ok(Box::new(judged.clone())) };
    let report =
        run_packets(&manifests(&folder), &Beside, RunSettings::default(), &makes, 2, &|_, _| {}).unwrap();
    assert!(report.unreadable.is_empty(), "{:?}", report.unreadable);
    assert_eq!(report.failed(), 0);
    let asked = judged.asked.load(Ordering::Relaxed);
    assert!(asked >= least, "{suite}: {asked}");
}

macro_rules! suites {
    ($($name:ident: $path:literal, at least $least:literal;)*) => {$(
        #[test]
        fn $name() {
            judged($path, $least);
        }
    )*};
}

suites! {
    k8s_e2e: "suites/k8s-e2e", at least 10_000;
    k8s_v1beta1: "suites/k8s-v1beta1", at least 10_000;
    npa_v1alpha1: "suites/npa-v1alpha1", at least 10_000;
    npa_v1alpha2: "suites/npa-v1alpha2", at least 10_000;
    antrea: "suites/antrea", at least 10_000;
    antrea_2020: "suites/antrea-2020", at least 10_000;
    antrea_order: "suites/antrea-order", at least 10_000;
    antrea_decisions: "suites/antrea-decisions", at least 10_000;
    decisions: "suites/decisions", at least 9_500;
    example: "examples/shop/tests", at least 10_000;
}
