//! Labels and label selectors.
//!
//! The API server reports what is wrong with a label on the map, not on the entry: both the key and the value of
//! `matchLabels: {a b: c}` belong to `matchLabels`. Who wants to point at the entry checks one [`label`] at a time and
//! knows which one it was.

use super::field::{self, Path, Sink, Value};
use super::names;

/// One entry of `matchExpressions`.
#[derive(Debug, Clone, Copy)]
pub struct Requirement<'r, V> {
    /// The label it asks for.
    pub key: &'r str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`, if it is right.
    pub operator: &'r str,
    /// What the operator compares with.
    pub values: &'r [V],
}

/// What a selector may have that it should not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Values that no label can have: an update may keep them if the stored object's selector was not valid either.
    pub allow_invalid_values: bool,
}

/// Checks a selector: its labels at `matchLabels`, its requirements at `matchExpressions[i]`.
pub fn label_selector<'r, V: AsRef<str> + 'r>(
    path: &Path<'_>,
    labels: impl IntoIterator<Item = (&'r str, &'r str)>,
    requirements: impl IntoIterator<Item = Requirement<'r, V>>,
    options: Options,
    sink: &mut Sink<'_>,
) {
    self::labels(&path.child("matchLabels"), labels, sink);
    let expressions = path.child("matchExpressions");
    for (i, one) in requirements.into_iter().enumerate() {
        requirement(&expressions.index(i), &one, options, sink);
    }
}

/// Checks a map of labels, which is what `path` names.
pub fn labels<'l>(
    path: &Path<'_>,
    labels: impl IntoIterator<Item = (&'l str, &'l str)>,
    sink: &mut Sink<'_>,
) {
    for (key, value) in labels {
        label(path, key, value, sink);
    }
}

/// Checks one label of the map at `path`.
pub fn label(path: &Path<'_>, key: &str, value: &str, sink: &mut Sink<'_>) {
    label_key(path, key, sink);
    label_value(path, value, sink);
}

/// Checks one entry of `matchExpressions`.
pub fn requirement<V: AsRef<str>>(
    path: &Path<'_>,
    requirement: &Requirement<'_, V>,
    options: Options,
    sink: &mut Sink<'_>,
) {
    let Requirement { key, operator, values } = *requirement;
    let values_path = path.child("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            sink(&values_path, field::required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            sink(&values_path, field::forbidden(detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => {
            let body = field::invalid(Value::Named(operator), "not a valid selector operator");
            sink(&path.child("operator"), body);
        }
    }
    label_key(&path.child("key"), key, sink);
    if !options.allow_invalid_values {
        for (i, value) in values.iter().enumerate() {
            label_value(&values_path.index(i), value.as_ref(), sink);
        }
    }
}

fn label_key(path: &Path<'_>, key: &str, sink: &mut Sink<'_>) {
    for message in names::qualified_name(key) {
        sink(path, field::invalid(key, &message));
    }
}

fn label_value(path: &Path<'_>, value: &str, sink: &mut Sink<'_>) {
    for message in names::label_value(value) {
        sink(path, field::invalid(value, &message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                       alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation \
                       is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
    const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                         '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

    fn found(check: impl FnOnce(&Path<'_>, &mut Sink<'_>)) -> Vec<String> {
        let mut found = Vec::new();
        check(&Path::new("s"), &mut |path, body| found.push(format!("{path}: {body}")));
        found
    }

    macro_rules! requirements {
        ($($name:ident: $key:literal $operator:literal $values:expr => [$($want:expr),*];)*) => {$(
            #[test]
            fn $name() {
                let values: &[&str] = &$values;
                let one = Requirement { key: $key, operator: $operator, values };
                let want: &[String] = &[$($want.replace("KEY", KEY).replace("VALUE", VALUE)),*];
                assert_eq!(found(|path, sink| requirement(path, &one, Options::default(), sink)), want);
            }
        )*};
    }

    requirements! {
        in_with_a_value: "a" "In" ["b"] => [];
        in_with_the_empty_value: "a" "In" [""] => [];
        exists: "a" "Exists" [] => [];
        does_not_exist: "example.com/a" "DoesNotExist" [] => [];
        in_without_values: "a" "In" []
            => ["s.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"];
        not_in_without_values: "a" "NotIn" []
            => ["s.values: Required value: must be specified when `operator` is 'In' or 'NotIn'"];
        exists_with_values: "a" "Exists" ["b"]
            => ["s.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"];
        does_not_exist_with_values: "a" "DoesNotExist" ["b"]
            => ["s.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"];
        unknown_operator: "a" "Equals" ["b"]
            => [r#"s.operator: Invalid value: "Equals": not a valid selector operator"#];
        operator_in_lower_case: "a" "in" ["b"]
            => [r#"s.operator: Invalid value: "in": not a valid selector operator"#];
        no_operator: "a" "" [] => [r#"s.operator: Invalid value: "": not a valid selector operator"#];
        operator_with_a_mark: "a" ">" []
            => [r#"s.operator: Invalid value: "\u003e": not a valid selector operator"#];
        bad_value: "a" "In" ["b", "no spaces"] => [r#"s.values[1]: Invalid value: "no spaces": VALUE"#];
        bad_key: "a b" "Exists" [] => [r#"s.key: Invalid value: "a b": name part KEY"#];
        no_key: "" "Exists" [] => [
            r#"s.key: Invalid value: "": name part must be non-empty"#, r#"s.key: Invalid value: "": name part KEY"#];
        all_at_once: "-" "" ["-"] => [
            r#"s.operator: Invalid value: "": not a valid selector operator"#,
            r#"s.key: Invalid value: "-": name part KEY"#, r#"s.values[0]: Invalid value: "-": VALUE"#];
    }

    #[test]
    fn stored_invalid_values_may_stay() {
        let one = Requirement { key: "a b", operator: "In", values: &["no spaces"] };
        let options = Options { allow_invalid_values: true };
        let found = found(|path, sink| requirement(path, &one, options, sink));
        assert_eq!(found, [format!(r#"s.key: Invalid value: "a b": name part {KEY}"#)]);
    }

    #[test]
    fn a_selector_reports_labels_on_the_map_and_expressions_on_their_fields() {
        let bad = Requirement { key: "a", operator: "In", values: &["-"] };
        let found = found(|path, sink| {
            label_selector(path, [("ok", ""), ("/a", "-")], [bad, bad], Options::default(), sink);
        });
        let want = [
            r#"s.matchLabels: Invalid value: "/a": prefix part must be non-empty"#.to_owned(),
            format!(r#"s.matchLabels: Invalid value: "-": {VALUE}"#),
            format!(r#"s.matchExpressions[0].values[0]: Invalid value: "-": {VALUE}"#),
            format!(r#"s.matchExpressions[1].values[0]: Invalid value: "-": {VALUE}"#),
        ];
        assert_eq!(found, want);
    }
}
