use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use surefoot_http::ApiError;
use surefoot_http::guard::{dress, is_local, is_of_another_site, readable};

/// Refuses what only a hostile page would send, and dresses every answer.
///
/// The server listens on loopback, but every web page that somebody on this machine opens can send
/// requests there. Three checks keep such a page out: the name in `Host` (a foreign name that was
/// made to point to 127.0.0.1 is the one way to read answers), the method (nothing here can be
/// changed), and where the browser says that a request comes from.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    let is_by_foreign_name = !is_local(request.uri(), request.headers());
    let refusal = if is_by_foreign_name { Some(foreign_name()) } else { refusal(&request) };
    let mut response = match refusal {
        Some(response) => response,
        None => next.run(request).await,
    };
    dress(&mut response);
    response
}

/// The answer to a request that does not name this machine.
pub(super) fn foreign_name() -> Response {
    let text = "the Host header must be localhost, 127.0.0.1 or [::1]; open the page by one of these names";
    ApiError::new(StatusCode::FORBIDDEN, text).into_response()
}

/// Why a request is refused by whatever name it asked for this machine.
pub(super) fn refusal(request: &Request) -> Option<Response> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let text = format!("method {} is not allowed; everything here is read with GET", request.method());
        let mut response = ApiError::new(StatusCode::METHOD_NOT_ALLOWED, text).into_response();
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(response);
    }
    if is_of_another_site(request) {
        let text = "this address is not for other web sites to use; open it yourself";
        return Some(ApiError::new(StatusCode::FORBIDDEN, text).into_response());
    }
    readable(request.uri()).err().map(IntoResponse::into_response)
}
