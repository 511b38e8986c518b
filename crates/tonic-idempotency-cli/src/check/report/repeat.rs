//! The line that repeats a failure.

use crate::{
    check::{operation::Operation, request::Template, secrets::Header, server::Server},
    output::quoted,
};

/// How to repeat a promise's check, or its last call.
pub(super) fn line(server: &Server, code: &str) -> String {
    let last = server.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match &*last {
        Some(call) => format!("--only {code}, or: {call}"),
        None => format!("--only {code}"),
    }
}

/// A call as grpcurl makes it. `-expand-headers` makes it read variables as this program does.
pub(in crate::check) fn grpcurl(
    server: &Server,
    template: &Template,
    operation: &Operation,
    keys: &[String],
    headers: &[&Header],
) -> String {
    let mut words = vec!["grpcurl".to_owned()];
    words.extend(server.grpcurl.iter().cloned());
    words.push("-expand-headers".to_owned());
    for header in headers {
        words.push(format!("-H {}", quoted(&header.written)));
    }
    for key in keys {
        words.push(format!("-H {}", quoted(&format!("idempotency-key: {key}"))));
    }
    words.push(format!("-d {}", quoted(&template.written(operation.uuid))));
    words.push(server.address.target());
    words.push(template.method.path.trim_start_matches('/').to_owned());
    words.join(" ")
}
