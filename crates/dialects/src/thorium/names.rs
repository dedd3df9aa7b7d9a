//! Names of Kubernetes objects and labels made of names of policies, which are any text.

use smol_str::SmolStr;

use super::policy::{Policy, Sort};
use crate::apimachinery::names::dns1123_label;

/// As much of a policy's name as its object shows.
const SHOWN: usize = 26;

/// The name of a policy's Kubernetes object, which is also the key of the label that it selects by where no tool has it.
///
/// A base policy whose name can be that of an object keeps it, as in Thorium. Any other name is cut and cleaned, and
/// gets a suffix that is made of the whole name, so that the same policy always has the same object.
pub fn object_name(policy: &Policy) -> SmolStr {
    if policy.sort == Sort::Base && dns1123_label(&policy.name).is_empty() {
        return policy.name.clone();
    }
    let sort = match policy.sort {
        Sort::Base => "base",
        Sort::Regular => "policy",
    };
    object_name_of(sort, &policy.name)
}

/// The name of an object for something of a sort, from its name.
pub(super) fn object_name_of(sort: &str, text: &str) -> SmolStr {
    let clean = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    let mut name: String = text.chars().take(SHOWN).map(clean).collect();
    if name.starts_with('-') || name.is_empty() {
        name.replace_range(..name.len().min(1), "z");
    }
    format!("{name}-{:016x}", fingerprint(&[sort, text])).into()
}

/// FNV-1a, 64 bits: not for secrets, only for names that stay the same.
fn fingerprint(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thorium::default_base::default_base;

    fn named(name: &str, sort: Sort) -> String {
        object_name(&Policy { name: name.into(), sort, ..default_base("thorium") }).to_string()
    }

    #[test]
    fn every_text_becomes_a_name_of_an_object() {
        let long = "a".repeat(300);
        for text in ["x", "Größe_1 / für Ernte 🌽", "-start-and-end-", "", "ALL CAPS", &long, "naмe"] {
            for sort in [Sort::Base, Sort::Regular] {
                let name = named(text, sort);
                assert!(dns1123_label(&name).is_empty(), "{text:?} becomes {name:?}");
            }
        }
        assert!(named("-start", Sort::Regular).starts_with("zstart-"));
    }

    #[test]
    fn different_policies_have_different_objects() {
        let long = |end: &str| format!("{}{end}", "a".repeat(60));
        assert_ne!(named(&long("1"), Sort::Regular), named(&long("2"), Sort::Regular));
        assert_ne!(named("a_b", Sort::Regular), named("a-b", Sort::Regular));
        assert_ne!(named("a_b", Sort::Base), named("a_b", Sort::Regular));
        assert_eq!(named("thorium-default", Sort::Base), "thorium-default");
    }
}
