//! Lines over a logarithmic or linear axis as an SVG picture, in panels below each other.
//!
//! Each line has its own colour and dash, so that they are told apart without colour too, and text follows the reader's
//! light or dark scheme.

const WIDTH: f64 = 760.0;
const PLOT_LEFT: f64 = 70.0;
const PLOT_WIDTH: f64 = 500.0;
const PLOT_HEIGHT: f64 = 170.0;
const HEAD: f64 = 34.0;
const FOOT: f64 = 44.0;

const COLOURS: [&str; 9] =
    ["#7a8087", "#3d8bd4", "#c4302b", "#2e9e6b", "#b8860b", "#8a5bc7", "#d4679b", "#1f6f8b", "#e07b39"];
const DASHES: [&str; 3] = ["", "6 3", "2 2"];

const STYLE: &str = "text{font:11px system-ui,sans-serif;fill:#24292f}.h{font-weight:600}.g{stroke:#d0d7de}\
    .m{stroke:#57606a;stroke-dasharray:3 3}path{fill:none;stroke-width:1.8}\
    @media(prefers-color-scheme:dark){text{fill:#d7dde4}.g{stroke:#3a424c}.m{stroke:#9aa4b0}}";

/// One diagram.
pub struct Panel {
    /// Above it.
    pub title: String,
    /// The name of the horizontal axis.
    pub across: &'static str,
    /// How the horizontal axis goes.
    pub scale: Scale,
    /// Writes a value of the horizontal axis.
    pub tick: fn(f64) -> String,
    /// The least and greatest value of the vertical axis.
    pub range: (f64, f64),
    /// What is drawn.
    pub lines: Vec<Line>,
    /// Vertical lines with a word.
    pub marks: Vec<(f64, String)>,
}

/// How the horizontal axis goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// In equal factors.
    Logarithmic,
    /// In equal steps.
    Linear,
}

/// One line; its number picks the colour.
pub struct Line {
    /// Picks its colour and dash.
    pub number: usize,
    /// Its name in the legend.
    pub name: String,
    /// Its points; one that is not finite interrupts it.
    pub points: Vec<(f64, f64)>,
}

/// The picture.
pub fn svg(label: &str, panels: &[Panel]) -> String {
    let each = HEAD + PLOT_HEIGHT + FOOT;
    let height = each * panels.len() as f64;
    let body: String =
        panels.iter().enumerate().map(|(number, panel)| draw(panel, number as f64 * each + HEAD)).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n{body}</svg>\n",
        escaped(label)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn draw(panel: &Panel, top: f64) -> String {
    let all = panel.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let (first, last) = all.fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
    if first > last {
        return String::new();
    }
    let place = |x: f64| if panel.scale == Scale::Linear { x - first } else { (x / first).ln() };
    let span = place(last).max(f64::MIN_POSITIVE);
    let x_of = |x: f64| PLOT_LEFT + place(x) / span * PLOT_WIDTH;
    let (low, high) = panel.range;
    let y_of = |y: f64| top + PLOT_HEIGHT * (1.0 - ((y - low) / (high - low)).clamp(0.0, 1.0));
    let mut text =
        format!("<text class=\"h\" x=\"{PLOT_LEFT}\" y=\"{:.0}\">{}</text>\n", top - 12.0, escaped(&panel.title));
    for step in 0..=4 {
        let value = low + (high - low) * f64::from(step) / 4.0;
        let y = y_of(value);
        let right = PLOT_LEFT + PLOT_WIDTH;
        text += &format!("<line class=\"g\" x1=\"{PLOT_LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
        text += &format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            PLOT_LEFT - 6.0,
            y + 4.0,
            short(value)
        );
    }
    let bottom = top + PLOT_HEIGHT;
    for x in ticks(panel.scale, first, last) {
        let at = x_of(x);
        text += &format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n",
            bottom + 15.0,
            escaped(&(panel.tick)(x))
        );
    }
    text += &format!("<text x=\"{PLOT_LEFT}\" y=\"{:.1}\">{}</text>\n", bottom + 30.0, escaped(panel.across));
    for (number, (x, word)) in panel.marks.iter().filter(|(x, _)| (first..=last).contains(x)).enumerate() {
        let (at, y) = (x_of(*x), top + 10.0 + 12.0 * number as f64);
        text += &format!("<line class=\"m\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>");
        text += &format!("<text x=\"{:.1}\" y=\"{y:.1}\">{}</text>\n", at + 3.0, escaped(word));
    }
    for (row, line) in panel.lines.iter().enumerate() {
        text += &path(line, &x_of, &y_of, panel.range);
        let y = top + 8.0 + 15.0 * row as f64;
        let left = PLOT_LEFT + PLOT_WIDTH + 14.0;
        text += &format!("<path {} d=\"M{left:.0} {y:.0}h18\"/>", pen(line.number));
        text += &format!("<text x=\"{:.0}\" y=\"{:.0}\">{}</text>\n", left + 23.0, y + 4.0, escaped(&line.name));
    }
    text
}

fn path(line: &Line, x_of: &dyn Fn(f64) -> f64, y_of: &dyn Fn(f64) -> f64, range: (f64, f64)) -> String {
    let mut way = String::new();
    let mut is_drawn = false;
    for &(x, y) in &line.points {
        // What there is not, and what lies beyond the panel, is left out.
        if !y.is_finite() || y > range.1 * 1.02 {
            is_drawn = false;
            continue;
        }
        way += &format!("{}{:.1} {:.1}", if is_drawn { "L" } else { "M" }, x_of(x), y_of(y));
        is_drawn = true;
    }
    let title = format!("<title>{}</title>", escaped(&line.name));
    format!("<path {} d=\"{way}\">{title}</path>\n", pen(line.number))
}

fn pen(number: usize) -> String {
    let (colour, dash) = (COLOURS[number % COLOURS.len()], DASHES[number % DASHES.len()]);
    format!("stroke=\"{colour}\" stroke-dasharray=\"{dash}\"")
}

fn short(value: f64) -> String {
    // A tick between whole numbers is not one of them, however large.
    let is_whole = (value - value.round()).abs() < 0.0005;
    if is_whole { format!("{value:.0}") } else { format!("{value:.3}").trim_end_matches('0').into() }
}

/// Some round values within a range: on a linear axis at most nine in equal steps; otherwise ones, twos and fives of powers of ten, or only the ones where those are many.
fn ticks(scale: Scale, first: f64, last: f64) -> Vec<f64> {
    if scale == Scale::Linear {
        let rough = ((last - first) / 8.0).max(f64::MIN_POSITIVE);
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        return (0..=9)
            .map(|number| ((first / step).ceil() + f64::from(number)) * step)
            .filter(|x| *x <= last)
            .collect();
    }
    let powers = first.log10().floor() as i32..=last.log10().ceil() as i32;
    let within = |factors: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
        all.filter(|value| (first * 0.999..=last * 1.001).contains(value)).collect()
    };
    let fine = within(&[1.0, 2.0, 5.0]);
    if fine.len() <= 9 { fine } else { within(&[1.0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_says_its_value() {
        assert_eq!([0.0, 187.5, 99.8, 100.1, 5000.0, 0.25].map(short), ["0", "187.5", "99.8", "100.1", "5000", "0.25"]);
    }

    #[test]
    fn a_picture_is_well_formed_and_leaves_out_what_there_is_not() {
        let line =
            Line { number: 1, name: "a < b".into(), points: vec![(1.0, 0.5), (10.0, f64::INFINITY), (100.0, 1.0)] };
        let panel = Panel {
            title: "t".into(),
            across: "x",
            scale: Scale::Logarithmic,
            tick: |x| format!("{x}"),
            range: (0.0, 1.0),
            lines: vec![line],
            marks: vec![(10.0, "here".into()), (1e9, "outside".into())],
        };
        let text = svg("l", &[panel]);
        assert!(
            text.contains("a &lt; b") && text.contains("here") && !text.contains("outside") && !text.contains("inf")
        );
        for tag in ["text", "title", "style", "svg"] {
            let count = |text_: &str| text.matches(text_).count();
            assert_eq!(count(&format!("<{tag} ")) + count(&format!("<{tag}>")), count(&format!("</{tag}>")), "{tag}");
        }
        assert_eq!(ticks(Scale::Logarithmic, 1.0, 10.0), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(ticks(Scale::Linear, 0.0, 100.0), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    }
}
