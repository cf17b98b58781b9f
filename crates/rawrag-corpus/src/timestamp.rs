use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::Offset;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A date, or a date and time, as a file gives it: local, and without an offset unless the file
/// has one. No time zone is ever assumed.
///
/// # Text
/// Read from `2023-05-08`, `2023-05-08T13:56`, with seconds and a fraction or not, with `Z`, an
/// offset (`+02:00`) or neither, with a space for the `T` or not; from LoCoMo's
/// `1:56 pm on 8 May, 2023`; and from LongMemEval's `2023/05/30 (Tue) 23:40`, where the weekday
/// must be the date's. Years are 1 to 9999.
///
/// Written, and serialised, as `2023-05-08`, `2023-05-08 13:56`, `2023-05-08 13:56:07` or
/// `2023-05-08 13:56+02:00`: whatever is not in the file is not in the text, except that seconds
/// of zero are left out.
///
/// # Order
/// By instant. Where a timestamp has no offset it is placed as if it were UTC, so that the order
/// is total: right among timestamps that all have offsets and among those that all have none,
/// and no more than a convention between the two. A date without a time stands at its midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timestamp {
    /// Local date and time; midnight where there is no time.
    pub local: DateTime,
    /// Minutes east of UTC, where the file states them.
    pub offset_minutes: Option<i16>,
    /// Whether the file gives a time, not the date alone.
    pub has_time: bool,
}

/// A date that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {text:?} as a date: expected {expected}")]
pub struct TimestampError {
    /// What the file says.
    pub text: String,
    /// The forms that would have been read.
    pub expected: &'static str,
}

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);

impl Timestamp {
    /// The whole second that `seconds` after 1970-01-01 00:00 UTC falls in, with offset 0.
    ///
    /// # Errors
    /// [`TimestampError`] where that is not in the years 1 to 9999, or not a number.
    pub fn from_unix(seconds: f64) -> Result<Self, TimestampError> {
        let error = || TimestampError {
            text: format!("{seconds:e}"),
            expected: "seconds since 1970 in the years 1 to 9999",
        };
        // A cast saturates, and what saturates is no date.
        let whole = jiff::Timestamp::from_second(seconds.floor() as i64).map_err(|_| error())?;
        let local = Offset::UTC.to_datetime(whole);
        if seconds.is_nan() || local.year() < 1 {
            return Err(error());
        }
        Ok(Self {
            local,
            offset_minutes: Some(0),
            has_time: true,
        })
    }

    /// Reads `text`, and says whether the weekday in it, if there is one, is the date's.
    pub(crate) fn read(text: &str) -> Result<(Self, bool), TimestampError> {
        const FORMS: [(&str, bool); 6] = [
            ("%Y-%m-%d %H:%M:%S%.f", true),
            ("%Y-%m-%d %H:%M", true),
            ("%Y-%m-%d", false),
            ("%I:%M %p on %d %B, %Y", true),
            ("%Y/%m/%d (%a) %H:%M", true),
            ("%Y/%m/%d (%A) %H:%M", true),
        ];
        let error = || TimestampError {
            text: text.chars().take(80).collect(),
            expected: "2023-05-08, 2023-05-08T13:56 (seconds, Z or an offset may follow), \
                       1:56 pm on 8 May, 2023, or 2023/05/30 (Tue) 23:40",
        };
        let trimmed = text.trim();
        let (body, offset_minutes) = split_offset(trimmed).ok_or_else(error)?;
        let body = match body.split_once('T') {
            Some((day, time)) if time.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("{day} {time}")
            }
            _ => body.to_owned(),
        };
        let (mut parsed, has_time) = FORMS
            .iter()
            .find_map(|&(form, has_time)| {
                Some((BrokenDownTime::parse(form, &body).ok()?, has_time))
            })
            .ok_or_else(error)?;
        let weekday = parsed.weekday();
        parsed.set_weekday(None);
        let day = parsed.to_date().map_err(|_| error())?;
        let local = if has_time {
            day.to_datetime(parsed.to_time().map_err(|_| error())?)
        } else {
            day.at(0, 0, 0, 0)
        };
        if local.year() < 1 || (offset_minutes.is_some() && !has_time) {
            return Err(error());
        }
        let agrees = weekday.is_none_or(|w| w == local.weekday());
        Ok((
            Self {
                local,
                offset_minutes,
                has_time,
            },
            agrees,
        ))
    }

    fn since_epoch(self) -> SignedDuration {
        let offset = SignedDuration::from_mins(i64::from(self.offset_minutes.unwrap_or(0)));
        self.local.duration_since(EPOCH).saturating_sub(offset)
    }
}

/// Splits `Z` or `+hh:mm` off the end, as minutes. `None` where its numbers are out of range.
fn split_offset(text: &str) -> Option<(&str, Option<i16>)> {
    if let Some(body) = text.strip_suffix(['Z', 'z']) {
        return Some((body, Some(0)));
    }
    let Some((body, suffix)) = text
        .len()
        .checked_sub(6)
        .and_then(|at| text.split_at_checked(at))
    else {
        return Some((text, None));
    };
    let &[sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] = suffix.as_bytes() else {
        return Some((text, None));
    };
    let number = |tens: u8, ones: u8| {
        (tens.is_ascii_digit() && ones.is_ascii_digit())
            .then(|| i16::from(tens - b'0') * 10 + i16::from(ones - b'0'))
    };
    let (hours, minutes) = (number(h1, h2)?, number(m1, m2)?);
    let total = hours * 60 + minutes;
    (hours < 24 && minutes < 60).then_some((body, Some(if sign == b'-' { -total } else { total })))
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        match Self::read(text)? {
            (timestamp, true) => Ok(timestamp),
            (_, false) => Err(TimestampError {
                text: text.to_owned(),
                expected: "the weekday that the date falls on",
            }),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = match (
            self.has_time,
            self.local.second(),
            self.local.subsec_nanosecond(),
        ) {
            (false, ..) => "%Y-%m-%d",
            (true, 0, 0) => "%Y-%m-%d %H:%M",
            (true, ..) => "%Y-%m-%d %H:%M:%S%.f",
        };
        write!(f, "{}", self.local.strftime(form))?;
        match self.offset_minutes {
            Some(minutes) => {
                let sign = if minutes < 0 { '-' } else { '+' };
                let size = minutes.unsigned_abs();
                write!(f, "{sign}{:02}:{:02}", size / 60, size % 60)
            }
            None => Ok(()),
        }
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |t: &Self| (t.since_epoch(), t.offset_minutes, t.has_time);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        text.parse::<Timestamp>()
            .map_or_else(|e| e.to_string(), |t| t.to_string())
    }

    #[test]
    fn every_form_is_read() {
        for (text, expected) in [
            ("1:56 pm on 8 May, 2023", "2023-05-08 13:56"),
            ("12:09 am on 13 September, 2023", "2023-09-13 00:09"),
            ("12:30 pm on 1 January, 2024", "2024-01-01 12:30"),
            ("2023/05/30 (Tue) 23:40", "2023-05-30 23:40"),
            ("2023-05-08", "2023-05-08"),
            ("2023-05-08T13:56", "2023-05-08 13:56"),
            ("2023-05-08 13:56:07", "2023-05-08 13:56:07"),
            ("2023-05-08T13:56:00Z", "2023-05-08 13:56+00:00"),
            ("2023-05-08T13:56:07.250Z", "2023-05-08 13:56:07.25+00:00"),
            ("2023-05-08T13:56-05:30", "2023-05-08 13:56-05:30"),
            (" 2024-02-29 ", "2024-02-29"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn bad_date_is_an_error_never_now() {
        for text in [
            "",
            "yesterday",
            "0",
            "20230508",
            "2023-02-29",
            "2023-13-01",
            "2023-05-08T25:00",
            "2023-05-08Z",
            "2023-05-08+02:00",
            "2023-05-08T13:56+24:00",
            "2023-05-08T13:56+ab:cd",
            "13:56 pm on 8 May, 2023",
            "0:10 am on 8 May, 2023",
            "1:56 pm on 8 Mai, 2023",
            "2023/05/30 (Wed) 23:40",
            "0000-01-01",
            "-0001-01-01",
            "T",
            "2023-05-08T",
            "2023-05-08 13:56 trailing",
            "é+02:00",
            "\0",
            "2023-05-08T13:56[Europe/Berlin]",
        ] {
            assert!(
                text.parse::<Timestamp>().is_err(),
                "{text:?} gave {}",
                shown(text)
            );
        }
    }

    #[test]
    fn unix_seconds_are_utc() {
        let at = |s: f64| Timestamp::from_unix(s).map(|t| t.to_string()).ok();
        assert_eq!(
            at(1_683_554_167.93).as_deref(),
            Some("2023-05-08 13:56:07+00:00")
        );
        assert_eq!(at(-0.5).as_deref(), Some("1969-12-31 23:59:59+00:00"));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e12] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    fn any_timestamp() -> impl Strategy<Value = Timestamp> {
        let time = (
            0..24_i8,
            0..60_i8,
            0..60_i8,
            prop_oneof![Just(0), 0..1_000_000_000],
        );
        let offset = proptest::option::of(-1439..1440_i16);
        (
            1..=9999_i16,
            1..=12_i8,
            1..=28_i8,
            proptest::option::of((time, offset)),
        )
            .prop_map(|(year, month, day, time)| {
                let day = date(year, month, day);
                match time {
                    None => Timestamp {
                        local: day.at(0, 0, 0, 0),
                        offset_minutes: None,
                        has_time: false,
                    },
                    Some(((h, m, s, n), offset_minutes)) => Timestamp {
                        local: day.at(h, m, s, n),
                        offset_minutes,
                        has_time: true,
                    },
                }
            })
    }

    proptest! {
        #[test]
        fn text_and_serde_round_trip(t in any_timestamp()) {
            prop_assert_eq!(t.to_string().parse::<Timestamp>(), Ok(t));
            let json = serde_json::to_string(&t).unwrap();
            prop_assert_eq!(json.as_str(), format!("\"{t}\""));
            prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), t);
        }

        #[test]
        fn order_is_total(a in any_timestamp(), b in any_timestamp(), c in any_timestamp()) {
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            prop_assert_eq!(a.cmp(&b) == Ordering::Equal, a == b);
            let mut three = [a, b, c];
            three.sort();
            prop_assert!(three[0] <= three[1] && three[1] <= three[2] && three[0] <= three[2]);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}") {
            let _ = text.parse::<Timestamp>();
        }
    }

    #[test]
    fn order_is_by_instant() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(at("2023-05-08T10:00+05:00") < at("2023-05-08T06:00Z"));
        assert!(at("2023-05-08T10:00") > at("2023-05-08T09:59:59"));
        assert!(at("2023-05-08") < at("2023-05-08T00:01"));
    }
}
