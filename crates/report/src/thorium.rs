//! Effective policies of a Thorium tool, as text.

use palisade_dialects::thorium::effective::{Applied, Effective, EffectiveSide, Origin};
use palisade_dialects::thorium::instance::Why;
use palisade_model::diagnostic::Location;
use palisade_model::policy::Direction;

use super::diagnostics::plural;
use super::style::{Look, wrap};
use crate::text::{NL, Text};

/// Prints the effective policies of a tool.
pub fn print_effective(name: &str, effective: &Effective, look: Look) -> Text {
    let mut out = text!("{}   {}{NL}", look.strong(name), headline(effective));
    if !effective.kubernetes {
        return out;
    }
    for side in &effective.sides {
        out.end_line();
        one_side(effective, side, look, &mut out);
    }
    out.push_own("\n  policies\n");
    let rows: Vec<[String; 4]> = effective
        .applied
        .iter()
        .enumerate()
        .map(|(index, policy)| {
            [
                match policy.why {
                    Why::Attached if policy.forced => "forced, attached".to_owned(),
                    other => why(other).to_owned(),
                },
                policy.name.to_string(),
                effect(effective, index),
                location(policy.at.as_ref()),
            ]
        })
        .collect();
    table(&rows, look, &mut out);
    let shown: Vec<&str> = effective.shown.iter().map(|name| name.as_str()).collect();
    let shown = if shown.is_empty() { "none".to_owned() } else { shown.join(", ") };
    write_line!(out, "  shown on the image: {shown}");
    out
}

fn headline(effective: &Effective) -> String {
    if !effective.kubernetes {
        return "Kubernetes does not run it: no network policy holds for it".to_owned();
    }
    let count = |why: Why| effective.applied.iter().filter(|policy| policy.why == why).count();
    let words: Vec<String> = [(Why::Base, "base"), (Why::Forced, "forced"), (Why::Attached, "attached")]
        .into_iter()
        .filter(|(why, _)| count(*why) > 0)
        .map(|(why, word)| format!("{} {word}", count(why)))
        .collect();
    match effective.applied.len() {
        0 => "no policy holds for it".to_owned(),
        all => format!("{} ({})", plural(all, "policy").replace("policys", "policies"), words.join(", ")),
    }
}

/// Prints the allowed peers of one direction.
fn one_side(effective: &Effective, side: &EffectiveSide, look: Look, out: &mut Text) {
    let isolated = effective.unreadable.is_some() || !side.restricted_by.is_empty();
    let summary = match (isolated, side.allowed.iter().all(|line| line.who == "nobody")) {
        (false, _) => look.warning("nothing restricts it: everything is allowed"),
        (true, true) => look.bad("nothing is allowed"),
        (true, false) => Text::own("only this is allowed"),
    };
    write_line!(out, "  {} — {summary}", side.direction);
    if let Some(what) = &effective.unreadable {
        write_line!(out, "    the image fails closed: {what}");
    }
    let word = match side.direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    let mut rows = Vec::new();
    for line in side.allowed.iter().filter(|_| isolated) {
        let who = match line.who.as_str() {
            "nobody" => "nobody".to_owned(),
            who => format!("{word} {who}"),
        };
        let traffic = match &line.unreadable {
            Some(what) => format!("fails closed: {what}"),
            None => line.traffic.clone(),
        };
        for (index, origin) in line.origins.iter().enumerate() {
            let (who, traffic) = if index == 0 { (who.clone(), traffic.clone()) } else { Default::default() };
            rows.push([who, traffic, rule(effective, origin), location(origin.at.as_ref())]);
        }
    }
    table(&rows, look, out);
}

fn rule(effective: &Effective, origin: &Origin) -> String {
    let name = effective.applied.get(origin.policy).map_or("", |policy| policy.name.as_str());
    format!("{name}, rule {}", origin.rule)
}

fn effect(effective: &Effective, index: usize) -> String {
    let policy: &Applied = &effective.applied[index];
    if let Some(why) = &policy.refused {
        return format!("not in force: {why}");
    }
    if let Some(what) = &policy.unreadable {
        return format!("allows nobody: {what}");
    }
    let restricts: Vec<&str> = effective
        .sides
        .iter()
        .filter(|side| side.restricted_by.contains(&index))
        .map(|side| side.direction.as_str())
        .collect();
    if restricts.is_empty() {
        "says nothing".to_owned()
    } else {
        format!("restricts {}", restricts.join(" and "))
    }
}

fn why(why: Why) -> &'static str {
    match why {
        Why::Base => "base",
        Why::Forced => "forced",
        Why::Attached => "attached",
    }
}

fn location(at: Option<&Location>) -> String {
    at.map_or_else(|| "built in".to_owned(), ToString::to_string)
}

/// Prints a table with columns as wide as needed; the first is wrapped where the line would be too long.
fn table<const N: usize>(rows: &[[String; N]], look: Look, out: &mut Text) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let others: usize = widths.iter().skip(1).map(|width| width + 3).sum();
    let first = widths[0].min(look.width.saturating_sub(4 + others).max(24));
    for row in rows {
        let mut lines = wrap(&row[0], first).into_iter();
        let mut line = text!("    {:first$}", lines.next().unwrap_or_default());
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            write_text!(line, "   {cell:width$}");
        }
        write_line!(out, "{}", line.trim_end());
        for rest in lines {
            write_line!(out, "      {rest}");
        }
    }
}
