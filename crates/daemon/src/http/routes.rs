use super::access::{self, Again};
use super::guard::guard;
use super::overview::Overview;
use super::page::ASSETS;
use super::{events, metrics, past};
use crate::keep::shared::Shared;
use crate::rooms::{Route, Weight};
use crate::{Config, Mode};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router, middleware};
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use surefoot_http::connections::Peer;
use surefoot_http::unconnected::Unconnected;
use surefoot_http::{ApiError, echo, json_text, page, parameters, reply};
use surefoot_model::{Capability, SCHEMA, did_you_mean};
use surefoot_rooms::viewer::Viewer;
use tokio::sync::OwnedSemaphorePermit;

type Answer = Result<Response, ApiError>;

/// The addresses whose answers are of another kind than [`Route`]'s.
pub(super) const OWN: [(&str, &str); 5] = [
    ("/", "The page."),
    (access::PATH, "Lets a browser in that has the key of `page-url`."),
    ("/metrics", "Metrics for Prometheus, in OpenMetrics or its older text format."),
    (INDEX, "Every address of this server."),
    ("/api/v1/events", "What happens, live: server-sent events."),
];

/// Where the addresses are listed.
pub(super) const INDEX: &str = "/api/v1";

/// An address of the server.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub(crate) struct Listed {
    path: &'static str,
    /// What it answers, a sentence.
    about: &'static str,
}

/// Every address of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Index {
    /// The version of this API.
    pub(crate) schema: u32,
    addresses: Vec<Listed>,
}

/// Every address of the server on 127.0.0.1.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    addresses(&shared)
        .route(access::PATH, get(open).head(only_looked_at))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), identify))
        .layer(middleware::from_fn(guard))
        .with_state(shared)
}

/// What everybody who is let in may ask for; who that is, is the caller's.
pub(super) fn addresses(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let mut router = Router::new();
    for asset in ASSETS {
        let serve = move |headers: HeaderMap| async move { page::serve(&asset, &headers) };
        router = router.route(asset.path, get(serve));
    }
    router = router.route("/api/v1/events", get(live)).route("/metrics", get(scraped));
    let mut known: Vec<Listed> = OWN.iter().map(|&(path, about)| Listed { path, about }).collect();
    for route in all(shared) {
        known.push(Listed { path: route.path, about: route.about });
        router = with(router, route);
    }
    let listed = known.clone();
    let index = move |uri: Uri| async move {
        parameters(&uri, &[])?;
        Ok::<Response, ApiError>(reply::answer(StatusCode::OK, &Index { schema: SCHEMA, addresses: listed }))
    };
    router.route(INDEX, get(index)).fallback(move |uri: Uri| async move { unknown(&uri, &known) })
}

/// A server without a port and with nothing to show, for the fuzzer.
///
/// # Errors
/// When the system gives no event queue.
pub fn unconnected() -> io::Result<Unconnected> {
    let config = Config { mode: Mode::Replay { file: "some.surefoot".into() }, port: None, ..Config::default() };
    Unconnected::start(router(Arc::new(Shared::new(&config, None))))
}

/// Those that belong to no room, and the rooms'.
pub(super) fn all(shared: &Shared) -> Vec<Route> {
    let own = vec![
        Route::light("/api/v1/overview", "What all rooms find, a card for each.", |shared, viewer, uri| {
            parameters(uri, &[])?;
            let overview = Overview::of(shared, viewer);
            Ok(viewer.show(overview, |overview| json_text(&overview.into_answer())))
        }),
        Route::light("/api/v1/capabilities", "What works on this host.", |shared, viewer, uri| {
            parameters(uri, &[])?;
            Ok(viewer.show(shared.moment(), |moment| {
                json_text(&Capabilities { schema: SCHEMA, capabilities: &moment.capabilities })
            }))
        }),
        Route::slow("/api/v1/history", "What the history has of a range of the past.", past::answer),
    ];
    own.into_iter().chain(shared.rooms.iter().flat_map(|room| Arc::clone(room).routes())).collect()
}

/// Adds an address. An answer that may be large waits for its turn.
fn with(router: Router<Arc<Shared>>, route: Route) -> Router<Arc<Shared>> {
    let (answer, weight) = (Arc::new(route.answer), route.weight);
    let handler = move |State(shared): State<Arc<Shared>>, Extension(viewer): Extension<Viewer>, uri: Uri| async move {
        let turn = if weight == Weight::Light { None } else { Some(shared.large_answer(viewer).await?) };
        let seen = if weight == Weight::Slow {
            let broke_off = |_| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer broke off; ask again");
            tokio::task::spawn_blocking(move || answer(&shared, viewer, &uri)).await.map_err(broke_off)??
        } else {
            answer(&shared, viewer, &uri)?
        };
        Ok::<Response, ApiError>(reply::with_type(StatusCode::OK, reply::JSON, reply::held(seen.into_answer(), turn)))
    };
    router.route(route.path, get(handler))
}

/// Finds out who asks, once for each request.
async fn identify(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: middleware::Next,
) -> Response {
    let viewer = shared.access.viewer(peer, request.headers());
    request.extensions_mut().insert(viewer);
    let headers = request.headers().clone();
    request.extensions_mut().insert(Again::new(move || Some(shared.access.viewer(peer, &headers))));
    next.run(request).await
}

/// Lets a browser in that has the key, and sends it to the page.
async fn open(State(shared): State<Arc<Shared>>, ConnectInfo(peer): ConnectInfo<Peer>, uri: Uri) -> Answer {
    let given = parameters(&uri, &["key"])?;
    let key = given.first().map_or("", |(_, key)| key);
    let refused = "this address has been used, or is of an earlier start; the file page-url has a new one";
    let cookie = shared.access.open(peer, key).ok_or_else(|| ApiError::new(StatusCode::FORBIDDEN, refused))?;
    let mut response = reply::with_type(StatusCode::SEE_OTHER, "text/plain", "");
    let (name, age_s) = (access::cookie_name(peer.port), access::SESSION_TIME.as_secs());
    if let Ok(cookie) =
        HeaderValue::from_str(&format!("{name}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age_s}"))
    {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/"));
    Ok(response)
}

/// Whoever only looks whether the address is there, a preview of links for instance, must not use it up.
async fn only_looked_at() -> Response {
    let mut response =
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this address is opened with GET alone").into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
    response
}

/// How long an answer waits for its turn.
const TURN_TIME: Duration = Duration::from_secs(5);

impl Shared {
    /// Waits a moment until one more large answer may be in memory; those of one user are never all of them.
    pub(crate) async fn large_answer(&self, viewer: Viewer) -> Result<Turn, ApiError> {
        let of_user = self.turns_of(access::holder(&viewer));
        let both = async {
            let own = of_user.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.large_answers).acquire_owned().await.ok()?;
            Some(Turn { _own: own, _all: all })
        };
        let busy = "too many large answers are on their way; try again";
        match tokio::time::timeout(TURN_TIME, both).await {
            Ok(Some(turn)) => Ok(turn),
            Ok(None) => Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the server is shutting down")),
            Err(_) => Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, busy)),
        }
    }
}

/// The right to have a large answer in memory.
pub(crate) struct Turn {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// What works on this host.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Capabilities<'a> {
    schema: u32,
    /// One row per capability; empty until the host is known.
    capabilities: &'a [Capability],
}

async fn live(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Extension(again): Extension<Again>,
    headers: HeaderMap,
) -> Response {
    events::events(&shared, viewer, again, &headers)
}

async fn scraped(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    headers: HeaderMap,
) -> Answer {
    metrics::answer(&shared, viewer, &headers)
}

fn unknown(uri: &Uri, known: &[Listed]) -> ApiError {
    let paths: Vec<&str> = known.iter().map(|listed| listed.path).collect();
    let meant = did_you_mean(uri.path(), paths.iter().copied());
    let text = format!("nothing is at {}; there are {}{meant}", echo(uri.path()), paths.join(", "));
    ApiError::new(StatusCode::NOT_FOUND, text)
}
