//! The types of the server: from its reflection, or from a file.

use std::{collections::BTreeSet, fs, path::Path};

use http::HeaderMap;
use prost::Message as _;
use prost_reflect::{DescriptorPool, MessageDescriptor, ServiceDescriptor};
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use tonic::Code;
use tonic_reflection::pb::v1::{
    ErrorResponse, ServerReflectionRequest, ServerReflectionResponse, server_reflection_request::MessageRequest,
    server_reflection_response::MessageResponse,
};

use super::wire::{Connection, Outcome, Protocol, Request};
use crate::failure::Failure;

/// The paths of reflection, whose messages are the same in both versions.
const REFLECTION: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

/// A cure for want of reflection.
const FILE: &str = "give --descriptor-set FILE, which `buf build -o FILE` or `protoc --include_imports --descriptor_set_out=FILE` makes";

/// How like a name has to be, to be meant.
const LIKENESS: f64 = 0.6;

pub(super) struct Method {
    /// Such as `/shop.v1.Shop/CreateOrder`.
    pub(super) path: String,
    pub(super) input: MessageDescriptor,
    pub(super) output: MessageDescriptor,
}

/// A source of types.
pub(super) enum Schema<'a> {
    File(DescriptorPool),
    Reflection { connection: &'a Connection, headers: &'a HeaderMap },
}

impl<'a> Schema<'a> {
    pub(super) fn new(
        file: Option<&Path>,
        connection: &'a Connection,
        headers: &'a HeaderMap,
    ) -> Result<Self, Failure> {
        let Some(path) = file else { return Ok(Self::Reflection { connection, headers }) };
        let unread = |error: &dyn std::fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
        let set = fs::read(path).map_err(|error| unread(&error))?;
        Ok(Self::File(DescriptorPool::decode(set.as_slice()).map_err(|error| unread(&error))?))
    }

    /// Returns the method with a name such as `shop.v1.Shop/CreateOrder`.
    pub(super) async fn method(&self, name: &str) -> Result<Method, Failure> {
        let no_name = || Failure::Input(format!("{name}: no method, such as shop.v1.Shop/CreateOrder"));
        let (service_name, method_name) = name.trim_start_matches('/').rsplit_once('/').ok_or_else(no_name)?;
        let service = self.service(service_name).await?;
        let Some(method) = service.methods().find(|method| method.name() == method_name) else {
            let names = service.methods().map(|method| method.name().to_owned());
            return Err(unknown("method", method_name, names.collect()));
        };
        if method.is_client_streaming() || method.is_server_streaming() {
            return Err(Failure::Input(format!(
                "{name} is a stream: only calls with one request and one response are checked"
            )));
        }
        let path = format!("/{service_name}/{method_name}");
        Ok(Method { path, input: method.input(), output: method.output() })
    }

    async fn service(&self, name: &str) -> Result<ServiceDescriptor, Failure> {
        let pool = match self {
            Self::File(pool) => pool.clone(),
            Self::Reflection { connection, headers } => reflected(connection, headers, name).await?,
        };
        let names = || pool.services().map(|service| service.full_name().to_owned()).collect();
        pool.get_service_by_name(name).ok_or_else(|| unknown("service", name, names()))
    }
}

/// Asks the server for the files of a service.
async fn reflected(connection: &Connection, headers: &HeaderMap, service: &str) -> Result<DescriptorPool, Failure> {
    let server = Reflection::of(connection, headers).await?;
    let mut files: Vec<FileDescriptorProto> = Vec::new();
    let mut asked = BTreeSet::new();
    let Some(found) = server.files(MessageRequest::FileContainingSymbol(service.to_owned())).await? else {
        return Err(unknown("service", service, server.services().await?));
    };
    files.extend(found);
    loop {
        let is_there = |name: &String| files.iter().any(|file| file.name() == name);
        let imports = files.iter().flat_map(|file| &file.dependency);
        let Some(missing) = imports.filter(|name| !is_there(name)).find(|name| !asked.contains(*name)).cloned() else {
            break;
        };
        // What the server does not have may be known here, such as google/protobuf/timestamp.proto.
        files.extend(server.files(MessageRequest::FileByFilename(missing.clone())).await?.into_iter().flatten());
        asked.insert(missing);
    }
    files.sort_by(|one, other| one.name().cmp(other.name()));
    files.dedup_by(|one, other| one.name() == other.name());
    let known = DescriptorPool::global();
    let absent = asked.iter().filter(|name| files.iter().all(|file| file.name() != name.as_str()));
    let absent: Vec<_> =
        absent.filter_map(|name| Some(known.get_file_by_name(name)?.file_descriptor_proto().clone())).collect();
    files.extend(absent);
    DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file: files })
        .map_err(|error| Failure::Input(format!("the server's reflection is incomplete: {error}; {FILE}")))
}

/// The reflection of a server, in one of its versions.
struct Reflection<'a> {
    connection: &'a Connection,
    headers: &'a HeaderMap,
    path: &'static str,
}

impl<'a> Reflection<'a> {
    async fn of(connection: &'a Connection, headers: &'a HeaderMap) -> Result<Self, Failure> {
        let mut said = String::new();
        for path in REFLECTION {
            let reflection = Self { connection, headers, path };
            match reflection.ask(MessageRequest::ListServices(String::new())).await {
                Ok(_) => return Ok(reflection),
                Err(why) => said = why,
            }
        }
        Err(Failure::Input(format!("no reflection ({said}): {FILE}")))
    }

    /// Returns the files that a request asks for; `None` if the server does not have what it names.
    async fn files(&self, request: MessageRequest) -> Result<Option<Vec<FileDescriptorProto>>, Failure> {
        let unread = |error: String| Failure::Input(format!("the server's reflection: {error}; {FILE}"));
        match self.ask(request).await.map_err(unread)? {
            MessageResponse::FileDescriptorResponse(found) => {
                let files = found.file_descriptor_proto.iter();
                let files: Result<Vec<_>, _> = files.map(|file| FileDescriptorProto::decode(file.as_slice())).collect();
                files.map(Some).map_err(|error| unread(error.to_string()))
            }
            MessageResponse::ErrorResponse(error) if error.error_code == i32::from(Code::NotFound) => Ok(None),
            MessageResponse::ErrorResponse(error) => Err(unread(error.error_message)),
            _ => Err(unread("another answer than was asked for".to_owned())),
        }
    }

    async fn services(&self) -> Result<Vec<String>, Failure> {
        match self.ask(MessageRequest::ListServices(String::new())).await {
            Ok(MessageResponse::ListServicesResponse(list)) => {
                Ok(list.service.into_iter().map(|service| service.name).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    async fn ask(&self, request: MessageRequest) -> Result<MessageResponse, String> {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
        let mut headers = self.headers.clone();
        Protocol::Grpc.describe(&mut headers, false);
        let body = Protocol::Grpc.body(&request.encode_to_vec(), false);
        let request = Request { path: self.path.to_owned(), protocol: Protocol::Grpc, headers, body };
        let answer = self.connection.call(&request).await;
        let message = match &answer.outcome {
            Outcome::Success(message) => message,
            // Some say so as the stream's end, and some in it.
            Outcome::Error(status) if status.code() == Code::NotFound => {
                let (error_code, error_message) = (Code::NotFound.into(), status.message().to_owned());
                return Ok(MessageResponse::ErrorResponse(ErrorResponse { error_code, error_message }));
            }
            _ => return Err(answer.to_string()),
        };
        let response = ServerReflectionResponse::decode(message.clone()).map_err(|error| error.to_string())?;
        response.message_response.ok_or_else(|| "an empty answer".to_owned())
    }
}

/// Names what is most like an unknown name, or all that there is.
fn unknown(thing: &str, name: &str, mut known: Vec<String>) -> Failure {
    let likeness = |known: &String| strsim::normalized_damerau_levenshtein(known, name);
    known.retain(|known| !known.starts_with("grpc."));
    known.sort_by(|one, other| likeness(other).total_cmp(&likeness(one)));
    let hint = match known.first() {
        Some(nearest) if likeness(nearest) >= LIKENESS => format!("did you mean {nearest}?"),
        Some(_) => format!("there are {}", known.join(", ")),
        None => "there are none".to_owned(),
    };
    Failure::Input(format!("unknown {thing} {name}: {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_by_the_nearest() {
        let known = || ["shop.v1.Shop", "shop.v1.Billing", "grpc.health.v1.Health"].map(str::to_owned).to_vec();
        let said = |name| unknown("service", name, known()).to_string();
        assert_eq!(said("shop.v1.Shpo"), "unknown service shop.v1.Shpo: did you mean shop.v1.Shop?");
        assert_eq!(said("x"), "unknown service x: there are shop.v1.Shop, shop.v1.Billing");
    }
}
