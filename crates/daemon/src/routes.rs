use crate::api_error::{ApiError, echo};
use crate::config::Mode;
use crate::filter::{Filter, parameters};
use crate::guard::guard;
use crate::page::{self, ASSETS};
use crate::state::Shared;
use crate::view::{Origin, ReportView, SnapshotView};
use crate::who::WhoAnswer;
use crate::{history, metrics, reply, sse};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

type Answer = Result<Response, ApiError>;

/// Every address of the server.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let mut router = Router::new();
    for asset in ASSETS {
        let serve = move |headers: HeaderMap| async move { page::serve(&asset, &headers) };
        router = router.route(asset.path, get(serve));
    }
    router
        .route("/api/v1/snapshot", get(snapshot))
        .route("/api/v1/report", get(report))
        .route("/api/v1/who", get(who))
        .route("/api/v1/checkpoints", get(checkpoints))
        .route("/api/v1/capabilities", get(capabilities))
        .route("/api/v1/history", get(past))
        .route("/api/v1/events", get(events))
        .route("/metrics", get(openmetrics))
        .fallback(unknown)
        .layer(middleware::from_fn(guard))
        .with_state(shared)
}

impl Shared {
    /// Waits until one more large answer may be in memory.
    pub(crate) async fn large_answer(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let permit = Arc::clone(&self.large_answers).acquire_owned().await;
        permit.map_err(|_| ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down"))
    }
}

fn origin(shared: &Shared) -> Origin<'_> {
    match &shared.mode {
        Mode::Live => Origin { mode: "live", recording: None },
        Mode::Replay { file } => Origin { mode: "replay", recording: Some(file) },
    }
}

async fn snapshot(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    let permit = shared.large_answer().await?;
    let kept = shared.kept();
    let filter = Filter::of(&uri, kept.watched())?;
    Ok(reply::large_json(&SnapshotView::of(&kept, origin(&shared), &filter), permit))
}

async fn report(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    let permit = shared.large_answer().await?;
    let kept = shared.kept();
    let filter = Filter::of(&uri, kept.watched())?;
    Ok(reply::large_json(&ReportView::of(&kept, origin(&shared), &filter), permit))
}

async fn who(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    let permit = shared.large_answer().await?;
    let kept = shared.kept();
    let filter = Filter::of_interrupts(&uri, kept.watched())?;
    Ok(reply::large_json(&WhoAnswer::of(&kept, origin(&shared), &filter), permit))
}

async fn checkpoints(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    let permit = shared.large_answer().await?;
    parameters(&uri, &[])?;
    let body = reply::held(shared.checkpoints.seen().body, permit);
    Ok(reply::with_type(StatusCode::OK, reply::JSON, body))
}

async fn capabilities(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    parameters(&uri, &[])?;
    let capabilities = shared.capabilities();
    Ok(reply::json(StatusCode::OK, &serde_json::json!({ "capabilities": capabilities })))
}

async fn past(State(shared): State<Arc<Shared>>, uri: Uri) -> Answer {
    history::answer(shared, &uri).await
}

async fn events(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    sse::events(&shared, &headers)
}

async fn openmetrics(State(shared): State<Arc<Shared>>) -> Response {
    let (totals, dropped, age) = shared.totals();
    match metrics::encode(totals, dropped, age, shared.checkpoints.seen().answer) {
        Ok(text) => reply::with_type(StatusCode::OK, metrics::CONTENT_TYPE, text),
        Err(_) => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the metrics have no text form").into_response(),
    }
}

async fn unknown(uri: Uri) -> ApiError {
    let text = format!(
        "nothing is at {}; there are /, /metrics and /api/v1/snapshot, report, who, checkpoints, capabilities, history, \
         events",
        echo(uri.path())
    );
    ApiError::new(StatusCode::NOT_FOUND, text)
}
