//! "Did you mean": the names nearest to one that does not exist.

/// Up to three candidates that are close to `wanted`, nearest first, ties in the order given.
pub fn nearest<'c>(wanted: &str, candidates: impl IntoIterator<Item = &'c str>) -> Vec<&'c str> {
    // Half of the name may differ, but never all of it; a prefix is always near.
    let limit = (wanted.chars().count() / 2).clamp(1, 4);
    let mut near: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let distance = distance(&wanted.to_ascii_lowercase(), &candidate.to_ascii_lowercase());
            let prefix = wanted.len() >= 2 && candidate.starts_with(wanted);
            (distance <= limit || prefix).then_some((distance, candidate))
        })
        .collect();
    near.sort_by_key(|(distance, _)| *distance);
    near.dedup_by_key(|(_, candidate)| *candidate);
    near.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// The number of insertions, deletions, replacements and swaps of neighbours between two texts.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(256).collect(), b.chars().take(256).collect());
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            row[j + 1] = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_come_nearest_first() {
        assert_eq!(nearest("wep", ["db-0", "web-canary", "web", "wed"]), ["web", "wed"]);
        assert_eq!(nearest("web", ["db-0", "web-canary", "webb"]), ["webb", "web-canary"]);
        assert_eq!(nearest("xyzzy", ["db-0", "web"]), Vec::<&str>::new());
        assert_eq!(distance("abcd", "abdc"), 1);
    }
}
