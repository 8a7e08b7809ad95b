//! A chart: a row for each store, on one axis with its unit.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::stage::problem::Problem;

/// So narrow that a phone shows the text in a readable size.
pub(crate) const WIDTH: u32 = 420;
pub(crate) const HEIGHT: u32 = 260;

const FONT: &str = "sans-serif";
const NAMES_WIDTH: u32 = 84;

/// The part of the axis that is left free for the text behind the last mark.
const TEXT_SHARE: f64 = 0.42;

/// The greatest number of labels on a logarithmic axis.
const LABELS_MAX: usize = 6;

/// The content of a chart.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// The unit, and the meaning of the marks.
    pub(crate) axis: String,
    pub(crate) scale: Scale,
    pub(crate) rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Linear, starting at zero.
    Linear,
    /// Logarithmic, with ticks at powers of ten.
    Tenfold,
}

/// The row of one store.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) color: RGBColor,
    pub(crate) mark: Mark,
    /// The figures.
    pub(crate) text: String,
}

#[derive(Debug)]
pub(crate) enum Mark {
    /// A bar from zero to a value.
    Bar(f64),
    /// A filled dot and a hollow dot, with a line between.
    Range(f64, f64),
    /// A dot for each value.
    Dots(Vec<f64>),
}

impl Mark {
    fn values(&self) -> Vec<f64> {
        match self {
            Self::Bar(value) => vec![*value],
            Self::Range(from, to) => vec![*from, *to],
            Self::Dots(values) => values.clone(),
        }
    }
}

/// A map from values to places on the axis.
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Axis {
    fn for_values(scale: Scale, values: &[f64]) -> Self {
        let finite = values.iter().copied().filter(|value| value.is_finite());
        let most = finite.clone().fold(f64::MIN_POSITIVE, f64::max);
        match scale {
            Scale::Linear => {
                let to = most / (1.0 - TEXT_SHARE);
                let step = nice(most / 4.0);
                let ticks = (0..).map(|number| f64::from(number) * step);
                Self {
                    scale,
                    from: 0.0,
                    to,
                    ticks: ticks.take_while(|tick| *tick < most + step).collect(),
                }
            }
            Scale::Tenfold => {
                let least = finite.filter(|value| *value > 0.0).fold(most, f64::min);
                let from = least.log10().floor();
                let span = (most.log10() - from).max(1.0);
                let to = from + span / (1.0 - TEXT_SHARE);
                let ticks = (0..).map(|number| from + f64::from(number));
                let ticks = ticks.take_while(|tick| *tick < most.log10() + 1.0);
                let ticks: Vec<f64> = ticks.collect();
                let step = ticks.len().div_ceil(LABELS_MAX);
                Self {
                    scale,
                    from,
                    to,
                    ticks: ticks.into_iter().step_by(step).collect(),
                }
            }
        }
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Tenfold => value.log10().max(self.from),
        }
    }

    fn label(&self, place: f64) -> String {
        let value = match self.scale {
            Scale::Linear => place,
            Scale::Tenfold => 10_f64.powf(place),
        };
        match value {
            1_000_000.0.. => return format!("{:.0}M", value / 1e6),
            1_000.0.. => return format!("{:.0}k", value / 1e3),
            _ => {}
        }
        // Cuts off the rounding error of the arithmetic.
        let rounded = format!("{value:.4}");
        rounded
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    }
}

/// An axis with ticks at the given places only.
struct Ticked {
    places: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ticked {
    fn new(from: f64, to: f64, ticks: Vec<f64>) -> Self {
        let places = (from..to).into();
        Self { places, ticks }
    }
}

impl Ranged for Ticked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        self.places.map(place, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.places.range()
    }
}

/// Returns 1, 2 or 5 times a power of ten, at least `step`.
fn nice(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|nice| *nice >= step).unwrap_or(step)
}

impl Chart {
    /// Renders the chart as an SVG file.
    pub(crate) fn svg(&self) -> Result<String, Problem> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, (WIDTH, HEIGHT)).into_drawing_area();
            self.draw(&area)?;
            area.present()?;
        }
        Ok(text)
    }

    /// Draws the chart into a part of a picture.
    pub(crate) fn draw(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Problem> {
        let values: Vec<f64> = self.rows.iter().flat_map(|row| row.mark.values()).collect();
        let axis = Axis::for_values(self.scale, &values);
        let count = self.rows.len();
        // The first row is at the top.
        let height = |index: usize| (count - 1 - index) as f64;
        let name = |height: f64| {
            let index = (count - 1) as f64 - height;
            let row = self.rows.get(index.round() as usize);
            row.map_or_else(String::new, |row| row.name.clone())
        };
        area.fill(&WHITE)?;
        let ticks = Ticked::new(axis.from, axis.to, axis.ticks.clone());
        let heights = Ticked::new(-0.6, count as f64 - 0.4, (0..count).map(height).collect());
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 18))
            .margin(10)
            .x_label_area_size(48)
            .y_label_area_size(NAMES_WIDTH)
            .build_cartesian_2d(ticks, heights)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(BLACK.mix(0.12))
            .axis_style(BLACK.mix(0.4))
            .x_desc(&self.axis)
            .x_label_formatter(&|place| axis.label(*place))
            .y_label_formatter(&|height| name(*height))
            .label_style((FONT, 15))
            .axis_desc_style((FONT, 15))
            .draw()?;
        for (index, row) in self.rows.iter().enumerate() {
            let (height, color) = (height(index), row.color);
            let place = |value: &f64| (axis.place(*value), height);
            match &row.mark {
                Mark::Bar(value) => {
                    let corners = [
                        (axis.from, height - 0.3),
                        (axis.place(*value), height + 0.3),
                    ];
                    chart.draw_series([Rectangle::new(corners, color.filled())])?;
                }
                Mark::Range(from, to) => {
                    let line = PathElement::new([place(from), place(to)], color.stroke_width(4));
                    chart.draw_series([line])?;
                    chart.draw_series([Circle::new(place(from), 6, color.filled())])?;
                    chart.draw_series([Circle::new(place(to), 6, WHITE.filled())])?;
                    chart.draw_series([Circle::new(place(to), 6, color.stroke_width(2))])?;
                }
                Mark::Dots(values) => {
                    let dots = values
                        .iter()
                        .map(|value| Circle::new(place(value), 6, color.mix(0.7).filled()));
                    chart.draw_series(dots)?;
                }
            }
            let last = row.mark.values().into_iter().fold(f64::NAN, f64::max);
            if last.is_finite() {
                let style = (FONT, 15)
                    .into_text_style(area)
                    .pos(Pos::new(HPos::Left, VPos::Center));
                let text = Text::new(row.text.clone(), (12, 0), style);
                chart.draw_series([EmptyElement::at(place(&last)) + text])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_leave_room() {
        let linear = Axis::for_values(Scale::Linear, &[0.3, 2.1]);
        assert_eq!(linear.ticks[..3], [0.0, 1.0, 2.0]);
        assert!(linear.to > 3.0);
        let tenfold = Axis::for_values(Scale::Tenfold, &[0.03, 250.0, f64::NAN]);
        let labels: Vec<String> = tenfold
            .ticks
            .iter()
            .map(|tick| tenfold.label(*tick))
            .collect();
        assert_eq!(labels[..5], ["0.01", "0.1", "1", "10", "100"]);
        assert!((tenfold.place(250.0) - 2.398).abs() < 0.001);
    }

    #[test]
    fn a_chart_shows_its_figures() {
        let row = |mark| Row {
            name: "here".to_owned(),
            color: RGBColor(1, 2, 3),
            mark,
            text: "n = 7".to_owned(),
        };
        let chart = Chart {
            title: "a <title>".to_owned(),
            axis: "seconds".to_owned(),
            scale: Scale::Linear,
            rows: vec![
                row(Mark::Bar(1.0)),
                row(Mark::Range(1.0, 2.0)),
                row(Mark::Dots(vec![1.5, 2.5])),
            ],
        };
        let svg = chart.svg().unwrap();
        for part in ["a &lt;title&gt;", "seconds", "here", "n = 7"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
    }
}
