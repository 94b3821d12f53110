//! The OpenMetrics text format.

use crate::{ApiError, reply};
use axum::http::StatusCode;
use axum::response::Response;
use prometheus_client::encoding::{EncodeCounterValue, MetricEncoder, NoLabelSet, text};
use prometheus_client::registry::Registry;
use std::fmt::Error;

/// The media type of the OpenMetrics text format.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A label and its value.
pub type Label<'a> = (&'static str, &'a str);

/// All series of a registry, as an answer.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub fn answer(registry: &Registry) -> Result<Response, ApiError> {
    let mut text = String::new();
    text::encode(&mut text, registry)
        .map_err(|_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics have no text form"))?;
    Ok(reply::with_type(StatusCode::OK, CONTENT_TYPE, text))
}

/// Writes one counter of a family.
///
/// # Errors
/// Never in practice: the text goes to memory.
pub fn counter(
    family: &mut MetricEncoder<'_>,
    labels: &[Label<'_>],
    value: impl EncodeCounterValue,
) -> Result<(), Error> {
    family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)
}

/// Nanoseconds as seconds.
pub fn seconds(duration_ns: u64) -> f64 {
    duration_ns as f64 / 1e9
}
