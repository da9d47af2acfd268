//! How numbers are shown: which of them are dates, times or shares, by the formats of their cells.

use super::super::ExtractError;
use super::super::markup::{Token, Tokens};
use jiff::civil::Date;
use jiff::{ToSpan, civil};
use std::collections::HashMap;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Shown {
    #[default]
    Number,
    Percent,
    Date,
    Time,
    DateTime,
    /// Hours beyond 24.
    Elapsed,
    /// A code with all its digits: `00000`, `000-000`. `None` is the place of a digit.
    Code(Vec<Option<char>>),
}

#[derive(Debug, Default)]
pub(super) struct Styles {
    /// By the number that a cell gives.
    cells: Vec<Shown>,
    pub since_1904: bool,
}

const DAY: f64 = 86_400.0;
/// Whole numbers below this are exact.
const MOST_WHOLE: f64 = 1e15;
/// Later than the year 9999.
const LAST_DAY: f64 = 2_958_466.0;

impl Styles {
    pub fn read(xml: &str) -> Result<Self, ExtractError> {
        let mut own: HashMap<u32, Shown> = HashMap::new();
        let mut cells = Vec::new();
        let mut in_cells = false;
        let mut tokens = Tokens::new(xml);
        while let Some(token) = tokens.next()? {
            match token {
                Token::Open(tag) => {
                    let number = |name: &str| tag.get(name).and_then(|n| n.parse::<u32>().ok());
                    match tag.name() {
                        "numFmt" => {
                            let code = tag.get("formatCode").unwrap_or_default();
                            own.extend(number("numFmtId").map(|id| (id, by_code(&code))));
                        }
                        "cellXfs" => in_cells = true,
                        "xf" if in_cells => {
                            let id = number("numFmtId").unwrap_or(0);
                            cells.push(own.get(&id).cloned().unwrap_or_else(|| built_in(id)));
                        }
                        _ => {}
                    }
                }
                Token::Close(name) if name == "cellXfs" => in_cells = false,
                _ => {}
            }
        }
        Ok(Self { cells, since_1904: false })
    }

    /// A stored number as its cell shows it.
    pub fn shown(&self, value: &str, style: usize) -> String {
        let Ok(number) = value.parse::<f64>() else { return value.to_owned() };
        let shown = self.cells.get(style).unwrap_or(&Shown::Number);
        let is_day = (0.0..LAST_DAY).contains(&number);
        match shown {
            Shown::Percent => format!("{}%", fifteen_digits(number * 100.0)),
            Shown::Date | Shown::DateTime | Shown::Time | Shown::Elapsed if is_day => {
                self.moment(number, shown).unwrap_or_else(|| plain(value, number))
            }
            Shown::Code(code) => in_code(number, code).unwrap_or_else(|| plain(value, number)),
            _ => plain(value, number),
        }
    }

    /// Days since 1899-12-30, as spreadsheets count them: the first of them believed that 1900 had a leap day.
    fn moment(&self, number: f64, shown: &Shown) -> Option<String> {
        // Whole seconds; a date is far below 2^53 of them.
        #[expect(clippy::cast_possible_truncation, reason = "the number was checked to be a day before the year 10000")]
        let seconds = (number * DAY).round() as i64;
        let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let time = format!("{:02}:{:02}:{:02}", second / 3600, second % 3600 / 60, second % 60);
        match shown {
            Shown::Elapsed => return Some(format!("{}:{:02}:{:02}", seconds / 3600, second % 3600 / 60, second % 60)),
            Shown::Time if days == 0 => return Some(time),
            _ => {}
        }
        let epoch: Date = match (self.since_1904, days) {
            (true, _) => civil::date(1904, 1, 1),
            (false, ..60) => civil::date(1899, 12, 31),
            (false, _) => civil::date(1899, 12, 30),
        };
        let date = epoch.checked_add(days.days()).ok()?;
        Some(if second == 0 && *shown != Shown::DateTime { date.to_string() } else { format!("{date} {time}") })
    }
}

/// Kept as it is stored, unless that is in powers of ten or with the noise of binary fractions.
fn plain(value: &str, number: f64) -> String {
    let is_noisy = value.contains(['e', 'E']) || value.len() > 16;
    if is_noisy { fifteen_digits(number) } else { value.to_owned() }
}

/// As many digits as spreadsheets show.
fn fifteen_digits(number: f64) -> String {
    format!("{number:.14e}").parse::<f64>().unwrap_or(number).to_string()
}

/// A whole number with as many digits as its code has; what it has more of them comes before.
fn in_code(number: f64, code: &[Option<char>]) -> Option<String> {
    let places = code.iter().filter(|part| part.is_none()).count();
    if number < 0.0 || number.fract() != 0.0 || number >= MOST_WHOLE {
        return None;
    }
    let digits = format!("{number:0places$.0}");
    let (before, mut rest) = digits.split_at(digits.len().saturating_sub(places));
    let mut before = Some(before);
    let mut out = String::new();
    for part in code {
        match part {
            Some(literal) => out.push(*literal),
            None => {
                out.push_str(before.take().unwrap_or_default());
                let (digit, after) = rest.split_at_checked(1)?;
                out.push_str(digit);
                rest = after;
            }
        }
    }
    Some(out)
}

/// `None` for a format that is more than zeros and what stands between them.
fn places(code: &str) -> Option<Vec<Option<char>>> {
    let mut found = Vec::new();
    let mut chars = code.chars();
    while let Some(c) = chars.next() {
        match c {
            '0' => found.push(None),
            '"' => found.extend(chars.by_ref().take_while(|c| *c != '"').map(Some)),
            '\\' => found.push(Some(chars.next()?)),
            '-' | ' ' | '/' | '(' | ')' => found.push(Some(c)),
            _ => return None,
        }
    }
    (found.iter().filter(|part| part.is_none()).count() > 1).then_some(found)
}

/// Formats that need no declaration.
fn built_in(id: u32) -> Shown {
    match id {
        9 | 10 => Shown::Percent,
        14..=17 | 27..=31 | 36 | 50..=54 | 57 | 58 => Shown::Date,
        18..=21 | 32..=35 | 45 | 47 | 55 | 56 => Shown::Time,
        22 => Shown::DateTime,
        46 => Shown::Elapsed,
        _ => Shown::Number,
    }
}

/// What a format's letters say, outside of quotes and brackets: `yyyy-mm-dd`, `[h]:mm`, `0.0%`.
fn by_code(code: &str) -> Shown {
    let code = code.split(';').next().unwrap_or_default();
    if let Some(places) = places(code) {
        return Shown::Code(places);
    }
    let code = code.to_ascii_lowercase();
    if ["[h]", "[hh]", "[m]", "[mm]", "[s]", "[ss]"].iter().any(|elapsed| code.contains(elapsed)) {
        return Shown::Elapsed;
    }
    let (mut date, mut time, mut percent) = (false, false, false);
    let mut chars = code.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => drop(chars.by_ref().find(|c| *c == '"')),
            '[' => drop(chars.by_ref().find(|c| *c == ']')),
            '\\' | '_' | '*' => drop(chars.next()),
            'y' | 'd' => date = true,
            'h' | 's' => time = true,
            '%' => percent = true,
            _ => {}
        }
    }
    match (date, time) {
        (true, true) => Shown::DateTime,
        (true, false) => Shown::Date,
        (false, true) => Shown::Time,
        (false, false) if percent => Shown::Percent,
        // Months alone.
        (false, false) if code.contains("mmm") => Shown::Date,
        (false, false) => Shown::Number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str, value: &str, want: &str) {
        let xml = format!(
            "<styleSheet><numFmts><numFmt numFmtId='170' formatCode='{}'/></numFmts>\
             <cellXfs><xf numFmtId='0'/><xf numFmtId='170'/></cellXfs></styleSheet>",
            code.replace('"', "&quot;")
        );
        assert_eq!(Styles::read(&xml).unwrap().shown(value, 1), want, "{code} {value}");
    }

    #[test]
    fn numbers_are_shown_as_their_format_says() {
        check("yyyy-mm-dd", "45351", "2024-02-29");
        check("dd.mm.yyyy hh:mm", "45351.5", "2024-02-29 12:00:00");
        check("dd.mm.yyyy", "1", "1900-01-01");
        check("h:mm", "0.75", "18:00:00");
        check("[h]:mm", "1.5", "36:00:00");
        check("0.0%", "0.255", "25.5%");
        check("0.00\" d\"", "12", "12");
        check("[Red]0", "12.5", "12.5");
        check("General", "1.234567890123457e+16", "12345678901234600");
        check("General", "0.30000000000000004", "0.3");
        check("General", "007", "007");
        check("00000", "1234", "01234");
        check("00000\\-0000", "123456789", "12345-6789");
        check("000\" kg\"", "7", "007 kg");
        check("000-000", "12345678", "12345-678");
        check("00000", "1.5", "1.5");
        check("0", "7", "7");
        check("00.0", "7", "7");
        check("yyyy", "99999999", "99999999");
        check("yyyy", "n/a", "n/a");
    }
}
