//! HTML tables: data becomes a pipe table, key and value pairs become a list, layout becomes its blocks.

use super::page::{Block, Form, Place};

/// A table that is being read.
#[derive(Debug, Default)]
pub(super) struct TableFrame {
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug)]
pub(super) struct Cell {
    pub blocks: Vec<Block>,
    pub header: bool,
    pub columns: usize,
    pub rows: usize,
}

/// A cell with more text than this makes a table a layout.
const CELL_CHARS: usize = 1000;
/// Spans beyond these are read as these.
pub(super) const MOST_COLUMNS: usize = 20;
pub(super) const MOST_ROWS: usize = 1000;

impl TableFrame {
    pub fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub fn cell(&mut self, cell: Cell) {
        if self.rows.is_empty() {
            self.row();
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// The table's blocks. Repeating the text of spanning cells takes from `budget` (characters), so that a small
    /// page cannot become a large text.
    pub fn finish(self, place: Place, presentation: bool, budget: &mut usize) -> Vec<Block> {
        let is_full = |row: &Vec<Cell>| row.iter().any(|cell| !cell.blocks.is_empty());
        let rows: Vec<Vec<Cell>> = self.rows.into_iter().filter(is_full).collect();
        let columns = rows.iter().map(|row| row.iter().map(|c| c.columns).sum::<usize>()).max().unwrap_or(0);
        if presentation || columns < 2 || rows.iter().flatten().any(Cell::is_layout) {
            return rows.into_iter().flatten().flat_map(|cell| cell.blocks).collect();
        }
        let (link_chars, chars) = rows
            .iter()
            .flatten()
            .flat_map(|cell| &cell.blocks)
            .fold((0, 0), |(links, all), b| (links + b.link_chars, all + b.chars));
        let block = |text, form| Block { text, form, place, chars, link_chars };
        let is_pairs = columns == 2
            && rows.iter().all(|row| matches!(row.as_slice(), [key, value] if key.header && !value.header));
        if is_pairs {
            let lines =
                rows.iter().map(|row| format!("- {}", row.iter().map(Cell::line).collect::<Vec<_>>().join(": ")));
            return vec![block(lines.collect::<Vec<_>>().join("\n"), Form::Item)];
        }
        vec![block(pipe_table(&rows, columns, budget), Form::Table)]
    }
}

impl Cell {
    fn is_layout(&self) -> bool {
        self.blocks.iter().map(|b| b.chars).sum::<usize>() > CELL_CHARS
            || self.blocks.iter().any(|b| matches!(b.form, Form::Table | Form::Heading | Form::Pre))
    }

    /// The cell's text on one line, with its pipes escaped.
    fn line(&self) -> String {
        let mut out = String::new();
        for word in self.blocks.iter().flat_map(|b| b.text.split_whitespace()) {
            if !out.is_empty() {
                out.push(' ');
            }
            out.push_str(&word.replace('|', "\\|"));
        }
        out
    }
}

/// The first row is the header: that is what a table without `th` means by it as well. Short rows stay short.
fn pipe_table(rows: &[Vec<Cell>], columns: usize, budget: &mut usize) -> String {
    let mut out = String::new();
    // For each column: the text of a cell that reaches into the next rows, and for how many more.
    let mut carried: Vec<(usize, String)> = vec![(0, String::new()); columns];
    for (i, row) in rows.iter().enumerate() {
        out.push('|');
        let mut cells = row.iter();
        let mut column = 0;
        while let Some((rows_left, text)) = carried.get_mut(column) {
            if *rows_left > 0 {
                *rows_left = if push_repeat(&mut out, text, budget) { *rows_left - 1 } else { 0 };
                column += 1;
                continue;
            }
            let Some(cell) = cells.next() else { break };
            let text = cell.line();
            push_cell(&mut out, &text);
            for next in column + 1..(column + cell.columns).min(columns) {
                push_repeat(&mut out, &text, budget);
                if let (2.., Some(slot)) = (cell.rows, carried.get_mut(next)) {
                    *slot = (cell.rows - 1, text.clone());
                }
            }
            if let (2.., Some(slot)) = (cell.rows, carried.get_mut(column)) {
                *slot = (cell.rows - 1, text);
            }
            column += cell.columns;
        }
        if i == 0 {
            out.push_str(&"  |".repeat(columns.saturating_sub(column)));
            out.push_str("\n|");
            out.push_str(&" --- |".repeat(columns));
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

fn push_cell(out: &mut String, text: &str) {
    out.push(' ');
    out.push_str(text);
    out.push_str(" |");
}

/// `false` and nothing, once the budget is spent.
fn push_repeat(out: &mut String, text: &str, budget: &mut usize) -> bool {
    let Some(left) = budget.checked_sub(text.len() + 3) else { return false };
    *budget = left;
    push_cell(out, text);
    true
}
