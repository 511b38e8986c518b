//! tonic's clients.

use std::net::SocketAddr;

use bytes::Bytes;
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioExecutor};
use organization::proto::{
    AddInstallRequest, CreateClusterRequest, CreateProjectRequest, cluster_service_client::ClusterServiceClient,
    project_service_client::ProjectServiceClient,
};
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};
use tonic::{
    Request, Response, Status,
    body::Body,
    client::GrpcService,
    codegen::StdError,
    metadata::{KeyAndValueRef, MetadataMap},
    transport::{Channel, Endpoint, Uri},
};
use tonic_types::{ErrorDetail, StatusExt as _};
use tonic_web::{GrpcWebCall, GrpcWebClientLayer};
use tower_layer::Layer as _;

use crate::{
    call::{Call, Detail, Reply},
    protocol::Protocol,
};

/// tonic's generated clients: over tonic's channel for gRPC, and over tonic-web with HTTP/1.1 for gRPC-Web.
#[derive(Clone, Debug)]
pub(crate) struct TonicClient {
    channel: Channel,
    http: hyper_util::client::legacy::Client<HttpConnector, GrpcWebCall<Body>>,
    origin: Uri,
    pool: DescriptorPool,
}

impl TonicClient {
    /// A client for the server at this address.
    pub(crate) fn new(address: SocketAddr, pool: DescriptorPool) -> Self {
        let origin: Uri = format!("http://{address}").parse().expect("an address");
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build_http();
        Self { channel: Endpoint::from(origin.clone()).connect_lazy(), http, origin, pool }
    }

    pub(crate) async fn call(&self, protocol: Protocol, call: &Call) -> Result<Reply, String> {
        match protocol {
            Protocol::Grpc => self.call_through(self.channel.clone(), call).await,
            Protocol::GrpcWeb => self.call_through(GrpcWebClientLayer::new().layer(self.http.clone()), call).await,
            other => Err(format!("tonic does not speak {other}")),
        }
    }

    async fn call_through<S>(&self, service: S, call: &Call) -> Result<Reply, String>
    where
        S: GrpcService<Body>,
        S::Error: Into<StdError>,
        S::ResponseBody: http_body::Body<Data = Bytes, Error: Into<StdError> + Send> + Send + 'static,
    {
        let origin = self.origin.clone();
        let answer = match call.procedure.as_str() {
            "organization.v1.ClusterService/AddInstall" => {
                let request: Request<AddInstallRequest> = self.request("AddInstallRequest", call)?;
                let answer = ClusterServiceClient::with_origin(service, origin).add_install(request).await;
                answer.map(|response| response.map(|message| json!({ "installId": message.install_id })))
            }
            "organization.v1.ClusterService/CreateCluster" => {
                let request: Request<CreateClusterRequest> = self.request("CreateClusterRequest", call)?;
                let answer = ClusterServiceClient::with_origin(service, origin).create_cluster(request).await;
                answer.map(|response| response.map(|message| json!({ "clusterId": message.cluster_id })))
            }
            "organization.v1.ProjectService/CreateProject" => {
                let request: Request<CreateProjectRequest> = self.request("CreateProjectRequest", call)?;
                let answer = ProjectServiceClient::with_origin(service, origin).create_project(request).await;
                answer.map(|response| response.map(|message| json!({ "projectId": message.project_id })))
            }
            other => return Err(format!("unexpected procedure {other}")),
        };
        answer.map(succeeded).or_else(|status| refused(&status))
    }

    fn request<T: prost::Message + Default>(&self, name: &str, call: &Call) -> Result<Request<T>, String> {
        let descriptor = self.pool.get_message_by_name(&format!("organization.v1.{name}")).ok_or("no such message")?;
        let message = DynamicMessage::deserialize(descriptor, &call.message).map_err(|error| error.to_string())?;
        let mut request = Request::new(message.transcode_to().map_err(|error| error.to_string())?);
        for (name, value) in &call.headers {
            let name: tonic::metadata::AsciiMetadataKey =
                name.parse().map_err(|_| format!("invalid header name: {name}"))?;
            let value = value.parse().map_err(|_| format!("invalid header value: {value}"))?;
            request.metadata_mut().append(name, value);
        }
        Ok(request)
    }
}

fn succeeded(response: Response<Value>) -> Reply {
    let headers = headers(response.metadata());
    Reply { body: response.into_inner(), headers, ..Reply::default() }
}

fn refused(status: &Status) -> Result<Reply, String> {
    let details = status.get_error_details_vec().into_iter().map(|detail| match detail {
        ErrorDetail::BadRequest(detail) => {
            let violations = detail
                .field_violations
                .iter()
                .map(|violation| json!({ "field": violation.field, "description": violation.description }));
            Ok(("BadRequest", json!({ "fieldViolations": violations.collect::<Vec<_>>() })))
        }
        ErrorDetail::ErrorInfo(detail) => {
            Ok(("ErrorInfo", json!({ "reason": detail.reason, "domain": detail.domain, "metadata": detail.metadata })))
        }
        ErrorDetail::RetryInfo(detail) => {
            let delay = detail.retry_delay.unwrap_or_default();
            Ok(("RetryInfo", json!({ "retryDelay": format!("{}s", delay.as_secs_f64()) })))
        }
        other => Err(format!("unexpected detail: {other:?}")),
    });
    let details =
        details.map(|detail| detail.map(|(name, value)| Detail { name: format!("google.rpc.{name}"), value }));
    Ok(Reply {
        code: i32::from(status.code()).unsigned_abs().into(),
        details: details.collect::<Result<_, _>>()?,
        headers: headers(status.metadata()),
        message: status.message().to_owned(),
        ..Reply::default()
    })
}

fn headers(metadata: &MetadataMap) -> Vec<(String, String)> {
    let ascii = metadata.iter().filter_map(|entry| match entry {
        KeyAndValueRef::Ascii(name, value) => Some((name.to_string(), value.to_str().ok()?.to_owned())),
        KeyAndValueRef::Binary(..) => None,
    });
    ascii.collect()
}
