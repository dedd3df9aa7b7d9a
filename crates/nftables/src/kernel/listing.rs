//! What nft lists of our table: told apart into its parts, and made comparable.

use crate::patch::Patch;
use crate::text::TABLE;

/// A part of our table as nft lists it: a chain, a set, a map, a counter, or what somebody else has put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    /// What is said about it, without what is before and after each line.
    pub(crate) lines: Vec<&'a str>,
}

/// Our table out of a listing of several.
pub(crate) fn ours(all: &str) -> Option<String> {
    let head = format!("table inet {TABLE} {{");
    let from = all.lines().skip_while(|line| *line != head);
    let mut listing: Vec<&str> = from.take_while(|line| *line != "}").collect();
    if listing.is_empty() {
        return None;
    }
    listing.push("}\n");
    Some(listing.join("\n"))
}

/// The parts of our table; nothing if something is said of the table itself, which we never do.
pub(crate) fn parts(listing: &str) -> Option<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut open: Option<Part<'_>> = None;
    // A part begins after one tab and ends with a closing brace after one tab; all inside has two.
    for line in listing.lines().skip(1).take_while(|line| *line != "}") {
        match (&mut open, line.strip_prefix('\t')) {
            (Some(_), Some("}")) => parts.extend(open.take()),
            (Some(part), Some(inside)) if inside.starts_with('\t') => part.lines.push(inside.trim()),
            (None, Some(head)) => {
                let (kind, name) = head.strip_suffix(" {")?.split_once(' ')?;
                open = Some(Part { kind, name, lines: Vec::new() });
            }
            (None, None) if line.is_empty() => {}
            _ => return None,
        }
    }
    open.is_none().then_some(parts)
}

/// A listing in an order that does not depend on what came when, so that a program that was patched is the same as one that was put
/// there as a whole; and without what is only still there because it could not go yet.
pub(crate) fn in_order(listing: &str, left: &Patch) -> String {
    let is_left = |part: &Part<'_>| match part.kind {
        "chain" => left.no_chains.contains(part.name),
        "set" | "map" => left.no_sets.contains(part.name),
        "counter" => left.no_counters.contains(part.name),
        _ => false,
    };
    // Whatever cannot be told apart is compared as it is.
    let Some(mut parts) = parts(listing) else { return listing.to_owned() };
    parts.retain(|part| !is_left(part));
    parts.sort_unstable_by(|one, other| (one.kind, one.name).cmp(&(other.kind, other.name)));
    let text = |part: &Part<'_>| {
        let lines: String = part.lines.iter().map(|line| format!("\t{line}\n")).collect();
        format!("{} {} {{\n{lines}}}\n", part.kind, part.name)
    };
    parts.iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "table inet other {\n\tchain a {\n\t}\n}\ntable inet palisade {\n\tcounter n {\n\t}\n\n\tset s {\n\t\ttype mark\n\t}\n\n\tchain b {\n\t\taccept comment \"}\"\n\t}\n\n\tchain a {\n\t}\n}\ntable inet palisade2 {\n}\n";

    #[test]
    fn our_table_is_found_and_put_in_order() {
        let listing = ours(ALL).unwrap();
        assert_eq!(
            in_order(&listing, &Patch::default()),
            "chain a {\n}\nchain b {\n\taccept comment \"}\"\n}\ncounter n {\n}\nset s {\n\ttype mark\n}\n"
        );
        let left = Patch { no_chains: ["a".into()].into(), no_sets: ["s".into()].into(), ..Patch::default() };
        assert_eq!(in_order(&listing, &left), "chain b {\n\taccept comment \"}\"\n}\ncounter n {\n}\n");
        assert_eq!(in_order("table inet palisade {\n}\n", &left), "");
        assert_eq!(ours("table inet other {\n}\n"), None);
        assert_eq!(ours(""), None);
    }

    #[test]
    fn what_is_said_of_the_table_itself_is_none_of_its_parts() {
        let listing = ours(ALL).unwrap();
        let parts = parts(&listing).unwrap();
        let told: Vec<(&str, &str)> = parts.iter().map(|part| (part.kind, part.name)).collect();
        assert_eq!(told, [("counter", "n"), ("set", "s"), ("chain", "b"), ("chain", "a")]);
        assert_eq!(parts[2].lines, ["accept comment \"}\""]);
        for strange in [
            "table inet palisade {\n\tflags dormant\n}\n",
            "table inet palisade {\n\tchain a {\n\t\taccept\n}\n",
        ] {
            assert_eq!(super::parts(strange), None, "{strange}");
            assert_eq!(in_order(strange, &Patch::default()), strange);
        }
    }
}
