use std::fmt::{self, Write};

use serde::Serialize;

/// Anything tabular, ready to be printed: heads, lines of text, notes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sheet {
    /// A short title.
    pub title: String,
    /// What it shows.
    pub caption: String,
    /// Columns, left to right.
    pub columns: Vec<Column>,
    /// Lines, top to bottom.
    pub lines: Vec<Line>,
    /// Notes below.
    pub notes: Vec<String>,
}

/// The head of a column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The head over it and its neighbours of the same group.
    pub group: Option<String>,
    /// Its own head.
    pub label: String,
    /// Whether it holds numbers, which are set flush right.
    pub numeric: bool,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// The heading of the lines that follow, up to the next one.
    Heading(String),
    /// One text a column.
    Cells(Vec<Text>),
}

/// What stands in a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Text {
    /// The text; a line break separates lines of one cell.
    pub text: String,
    /// Whether it is set off as the best of its column.
    pub bold: bool,
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            bold: false,
        }
    }
}

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// GitHub's tables.
    Markdown,
    /// One head line, one line a row; headings become the first column.
    Csv,
    /// Everything known about each cell.
    Json,
    /// A table environment with booktabs rules.
    Latex,
    /// A table element with its caption and notes.
    Html,
}

impl Sheet {
    /// The sheet as text, ending in a line break.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Markdown => self.markdown(),
            Format::Csv => self.csv(),
            Format::Json => json(self),
            Format::Latex => self.latex().unwrap_or_default(),
            Format::Html => self.html().unwrap_or_default(),
        }
    }

    fn has_headings(&self) -> bool {
        self.lines
            .iter()
            .any(|line| matches!(line, Line::Heading(_)))
    }

    fn markdown(&self) -> String {
        let escape = |text: &str| {
            text.replace('\\', "\\\\")
                .replace('|', "\\|")
                .replace('\n', "<br>")
        };
        let bold = |text: &Text| match (text.bold, escape(&text.text)) {
            (true, text) if !text.is_empty() => format!("**{text}**"),
            (_, text) => text,
        };
        let mut grid = vec![
            self.columns
                .iter()
                .map(|column| escape(&column.flat()))
                .collect(),
        ];
        for line in &self.lines {
            grid.push(match line {
                Line::Heading(heading) => {
                    let mut cells = vec![String::new(); self.columns.len()];
                    if let Some(first) = cells.first_mut() {
                        *first = format!("*{}*", escape(heading));
                    }
                    cells
                }
                Line::Cells(cells) => cells.iter().map(bold).collect::<Vec<_>>(),
            });
        }
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| {
                grid.iter()
                    .filter_map(|row| row.get(i))
                    .map(|c| c.chars().count())
                    .max()
            })
            .map(|width| width.unwrap_or(0).max(3))
            .collect();
        let mut out = String::new();
        if !self.title.is_empty() {
            out.push_str(&format!("**{}**\n\n", self.title));
        }
        if !self.caption.is_empty() {
            out.push_str(&format!("{}\n\n", self.caption));
        }
        for (at, row) in grid.iter().enumerate() {
            out.push('|');
            for ((cell, &width), column) in row.iter().zip(&widths).zip(&self.columns) {
                let blank = " ".repeat(width.saturating_sub(cell.chars().count()));
                let (left, right) = if column.numeric {
                    (blank.as_str(), "")
                } else {
                    ("", blank.as_str())
                };
                out.push_str(&format!(" {left}{cell}{right} |"));
            }
            out.push('\n');
            if at == 0 {
                out.push('|');
                for (&width, column) in widths.iter().zip(&self.columns) {
                    let rule = "-".repeat(width + 1);
                    out.push_str(&if column.numeric {
                        format!("{rule}:|")
                    } else {
                        format!("{rule}-|")
                    });
                }
                out.push('\n');
            }
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        for note in &self.notes {
            out.push_str(&format!("- {note}\n"));
        }
        out
    }

    fn csv(&self) -> String {
        let headings = self.has_headings();
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut write = |first: &str, cells: Vec<&str>| {
            let first = headings.then_some(first);
            // Writing to memory fails only on records of unequal length, which a sheet pads.
            let _ = writer.write_record(first.into_iter().chain(cells));
        };
        let heads: Vec<String> = self.columns.iter().map(Column::flat).collect();
        write("Group", heads.iter().map(String::as_str).collect());
        let mut group = "";
        for line in &self.lines {
            match line {
                Line::Heading(heading) => group = heading,
                Line::Cells(cells) => {
                    let mut cells: Vec<&str> =
                        cells.iter().map(|cell| cell.text.as_str()).collect();
                    cells.resize(self.columns.len(), "");
                    write(group, cells);
                }
            }
        }
        writer
            .into_inner()
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
            .unwrap_or_default()
    }

    fn latex(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        writeln!(
            out,
            "% needs \\usepackage{{array,booktabs,graphicx}}\n\\begin{{table}}\n\\centering"
        )?;
        writeln!(out, "\\caption{{{}}}", tex(&self.caption))?;
        writeln!(
            out,
            "\\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{%\n\
             \\begin{{tabular}}{{{}}}\n\\toprule",
            self.latex_columns()
        )?;
        let groups = self.groups();
        if groups.iter().any(|(group, _)| group.is_some()) {
            let heads = groups.iter().map(|&(group, span)| match group {
                Some(group) => format!("\\multicolumn{{{span}}}{{c}}{{{}}}", tex(group)),
                None => vec![""; span].join(" & "),
            });
            writeln!(out, "{} \\\\", heads.collect::<Vec<_>>().join(" & "))?;
            let mut at = 1;
            for &(group, span) in &groups {
                if group.is_some() {
                    write!(out, "\\cmidrule(lr){{{at}-{}}}", at + span - 1)?;
                }
                at += span;
            }
            writeln!(out)?;
        }
        let heads: Vec<String> = self
            .columns
            .iter()
            .map(|column| tex(&column.label))
            .collect();
        writeln!(out, "{} \\\\\n\\midrule", heads.join(" & "))?;
        for (at, line) in self.lines.iter().enumerate() {
            match line {
                Line::Heading(heading) => {
                    let rule = if at > 0 { "\\midrule\n" } else { "" };
                    let span = self.columns.len();
                    writeln!(
                        out,
                        "{rule}\\multicolumn{{{span}}}{{l}}{{\\emph{{{}}}}} \\\\",
                        tex(heading)
                    )?;
                }
                Line::Cells(cells) => {
                    let cell = |cell: &Text| match (cell.bold, tex(&cell.text)) {
                        (true, text) => format!("\\textbf{{{text}}}"),
                        (false, text) => text,
                    };
                    writeln!(
                        out,
                        "{} \\\\",
                        cells.iter().map(cell).collect::<Vec<_>>().join(" & ")
                    )?;
                }
            }
        }
        writeln!(out, "\\bottomrule\n\\end{{tabular}}}}")?;
        for note in &self.notes {
            writeln!(out, "\\par\\footnotesize {}", tex(note))?;
        }
        writeln!(out, "\\end{{table}}")?;
        Ok(out)
    }

    /// The column types. Prose is set in paragraphs of at most 40 characters a line; the whole is
    /// scaled down where it is wider than the page's line.
    fn latex_columns(&self) -> String {
        const LINE: usize = 40;
        let column = |(i, column): (usize, &Column)| {
            let texts = || {
                self.lines.iter().filter_map(move |line| match line {
                    Line::Cells(cells) => Some(cells.get(i)?.text.as_str()),
                    Line::Heading(_) => None,
                })
            };
            let longest = texts().map(|text| text.chars().count()).max();
            if column.numeric {
                "r".to_owned()
            } else if longest.is_none_or(|longest| longest <= LINE) {
                "l".to_owned()
            } else {
                let words = texts().flat_map(str::split_whitespace);
                let word = words.map(|word| word.chars().count()).max().unwrap_or(0);
                let width = 0.55 * word.max(LINE) as f64;
                format!(">{{\\raggedright\\arraybackslash}}p{{{width:.0}em}}")
            }
        };
        self.columns.iter().enumerate().map(column).collect()
    }

    fn html(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        let class = |column: &Column| if column.numeric { " class=\"n\"" } else { "" };
        writeln!(
            out,
            "<table>\n<caption><span>{}</span></caption>\n<thead>",
            html(&self.caption)
        )?;
        let groups = self.groups();
        if groups.iter().any(|(group, _)| group.is_some()) {
            write!(out, "<tr>")?;
            for (group, span) in groups {
                write!(
                    out,
                    "<th colspan=\"{span}\">{}</th>",
                    html(group.unwrap_or_default())
                )?;
            }
            writeln!(out, "</tr>")?;
        }
        write!(out, "<tr>")?;
        for column in &self.columns {
            write!(out, "<th{}>{}</th>", class(column), html(&column.label))?;
        }
        writeln!(out, "</tr>\n</thead>\n<tbody>")?;
        for line in &self.lines {
            match line {
                Line::Heading(heading) => writeln!(
                    out,
                    "<tr class=\"g\"><th colspan=\"{}\">{}</th></tr>",
                    self.columns.len(),
                    html(heading)
                )?,
                Line::Cells(cells) => {
                    write!(out, "<tr>")?;
                    for (cell, column) in cells.iter().zip(&self.columns) {
                        let text = html(&cell.text);
                        let text = if cell.bold {
                            format!("<b>{text}</b>")
                        } else {
                            text
                        };
                        write!(out, "<td{}>{text}</td>", class(column))?;
                    }
                    writeln!(out, "</tr>")?;
                }
            }
        }
        writeln!(out, "</tbody>\n</table>")?;
        if !self.notes.is_empty() {
            writeln!(out, "<ul class=\"notes\">")?;
            for note in &self.notes {
                writeln!(out, "<li>{}</li>", html(note))?;
            }
            writeln!(out, "</ul>")?;
        }
        Ok(out)
    }

    /// Runs of neighbouring columns under one head, with their widths.
    fn groups(&self) -> Vec<(Option<&str>, usize)> {
        self.columns
            .chunk_by(|left, right| left.group == right.group)
            .map(|chunk| {
                (
                    chunk.first().and_then(|column| column.group.as_deref()),
                    chunk.len(),
                )
            })
            .collect()
    }
}

impl Column {
    /// A column of words.
    pub fn words(label: impl Into<String>) -> Self {
        Self {
            group: None,
            label: label.into(),
            numeric: false,
        }
    }

    /// A column of numbers.
    pub fn numbers(label: impl Into<String>) -> Self {
        Self {
            group: None,
            label: label.into(),
            numeric: true,
        }
    }

    fn flat(&self) -> String {
        match &self.group {
            Some(group) => format!("{group}: {}", self.label),
            None => self.label.clone(),
        }
    }
}

/// Any plain data as indented JSON, ending in a line break.
pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Text safe in element content and in quoted attributes.
pub(crate) fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\n', "<br>")
}

/// Text as LaTeX; several lines are stacked.
fn tex(text: &str) -> String {
    if text.contains('\n') {
        let lines: Vec<String> = text.split('\n').map(tex).collect();
        return format!("\\shortstack{{{}}}", lines.join("\\\\"));
    }
    let mut out = String::with_capacity(text.len());
    if text.starts_with('[') {
        // After the end of a line a bracket would be read as the space to leave there.
        out.push_str("{}");
    }
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '<' => out.push_str("$<$"),
            '>' => out.push_str("$>$"),
            '±' => out.push_str("$\\pm$"),
            '×' => out.push_str("$\\times$"),
            '≤' => out.push_str("$\\leq$"),
            '≥' => out.push_str("$\\geq$"),
            '≈' => out.push_str("$\\approx$"),
            '∞' => out.push_str("$\\infty$"),
            'Δ' => out.push_str("$\\Delta$"),
            '–' => out.push_str("--"),
            c => out.push(c),
        }
    }
    out
}
