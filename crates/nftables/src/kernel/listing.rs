//! What nft lists of our table, made comparable.

use crate::patch::Patch;
use crate::text::TABLE;

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

/// A listing in an order that does not depend on what came when, so that a program that was patched is the same as one that was put
/// there as a whole; and without what is only still there because it could not go yet.
pub(crate) fn in_order(listing: &str, left: &Patch) -> String {
    let is_left = |block: &str| {
        let mut words = block.split_whitespace();
        match (words.next(), words.next()) {
            (Some("chain"), Some(name)) => left.no_chains.contains(name),
            (Some("set" | "map"), Some(name)) => left.no_sets.contains(name),
            (Some("counter"), Some(name)) => left.no_counters.contains(name),
            _ => false,
        }
    };
    // A part begins after one tab and ends with a closing brace after one tab; all inside has two.
    let body = listing.split_once('\n').map_or("", |(_, body)| body);
    let body = body.trim_end().strip_suffix('}').unwrap_or(body);
    let mut blocks: Vec<&str> =
        body.split("\n\t}").map(str::trim).filter(|block| !block.is_empty() && !is_left(block)).collect();
    blocks.sort_unstable();
    blocks.iter().map(|block| format!("{block}\n}}\n")).collect()
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
            "chain a {\n}\nchain b {\n\t\taccept comment \"}\"\n}\ncounter n {\n}\nset s {\n\t\ttype mark\n}\n"
        );
        let left = Patch { no_chains: ["a".into()].into(), no_sets: ["s".into()].into(), ..Patch::default() };
        assert_eq!(in_order(&listing, &left), "chain b {\n\t\taccept comment \"}\"\n}\ncounter n {\n}\n");
        assert_eq!(in_order("table inet palisade {\n}\n", &left), "");
        assert_eq!(ours("table inet other {\n}\n"), None);
        assert_eq!(ours(""), None);
    }
}
