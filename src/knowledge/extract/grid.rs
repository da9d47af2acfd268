//! Rows and columns, whatever they came from, as Markdown that keeps the columns' names with each row: a pipe
//! table, or, where that would be too wide to be read, one line a row that names its columns.

/// Columns, and characters of the header row, beyond which a table is written as records.
const WIDE_COLUMNS: usize = 16;
const WIDE_HEADER: usize = 400;

/// Writes rows one at a time, so that a large table needs no second copy.
#[derive(Debug, Default)]
pub(super) struct Grid {
    header: Option<Vec<String>>,
    out: String,
}

impl Grid {
    /// The first row has the columns' names.
    pub fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        let cells: Vec<String> = cells.iter().map(|cell| line(cell.as_ref())).collect();
        if cells.iter().all(String::is_empty) {
            return;
        }
        match &self.header {
            None => {
                if !is_wide(&cells) {
                    self.pipes(&cells);
                    if cells.len() > 1 {
                        self.out.push('|');
                        self.out.push_str(&" --- |".repeat(cells.len()));
                        self.out.push('\n');
                    }
                }
                self.header = Some(cells);
            }
            Some(header) if is_wide(header) => {
                let record = record(header, &cells);
                self.out.push_str("- ");
                self.out.push_str(&record);
                self.out.push('\n');
            }
            Some(_) => self.pipes(&cells),
        }
    }

    /// One column is no table.
    fn pipes(&mut self, cells: &[String]) {
        let columns = self.header.as_ref().map_or(cells.len(), Vec::len);
        if let ([only], 1) = (cells, columns) {
            self.out.push_str(&plain(only));
            self.out.push_str("\n\n");
            return;
        }
        self.out.push('|');
        for cell in cells {
            self.out.push(' ');
            self.out.push_str(&cell.replace('|', "\\|"));
            self.out.push_str(" |");
        }
        self.out.push('\n');
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    pub fn finish(mut self) -> String {
        if self.out.is_empty()
            && let Some(header) = self.header
        {
            return header.join("; ");
        }
        self.out.truncate(self.out.trim_end().len());
        self.out
    }
}

fn is_wide(header: &[String]) -> bool {
    header.len() > WIDE_COLUMNS || header.iter().map(|name| name.len() + 3).sum::<usize>() > WIDE_HEADER
}

/// `name: value; …`, for the cells that hold something.
pub(super) fn record(names: &[String], cells: &[String]) -> String {
    let mut out = String::new();
    for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
        if !out.is_empty() {
            out.push_str("; ");
        }
        match names.get(at).filter(|name| !name.is_empty()) {
            Some(name) => out.push_str(&format!("{name}: {cell}")),
            None => out.push_str(cell),
        }
    }
    out
}

/// A cell on one line.
fn line(cell: &str) -> String {
    let mut out = String::with_capacity(cell.len());
    for word in cell.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// A paragraph of somebody's text as a Markdown paragraph: what would be markup at the start of a line is escaped.
pub(super) fn plain(paragraph: &str) -> String {
    let mut out = String::with_capacity(paragraph.len());
    for line in paragraph.lines() {
        let line = line.trim();
        if !out.is_empty() {
            out.push('\n');
        }
        let is_rule = line.len() > 1 && line.chars().all(|c| matches!(c, '=' | '-'));
        if is_rule || line.starts_with(['#', '>', '|']) || line.starts_with("```") || line.starts_with("~~~") {
            out.push('\\');
        }
        out.push_str(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rows: &[&[&str]], want: &str) {
        let mut grid = Grid::default();
        rows.iter().for_each(|row| grid.row(row));
        assert_eq!(grid.finish(), want, "{rows:?}");
    }

    #[test]
    fn narrow_tables_are_pipes() {
        check(&[&["a", "b"], &["1", "x|y\nz"], &["", ""], &["3"]], "| a | b |\n| --- | --- |\n| 1 | x\\|y z |\n| 3 |");
        check(&[&["only"], &["# one"]], "only\n\n\\# one");
        check(&[], "");
    }

    #[test]
    fn wide_tables_name_their_columns_in_each_row() {
        let header: Vec<String> = (0..20).map(|n| format!("c{n}")).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut row = vec![""; 20];
        (row[0], row[19]) = ("first", "last");
        check(&[&header, &row], "- c0: first; c19: last");
        check(&[&header], &header.join("; "));
    }

    #[test]
    fn a_paragraph_stays_one() {
        assert_eq!(plain(" a\n# b\n---\n- c"), "a\n\\# b\n\\---\n- c");
    }
}
