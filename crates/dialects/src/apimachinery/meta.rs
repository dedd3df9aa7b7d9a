//! `metadata`, as the API server checks it for every kind.
//!
//! Each function checks one thing below the path it is given, normally `metadata`. To report in the API server's
//! order, call them in the order they stand here: on creation [`name`], [`namespace`], [`labels`], [`annotations`];
//! on update [`resource_version`], [`immutable`] for the name and the namespace, [`labels`], [`annotations`].

use super::field::{self, Path, Sink};
use super::names::{self, NameRule};
use super::selector;

/// How many bytes all keys and values of the annotations may have together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Checks `generateName` and `name`; empty means absent.
///
/// If there is only a `generateName`, the API server makes a name of it and checks that too. Its five random
/// characters are `xxxxx` here.
pub fn name(path: &Path<'_>, name: &str, generate_name: &str, rule: NameRule, sink: &mut Sink<'_>) {
    if !generate_name.is_empty() {
        for message in rule.check_prefix(generate_name) {
            sink(&path.child("generateName"), field::invalid(generate_name, &message));
        }
    }
    let path = path.child("name");
    let mut check = |name: &str| {
        for message in rule.check(name) {
            sink(&path, field::invalid(name, &message));
        }
    };
    match (name, generate_name) {
        ("", "") => sink(&path, field::required("name or generateName is required")),
        ("", _) => check(&NameRule::generated(generate_name)),
        _ => check(name),
    }
}

/// Checks the namespace; empty means absent. A namespaced kind needs one, any other may not have one.
pub fn namespace(path: &Path<'_>, namespace: &str, namespaced: bool, sink: &mut Sink<'_>) {
    let path = path.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => sink(&path, field::required("")),
        (true, false) => {
            for message in NameRule::Label.check(namespace) {
                sink(&path, field::invalid(namespace, &message));
            }
        }
        (false, true) => {}
        (false, false) => sink(&path, field::forbidden("not allowed on this type")),
    }
}

/// Checks that an update leaves the text at `path` as it is.
pub fn immutable(path: &Path<'_>, new: &str, old: &str, sink: &mut Sink<'_>) {
    if new != old {
        sink(path, field::invalid(new, "field is immutable"));
    }
}

/// Checks the labels, all at `labels`.
pub fn labels<'l>(
    path: &Path<'_>,
    labels: impl IntoIterator<Item = (&'l str, &'l str)>,
    sink: &mut Sink<'_>,
) {
    selector::labels(&path.child("labels"), labels, sink);
}

/// Checks the keys of the annotations and their size, all at `annotations`.
pub fn annotations<'a>(
    path: &Path<'_>,
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    sink: &mut Sink<'_>,
) {
    let path = path.child("annotations");
    let mut size = 0;
    for (key, value) in annotations {
        size += key.len() + value.len();
        for message in names::annotation_key(key) {
            sink(&path, field::invalid(key, &message));
        }
    }
    if size > ANNOTATIONS_MAX {
        sink(&path, field::too_long(ANNOTATIONS_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::NameRule::{Label, Subdomain};
    use super::*;

    const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                             '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
                             used for validation is \
                             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                         start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    const KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                       an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                       validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

    fn full(want: &str) -> String {
        want.replace("SUBDOMAIN", SUBDOMAIN).replace("LABEL", LABEL).replace("KEY", KEY)
    }

    macro_rules! found {
        ($($test:ident: $check:ident($($argument:expr),*) => [$($want:expr),*];)*) => {$(
            #[test]
            fn $test() {
                let mut found = Vec::new();
                let sink: &mut Sink<'_> = &mut |path, body| found.push(format!("{path}: {body}"));
                $check(&Path::new("metadata"), $($argument,)* sink);
                let want: &[String] = &[$(full($want)),*];
                assert_eq!(found, want);
            }
        )*};
    }

    found! {
        named: name("foo.example.com", "", Subdomain) => [];
        generated: name("", "foo-", Subdomain) => [];
        generated_from_a_long_text: name("", &"a".repeat(253), Subdomain) => [];
        named_with_a_generate_name: name("foo", "foo-", Subdomain) => [];
        nameless: name("", "", Subdomain) => ["metadata.name: Required value: name or generateName is required"];
        capital: name("Foo", "", Subdomain) => [r#"metadata.name: Invalid value: "Foo": SUBDOMAIN"#];
        underscore: name("allow_all", "", Subdomain) => [r#"metadata.name: Invalid value: "allow_all": SUBDOMAIN"#];
        dots_where_a_label_is_due: name("a.b", "", Label)
            => [r#"metadata.name: Invalid value: "a.b": must not contain dots"#];
        capital_in_generate_name: name("foo", "Foo-", Subdomain)
            => [r#"metadata.generateName: Invalid value: "Foo-": SUBDOMAIN"#];
        capital_in_generate_name_alone: name("", "Foo-", Subdomain) => [
            r#"metadata.generateName: Invalid value: "Foo-": SUBDOMAIN"#,
            r#"metadata.name: Invalid value: "Foo-xxxxx": SUBDOMAIN"#];
        character_hidden_by_the_hyphen: name("", "foo_-", Subdomain)
            => [r#"metadata.name: Invalid value: "foo_-xxxxx": SUBDOMAIN"#];
        generate_name_of_a_hyphen: name("foo", "-", Subdomain)
            => [r#"metadata.generateName: Invalid value: "-": SUBDOMAIN"#];
        generate_name_of_two_hyphens: name("", "--", Subdomain)
            => [r#"metadata.name: Invalid value: "--xxxxx": SUBDOMAIN"#];
        generate_name_of_two_bytes: name("foo", "é-", Subdomain)
            => [r#"metadata.generateName: Invalid value: "é-": SUBDOMAIN"#];
        in_a_namespace: namespace("bar", true) => [];
        cluster_wide: namespace("", false) => [];
        namespace_missing: namespace("", true) => ["metadata.namespace: Required value"];
        namespace_too_much: namespace("bar", false) => ["metadata.namespace: Forbidden: not allowed on this type"];
        namespace_with_a_dot: namespace("a.b", true)
            => [r#"metadata.namespace: Invalid value: "a.b": must not contain dots"#];
        namespace_with_a_capital: namespace("Bar", true) => [r#"metadata.namespace: Invalid value: "Bar": LABEL"#];
        kept: immutable("foo", "foo") => [];
        changed: immutable("other", "bar") => [r#"metadata: Invalid value: "other": field is immutable"#];
        labelled: labels([("example.com/a", "b"), ("c", "")]) => [];
        label_with_a_bad_key: labels([("a b", "b")]) => [r#"metadata.labels: Invalid value: "a b": KEY"#];
        annotated: annotations([("Example.COM/a", "any { text }")]) => [];
        annotation_with_a_bad_key: annotations([("A b", "")])
            => [r#"metadata.annotations: Invalid value: "A b": KEY"#];
        annotations_at_the_limit: annotations([("a", "b".repeat(131_071).as_str()), ("c", "d".repeat(131_071).as_str())])
            => [];
        annotations_beyond_the_limit: annotations([("a", "b".repeat(262_144).as_str())])
            => ["metadata.annotations: Too long: may not be more than 262144 bytes"];
    }
}
