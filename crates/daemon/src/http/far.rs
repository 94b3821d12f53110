//! Places to listen at beside 127.0.0.1: sockets in the file system and, with TLS alone, addresses of the network. What somebody sees
//! there is a matter of roles: the `[[who]]` tables of a file give them to tokens, certificates and users of this machine. Without a file
//! a certificate of the authority may scrape the metrics, and nothing else.

use super::access::Again;
use super::routes::addresses;
use crate::config::Listening;
use crate::keep::shared::Shared;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::{Router, middleware};
use serde::Deserialize;
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use surefoot_http::guard::{dress, is_local};
use surefoot_http::listen::{Door, Listen, Peer};
use surefoot_http::rates::Rates;
use surefoot_http::refused::{Refused, Why};
use surefoot_http::tls::Tls;
use surefoot_http::who::{self, Wrong};
use surefoot_http::{ApiError, Error, basic, lock};
use surefoot_rooms::viewer::Viewer;

/// What one may ask: so many requests at once, and so many per second. A page that opens asks some ten.
const REQUESTS: (u32, u32) = (600, 60);
/// The same for an address at which nobody is known to be.
const STRANGERS: (u32, u32) = (50, 10);
/// How a browser is told to ask for a token.
const ASK_USER: &str = "Basic realm=\"surefoot watch: any name, and your token as the password\"";

/// What somebody may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// The metrics.
    Metrics,
    /// The page, the API and the metrics, as users of the host see them who are not root.
    Page,
    /// Everything, as root sees it.
    All,
}

type Access = who::Access<Role>;

/// The places, and who may see what there.
pub(crate) struct Far {
    tls: Option<Arc<Tls>>,
    roles: Option<PathBuf>,
    access: Mutex<Arc<Access>>,
    rates: Rates,
    strangers: Rates,
    refused: Arc<Refused>,
}

impl Far {
    /// Opens the places; `None` where there are none.
    ///
    /// # Errors
    /// As [`Far::read`], and about a place that cannot be opened now.
    pub(crate) fn open(listening: &Listening) -> Result<Option<(Far, Vec<Door>)>, Error> {
        let Some(far) = Far::read(listening)? else { return Ok(None) };
        let has_tls = far.tls.is_some();
        let doors = listening.places.iter().map(|place| Door::open(place, has_tls)).collect::<Result<_, _>>()?;
        Ok(Some((far, doors)))
    }

    /// Reads everything that the places need, and opens none; `None` where there are none.
    ///
    /// # Errors
    /// [`Error::Unusable`] about a place, a certificate or the file of roles, and where a place would let nobody in.
    pub(crate) fn read(listening: &Listening) -> Result<Option<Far>, Error> {
        if listening.places.is_empty() {
            return Ok(None);
        }
        listening.places.iter().try_for_each(|place| Door::check(place, listening.tls.is_some()))?;
        let has_authority = listening.tls.as_ref().is_some_and(|tls| tls.client_authority.is_some());
        let access = match &listening.roles {
            Some(file) => Access::read(file, &[Role::All], parse)?,
            None if has_authority => Access::own(&[Role::All]).and_any_certificate(&[Role::Metrics]),
            None => Access::own(&[Role::All]),
        };
        // By TLS the kernel tells of no user, on this machine neither.
        let is_tcp = |listen: &Listen| matches!(listen, Listen::Tcp(_));
        if listening.places.iter().any(is_tcp) && listening.tls.is_some() && !access.has_remote() {
            let why = "no client would be let in by TLS: name the authority of the clients' certificates \
                       (--tls-client-authority), or a file with tokens (--roles)";
            return Err(Error::Unusable { what: "--listen".into(), why: why.into() });
        }
        let tls = listening.tls.clone().map(Tls::read).transpose()?.map(Arc::new);
        let access = Mutex::new(Arc::new(access));
        let (rates, strangers) = (Rates::new(REQUESTS.0, REQUESTS.1), Rates::new(STRANGERS.0, STRANGERS.1));
        let refused = Arc::default();
        Ok(Some(Far { tls, roles: listening.roles.clone(), access, rates, strangers, refused }))
    }

    /// Who was turned away.
    pub(crate) fn refused(&self) -> Arc<Refused> {
        Arc::clone(&self.refused)
    }

    pub(crate) fn tls(&self) -> Option<Arc<Tls>> {
        self.tls.clone()
    }

    /// Reads the certificate and the roles again. What changed, and what is wrong with them and goes on as before.
    pub(crate) fn reload(&self) -> Vec<String> {
        let mut told = Vec::new();
        match self.tls.as_ref().map(|tls| tls.reload()) {
            Some(Err(error)) => told.push(format!("{error}; the certificate from before is shown")),
            Some(Ok(true)) => told.push("The certificate or the clients' authority of --listen changed.".to_owned()),
            Some(Ok(false)) | None => {}
        }
        if let Some(file) = &self.roles {
            let now = Arc::clone(&lock(&self.access));
            let (access, why) = now.reread(file, parse);
            let (is_same, count) = (access.is_same(&now), access.known_count());
            *lock(&self.access) = Arc::new(access);
            match why {
                None if is_same => {}
                None => {
                    let entries = match count {
                        0 => "no entry: only root and the user of this server have rights".to_owned(),
                        1 => "1 entry".to_owned(),
                        count => format!("{count} entries"),
                    };
                    told.push(format!("The roles at --listen changed; {} has {entries}.", file.display()));
                }
                Some(Wrong::File { error, rights }) => told.push(format!("{error}; {rights}")),
                Some(Wrong::Tokens(errors)) => told.extend(errors.iter().map(ToString::to_string)),
            }
        }
        told
    }

    /// Who asks, and what that is allowed to see there.
    fn known(&self, peer: &Peer, token: Option<&[u8]>) -> Result<Known, &'static str> {
        let access = Arc::clone(&lock(&self.access));
        let caller = peer.shown(token).and_then(|shown| access.caller(&shown))?;
        let has = |role| caller.roles.contains(&role);
        // Users of other machines have other numbers.
        let named = peer.uid.is_none().then(|| hashed(&caller.name));
        let viewer = Viewer { uid: peer.uid, sees_all: has(Role::All), named };
        Ok(Known { sees_page: has(Role::Page) || has(Role::All), name: caller.name, viewer })
    }

    /// What the one who asks for this may see.
    fn viewer(&self, peer: &Peer, token: Option<&[u8]>, path: &str) -> Result<Viewer, Box<Response>> {
        let known = self.known(peer, token).map_err(|why| {
            self.refused.count(Why::Unknown);
            let address = peer.address.map_or_else(String::new, |address| address.to_string());
            Box::new(match self.strangers.may(&address, Instant::now()) {
                true => unknown(why),
                false => too_often(),
            })
        })?;
        if !self.rates.may(&known.name, Instant::now()) {
            self.refused.count(Why::Rate);
            return Err(Box::new(too_often()));
        }
        if path != "/metrics" && !known.sees_page {
            self.refused.count(Why::Role);
            let text =
                "this client has the role metrics, which shows /metrics alone; the roles page and all show the rest";
            return Err(Box::new(ApiError::new(StatusCode::FORBIDDEN, text).into_response()));
        }
        Ok(known.viewer)
    }
}

/// One who is known.
struct Known {
    name: String,
    sees_page: bool,
    viewer: Viewer,
}

fn hashed(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn parse(text: &str) -> Result<who::File<Role>, String> {
    surefoot_remedy::from_toml(text)
}

fn unknown(why: &str) -> Response {
    let mut response = ApiError::new(StatusCode::UNAUTHORIZED, why).into_response();
    let headers = response.headers_mut();
    headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_static(ASK_USER));
    // Another certificate is shown on another connection alone.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn too_often() -> Response {
    let text = "you ask too often; try again in a second";
    let mut response = ApiError::new(StatusCode::TOO_MANY_REQUESTS, text).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Every address but the one that lets browsers of this machine in.
pub(crate) fn router(shared: Arc<Shared>, far: Arc<Far>) -> Router {
    addresses(&shared)
        .layer(middleware::from_fn_with_state(far, identify))
        .layer(middleware::from_fn(guard))
        .with_state(shared)
}

async fn guard(ConnectInfo(peer): ConnectInfo<Peer>, request: Request, next: Next) -> Response {
    // By TLS the certificate's name is what the browser asked for; over loopback any page could ask.
    let is_by_foreign_name = peer.is_loopback && !is_local(request.uri(), request.headers());
    let refusal = if is_by_foreign_name { Some(super::guard::foreign_name()) } else { super::guard::refusal(&request) };
    let mut response = match refusal {
        Some(response) => response,
        None => next.run(request).await,
    };
    dress(&mut response);
    response
}

/// Finds out who asks, once for each request.
async fn identify(
    State(far): State<Arc<Far>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let token = basic::token(request.headers()).map(Cow::into_owned);
    match far.viewer(&peer, token.as_deref(), request.uri().path()) {
        Ok(viewer) => {
            request.extensions_mut().insert(viewer);
            let again = move || {
                far.known(&peer, token.as_deref()).ok().filter(|known| known.sees_page).map(|known| known.viewer)
            };
            request.extensions_mut().insert(Again::new(again));
            next.run(request).await
        }
        Err(response) => *response,
    }
}
