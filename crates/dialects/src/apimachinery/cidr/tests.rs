use super::*;

const INVALID: &[&str] = &["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"];
const ZEROS: &[&str] = &["must not have leading 0s in IP or prefix length"];
const MAPPED: &[&str] = &["must not have an IPv4-mapped IPv6 address"];
const HOST_BITS: &[&str] = &["must not have bits set beyond the prefix length"];
const FINE: &[&str] = &[];

/// The strict message, and the network of the lax reading. Lax validation complains exactly where there is none.
macro_rules! cidrs {
    ($($test:ident: $value:literal => $strict:expr, $network:expr;)*) => {$(
        #[test]
        fn $test() {
            let network: Option<&str> = $network.into();
            assert_eq!(validate_cidr($value, true), $strict);
            assert_eq!(validate_cidr($value, false), if network.is_some() { FINE } else { INVALID });
            assert_eq!(super::network($value).map(|net| net.to_string()).as_deref(), network);
        }
    )*};
}

cidrs! {
    ipv4: "10.0.0.0/8" => FINE, "10.0.0.0/8";
    ipv4_all: "0.0.0.0/0" => FINE, "0.0.0.0/0";
    ipv4_one: "10.0.0.1/32" => FINE, "10.0.0.1/32";
    ipv6: "2001:db8::/64" => FINE, "2001:db8::/64";
    ipv6_all: "::/0" => FINE, "::/0";
    ipv6_one: "::1/128" => FINE, "::1/128";
    ipv6_not_canonical: "2001:0DB8:0:0::/32" => FINE, "2001:db8::/32";
    ipv6_eight_groups: "1:2:3:4:5:6:7:8/128" => FINE, "1:2:3:4:5:6:7:8/128";
    ipv6_gap_of_one: "1:2:3:4:5:6:7::/112" => FINE, "1:2:3:4:5:6:7:0/112";
    ipv6_with_ipv4: "64:ff9b::10.0.0.0/104" => FINE, "64:ff9b::a00:0/104";
    ipv6_with_ipv4_in_full: "1:2:3:4:5:6:1.2.3.4/128" => FINE, "1:2:3:4:5:6:102:304/128";
    ipv6_compatible: "::1.2.3.4/128" => FINE, "::102:304/128";

    zeros: "001.002.003.000/0" => ZEROS, "0.0.0.0/0";
    zeros_are_decimal: "010.0.0.0/8" => ZEROS, "10.0.0.0/8";
    zeros_without_end: "0000000000010.0.0.0/8" => ZEROS, "10.0.0.0/8";
    zeros_in_the_length: "10.0.0.0/08" => ZEROS, "10.0.0.0/8";
    zeros_only_length: "10.0.0.0/00" => ZEROS, "0.0.0.0/0";
    zeros_in_a_group: "02001:db8::/32" => ZEROS, "2001:db8::/32";
    zeros_in_a_mapped: "::ffff:010.0.0.0/104" => ZEROS, "10.0.0.0/8";
    mapped: "::ffff:10.0.0.0/104" => MAPPED, "10.0.0.0/8";
    mapped_in_hexadecimal: "::ffff:a00:0/104" => MAPPED, "10.0.0.0/8";
    mapped_all: "::ffff:0:0/96" => MAPPED, "0.0.0.0/0";
    mapped_cut_off: "::ffff:10.0.0.0/24" => MAPPED, "::/24";
    mapped_cut_in_the_middle: "::ffff:10.0.0.0/88" => MAPPED, "::ff00:0:0/88";
    host_bits: "10.0.0.1/24" => HOST_BITS, "10.0.0.0/24";
    host_bits_of_ipv6: "2001:db8::1/64" => HOST_BITS, "2001:db8::/64";

    empty: "" => INVALID, None;
    blank: " " => INVALID, None;
    no_length: "192.168.5.6" => INVALID, None;
    no_length_ipv6: "fd00:192:168::" => INVALID, None;
    no_address: "/8" => INVALID, None;
    empty_length: "10.0.0.0/" => INVALID, None;
    length_33: "10.0.0.0/33" => INVALID, None;
    length_129: "::/129" => INVALID, None;
    length_beyond_a_byte: "::/256" => INVALID, None;
    plus: "10.0.0.0/+8" => INVALID, None;
    minus: "10.0.0.0/-8" => INVALID, None;
    plus_in_an_octet: "+10.0.0.0/8" => INVALID, None;
    plus_in_a_group: "+1::/64" => INVALID, None;
    space_in_front: " 10.0.0.0/8" => INVALID, None;
    space_behind: "10.0.0.0/8 " => INVALID, None;
    two_lengths: "10.0.0.0/8/8" => INVALID, None;
    mask: "10.0.0.0/255.0.0.0" => INVALID, None;
    octet_too_large: "300.300.300.300/8" => INVALID, None;
    no_address_at_all: "300.300.300.300" => INVALID, None;
    three_octets: "10.0.0/8" => INVALID, None;
    five_octets: "10.0.0.0.0/8" => INVALID, None;
    empty_octet: "10..0.0/8" => INVALID, None;
    zone: "fe80::1%eth0/64" => INVALID, None;
    brackets: "[::]/0" => INVALID, None;
    two_gaps: "1::2::3/64" => INVALID, None;
    three_colons: ":::/64" => INVALID, None;
    gap_of_none: "1:2:3:4::5:6:7:8/128" => INVALID, None;
    seven_groups: "1:2:3:4:5:6:7/128" => INVALID, None;
    nine_groups: "1:2:3:4:5:6:7:8:9/128" => INVALID, None;
    colon_in_front: ":1::/64" => INVALID, None;
    colon_behind: "1::2:/64" => INVALID, None;
    group_too_large: "10000::/64" => INVALID, None;
    ipv4_in_front: "1.2.3.4::/64" => INVALID, None;
    ipv4_in_the_middle: "::1.2.3.4:5/64" => INVALID, None;
    ipv4_without_room: "1:2:3:4:5:6:7:1.2.3.4/128" => INVALID, None;
    other_digits: "１0.0.0.0/8" => INVALID, None;
}

macro_rules! warned {
    ($($test:ident: $value:literal => [$($want:literal),*];)*) => {$(
        #[test]
        fn $test() {
            let want: &[&str] = &[$($want),*];
            assert_eq!(warnings($value), want);
        }
    )*};
}

warned! {
    no_warning_ipv4: "192.12.2.0/24" => [];
    no_warning_ipv6: "2001:db8::/64" => [];
    no_warning_for_nonsense: "300.0.0.0/8" => [];
    warning_zeros: "192.012.2.0/24" => [r#"non-standard CIDR value "192.012.2.0/24" is invalid: use "192.12.2.0/24""#];
    warning_zeros_in_the_length: "192.12.2.0/024"
        => [r#"non-standard CIDR value "192.12.2.0/024" is invalid: use "192.12.2.0/24""#];
    warning_mapped: "::ffff:192.12.2.0/120"
        => [r#"non-standard CIDR value "::ffff:192.12.2.0/120" is invalid: use "192.12.2.0/24""#];
    warning_mapped_with_host_bits: "::ffff:192.12.2.8/120" => [
        r#"CIDR value "::ffff:192.12.2.8/120" is ambiguous in this context (should be "192.12.2.0/24" or "192.12.2.8/128"?)"#,
        r#"non-standard CIDR value "::ffff:192.12.2.8/120" is invalid: use "192.12.2.0/24""#];
    warning_host_bits: "192.12.2.8/24"
        => [r#"CIDR value "192.12.2.8/24" is ambiguous in this context (should be "192.12.2.0/24" or "192.12.2.8/32"?)"#];
    warning_host_bits_of_ipv6: "2001:DB8::1/64"
        => [r#"CIDR value "2001:DB8::1/64" is ambiguous in this context (should be "2001:db8::/64" or "2001:db8::1/128"?)"#];
    warning_both: "192.012.2.8/24" => [
        r#"CIDR value "192.012.2.8/24" is ambiguous in this context (should be "192.12.2.0/24" or "192.12.2.8/32"?)"#,
        r#"non-standard CIDR value "192.012.2.8/24" is invalid: use "192.12.2.0/24""#];
    warning_not_canonical: "2001:db8:0:0::/64"
        => [r#"IPv6 CIDR value "2001:db8:0:0::/64" should be in RFC 5952 canonical format ("2001:db8::/64")"#];
}

macro_rules! subsets {
    ($($test:ident: $inner:literal in $outer:literal => $want:expr;)*) => {
        $(#[test] fn $test() { assert_eq!(is_strict_subset($inner, $outer), $want); })*
    };
}

subsets! {
    inside: "10.1.0.0/16" in "10.0.0.0/8" => Some(true);
    inside_ipv6: "2001:db8:1::/48" in "2001:db8::/32" => Some(true);
    inside_with_host_bits: "192.168.3.1/24" in "192.168.0.0/16" => Some(true);
    equal: "192.168.0.0/24" in "192.168.0.0/24" => Some(false);
    larger: "10.0.0.0/8" in "10.1.0.0/16" => Some(false);
    outside: "192.168.9.1/32" in "192.168.8.0/24" => Some(false);
    other_family: "2001:db8::/64" in "10.0.0.0/8" => Some(false);
    other_family_of_all: "10.0.0.0/8" in "::/0" => Some(false);
    mapped_in_ipv4: "::ffff:10.1.0.0/112" in "10.0.0.0/8" => Some(true);
    larger_but_mapped: "::ffff:16.0.0.0/100" in "16.0.0.0/16" => Some(true);
    ipv4_in_mapped: "10.1.0.0/16" in "::ffff:10.0.0.0/104" => Some(false);
    inner_is_none: "x" in "10.0.0.0/8" => None;
    outer_is_none: "10.0.0.0/8" in "x" => None;
}
