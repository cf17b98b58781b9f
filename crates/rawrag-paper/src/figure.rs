//! Figures: definitions over published and measured numbers, drawn as SVG.
//!
//! A figure is one or more panels below one another. Its numbers are formulas as in claims, so a
//! figure of published numbers cannot differ from the tables they stand in; a series `from =
//! "measured"` takes what the same cells measured, and one with a `diagnostic` the rows of its report. What is not known is not drawn, and said.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Deserialize;
use toml::Spanned;

use crate::claims::Statements;
use crate::definition::{DefinitionError, Place};
use crate::formula::{Failed, Formula, Outcome, Rounded};
use crate::reading::{Diagnose, Holds, Reading, Reports};
use crate::table::{Measured, Table};
use crate::{PaperError, RunState, Runs};

/// A figure as its file defines it.
#[derive(Debug)]
pub struct Figure {
    /// Where it was read from.
    pub place: Place,
    file: File,
}

/// A figure drawn.
#[derive(Debug)]
pub struct Drawn {
    /// The picture, a whole SVG document.
    pub svg: String,
    /// What it does not show, and why.
    pub missing: Vec<String>,
}

/// Where the numbers of figures come from.
#[derive(Debug)]
pub struct Numbers<'a> {
    /// What is published.
    pub statements: &'a Statements,
    /// What was measured.
    pub tables: &'a [Table],
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    caption: String,
    #[serde(rename = "source")]
    _source: String,
    #[serde(default)]
    panels: Vec<Spanned<Panel>>,
    /// Why there is nothing to draw, or not all of it.
    missing: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    kind: Kind,
    #[serde(default)]
    title: String,
    #[serde(default)]
    x_label: String,
    #[serde(default)]
    y_label: String,
    x_range: Option<[f64; 2]>,
    y_range: Option<[f64; 2]>,
    /// Values that a line marks across lying intervals.
    #[serde(default)]
    marks: Vec<f64>,
    #[serde(default)]
    categories: Vec<String>,
    /// The ends of each axis of a radar.
    #[serde(default)]
    ranges: Vec<[f64; 2]>,
    #[serde(default)]
    series: Vec<Series>,
    #[serde(default)]
    lanes: Vec<Lane>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// Upright bars, side by side in a category.
    Bars,
    /// Lying bars, the series one after another in a category.
    Stacked,
    /// Points joined by lines.
    Lines,
    /// Points with names.
    Scatter,
    /// Estimates with intervals, a category a line.
    Forest,
    /// Axes around a centre, each with its own ends.
    Radar,
    /// Boxes joined by arrows, a lane a system.
    Diagram,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    label: String,
    #[serde(default)]
    from: Origin,
    /// A column of a diagnostic's report on `run`, instead of values.
    diagnostic: Option<Spanned<String>>,
    #[serde(default)]
    run: String,
    /// The column of that report that runs across.
    #[serde(default)]
    by: String,
    #[serde(rename = "where", default)]
    holds: Holds,
    #[serde(default = "one")]
    per: f64,
    #[serde(default)]
    values: Vec<Spanned<String>>,
    #[serde(default)]
    low: Vec<Spanned<String>>,
    #[serde(default)]
    high: Vec<Spanned<String>>,
    #[serde(default)]
    x: Vec<Spanned<String>>,
    /// Names of the points of a scatter.
    #[serde(default)]
    names: Vec<String>,
}

fn one() -> f64 {
    1.0
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Origin {
    #[default]
    Published,
    Measured,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lane {
    label: String,
    boxes: Vec<String>,
}

/// A series with its numbers.
struct Points {
    label: String,
    values: Vec<Option<f64>>,
    low: Vec<Option<f64>>,
    high: Vec<Option<f64>>,
    x: Vec<Option<f64>>,
    names: Vec<String>,
}

/// Colours that stay apart for the colour-blind (Okabe and Ito 2008).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 120, 120),
];
const INK: RGBColor = RGBColor(40, 40, 40);
const RULE: RGBColor = RGBColor(215, 215, 215);
const WIDTH: i32 = 640;
const SIZE: i32 = 15;
/// Points of a line that are shown each.
const DOTS: usize = 25;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawing<T> = Result<T, Box<dyn std::error::Error>>;

impl Figure {
    /// Reads a definition.
    ///
    /// # Errors
    /// [`DefinitionError`] with the file and the line.
    pub fn load(place: &Place) -> Result<Self, DefinitionError> {
        let text = place.read()?;
        let file: File = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            place.wrong(&text, at, error.message().to_owned())
        })?;
        if file.panels.is_empty() && file.missing.is_none() {
            let problem = "a figure has `panels`, or says why they are `missing`".to_owned();
            return Err(place.wrong(&text, 0, problem));
        }
        for panel in &file.panels {
            panel
                .get_ref()
                .check()
                .map_err(|problem| place.wrong(&text, panel.span().start, problem))?;
        }
        Ok(Self {
            place: place.clone(),
            file,
        })
    }

    /// A short title.
    pub fn title(&self) -> &str {
        &self.file.title
    }

    /// What it shows.
    pub fn caption(&self) -> &str {
        &self.file.caption
    }

    /// Draws it.
    ///
    /// # Errors
    /// When a formula is wrong or refers to no cell, a report has no such column, or a run that a
    /// series names is damaged.
    pub fn draw(&self, numbers: &Numbers<'_>, runs: &mut Runs) -> Result<Drawn, PaperError> {
        let text = self.place.read()?;
        let mut missing: Vec<String> = self.file.missing.iter().cloned().collect();
        let mut panels = Vec::new();
        for panel in &self.file.panels {
            let panel = panel.get_ref();
            let mut series = Vec::new();
            for one in &panel.series {
                series.push(match &one.diagnostic {
                    Some(name) => self.curve(one, name, runs, &text, &mut missing)?,
                    None => self.points(one, numbers, &text, &mut missing)?,
                });
            }
            panels.push((panel, series));
        }
        missing.dedup();
        let mut svg = String::new();
        let draw = |svg: &mut String| -> Drawing<()> {
            let heights: Vec<i32> = panels.iter().map(|(p, s)| p.height(s)).collect();
            let reasons: Vec<String> = missing
                .iter()
                .filter(|_| panels.is_empty())
                .flat_map(|why| wrap(&format!("Not drawn: {why}."), WIDTH - 24, SIZE - 2))
                .collect();
            let below = if reasons.is_empty() {
                0
            } else {
                16 + 18 * reasons.len() as i32
            };
            let size = (
                WIDTH as u32,
                (heights.iter().sum::<i32>() + below).max(1) as u32,
            );
            let root = SVGBackend::with_string(svg, size).into_drawing_area();
            root.fill(&WHITE)?;
            let mut rest = root.clone();
            for ((panel, series), height) in panels.iter().zip(heights) {
                let (top, below) = rest.split_vertically(height);
                panel.draw(series, &top)?;
                rest = below;
            }
            for (line, words) in (0..).zip(&reasons) {
                write(&rest, words, (12, 16 + 18 * line), HPos::Left, SIZE - 2)?;
            }
            Ok(root.present()?)
        };
        draw(&mut svg).map_err(|error| self.place.wrong(&text, 0, error.to_string()))?;
        Ok(Drawn { svg, missing })
    }

    /// The rows of a report as points; none where it cannot be made.
    fn curve(
        &self,
        series: &Series,
        name: &Spanned<String>,
        runs: &mut Runs,
        text: &str,
        missing: &mut Vec<String>,
    ) -> Result<Points, PaperError> {
        let wrong = |problem: String| self.place.wrong(text, name.span().start, problem);
        let mut reading = Reading::parse(name.get_ref()).map_err(wrong)?;
        reading.holds = series.holds.clone();
        reading.per = series.per;
        let usual = Diagnose::default();
        let points = match runs.open(&series.run)? {
            RunState::Complete(run) => Reports::new(&usual)
                .curve(&reading, &series.by, run)
                .map_err(|error| wrong(error.to_string()))?,
            _ => Err(format!("run {}", series.run)),
        };
        let points = points.unwrap_or_else(|need| {
            missing.push(format!("needs: {need}"));
            Vec::new()
        });
        Ok(Points {
            label: series.label.clone(),
            values: points.iter().map(|[_, y]| Some(*y)).collect(),
            low: Vec::new(),
            high: Vec::new(),
            x: points.iter().map(|[x, _]| Some(*x)).collect(),
            names: Vec::new(),
        })
    }

    fn points(
        &self,
        series: &Series,
        numbers: &Numbers<'_>,
        text: &str,
        missing: &mut Vec<String>,
    ) -> Result<Points, DefinitionError> {
        let mut all = |formulas: &[Spanned<String>]| {
            let one = |formula: &Spanned<String>| {
                let at = formula.span().start;
                match numbers.evaluate(&self.place.paper, formula.get_ref(), series.from) {
                    Ok(number) => Ok(Some(number)),
                    Err(Failed::Wrong(problem)) => Err(self.place.wrong(text, at, problem)),
                    Err(Failed::Missing(what)) => {
                        missing.push(what);
                        Ok(None)
                    }
                }
            };
            formulas.iter().map(one).collect::<Result<Vec<_>, _>>()
        };
        Ok(Points {
            label: series.label.clone(),
            values: all(&series.values)?,
            low: all(&series.low)?,
            high: all(&series.high)?,
            x: all(&series.x)?,
            names: series.names.clone(),
        })
    }
}

impl Numbers<'_> {
    fn evaluate(&self, paper: &str, formula: &str, from: Origin) -> Result<f64, Failed> {
        let parsed = Formula::parse(formula).map_err(Failed::Wrong)?;
        let look_up = |name: &str| match from {
            Origin::Published => self.statements.numbers(paper, name),
            Origin::Measured => self
                .measured(paper, name)
                .map(|value| vec![Rounded::exact(value)]),
        };
        match parsed.outcome(&look_up)? {
            Outcome::Number(number) => Ok(number.value),
            _ => Err(Failed::Wrong(format!("`{formula}` is no number"))),
        }
    }

    fn measured(&self, paper: &str, name: &str) -> Result<f64, Failed> {
        let unknown = || Failed::Wrong(format!("there is no cell `{name}`"));
        let mut parts = name.split('/');
        let (Some(table), Some(row), Some(column), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(unknown());
        };
        let (column, part) = match column.rsplit_once('.') {
            Some((column, "low")) => (column, Part::Low),
            Some((column, "high")) => (column, Part::High),
            _ => (column, Part::Value),
        };
        let table = self
            .tables
            .iter()
            .find(|t| t.paper == paper && t.table == table)
            .ok_or_else(unknown)?;
        let at = table
            .columns
            .iter()
            .position(|head| head.id == column)
            .ok_or_else(unknown)?;
        let row = table
            .rows
            .iter()
            .find(|r| r.id == row)
            .ok_or_else(unknown)?;
        match row.cells.get(at).map(|cell| &cell.measured) {
            Some(Measured::Needs(need) | Measured::NeedsRun { need, .. }) => {
                Err(Failed::Missing(format!("needs: {need}")))
            }
            Some(Measured::Undefined(reason)) => Err(Failed::Missing(reason.clone())),
            Some(measured) if measured.is_value() => {
                let ends = measured.interval();
                let number = match part {
                    Part::Value => measured.value(),
                    Part::Low => ends.map(|[low, _]| low),
                    Part::High => ends.map(|[_, high]| high),
                };
                number.ok_or_else(|| Failed::Missing(format!("`{name}` has no interval")))
            }
            _ => Err(Failed::Missing(format!("needs: a run of {}", row.label))),
        }
    }
}

/// What of a measured cell is drawn.
#[derive(Clone, Copy)]
enum Part {
    Value,
    Low,
    High,
}

/// The width of text in pixels, on the safe side for any common sans-serif.
fn width(text: &str, size: i32) -> i32 {
    (text.chars().count() as f64 * f64::from(size) * 0.58).ceil() as i32
}

/// Breaks text at spaces so that no line is wider than it must be.
fn wrap(text: &str, pixels: i32, size: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(word, size) + size / 2 <= pixels => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn style(size: i32, colour: RGBColor, across: HPos, down: VPos) -> TextStyle<'static> {
    ("sans-serif", size)
        .into_font()
        .color(&colour)
        .pos(Pos::new(across, down))
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), across: HPos, size: i32) -> Drawing<()> {
    Ok(area.draw_text(text, &style(size, INK, across, VPos::Center), at)?)
}

fn colour(series: usize) -> RGBColor {
    COLOURS.get(series % COLOURS.len()).copied().unwrap_or(INK)
}

/// The ends of an axis that shows all values, with some air.
fn ends(values: impl Iterator<Item = f64>, zero: bool) -> [f64; 2] {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values {
        low = low.min(value);
        high = high.max(value);
    }
    if low > high {
        return [0.0, 1.0];
    }
    let air = if high > low {
        0.08 * (high - low)
    } else {
        0.08 * high.abs().max(1.0)
    };
    match (zero, low >= 0.0, high <= 0.0) {
        (true, true, _) => [0.0, high + 0.12 * high.max(1e-12)],
        (true, _, true) => [low - air, 0.0],
        _ => [low - air, high + air],
    }
}

impl Panel {
    fn check(&self) -> Result<(), String> {
        let categories = self.categories.len();
        let by_category = matches!(
            self.kind,
            Kind::Bars | Kind::Stacked | Kind::Forest | Kind::Radar
        );
        if self.kind == Kind::Radar && self.ranges.len() != categories {
            return Err("a radar has one of `ranges` a category".into());
        }
        let ends = self.ranges.iter().chain(&self.x_range).chain(&self.y_range);
        if let Some([low, high]) = ends
            .into_iter()
            .find(|[low, high]| !ends_apart(*low, *high))
        {
            return Err(format!(
                "an axis runs from its lower end to a higher one, not from {low} to {high}"
            ));
        }
        for series in &self.series {
            let count = series.values.len();
            let label = &series.label;
            let read = series.diagnostic.is_some();
            if read && (count > 0 || by_category || series.run.is_empty() || series.by.is_empty()) {
                return Err(format!(
                    "series `{label}` has a `diagnostic`: it names the `run` and the column `by` \
                     which its points run across, gives no values, and stands in lines or a scatter"
                ));
            }
            if !(series.per.is_finite() && series.per > 0.0) {
                return Err(format!("series `{label}` is divided by {}", series.per));
            }
            if by_category && count != categories {
                return Err(format!(
                    "series `{label}` has {count} values for {categories} categories"
                ));
            }
            if matches!(self.kind, Kind::Lines | Kind::Scatter) && series.x.len() != count {
                return Err(format!(
                    "series `{label}` has {count} values for {} of `x`",
                    series.x.len()
                ));
            }
            let whole = |ends: &Vec<_>| ends.is_empty() || ends.len() == count;
            if !whole(&series.low) || !whole(&series.high) || series.low.len() != series.high.len()
            {
                return Err(format!(
                    "series `{label}` has `low` and `high` for other than all values"
                ));
            }
        }
        Ok(())
    }

    fn height(&self, series: &[Points]) -> i32 {
        let legend = self.legend(series).len() as i32 * 22;
        let title = if self.title.is_empty() { 0 } else { 26 };
        title
            + legend
            + match self.kind {
                Kind::Bars | Kind::Lines | Kind::Scatter => 330,
                Kind::Stacked | Kind::Forest => 78 + 30 * self.categories.len() as i32,
                Kind::Radar => 460,
                Kind::Diagram => 24 + 112 * self.lanes.len() as i32,
            }
    }

    /// Series by line of the legend; a single series needs none.
    fn legend(&self, series: &[Points]) -> Vec<Vec<usize>> {
        let mut lines: Vec<(i32, Vec<usize>)> = Vec::new();
        if series.len() < 2 {
            return Vec::new();
        }
        for (i, one) in series.iter().enumerate() {
            let needed = 34 + width(&one.label, SIZE);
            match lines.last_mut() {
                Some((used, line)) if *used + needed < WIDTH - 20 => {
                    *used += needed;
                    line.push(i);
                }
                _ => lines.push((needed, vec![i])),
            }
        }
        lines.into_iter().map(|(_, line)| line).collect()
    }

    fn draw(&self, series: &[Points], area: &Area<'_>) -> Drawing<()> {
        let mut top = 4;
        if !self.title.is_empty() {
            write(area, &self.title, (WIDTH / 2, 15), HPos::Center, SIZE + 1)?;
            top += 26;
        }
        for line in self.legend(series) {
            let mut left = 16;
            for i in line {
                let Some(one) = series.get(i) else { continue };
                let swatch = [(left, top + 3), (left + 14, top + 17)];
                area.draw(&Rectangle::new(swatch, colour(i).filled()))?;
                write(area, &one.label, (left + 20, top + 10), HPos::Left, SIZE)?;
                left += 34 + width(&one.label, SIZE);
            }
            top += 22;
        }
        let (_, body) = area.split_vertically(top);
        match self.kind {
            Kind::Bars => self.bars(series, &body),
            Kind::Stacked => self.stacked(series, &body),
            Kind::Lines | Kind::Scatter => self.curves(series, &body),
            Kind::Forest => self.forest(series, &body),
            Kind::Radar => self.radar(series, &body),
            Kind::Diagram => self.diagram(&body),
        }
    }

    fn bars(&self, series: &[Points], area: &Area<'_>) -> Drawing<()> {
        let shown = series
            .iter()
            .flat_map(|s| s.values.iter().chain(&s.high).flatten().copied());
        let [low, high] = self.y_range.unwrap_or_else(|| ends(shown, true));
        let values: Vec<f64> = all_values(series);
        let count = self.categories.len().max(1);
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .set_label_area_size(LabelAreaPosition::Left, 62)
            .set_label_area_size(LabelAreaPosition::Bottom, 48)
            .build_cartesian_2d(0.0..count as f64, low..high)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(0)
            .y_labels(6)
            .light_line_style(TRANSPARENT)
            .bold_line_style(RULE)
            .axis_style(INK)
            .y_desc(&*self.y_label)
            .y_label_formatter(&|y| plain(*y))
            .label_style(("sans-serif", SIZE - 1))
            .draw()?;
        let each = 0.8 / series.len().max(1) as f64;
        for (s, one) in series.iter().enumerate() {
            for (c, value) in one.values.iter().enumerate() {
                let Some(value) = *value else { continue };
                let left = c as f64 + 0.1 + s as f64 * each;
                let bar = [(left, value), (left + each * 0.92, low.max(0.0).min(high))];
                chart.draw_series([Rectangle::new(bar, colour(s).filled())])?;
                if let (Some(Some(down)), Some(Some(up))) = (one.low.get(c), one.high.get(c)) {
                    let middle = left + each * 0.46;
                    let whisker = PathElement::new([(middle, *down), (middle, *up)], INK);
                    chart.draw_series([whisker])?;
                }
                if count * series.len() <= 14 {
                    let at = chart.backend_coord(&(left + each * 0.46, value));
                    let (x, y) = area.get_base_pixel();
                    let down = if value < 0.0 { 9 } else { -9 };
                    write(
                        area,
                        &alike(value, &values),
                        (at.0 - x, at.1 - y + down),
                        HPos::Center,
                        SIZE - 4,
                    )?;
                }
            }
        }
        let room = (WIDTH - 80) / count as i32;
        let (base_x, base_y) = area.get_base_pixel();
        for (c, category) in self.categories.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(c as f64 + 0.5, low));
            for (line, words) in (0..).zip(wrap(category, room, SIZE - 1)) {
                write(
                    area,
                    &words,
                    (x - base_x, y - base_y + 14 + 16 * line),
                    HPos::Center,
                    SIZE - 1,
                )?;
            }
        }
        Ok(())
    }

    /// Room for the longest name at the left of lying bars and intervals.
    fn names_width(&self) -> i32 {
        let longest = self
            .categories
            .iter()
            .map(|category| width(category, SIZE))
            .max();
        longest.unwrap_or(0).min(WIDTH / 2) + 16
    }

    fn name_rows(&self, area: &Area<'_>, top: i32) -> Drawing<()> {
        for (row, category) in (0..).zip(&self.categories) {
            write(
                area,
                category,
                (self.names_width() - 8, top + 30 * row + 15),
                HPos::Right,
                SIZE,
            )?;
        }
        Ok(())
    }

    /// The lower axis of lying bars and intervals, and where a value stands on it.
    fn lower_axis(&self, area: &Area<'_>, range: [f64; 2]) -> Drawing<impl Fn(f64) -> i32 + use<>> {
        let (left, right) = (self.names_width(), WIDTH - 24);
        let bottom = 8 + 30 * self.categories.len() as i32;
        let [low, high] = range;
        let at = move |value: f64| {
            left + ((value - low) / (high - low) * f64::from(right - left)).round() as i32
        };
        for tick in ticks(low, high) {
            let x = at(tick);
            area.draw(&PathElement::new([(x, 4), (x, bottom)], RULE))?;
            write(area, &plain(tick), (x, bottom + 12), HPos::Center, SIZE - 1)?;
        }
        area.draw(&PathElement::new([(left, bottom), (right, bottom)], INK))?;
        write(
            area,
            &self.x_label,
            ((left + right) / 2, bottom + 34),
            HPos::Center,
            SIZE,
        )?;
        Ok(at)
    }

    fn stacked(&self, series: &[Points], area: &Area<'_>) -> Drawing<()> {
        let at = self.lower_axis(area, self.x_range.unwrap_or([0.0, 100.0]))?;
        self.name_rows(area, 6)?;
        let values = all_values(series);
        for row in 0..self.categories.len() {
            let mut from = 0.0;
            for (s, one) in series.iter().enumerate() {
                let Some(Some(value)) = one.values.get(row) else {
                    continue;
                };
                let top = 6 + 30 * row as i32;
                let (left, right) = (at(from), at(from + value));
                let bar = [(left, top + 4), (right, top + 26)];
                area.draw(&Rectangle::new(bar, colour(s).filled()))?;
                let text = alike(*value, &values);
                if right - left > width(&text, SIZE - 2) + 4 {
                    let middle = ((left + right) / 2, top + 15);
                    area.draw_text(
                        &text,
                        &style(SIZE - 2, ink_on(colour(s)), HPos::Center, VPos::Center),
                        middle,
                    )?;
                }
                from += value;
            }
        }
        Ok(())
    }

    fn forest(&self, series: &[Points], area: &Area<'_>) -> Drawing<()> {
        let all = series
            .iter()
            .flat_map(|s| s.values.iter().chain(&s.low).chain(&s.high).flatten());
        let at = self.lower_axis(
            area,
            self.x_range.unwrap_or_else(|| ends(all.copied(), false)),
        )?;
        self.name_rows(area, 6)?;
        for &mark in &self.marks {
            let bottom = 8 + 30 * self.categories.len() as i32;
            area.draw(&PathElement::new([(at(mark), 4), (at(mark), bottom)], INK))?;
        }
        let apart = 18 / series.len().max(1) as i32;
        for (s, one) in series.iter().enumerate() {
            for (row, value) in one.values.iter().enumerate() {
                let Some(value) = *value else { continue };
                let shift = apart * s as i32 - apart * (series.len() as i32 - 1) / 2;
                let y = 21 + 30 * row as i32 + shift;
                let line = colour(s).stroke_width(2);
                if let (Some(Some(low)), Some(Some(high))) = (one.low.get(row), one.high.get(row)) {
                    area.draw(&PathElement::new([(at(*low), y), (at(*high), y)], line))?;
                }
                area.draw(&Circle::new((at(value), y), 5, colour(s).filled()))?;
            }
        }
        Ok(())
    }

    fn curves(&self, series: &[Points], area: &Area<'_>) -> Drawing<()> {
        let of = |f: fn(&Points) -> Vec<f64>| series.iter().flat_map(f).collect::<Vec<_>>();
        let xs = of(|s| s.x.iter().flatten().copied().collect());
        let ys = of(|s| {
            s.values
                .iter()
                .chain(&s.low)
                .chain(&s.high)
                .flatten()
                .copied()
                .collect()
        });
        let [left, right] = self.x_range.unwrap_or_else(|| ends(xs.into_iter(), false));
        let [low, high] = self.y_range.unwrap_or_else(|| ends(ys.into_iter(), false));
        let mut chart = ChartBuilder::on(area)
            .margin(6)
            .margin_right(20)
            .set_label_area_size(LabelAreaPosition::Left, 66)
            .set_label_area_size(LabelAreaPosition::Bottom, 46)
            .build_cartesian_2d(left..right, low..high)?;
        chart
            .configure_mesh()
            .x_labels(7)
            .y_labels(6)
            .light_line_style(TRANSPARENT)
            .bold_line_style(RULE)
            .axis_style(INK)
            .x_desc(&*self.x_label)
            .y_desc(&*self.y_label)
            .x_label_formatter(&|x| plain(*x))
            .y_label_formatter(&|y| plain(*y))
            .label_style(("sans-serif", SIZE - 1))
            .draw()?;
        let (base_x, base_y) = area.get_base_pixel();
        let mut names = Vec::new();
        for (s, one) in series.iter().enumerate() {
            let points: Vec<(usize, f64, f64)> = (0..)
                .zip(one.x.iter().zip(&one.values))
                .filter_map(|(i, (x, y))| Some((i, (*x)?, (*y)?)))
                .collect();
            if self.kind == Kind::Lines {
                let path = points.iter().map(|&(_, x, y)| (x, y));
                chart.draw_series(LineSeries::new(path, colour(s).stroke_width(2)))?;
            }
            // Points of a long curve would hide it.
            let dots = self.kind == Kind::Scatter || points.len() <= DOTS;
            for (i, x, y) in points {
                if dots {
                    chart.draw_series([Circle::new((x, y), 5, colour(s).filled())])?;
                }
                if let (Some(Some(down)), Some(Some(up))) = (one.low.get(i), one.high.get(i)) {
                    chart.draw_series([PathElement::new([(x, *down), (x, *up)], colour(s))])?;
                }
                if let Some(name) = one.names.get(i) {
                    let (px, py) = chart.backend_coord(&(x, y));
                    names.push((name, px - base_x, py - base_y));
                }
            }
        }
        write_names(area, &names)
    }

    fn radar(&self, series: &[Points], area: &Area<'_>) -> Drawing<()> {
        let centre = (WIDTH / 2, 222);
        let radius = 150.0;
        let count = self.categories.len();
        let spoke = |axis: usize, share: f64| {
            let angle = std::f64::consts::TAU * axis as f64 / count as f64;
            let (x, y) = (angle.sin() * radius * share, -angle.cos() * radius * share);
            (centre.0 + x.round() as i32, centre.1 + y.round() as i32)
        };
        for ring in 1..=4 {
            let ring: Vec<_> = (0..=count)
                .map(|axis| spoke(axis, f64::from(ring) / 4.0))
                .collect();
            area.draw(&PathElement::new(ring, RULE))?;
        }
        for (axis, (category, range)) in self.categories.iter().zip(&self.ranges).enumerate() {
            area.draw(&PathElement::new([centre, spoke(axis, 1.0)], RULE))?;
            let (x, y) = spoke(axis, 1.14);
            let across = match x - centre.0 {
                -20..=20 => HPos::Center,
                ..-20 => HPos::Right,
                _ => HPos::Left,
            };
            let scale = format!("{} to {}", plain(range[0]), plain(range[1]));
            for (line, words) in (0..).zip(wrap(category, 150, SIZE - 1).iter().chain([&scale])) {
                write(area, words, (x, y - 8 + 16 * line), across, SIZE - 2)?;
            }
        }
        for (s, one) in series.iter().enumerate() {
            let share = |axis: usize| {
                let (value, [low, high]) = ((*one.values.get(axis)?)?, *self.ranges.get(axis)?);
                Some(spoke(axis, ((value - low) / (high - low)).clamp(0.0, 1.0)))
            };
            let points: Vec<_> = (0..count).map(share).collect();
            for axis in 0..count {
                let next = (axis + 1) % count.max(1);
                if let (Some(Some(from)), Some(Some(to))) = (points.get(axis), points.get(next)) {
                    area.draw(&PathElement::new([*from, *to], colour(s).stroke_width(2)))?;
                }
            }
            for point in points.into_iter().flatten() {
                area.draw(&Circle::new(point, 4, colour(s).filled()))?;
            }
        }
        Ok(())
    }

    fn diagram(&self, area: &Area<'_>) -> Drawing<()> {
        for (row, lane) in (0..).zip(&self.lanes) {
            let top = 12 + 112 * row;
            write(area, &lane.label, (12, top + 6), HPos::Left, SIZE)?;
            let count = lane.boxes.len().max(1) as i32;
            let room = (WIDTH - 24) / count;
            for (i, text) in (0..).zip(&lane.boxes) {
                let (left, right) = (12 + room * i, 12 + room * (i + 1) - 18);
                let middle = top + 58;
                area.draw(&Rectangle::new(
                    [(left, top + 20), (right, top + 96)],
                    colour(row as usize),
                ))?;
                let lines = wrap(text, right - left - 8, SIZE - 3);
                let first = middle - 8 * (lines.len() as i32 - 1);
                for (line, words) in (0..).zip(&lines) {
                    let at = ((left + right) / 2, first + 16 * line);
                    write(area, words, at, HPos::Center, SIZE - 3)?;
                }
                if i + 1 < count {
                    area.draw(&PathElement::new(
                        [(right + 2, middle), (right + 15, middle)],
                        INK,
                    ))?;
                    let head = vec![
                        (right + 16, middle),
                        (right + 10, middle - 4),
                        (right + 10, middle + 4),
                    ];
                    area.draw(&Polygon::new(head, INK.filled()))?;
                }
            }
        }
        Ok(())
    }
}

/// Writes names beside their points, on the first side where they cover no other name or point.
fn write_names(area: &Area<'_>, names: &[(&String, i32, i32)]) -> Drawing<()> {
    let mut taken: Vec<[i32; 4]> = names
        .iter()
        .map(|&(_, x, y)| [x - 5, y - 5, x + 5, y + 5])
        .collect();
    for &(name, x, y) in names {
        let wide = width(name, SIZE - 3);
        let place = |side: i32, down: i32| {
            let left = if side > 0 { x + 8 } else { x - 8 - wide };
            [left, y + down - 7, left + wide, y + down + 7]
        };
        let free = |[left, top, right, bottom]: &[i32; 4]| {
            let clear =
                |t: &[i32; 4]| *right < t[0] || *left > t[2] || *bottom < t[1] || *top > t[3];
            *right < WIDTH - 4 && *left > 70 && taken.iter().all(clear)
        };
        let places = [
            (1, -8),
            (1, 9),
            (-1, -8),
            (-1, 9),
            (1, -20),
            (1, 21),
            (-1, -20),
            (-1, 21),
        ];
        let all = places.map(|(side, down)| place(side, down));
        let chosen = all
            .iter()
            .find(|place| free(place))
            .copied()
            .unwrap_or(place(1, -8));
        write(
            area,
            name,
            (chosen[0], (chosen[1] + chosen[3]) / 2),
            HPos::Left,
            SIZE - 3,
        )?;
        taken.push(chosen);
    }
    Ok(())
}

fn all_values(series: &[Points]) -> Vec<f64> {
    let values = series.iter().flat_map(|one| &one.values);
    values.flatten().copied().collect()
}

fn ends_apart(low: f64, high: f64) -> bool {
    low.is_finite() && high.is_finite() && low < high
}

/// Round values between the ends of an axis, six or so.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let raw = (high - low) / 6.0;
    let unit = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .map(|n| n * unit)
        .into_iter()
        .find(|s| *s >= raw);
    let step = step.unwrap_or(unit);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// Values that stand side by side, with the decimals that the finest of them needs, two at most.
fn alike(value: f64, all: &[f64]) -> String {
    let needed = |value: &f64| {
        let text = plain((value * 100.0).round() / 100.0);
        text.split_once('.')
            .map_or(0, |(_, decimals)| decimals.len())
    };
    let decimals = all.iter().map(needed).max().unwrap_or(0);
    format!("{value:.decimals$}")
}

/// The ink that is read on a colour.
fn ink_on(colour: RGBColor) -> RGBColor {
    let RGBColor(red, green, blue) = colour;
    let light = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    if light > 110_000 { INK } else { WHITE }
}

/// At most four significant decimals, trailing zeros dropped.
fn plain(value: f64) -> String {
    let digits = if value.abs() >= 1000.0 {
        0
    } else if value.abs() >= 0.1 {
        2
    } else {
        4
    };
    let text = format!("{value:.digits$}");
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}
