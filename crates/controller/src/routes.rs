//! Every address of the server, who may ask there, and what is answered.

use super::desk::Told;
use super::findings::Board;
use super::hosts::{HostList, HostQuery};
use super::intake::NotTaken;
use super::lines::{Accepted, CaseList, HandedOrder, OrderAnswer, Protocol, Reason, Trail, before};
use super::refused::{self, Refused};
use super::role::{Role, may_any};
use super::{Caller, Served, alertmanager, findings, metrics, page, strangers};
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router, middleware};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use surefoot_hostfs::clock;
use surefoot_http::bodies;
use surefoot_http::guard::{dress, is_local, is_of_another_site, readable};
use surefoot_http::listen::Peer;
use surefoot_http::reply;
use surefoot_http::{ApiError, basic, page::serve, parameters};
use surefoot_model::{AuditEntry, Room, SCHEMA, did_you_mean, one_line};
use surefoot_remedy::decide;
use surefoot_store::cases::{CaseQuery, Claimed, FLEET_HOSTS_MAX};

/// The longest message of Alertmanager: 10,000 alerts of 1.6 kB.
const ALERTS_BYTES_MAX: usize = 16 << 20;
/// The longest word of an agent or a person.
const WORDS_BYTES_MAX: usize = 1 << 20;
/// Cases of one answer.
const CASES_MAX: usize = 10_000;
const CASES_DEFAULT: usize = 1_000;
/// Hosts of an answer that asks for no number.
const HOSTS_DEFAULT: usize = 1_000;
/// How a browser is told to ask for a token.
const ASK_USER: &str = "Basic realm=\"surefoot remedy: any name, and your token as the password\"";
/// Orders that an agent gets at once.
const ORDERS_MAX: usize = 16;

type Answer = Result<Response, ApiError>;
type Context = State<Arc<Served>>;

/// Addresses, and what each is for.
const ADDRESSES: [(&str, &str); 17] = [
    ("GET /", "The page of cases."),
    ("POST /api/v1/alertmanager", "Alertmanager's webhook, version 4."),
    ("POST /api/v1/findings", "All that is found of a host now, from its agent."),
    ("POST /api/v1/answers", "What an agent answers to an order."),
    (
        "GET /api/v1/cases",
        "Cases, the newest first; ?state=all for closed ones too, ?host=NAME, ?limit=N, ?before=CASE or TIME for older ones.",
    ),
    ("GET /api/v1/cases/{id}", "One case with its audit trail."),
    ("POST /api/v1/cases/{id}/approve", "Approves the step that waits for it."),
    ("POST /api/v1/cases/{id}/pause", "Begins nothing more of a case."),
    ("POST /api/v1/cases/{id}/resume", "Goes on with a paused case."),
    ("POST /api/v1/cases/{id}/cancel", "Ends a case; what it changed is taken back."),
    ("POST /api/v1/cases/{id}/replaced", "Its part was replaced; the reason says by what."),
    ("POST /api/v1/cases/{id}/tested-good", "Its part that was replaced tested good."),
    ("POST /api/v1/pause, /api/v1/resume", "Begins nothing more at all, and goes on."),
    ("POST /api/v1/hosts/{host}/release", "Takes a host name away from the machine that has it."),
    (
        "GET /api/v1/hosts",
        "The hosts by rooms, the worst first; ?service=NAME, ?room=NAME, ?search=TEXT, ?order=worst, lost or name, ?limit=N.",
    ),
    ("GET /api/v1/trail", "The newest lines of the audit trail."),
    ("GET /metrics", "Metrics for Prometheus, in OpenMetrics or its older text format."),
];

pub(super) fn router(served: Arc<Served>) -> Router {
    let mut router = Router::new();
    for asset in page::ASSETS {
        let of_page = move |headers: HeaderMap| async move { serve(&asset, &headers) };
        router = router.route(asset.path, get(of_page));
    }
    router
        .route("/api/v1/alertmanager", post(take_alerts))
        .route("/api/v1/findings", post(take_findings))
        .route("/api/v1/answers", post(take_answer))
        .route("/api/v1/cases", get(cases))
        .route("/api/v1/cases/{id}", get(story))
        .route("/api/v1/cases/{id}/{asked}", post(request))
        .route("/api/v1/hosts", get(hosts))
        .route("/api/v1/hosts/{host}/release", post(release))
        .route("/api/v1/pause", post(pause))
        .route("/api/v1/resume", post(resume))
        .route("/api/v1/trail", get(trail))
        .route("/metrics", get(scraped))
        .route("/api/v1", get(index))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&served), identify))
        .layer(middleware::from_fn_with_state(Arc::clone(&served), guard))
        .with_state(served)
}

/// Refuses what only the page of another site would send, and dresses every answer.
async fn guard(
    State(served): Context,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: middleware::Next,
) -> Response {
    let mut response = match refusal(&peer, &request) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    };
    served.count_answer(response.status());
    dress(&mut response);
    response
}

fn refusal(peer: &Peer, request: &Request) -> Option<ApiError> {
    if peer.is_loopback && !is_local(request.uri(), request.headers()) {
        let text = "the Host header must be localhost, 127.0.0.1 or [::1]; ask by one of these names";
        return Some(ApiError::new(StatusCode::FORBIDDEN, text));
    }
    if is_of_another_site(request) {
        return Some(ApiError::new(StatusCode::FORBIDDEN, "this address is not for other web sites to use"));
    }
    if let Err(refusal) = readable(request.uri()) {
        return Some(refusal);
    }
    // A page of another site can send forms without asking first, and no JSON.
    let media_type = request.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    let is_json = media_type.to_ascii_lowercase().starts_with(b"application/json");
    if *request.method() == Method::POST && !is_json {
        let text = "the body must be JSON: send Content-Type: application/json";
        return Some(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
    }
    None
}

/// Finds out who asks, once for each request.
async fn identify(
    State(served): Context,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: middleware::Next,
) -> Response {
    let token = basic::token(request.headers());
    let caller = peer.shown(token.as_deref()).and_then(|shown| served.access().caller(&shown));
    match caller {
        Ok(caller) if served.rates.may(&caller.name, Instant::now()) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(_) => too_often(),
        Err(why) => {
            let address = peer.address.map_or_else(String::new, |address| address.to_string());
            if !served.strangers.may(&address, Instant::now()) {
                return too_often();
            }
            let mut response = ApiError::new(StatusCode::UNAUTHORIZED, why).into_response();
            let headers = response.headers_mut();
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            // Another certificate is shown on another connection alone.
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            // A browser asks its user for a token, and shows it with whatever the page asks for.
            if is_of_page(&request) {
                headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(ASK_USER));
            }
            response
        }
    }
}

fn too_often() -> Response {
    later(StatusCode::TOO_MANY_REQUESTS, "you ask too often; try again in a second")
}

fn later(status: StatusCode, why: &str) -> Response {
    let mut response = ApiError::new(status, why).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn is_of_page(request: &Request) -> bool {
    let path = request.uri().path();
    path == "/" || page::ASSETS.iter().any(|asset| asset.path == path)
}

impl Served {
    /// Refuses a caller without this role, and notes it where the caller is known.
    async fn needs(self: &Arc<Self>, caller: &Caller, roles: &[Role], what: &str) -> Told<()> {
        if may_any(caller, roles) {
            return Ok(());
        }
        let words: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
        let why = format!("{what} needs the role {}; {} does not have it", words.join(" or "), caller.name);
        Err(self.refused(caller, what, why).await)
    }

    /// Refuses a caller, and notes it.
    async fn refused(self: &Arc<Self>, caller: &Caller, what: &str, why: String) -> ApiError {
        if self.refusals.may(&caller.name, Instant::now()) {
            let entry = AuditEntry {
                at_realtime_ns: 0,
                case: 0,
                actor: caller.name.clone(),
                action: "refused".into(),
                target: what.to_owned(),
                reason: why.clone(),
            };
            // That it cannot be noted now does not make it allowed.
            let _ = self.desk.note(entry).await;
        }
        ApiError::new(StatusCode::FORBIDDEN, why)
    }

    /// Counts what was not taken, and notes it as often as the trail has room for it.
    async fn note_refused(self: &Arc<Self>, caller: &Caller, what: &str, refused: &Refused) {
        let Some(entry) = self.not_taken.take(&caller.name, what, refused) else { return };
        let may = self.refusals.may(&format!("not taken of {}", caller.name), Instant::now());
        if !may || self.desk.note(entry).await.is_err() {
            self.not_taken.unnoted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// An agent speaks for its own host alone.
    async fn own_host(self: &Arc<Self>, caller: &Caller, host: &str) -> Told<()> {
        if caller.hosts.is_empty() || caller.hosts.iter().any(|own| own == host) {
            return Ok(());
        }
        let why = format!("{} does not speak for host {host}", caller.name);
        Err(self.refused(caller, &format!("speaking for host {host}"), why).await)
    }

    /// The body, and the room in memory that it takes.
    async fn body(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        body: Body,
        bytes_max: usize,
    ) -> Told<(Vec<u8>, bodies::Reservation)> {
        let said = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        let bytes = match said {
            Some(bytes) if bytes > bytes_max as u64 => return Err(bodies::too_long(bytes_max)),
            Some(bytes) => bytes as usize,
            None => bytes_max,
        };
        let busy = || ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "too many long messages at once; try again soon");
        let room = self.bodies.room(&caller.name, bytes).ok_or_else(busy)?;
        Ok((bodies::read(body, bytes_max).await?, room))
    }
}

fn taken<T>(outcome: Result<T, NotTaken>) -> Told<T> {
    let unavailable = |why: String| Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, why));
    match outcome {
        Ok(taken) => Ok(taken),
        Err(NotTaken::Rival(why)) => Err(ApiError::new(StatusCode::CONFLICT, why)),
        Err(NotTaken::Full) => unavailable("too much waits to be written; send it again soon".into()),
        Err(NotTaken::Late) => unavailable("the store does not answer; send it again soon".into()),
        Err(NotTaken::Store(why)) => unavailable(format!("it cannot be written now ({why}); send it again soon")),
    }
}

async fn take_alerts(
    State(served): Context,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    served.needs(&caller, &[Role::Report], "telling of alerts").await?;
    let (body, _room) = served.body(&caller, &headers, body, ALERTS_BYTES_MAX).await?;
    let mut message = alertmanager::read(&body, clock::realtime_ns()).map_err(ApiError::bad_request)?;
    drop(body);
    let strange = served.desk.never_found(&message.of_agents).await?;
    let own = message.own + (message.of_agents.len() - strange.len()) as u64;
    for (finding, name) in strange {
        let host = one_line(&finding.host);
        let why = format!(
            "alert '{name}' of host '{host}' has the label surefoot_origin=\"agent\", and no agent has found it: what agents find is taken \
             from them alone; give an alert of your own no such label"
        );
        message.refused.add(refused::Reason::Origin, 1, &why);
    }
    let accepted = message.alerts.len() as u64 + own;
    if !message.alerts.is_empty() {
        taken(served.intake.alerts(message.alerts).await)?;
    }
    // Not before: what is not written now is sent again.
    served.note_refused(&caller, "alerts", &message.refused).await;
    let (refused, reasons) = (message.refused.count(), message.refused.reasons);
    let answer = Accepted { accepted, refused, reasons, ..Accepted::default() };
    Ok(reply::answer(StatusCode::OK, &answer))
}

async fn take_findings(
    State(served): Context,
    Extension(caller): Extension<Caller>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    served.needs(&caller, &[Role::Agent], "telling of findings").await?;
    let (body, _room) = served.body(&caller, &headers, body, WORDS_BYTES_MAX).await?;
    let address = peer.address.map_or_else(String::new, |address| address.to_string());
    let board = Board { address, ..findings::read(&body).map_err(ApiError::bad_request)? };
    served.own_host(&caller, &board.host).await?;
    // By machine: what one that is refused sends must not silence the one that has the name.
    if !served.hosts.may(&format!("{} {:?}", board.host, board.machine), Instant::now()) {
        return Ok(too_often());
    }
    let (host, orders_max) = (board.host.clone(), board.orders_max.min(ORDERS_MAX));
    let (accepted, refused) = (board.alerts.as_ref().map_or(0, Vec::len) as u64, board.left_out);
    let machine = board.machine.clone();
    let claimed = taken(served.intake.board(board).await)?;
    let (orders_max, mut reasons) = of_claim(claimed, &host, orders_max);
    if refused > 0 {
        let mut left_out = Refused::default();
        let why = format!(
            "{refused} findings or parts were left out: a report has room for {} findings, whose keys begin with room and rule, \
             and for parts that their serial numbers tell apart",
            findings::FINDINGS_MAX
        );
        left_out.add(refused::Reason::Findings, refused, &format!("host {host}: {why}"));
        served.note_refused(&caller, "findings", &left_out).await;
        reasons.push(why);
    }
    let orders = if orders_max > 0 { served.desk.orders(host, machine, orders_max).await? } else { Vec::new() };
    let orders = orders.into_iter().map(|order| HandedOrder { token: order.token, body: order.body }).collect();
    Ok(reply::answer(StatusCode::OK, &Accepted { accepted, refused, reasons, orders, ..Accepted::default() }))
}

/// How many orders an agent gets, and what to tell it about its machine. An unknown machine gets no orders if a known one has the name.
fn of_claim(claimed: Claimed, host: &str, orders_max: usize) -> (usize, Vec<String>) {
    match claimed {
        Claimed::Unknown { owner: Some(owner) } => {
            let why = format!(
                "host {host} is {owner}, and it is unknown which machine this report is of: it was taken, and no order is handed out for \
                 it; update the agent, or see that /etc/machine-id can be read"
            );
            (0, vec![why])
        }
        Claimed::Unknown { owner: None } if orders_max > 0 => {
            let why = format!(
                "it is unknown which machine this report is of: another one with the name {host} would get its orders; update the agent, \
                 or see that /etc/machine-id can be read"
            );
            (orders_max, vec![why])
        }
        _ => (orders_max, Vec::new()),
    }
}

async fn take_answer(
    State(served): Context,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    served.needs(&caller, &[Role::Agent], "answering an order").await?;
    let (body, _room) = served.body(&caller, &headers, body, WORDS_BYTES_MAX).await?;
    Protocol::check(&body).map_err(ApiError::bad_request)?;
    let told: OrderAnswer =
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(format!("this is no answer: {error}")))?;
    let host =
        strangers::host(&told.host).ok_or_else(|| ApiError::bad_request("the host has no name of one".into()))?;
    served.own_host(&caller, &host).await?;
    // No name of a host has a space.
    if !served.hosts.may(&format!("answers {host}"), Instant::now()) {
        return Ok(too_often());
    }
    let is_taken = served.desk.answer(OrderAnswer { host, ..told }).await?;
    if !is_taken {
        let why = "there is no such order, it has another answer, or another machine has the name of the host";
        return Err(ApiError::new(StatusCode::CONFLICT, why));
    }
    Ok(reply::answer(StatusCode::OK, &json!({})))
}

async fn cases(State(served): Context, Extension(caller): Extension<Caller>, uri: Uri) -> Answer {
    served.needs(&caller, &[Role::Read], "seeing cases").await?;
    let mut query = CaseQuery { open_only: true, limit: CASES_DEFAULT, ..CaseQuery::default() };
    for (name, value) in parameters(&uri, &["state", "limit", "host", "before"])? {
        match (name.as_str(), value.as_str()) {
            ("state", "open") => query.open_only = true,
            ("state", "all") => query.open_only = false,
            ("state", other) => return Err(ApiError::bad_parameter("state", other, "open, all")),
            ("host", name) => {
                let host = strangers::host(name).ok_or_else(|| ApiError::bad_parameter("host", name, "a host name"))?;
                query.host = Some(host);
            }
            ("before", place) => {
                let form = "the number of a case, or a time such as 2026-11-25T10:00:00Z";
                query.before = Some(before(place).ok_or_else(|| ApiError::bad_parameter("before", place, form))?);
            }
            (_, number) => {
                let parsed = number.parse().ok().filter(|limit| (1..=CASES_MAX).contains(limit));
                query.limit = parsed.ok_or_else(|| ApiError::bad_parameter("limit", number, "1 to 10000"))?;
            }
        }
    }
    let open_only = query.open_only;
    let page = served.desk.cases(query).await?;
    let counts = served.desk.counts().await?;
    Ok(reply::answer(StatusCode::OK, &CaseList::of(&page, open_only, &counts)))
}

async fn hosts(State(served): Context, Extension(caller): Extension<Caller>, uri: Uri) -> Answer {
    served.needs(&caller, &[Role::Read], "seeing hosts").await?;
    let mut query = HostQuery { limit: HOSTS_DEFAULT, ..HostQuery::default() };
    for (name, value) in parameters(&uri, &["service", "room", "search", "order", "limit"])? {
        match name.as_str() {
            "service" => query.service = Some(value),
            "search" => query.search = Some(value),
            "order" => {
                let order = value.parse();
                query.order = order.map_err(|_| ApiError::bad_parameter("order", &value, "worst, lost or name"))?;
            }
            "room" => {
                let room = Room::ALL.into_iter().find(|room| room.as_str() == value);
                let rooms = || Room::ALL.map(Room::as_str).join(", ");
                query.room = Some(room.ok_or_else(|| ApiError::bad_parameter("room", &value, &rooms()))?);
            }
            _ => {
                let parsed = value.parse().ok().filter(|limit| (1..=FLEET_HOSTS_MAX).contains(limit));
                query.limit = parsed.ok_or_else(|| ApiError::bad_parameter("limit", &value, "1 to 20000"))?;
            }
        }
    }
    let fleet = served.desk.fleet().await?;
    let list = HostList { host_page: served.host_page.clone(), ..HostList::of(&fleet, &query) };
    Ok(reply::answer(StatusCode::OK, &list))
}

fn number(text: &str) -> Told<u64> {
    text.parse().map_err(|_| ApiError::bad_request("a case has a number".into()))
}

async fn story(State(served): Context, Extension(caller): Extension<Caller>, Path(id): Path<String>) -> Answer {
    served.needs(&caller, &[Role::Read], "seeing cases").await?;
    let story = served.desk.story(number(&id)?).await?;
    Ok(reply::answer(StatusCode::OK, &story))
}

async fn request(
    State(served): Context,
    Extension(caller): Extension<Caller>,
    Path((id, asked)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let (asked, role) = match asked.as_str() {
        "approve" => (decide::Request::Approve, Role::Approve),
        "pause" => (decide::Request::Pause, Role::Operate),
        "resume" => (decide::Request::Resume, Role::Operate),
        "cancel" => (decide::Request::Cancel, Role::Operate),
        "replaced" => (decide::Request::Replaced, Role::Operate),
        "tested-good" => (decide::Request::TestedGood, Role::Operate),
        _ => {
            return Err(ApiError::new(
                StatusCode::NOT_FOUND,
                "a case can be asked to approve, pause, resume and cancel, and told that its part was replaced or tested-good",
            ));
        }
    };
    let id = number(&id)?;
    served.needs(&caller, &[role], &format!("{} of case {id}", role.as_str())).await?;
    let said = reason(&served, &caller, &headers, body).await?;
    let case = served.desk.request(id, asked, caller.name, said).await?;
    served.wake();
    Ok(reply::answer(StatusCode::OK, &super::lines::CaseLine::of(&case)))
}

async fn reason(served: &Served, caller: &Caller, headers: &HeaderMap, body: Body) -> Told<Reason> {
    let (body, _room) = served.body(caller, headers, body, WORDS_BYTES_MAX).await?;
    if body.is_empty() {
        return Ok(Reason::default());
    }
    let said: Reason = serde_json::from_slice(&body)
        .map_err(|error| ApiError::bad_request(format!("the body is {{\"reason\": TEXT}} or empty: {error}")))?;
    Ok(Reason { reason: strangers::text(&said.reason), ..said })
}

async fn release(
    State(served): Context,
    Extension(caller): Extension<Caller>,
    Path(host): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    served.needs(&caller, &[Role::Operate], "releasing a host name").await?;
    let host = strangers::host(&host).ok_or_else(|| ApiError::bad_request("the host has no name of one".into()))?;
    let said = reason(&served, &caller, &headers, body).await?;
    let outcome = served.desk.release(host, caller.name, said.reason).await?;
    Ok(reply::answer(StatusCode::OK, &json!({ "outcome": outcome })))
}

async fn pause(state: Context, caller: Extension<Caller>, headers: HeaderMap, body: Body) -> Answer {
    pause_all(state, caller, headers, body, true).await
}

async fn resume(state: Context, caller: Extension<Caller>, headers: HeaderMap, body: Body) -> Answer {
    pause_all(state, caller, headers, body, false).await
}

async fn pause_all(
    State(served): Context,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
    is_paused: bool,
) -> Answer {
    served.needs(&caller, &[Role::Operate], "pausing everything").await?;
    let said = reason(&served, &caller, &headers, body).await?;
    served.desk.pause(is_paused, caller.name, said.reason).await?;
    served.wake();
    Ok(reply::answer(StatusCode::OK, &json!({ "is_paused": is_paused })))
}

async fn trail(State(served): Context, Extension(caller): Extension<Caller>, uri: Uri) -> Answer {
    served.needs(&caller, &[Role::Read], "seeing the audit trail").await?;
    parameters(&uri, &[])?;
    let trail = served.desk.trail(CASES_DEFAULT).await?;
    Ok(reply::answer(StatusCode::OK, &Trail { trail }))
}

async fn scraped(State(served): Context, Extension(caller): Extension<Caller>, headers: HeaderMap) -> Answer {
    served.needs(&caller, &[Role::Read], "reading metrics").await?;
    // Without its store the server still tells how it does itself.
    let counts = served.desk.counts().await.ok();
    surefoot_http::metrics::answer(&metrics::registry(&served, counts.as_ref()), &headers)
}

async fn index(uri: Uri) -> Answer {
    parameters(&uri, &[])?;
    let addresses: Vec<_> = ADDRESSES.iter().map(|(path, about)| json!({ "path": path, "about": about })).collect();
    Ok(reply::answer(StatusCode::OK, &json!({ "schema": SCHEMA, "addresses": addresses })))
}

async fn unknown(uri: Uri) -> ApiError {
    let meant = did_you_mean(uri.path(), ADDRESSES.iter().filter_map(|(address, _)| Some(address.split_once(' ')?.1)));
    ApiError::new(StatusCode::NOT_FOUND, format!("nothing is here; GET /api/v1 lists the addresses{meant}"))
}

async fn wrong_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this address takes another method; GET /api/v1 lists the addresses")
}
