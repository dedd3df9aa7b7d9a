//! Times for people. All in UTC: what the machine's zone is, no safe call says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of day.
pub fn clock() -> String {
    clock_at(SystemTime::now())
}

/// The time of day of a moment.
pub fn clock_at(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    format!("{:02}:{:02}:{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// How long something took.
pub fn seconds(time: Duration) -> String {
    if time < Duration::from_millis(100) {
        format!("{} ms", time.as_millis().max(1))
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

/// A moment, from seconds of Unix time: `2026-03-01T14:02:11Z`.
pub fn moment(unix: u64) -> String {
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    // Years begin in March here, so that a leap day is the last one of its year. (Howard Hinnant's civil_from_days.)
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{date:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_everybody_writes_them() {
        assert_eq!(moment(0), "1970-01-01T00:00:00Z");
        assert_eq!(moment(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(moment(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(moment(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
