//! The page at `/` that makes calls with keys from a browser. Its files are in `playground/`.

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header},
    middleware::from_fn_with_state,
    routing::get,
};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    error::Error,
    hosts::{self, Hosts},
    ready::{Ready, Tokens},
};

const CSS: &str = "text/css; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const JSON: &str = "application/json";
const SVG: &str = "image/svg+xml";

/// The path, content type and content of each file.
const FILES: [(&str, &str, &[u8]); 18] = [
    ("/", HTML, include_bytes!("../playground/index.html")),
    ("/playground/call.js", JAVASCRIPT, include_bytes!("../playground/call.js")),
    ("/playground/curl.js", JAVASCRIPT, include_bytes!("../playground/curl.js")),
    ("/playground/element.js", JAVASCRIPT, include_bytes!("../playground/element.js")),
    ("/playground/icon.svg", SVG, include_bytes!("../playground/icon.svg")),
    ("/playground/key.js", JAVASCRIPT, include_bytes!("../playground/key.js")),
    ("/playground/layout.css", CSS, include_bytes!("../playground/layout.css")),
    ("/playground/life.js", JAVASCRIPT, include_bytes!("../playground/life.js")),
    ("/playground/log.js", JAVASCRIPT, include_bytes!("../playground/log.js")),
    ("/playground/main.js", JAVASCRIPT, include_bytes!("../playground/main.js")),
    ("/playground/outcome.js", JAVASCRIPT, include_bytes!("../playground/outcome.js")),
    ("/playground/picture.css", CSS, include_bytes!("../playground/picture.css")),
    ("/playground/picture.js", JAVASCRIPT, include_bytes!("../playground/picture.js")),
    ("/playground/sample.js", JAVASCRIPT, include_bytes!("../playground/sample.js")),
    ("/playground/shortcuts.js", JAVASCRIPT, include_bytes!("../playground/shortcuts.js")),
    ("/playground/theme.css", CSS, include_bytes!("../playground/theme.css")),
    ("/playground/theme.js", JAVASCRIPT, include_bytes!("../playground/theme.js")),
    ("/playground/wire.js", JAVASCRIPT, include_bytes!("../playground/wire.js")),
];

/// Allows only files of this origin, nothing inline, and no embedding in a frame.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; \
     require-trusted-types-for 'script'",
);

/// The headers of every response of the site.
const EVERYWHERE: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// The data that the page needs to call the service.
///
/// **Not for a real service.** It gives the tokens of its users to anyone who can reach the port. In the sample, the
/// tokens have no other use and become invalid when the process ends.
#[derive(Serialize)]
struct Users<'a> {
    cluster_id: Uuid,
    tokens: &'a Tokens,
}

/// Returns the page with its files and the users whose tokens it uses, only for these hosts.
pub(crate) fn site(ready: &Ready<'_>, hosts: Hosts) -> Result<Router, Error> {
    let users = Users { cluster_id: ready.cluster_id, tokens: &ready.tokens };
    let users = Bytes::from(serde_json::to_vec(&users)?);
    let mut site = Router::new().route("/playground/users.json", get(async move || secret(users)));
    for (path, content_type, content) in FILES {
        let file = File::new(content_type, content)?;
        site = site.route(path, get(async move |headers: HeaderMap| file.answer(&headers)));
    }
    Ok(site.route_layer(from_fn_with_state(hosts, hosts::only)))
}

/// One of [`FILES`].
#[derive(Clone)]
struct File {
    content: &'static [u8],
    content_type: &'static str,
    /// A hash of the content, so that a browser caches the file until it changes.
    tag: HeaderValue,
}

impl File {
    fn new(content_type: &'static str, content: &'static [u8]) -> Result<Self, Error> {
        let digest: String = Sha256::digest(content).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { content, content_type, tag: HeaderValue::from_str(&format!("\"{digest}\""))? })
    }

    fn answer(&self, request: &HeaderMap) -> Response<Body> {
        let mut response = answer(self.content_type, "no-cache");
        response.headers_mut().insert(header::ETAG, self.tag.clone());
        if request.get(header::IF_NONE_MATCH) == Some(&self.tag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            *response.body_mut() = Body::from(self.content);
        }
        response
    }
}

fn secret(json: Bytes) -> Response<Body> {
    answer(JSON, "no-store").map(|_| Body::from(json))
}

fn answer(content_type: &'static str, caching: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.headers_mut().extend(EVERYWHERE);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    response
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;

    fn site() -> Router {
        let tokens = Tokens::of_tests();
        let address = "127.0.0.1:1".parse().expect("an address");
        let ready =
            Ready { address, database_url: "", tokens, organization_id: Uuid::nil(), cluster_id: Uuid::from_u128(7) };
        super::site(&ready, Hosts::new("127.0.0.1:1", &[])).expect("a site")
    }

    async fn get(path: &str, tag: Option<&HeaderValue>) -> Response<Body> {
        get_of("localhost:1", path, tag).await
    }

    async fn get_of(host: &'static str, path: &str, tag: Option<&HeaderValue>) -> Response<Body> {
        let mut request = Request::new(Body::empty());
        request.headers_mut().insert(header::HOST, HeaderValue::from_static(host));
        *request.uri_mut() = path.parse().expect("a path");
        if let Some(tag) = tag {
            request.headers_mut().insert(header::IF_NONE_MATCH, tag.clone());
        }
        site().oneshot(request).await.expect("an answer")
    }

    #[tokio::test]
    async fn every_file_has_its_type_and_policy() {
        for (path, content_type, _) in FILES {
            let answer = get(path, None).await;
            assert_eq!(answer.status(), StatusCode::OK, "{path}");
            assert_eq!(answer.headers()[header::CONTENT_TYPE], content_type, "{path}");
            for (name, value) in EVERYWHERE {
                assert_eq!(answer.headers()[&name], value, "{path}");
            }
        }
    }

    #[tokio::test]
    async fn no_file_is_sent_to_a_page_that_points_its_own_name_here() {
        for path in FILES.map(|(path, ..)| path).into_iter().chain(["/playground/users.json"]) {
            let answer = get_of("evil.test:1", path, None).await;
            assert_eq!(answer.status(), StatusCode::MISDIRECTED_REQUEST, "{path}");
        }
    }

    #[tokio::test]
    async fn does_not_send_a_file_again_if_its_tag_matches() {
        let first = get("/", None).await;
        let again = get("/", first.headers().get(header::ETAG)).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        let another = get("/playground/main.js", first.headers().get(header::ETAG)).await;
        assert_eq!(another.status(), StatusCode::OK, "it has another's tag");
    }

    #[tokio::test]
    async fn the_users_are_sent_as_not_cacheable() {
        let answer = get("/playground/users.json", None).await;
        assert_eq!(answer.headers()[header::CACHE_CONTROL], "no-store");
        let users = axum::body::to_bytes(answer.into_body(), 4096).await.expect("a body");
        let users: serde_json::Value = serde_json::from_slice(&users).expect("JSON");
        assert_eq!(users["tokens"]["bob"], "of-bob");
        assert_eq!(users["cluster_id"], Uuid::from_u128(7).to_string());
    }
}
