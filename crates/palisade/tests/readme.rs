//! What README shows is what the program prints: every `$ palisade …` in it is run, and its output compared.
//! `make docs` runs this with `PALISADE_UPDATE_README` set, which writes the output into README instead.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words of a command line; double quotes hold blanks together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().expect("never empty").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The commands of a page's console blocks, each with the output it shows.
fn shown(page: &str) -> Vec<(String, String)> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside {
            match line.strip_prefix("$ ") {
                Some(command) => commands.push((command.to_owned(), String::new())),
                None => {
                    let (_, output) = commands.last_mut().expect("a block begins with its command");
                    output.push_str(line);
                    output.push('\n');
                }
            }
        }
    }
    commands
}

fn run(arguments: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(arguments)
        .current_dir(root())
        .env_remove("COLUMNS")
        .output()
        .expect("the binary runs");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The page with the output of its commands as it is now.
fn renewed(page: &str) -> String {
    let mut out = String::new();
    let (mut inside, mut ours) = (false, false);
    for line in page.lines() {
        if line.starts_with("```") {
            (inside, ours) = (line == "```console", false);
        }
        let command = line.strip_prefix("$ palisade ").filter(|_| inside);
        if command.is_some() || !ours {
            out.push_str(line);
            out.push('\n');
        }
        if let Some(command) = command {
            ours = true;
            out.push_str(run(&words(command)).trim_end());
            out.push('\n');
        }
    }
    out
}

#[test]
fn readme_shows_what_the_program_prints() {
    let file = root().join("README.md");
    let page = std::fs::read_to_string(&file).expect("README.md");
    if std::env::var_os("PALISADE_UPDATE_README").is_some() {
        std::fs::write(&file, renewed(&page)).expect("README.md can be written");
        return;
    }
    let commands = shown(&page);
    let palisade: Vec<_> =
        commands.iter().filter_map(|(c, out)| Some((c.strip_prefix("palisade ")?, out))).collect();
    assert!(palisade.len() >= 5, "README shows the tour");
    for (command, want) in palisade {
        let got = run(&words(command));
        assert_eq!(got.trim_end(), want.trim_end(), "README is stale: palisade {command}");
    }
}

/// The block is no `console` one, because the command needs root; what it predicts does not.
#[test]
fn the_lab_in_readme_shows_what_is_predicted() {
    let page = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let (_, block) = page.split_once("$ sudo palisade lab examples/shop\n").expect("README shows a lab");
    let (block, _) = block.split_once("```").expect("a block ends");
    let output = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(["lab", "examples/shop", "--output", "json"])
        .current_dir(root())
        // Without what a lab needs it only predicts, the same in every run.
        .env("PATH", "/nowhere")
        .output()
        .expect("the binary runs");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!((&report["measured"], &report["asked"]), (&false.into(), &report["flows"]), "{report}");
    for verdict in ["allowed", "denied", "rejected"] {
        let line = block
            .lines()
            .find_map(|line| line.trim().strip_prefix(verdict))
            .expect("a line for each verdict");
        let shown: Vec<u64> =
            line.split_whitespace().map(|figure| figure.parse().expect("a figure")).collect();
        assert_eq!(
            shown,
            [report[verdict]["predicted"].as_u64().expect("a count"), 0],
            "README is stale: {verdict}"
        );
    }
}

#[test]
fn the_tour_is_the_one_in_readme() {
    let page = std::fs::read_to_string(root().join("README.md")).expect("README.md");
    let tour = std::fs::read_to_string(root().join("scripts/tour")).expect("scripts/tour");
    let commands: Vec<Vec<String>> =
        shown(&page).iter().filter_map(|(command, _)| command.strip_prefix("palisade ").map(words)).collect();
    let steps = tour.lines().filter_map(|line| line.strip_prefix("show "));
    let steps: Vec<Vec<String>> = steps.map(|step| words(step)[1..].to_vec()).collect();
    assert!(!steps.is_empty());
    for step in steps {
        assert!(commands.contains(&step), "README does not show {step:?}");
    }
}
