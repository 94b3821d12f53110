use super::api_error::{ApiError, echo};
use super::guard::guard;
use super::overview::Overview;
use super::page::{self, ASSETS};
use super::{events, metrics, parameters, past, reply};
use crate::keep::shared::Shared;
use crate::rooms::Route;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use surefoot_model::Capability;
use tokio::sync::OwnedSemaphorePermit;

type Answer = Result<Response, ApiError>;

/// The addresses of all rooms together; those of one room come from the room.
const OWN: [&str; 6] =
    ["/", "/metrics", "/api/v1/overview", "/api/v1/capabilities", "/api/v1/history", "/api/v1/events"];

/// Every address of the server.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for asset in ASSETS {
        let serve = move |headers: HeaderMap| async move { page::serve(&asset, &headers) };
        router = router.route(asset.path, get(serve));
    }
    router = router
        .route("/api/v1/overview", get(overview))
        .route("/api/v1/capabilities", get(capabilities))
        .route("/api/v1/history", get(history))
        .route("/api/v1/events", get(live))
        .route("/metrics", get(openmetrics));
    let mut known: Vec<&'static str> = OWN.to_vec();
    for route in shared.rooms.iter().flat_map(|room| Arc::clone(room).routes()) {
        known.push(route.path);
        router = of_room(router, route);
    }
    router
        .fallback(move |uri: Uri| async move { unknown(&uri, &known) })
        .layer(middleware::from_fn(guard))
        .with_state(shared)
}

/// Adds an address of a room. Its answer may be large, so that it waits for its turn.
fn of_room(router: Router<Arc<Shared>>, route: Route) -> Router<Arc<Shared>> {
    let answer = Arc::new(route.answer);
    let handler = move |State(shared): State<Arc<Shared>>, uri: Uri| async move {
        let permit = shared.large_answer().await?;
        let text = answer(&shared, &uri)?;
        Ok::<Response, ApiError>(reply::with_type(StatusCode::OK, reply::JSON, reply::held(text, permit)))
    };
    router.route(route.path, get(handler))
}

impl Shared {
    /// Waits until one more large answer may be in memory.
    pub(crate) async fn large_answer(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = Arc::clone(&self.large_answers).acquire_owned().await;
        permit.map_err(|_| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"))
    }
}

async fn overview(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    parameters(&uri, &[])?;
    Ok(reply::answer(StatusCode::OK, &Overview::of(&shared)))
}

async fn capabilities(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    parameters(&uri, &[])?;
    let capabilities = shared.moment().capabilities;
    Ok(reply::answer(StatusCode::OK, &Capabilities { schema: super::SCHEMA, capabilities: &capabilities }))
}

/// What works on this host.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Capabilities<'a> {
    schema: u32,
    /// One row per capability; empty until the host is known.
    capabilities: &'a [Capability],
}

async fn history(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    past::answer(shared, &uri).await
}

async fn live(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    events::events(&shared, &headers)
}

async fn openmetrics(State(shared): State<Arc<Shared>>) -> Response {
    match metrics::encode(&shared) {
        Ok(text) => reply::with_type(StatusCode::OK, metrics::CONTENT_TYPE, text),
        Err(_) => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics have no text form").into_response(),
    }
}

fn unknown(uri: &Uri, known: &[&str]) -> ApiError {
    let text = format!("nothing is at {}; there are {}", echo(uri.path()), known.join(", "));
    ApiError::new(StatusCode::NOT_FOUND, text)
}
