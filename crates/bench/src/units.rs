//! Figures as people read them.

/// A time, in the unit that suits it.
pub fn duration(seconds: f64) -> String {
    match seconds {
        long if long >= 1.0 => format!("{long:.1} s"),
        short if short >= 1e-3 => format!("{:.1} ms", short * 1e3),
        shorter if shorter >= 1e-6 => format!("{:.1} µs", shorter * 1e6),
        shortest => format!("{:.0} ns", shortest * 1e9),
    }
}

/// The same, from nanoseconds.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn nanoseconds(count: u64) -> String {
    duration(count as f64 / 1e9)
}

/// Bytes as mebibytes.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_unit_that_suits_it() {
        let texts = [14.0, 0.0051, 0.000_004_2, 0.000_000_31].map(duration);
        assert_eq!(texts, ["14.0 s", "5.1 ms", "4.2 µs", "310 ns"]);
        assert_eq!(nanoseconds(1_500), "1.5 µs");
    }
}
