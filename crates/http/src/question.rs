use crate::api_error::{ApiError, echo};
use axum::extract::Query;
use axum::http::Uri;
use std::collections::BTreeSet;

/// The parameters of a query; each at most once and known by name.
///
/// # Errors
/// What is wrong with the query, as an answer.
pub fn parameters(uri: &Uri, allowed: &[&str]) -> Result<Vec<(String, String)>, ApiError> {
    let given = Query::<Vec<(String, String)>>::try_from_uri(uri)
        .map_err(|_| ApiError::bad_request("the query is not of the form name=value&name=value".to_owned()))?
        .0;
    let mut seen = BTreeSet::new();
    for (name, _) in &given {
        if !allowed.contains(&name.as_str()) {
            let allowed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            return Err(ApiError::bad_request(format!("unknown parameter '{}'; allowed: {allowed}", echo(name))));
        }
        if !seen.insert(name.as_str()) {
            return Err(ApiError::bad_request(format!("parameter '{name}' is given twice; give it once")));
        }
    }
    Ok(given)
}
