//! Charts as tables: a row for each category, a column for each series, below what the chart and its axes are called.

use super::ExtractError;
use super::grid::Grid;
use super::markup::{Token, Tokens};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
struct Series {
    name: String,
    /// By the number of their point.
    categories: BTreeMap<u32, String>,
    values: BTreeMap<u32, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Name,
    Categories,
    Values,
    Other,
}

pub(super) fn read(xml: &str) -> Result<String, ExtractError> {
    let (mut words, mut series): (Vec<String>, Vec<Series>) = (Vec::new(), Vec::new());
    let (mut is_series, mut part, mut point) = (false, Part::Other, 0);
    let mut tokens = Tokens::new(xml);
    while let Some(token) = tokens.next()? {
        match token {
            Token::Open(tag) => match tag.name() {
                "ser" => {
                    is_series = true;
                    series.push(Series::default());
                }
                "tx" if is_series => part = Part::Name,
                "cat" | "xVal" => part = Part::Categories,
                "val" | "yVal" => part = Part::Values,
                "pt" => point = tag.get("idx").and_then(|number| number.parse().ok()).unwrap_or(0),
                "v" | "t" => {
                    let text = tokens.text()?.split_whitespace().collect::<Vec<_>>().join(" ");
                    match (part, series.last_mut()) {
                        (Part::Name, Some(one)) => one.name.push_str(&text),
                        (Part::Categories, Some(one)) => drop(one.categories.insert(point, text)),
                        (Part::Values, Some(one)) => drop(one.values.insert(point, text)),
                        _ if text.is_empty() => {}
                        _ => words.push(text),
                    }
                }
                _ => {}
            },
            Token::Close(name) => match name.as_str() {
                "ser" => is_series = false,
                "tx" | "cat" | "xVal" | "val" | "yVal" => part = Part::Other,
                _ => {}
            },
            Token::Text(_) => {}
        }
    }
    Ok([words.join(" "), table(&series)].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n"))
}

fn table(series: &[Series]) -> String {
    let mut grid = Grid::default();
    let names: Vec<&str> = std::iter::once("").chain(series.iter().map(|one| one.name.as_str())).collect();
    grid.row(&names);
    let points: BTreeSet<u32> = series.iter().flat_map(|one| one.values.keys().copied()).collect();
    for point in points {
        let category = series.iter().find_map(|one| one.categories.get(&point)).map_or("", String::as_str);
        let values = series.iter().map(|one| one.values.get(&point).map_or("", String::as_str));
        grid.row(&std::iter::once(category).chain(values).collect::<Vec<_>>());
    }
    grid.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_is_a_table() {
        let points = |of: &str, values: &[&str]| {
            let points: String =
                values.iter().enumerate().map(|(at, v)| format!("<c:pt idx='{at}'><c:v>{v}</c:v></c:pt>")).collect();
            format!("<c:{of}><c:strRef><c:f>A1</c:f><c:strCache>{points}</c:strCache></c:strRef></c:{of}>")
        };
        let series = |name: &str, values: &[&str]| {
            format!(
                "<c:ser>{}{}{}</c:ser>",
                points("tx", &[name]),
                points("cat", &["May", "June"]),
                points("val", values)
            )
        };
        let xml = format!(
            "<c:chart><c:title><c:tx><a:r><a:t>Berths</a:t></a:r></c:tx></c:title>{}{}</c:chart>",
            series("North", &["3", "4"]),
            series("South", &["5", "6"])
        );
        let want = "Berths\n\n|  | North | South |\n| --- | --- | --- |\n| May | 3 | 5 |\n| June | 4 | 6 |";
        assert_eq!(read(&xml).as_deref(), Ok(want));
        assert_eq!(read("<c:chart/>").as_deref(), Ok(""));
    }
}
