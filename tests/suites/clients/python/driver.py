"""The driver of grpcio: `driver.py ADDRESS DESCRIPTORS`.

Reads one call per line from standard input, makes it, and writes one line with the reply that the client saw. Calls
run concurrently; a reply has the id of its call. The driver does not know the expected replies.

Messages are dynamic: the descriptors come from the file, so that no generated code has to follow changes of the service.
"""

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.rpc import error_details_pb2
from grpc_status import rpc_status

import retry

NAMES = ["BadRequest", "ErrorInfo", "ResourceInfo", "RetryInfo"]
DETAILS = [getattr(error_details_pb2, name) for name in NAMES]


class Schema:
    """The service's descriptors."""

    def __init__(self, path):
        # A new pool, because the default one has some of the files already.
        self._pool = descriptor_pool.DescriptorPool()
        with open(path, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
        for file in files.file:
            self._pool.Add(file)

    def messages(self, procedure):
        """Returns the request and the response type of a procedure such as `organization.v1.ProjectService/CreateProject`."""
        service, name = procedure.split("/")
        method = self._pool.FindServiceByName(service).FindMethodByName(name)
        return [message_factory.GetMessageClass(message) for message in (method.input_type, method.output_type)]


def decoded(detail):
    """Unpacks a detail of an error, which grpcio leaves to its caller."""
    for kind in DETAILS:
        if detail.Is(kind.DESCRIPTOR):
            value = kind()
            detail.Unpack(value)
            return {"type": kind.DESCRIPTOR.full_name, "value": json_format.MessageToDict(value)}
    raise ValueError(f"unknown detail: {detail.type_url}")


def make(channel, schema, call):
    """Makes a call: as it is, or as `retry.py` does, with what that says of the operation."""
    request, response = schema.messages(call["procedure"])
    stub = channel.unary_unary(
        "/" + call["procedure"],
        request_serializer=request.SerializeToString,
        response_deserializer=response.FromString,
    )
    message = json_format.ParseDict(call["message"], request())
    metadata = [(name, value) for name, value in call["headers"]]
    if call["client"] == "retry.py":
        return repeated(stub, message, dict(metadata), call["timeout_ms"] / 1000)
    try:
        body, made = stub.with_call(message, metadata=metadata)
    except grpc.RpcError as error:
        return refused(error)
    return {
        "code": 0,
        "message": "",
        "details": [],
        "headers": list(made.initial_metadata()),
        "body": json_format.MessageToDict(body),
    }


def refused(error):
    """A failed call as a reply."""
    status = rpc_status.from_call(error)
    return {
        "code": error.code().value[0],
        "message": error.details() or "",
        "details": [decoded(detail) for detail in status.details] if status else [],
        "headers": list(error.initial_metadata() or ()),
    }


def repeated(stub, message, metadata, timeout):
    key = metadata.pop("idempotency-key")
    reply = {"code": 0, "message": "", "details": [], "headers": []}
    try:
        body = retry.create(stub, message, key, metadata.items(), timeout)
    except retry.Unresolved as unresolved:
        error = unresolved.__cause__
        return {**(refused(error) if error else reply), "verdict": unresolved.verdict}
    except grpc.RpcError as error:
        return {**refused(error), "verdict": "ended"}
    return {**reply, "body": json_format.MessageToDict(body), "verdict": "ended"}


def main(address, descriptors):
    schema = Schema(descriptors)
    output = threading.Lock()
    with (
        grpc.insecure_channel(address) as once,
        grpc.insecure_channel(address, retry.options("organization.v1.ProjectService")) as repeating,
        ThreadPoolExecutor(max_workers=64) as pool,
    ):

        def answer(call):
            try:
                reply = make(repeating if call["client"] == "retry.py" else once, schema, call)
            except Exception as error:  # whatever it is, the test shows it
                reply = {"failure": repr(error)}
            with output:
                print(json.dumps({"id": call["id"], **reply}), flush=True)

        for line in sys.stdin:
            pool.submit(answer, json.loads(line))


if __name__ == "__main__":
    main(*sys.argv[1:])
