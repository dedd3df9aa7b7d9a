use super::*;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                         and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                         validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const PREFIX: &str = "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                      or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                      validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SLASHES: &str = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                       with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                       validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix \
                       and '/' (e.g. 'example.com/MyName')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and \
                     must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
                     regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const CHARSET: &str = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
const LETTER: &str = "must contain at least one letter (a-z)";
const DOUBLE: &str = "must not contain consecutive hyphens";
const ENDS: &str = "must not begin or end with a hyphen";
const RANGE: &str = "must be between 1 and 65535, inclusive";

fn a(times: usize) -> String {
    "a".repeat(times)
}

/// 50 labels of 4 characters and one of 3 make 253 with their dots.
fn dotted(times: usize) -> String {
    let mut name = "aaaa.".repeat(50);
    name.push_str(&a(times - name.len()));
    name
}

macro_rules! messages {
    ($($test:ident: $check:ident($value:expr) => [$($want:expr),*];)*) => {$(
        #[test]
        fn $test() {
            let want: &[&str] = &[$($want),*];
            assert_eq!($check($value), want);
        }
    )*};
}

messages! {
    subdomain: dns1123_subdomain("foo.example.com") => [];
    subdomain_of_one: dns1123_subdomain("0") => [];
    subdomain_with_hyphens: dns1123_subdomain("a--b.c-d") => [];
    subdomain_long_label: dns1123_subdomain(&a(253)) => [];
    subdomain_253: dns1123_subdomain(&dotted(253)) => [];
    subdomain_254: dns1123_subdomain(&dotted(254)) => ["must be no more than 253 characters"];
    subdomain_254_and_bad: dns1123_subdomain(&"-".repeat(254)) => ["must be no more than 253 characters", SUBDOMAIN];
    subdomain_empty: dns1123_subdomain("") => [SUBDOMAIN];
    subdomain_capital: dns1123_subdomain("Foo") => [SUBDOMAIN];
    subdomain_underscore: dns1123_subdomain("allow_all") => [SUBDOMAIN];
    subdomain_first_hyphen: dns1123_subdomain("-a") => [SUBDOMAIN];
    subdomain_last_hyphen: dns1123_subdomain("a-") => [SUBDOMAIN];
    subdomain_hyphen_dot: dns1123_subdomain("a-.b") => [SUBDOMAIN];
    subdomain_dot_hyphen: dns1123_subdomain("a.-b") => [SUBDOMAIN];
    subdomain_two_dots: dns1123_subdomain("a..b") => [SUBDOMAIN];
    subdomain_last_dot: dns1123_subdomain("a.") => [SUBDOMAIN];
    subdomain_only_dot: dns1123_subdomain(".") => [SUBDOMAIN];
    subdomain_newline: dns1123_subdomain("a\n") => [SUBDOMAIN];
    subdomain_not_ascii: dns1123_subdomain("é") => [SUBDOMAIN];

    one_label: dns1123_label("a-0") => [];
    label_63: dns1123_label(&a(63)) => [];
    label_64: dns1123_label(&a(64)) => ["must be no more than 63 characters"];
    label_empty: dns1123_label("") => [LABEL];
    label_dots: dns1123_label("a.b") => ["must not contain dots"];
    label_long_dots: dns1123_label(&dotted(253)) => ["must be no more than 63 characters", "must not contain dots"];
    label_dots_and_worse: dns1123_label("a..b") => [LABEL];
    label_capital: dns1123_label("A") => [LABEL];
    label_64_and_bad: dns1123_label(&"_".repeat(64)) => ["must be no more than 63 characters", LABEL];

    key: qualified_name("a") => [];
    key_marks: qualified_name("A-b_c.9") => [];
    key_prefix: qualified_name("example.com/a") => [];
    key_63: qualified_name(&a(63)) => [];
    key_64: qualified_name(&a(64)) => ["name part must be no more than 63 bytes"];
    key_64_and_bad: qualified_name(&"-".repeat(64)) => ["name part must be no more than 63 bytes", NAME];
    key_bytes_count: qualified_name(&"é".repeat(32)) => ["name part must be no more than 63 bytes", NAME];
    key_empty: qualified_name("") => ["name part must be non-empty", NAME];
    key_equals: qualified_name("NoUppercaseOrSpecialCharsLike=Equals") => [NAME];
    key_space: qualified_name("a b") => [NAME];
    key_last_dot: qualified_name("a.") => [NAME];
    key_no_prefix: qualified_name("/a") => ["prefix part must be non-empty"];
    key_only_slash: qualified_name("/") => ["prefix part must be non-empty", "name part must be non-empty", NAME];
    key_no_name: qualified_name("a/") => ["name part must be non-empty", NAME];
    key_prefix_capital: qualified_name("Example.com/a") => [PREFIX];
    key_prefix_253: qualified_name(&format!("{}/a", dotted(253))) => [];
    key_prefix_254: qualified_name(&format!("{}/a", dotted(254))) => ["prefix part must be no more than 253 bytes"];
    key_two_slashes: qualified_name("a/b/c") => [SLASHES];
    key_slashes_only: qualified_name("//") => [SLASHES];
    annotation_capitals: annotation_key("Example.COM/A") => [];
    annotation_of_one_to_one_lower_case: annotation_key("\u{130}.\u{212a}/a") => [];
    annotation_bad: annotation_key("É") => [NAME];

    value: label_value("A-b_c.9") => [];
    value_empty: label_value("") => [];
    value_63: label_value(&a(63)) => [];
    value_64: label_value(&a(64)) => ["must be no more than 63 bytes"];
    value_64_and_bad: label_value(&"-".repeat(64)) => ["must be no more than 63 bytes", VALUE];
    value_space: label_value("no spaces") => [VALUE];
    value_slash: label_value("a/b") => [VALUE];
    value_last_hyphen: label_value("a-") => [VALUE];
    value_not_ascii: label_value("é") => [VALUE];

    port: port_name("https") => [];
    port_digits_and_letter: port_name("1-a") => [];
    port_15: port_name("abcdefghijklmno") => [];
    port_16: port_name("abcdefghijklmnop") => ["must be no more than 15 characters"];
    port_number_as_text: port_name("80") => [LETTER];
    port_capital: port_name("Web") => [CHARSET];
    port_marks: port_name("!@#$") => [CHARSET, LETTER];
    port_two_hyphens: port_name("a--b") => [DOUBLE];
    port_first_hyphen: port_name("-a") => [ENDS];
    port_last_hyphen: port_name("a-") => [ENDS];
    port_empty: port_name("") => [CHARSET, LETTER];
    port_hyphens: port_name("----------------") => ["must be no more than 15 characters", LETTER, DOUBLE, ENDS];
    port_not_ascii: port_name("aé") => [CHARSET];

    number_0: port_number(0) => [RANGE];
    number_1: port_number(1) => [];
    number_65535: port_number(65535) => [];
    number_65536: port_number(65536) => [RANGE];
    number_negative: port_number(-1) => [RANGE];
    number_huge: port_number(123_456_789) => [RANGE];
}
