//! The two text formats of Prometheus: OpenMetrics, and the older 0.0.4, whichever the scraper asks for.

use crate::{ApiError, reply};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// The media type of the OpenMetrics text format.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of Prometheus' own text format.
pub const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A label and its value.
pub type Label<'a> = (&'static str, &'a str);

/// All series of a registry, as an answer in the format that is asked for.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub fn answer(registry: &Registry, asked: &HeaderMap) -> Result<Response, ApiError> {
    let mut text = String::new();
    text::encode(&mut text, registry)
        .map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics have no text form"))?;
    let mut response = match Format::asked(asked) {
        Format::OpenMetrics => reply::with_type(StatusCode::OK, CONTENT_TYPE, text),
        Format::Text => reply::with_type(StatusCode::OK, TEXT_TYPE, to_text_format(&text)),
    };
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// Nanoseconds as seconds.
pub fn seconds(duration_ns: u64) -> f64 {
    duration_ns as f64 / 1e9
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    /// The format that `Accept` weighs most; OpenMetrics where it names neither, or both alike.
    fn asked(headers: &HeaderMap) -> Self {
        let (mut open, mut text) = (Weight::default(), Weight::default());
        let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
        for range in lines.flat_map(|line| line.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default().to_ascii_lowercase();
            let parameter = |name: &str| {
                let of_name = |part: &str| {
                    let (key, value) = part.split_once('=')?;
                    key.trim().eq_ignore_ascii_case(name).then(|| value.trim().trim_matches('"').to_owned())
                };
                parts.clone().find_map(of_name)
            };
            let quality = parameter("q").map_or(Some(1.0), |q| q.parse().ok()).unwrap_or(0.0f64).clamp(0.0, 1.0);
            let version = parameter("version");
            let is_version = |known: &[&str]| version.as_deref().is_none_or(|version| known.contains(&version));
            match media_type.as_str() {
                "application/openmetrics-text" if is_version(&["0.0.1", "1.0.0"]) => open.reach(2, quality),
                "text/plain" if is_version(&["0.0.4"]) => text.reach(2, quality),
                "application/*" => open.reach(1, quality),
                "text/*" => text.reach(1, quality),
                "*/*" => {
                    open.reach(0, quality);
                    text.reach(0, quality);
                }
                _ => {}
            }
        }
        if text.quality > open.quality { Format::Text } else { Format::OpenMetrics }
    }
}

/// How much a format is wanted: the closest range that names it says so.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    closeness: u8,
    quality: f64,
}

impl Weight {
    fn reach(&mut self, closeness: u8, quality: f64) {
        if closeness > self.closeness || (closeness == self.closeness && quality > self.quality) {
            *self = Weight { closeness, quality };
        }
    }
}

/// OpenMetrics in the older format: families are called as their samples are, and there are neither units nor an end mark.
fn to_text_format(open_metrics: &str) -> String {
    let kind_of = |line: &str| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        Some((name.to_owned(), kind.to_owned()))
    };
    let kinds: std::collections::HashMap<String, String> = open_metrics.lines().filter_map(kind_of).collect();
    let mut text = String::with_capacity(open_metrics.len() + open_metrics.len() / 16);
    for line in open_metrics.lines() {
        let described = line.strip_prefix("# ").and_then(|rest| {
            let mut words = rest.splitn(3, ' ');
            Some((words.next()?, words.next()?, words.next()?))
        });
        match described {
            Some((word @ ("HELP" | "TYPE"), name, rest)) => {
                let (suffix, kind) = match kinds.get(name).map(String::as_str) {
                    Some("counter") => ("_total", "counter"),
                    Some("info") => ("_info", "gauge"),
                    Some("unknown") | None => ("", "untyped"),
                    Some(other) => ("", other),
                };
                // The older format escapes no quotation marks here.
                let rest = if word == "TYPE" { kind.to_owned() } else { rest.replace("\\\"", "\"") };
                text += &format!("# {word} {name}{suffix} {rest}\n");
            }
            _ if line.starts_with('#') => {}
            _ => {
                text += line;
                text.push('\n');
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_weighed_most() {
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, format) in [
            ("", Format::OpenMetrics),
            ("*/*", Format::OpenMetrics),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Format::OpenMetrics),
            ("application/json", Format::OpenMetrics),
            (prometheus_2, Format::OpenMetrics),
            ("text/plain", Format::Text),
            ("Text/Plain; Version=\"0.0.4\"", Format::Text),
            ("text/*", Format::Text),
            ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Format::Text),
            ("text/plain;q=0.3, application/openmetrics-text;q=0.2", Format::Text),
            ("text/plain;q=0.2, application/openmetrics-text;q=0.3", Format::OpenMetrics),
            ("text/plain;q=0.5, application/openmetrics-text;q=0", Format::Text),
            ("*/*, application/openmetrics-text;q=0.1", Format::Text),
            ("text/plain;q=0, */*", Format::OpenMetrics),
            ("text/plain;version=9.9.9, application/openmetrics-text;version=1.0.0;q=0.1", Format::OpenMetrics),
            ("text/plain;q=many, application/openmetrics-text;q=0.1", Format::OpenMetrics),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(Format::asked(&headers), format, "{accept}");
        }
        let mut two_lines = HeaderMap::new();
        two_lines.append(header::ACCEPT, HeaderValue::from_static("application/openmetrics-text;q=0.2"));
        two_lines.append(header::ACCEPT, HeaderValue::from_static("text/plain"));
        assert_eq!(Format::asked(&two_lines), Format::Text);
        assert_eq!(Format::asked(&HeaderMap::new()), Format::OpenMetrics);
    }

    #[test]
    fn families_are_called_as_their_samples_in_the_older_format() {
        let open = "# HELP a_seconds Of \\\"a\\\".\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\na_seconds_total{x=\"y z\"} 1.5\n\
                    # HELP b B.\n# TYPE b info\nb_info{version=\"1\"} 1\n# HELP c C.\n# TYPE c gauge\nc 2\n# HELP d D.\n# TYPE d histogram\n\
                    d_sum 1.0\nd_count 2\nd_bucket{le=\"+Inf\"} 2\n# EOF\n";
        let text = "# HELP a_seconds_total Of \"a\".\n# TYPE a_seconds_total counter\na_seconds_total{x=\"y z\"} 1.5\n\
                    # HELP b_info B.\n# TYPE b_info gauge\nb_info{version=\"1\"} 1\n# HELP c C.\n# TYPE c gauge\nc 2\n# HELP d D.\n\
                    # TYPE d histogram\nd_sum 1.0\nd_count 2\nd_bucket{le=\"+Inf\"} 2\n";
        assert_eq!(to_text_format(open), text);
    }
}
