"""An operation over grpcio: one key, gRPC's own retries, and the verdict on the answer.

To use it, copy this file and `verdicts.json`. `create(stub, request)` returns the response, or raises the error that
ended the operation, or `Unresolved`: it may have taken effect, and a call with the same key finds out.
"""

import json
import pathlib
import uuid

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

FILE = json.loads((pathlib.Path(__file__).resolve().parents[4] / "clients/verdicts.json").read_text())


def options(service):
    """The options of a channel that repeats the calls of a service: `grpc.secure_channel(target, credentials, options(…))`.

    gRPC waits as long as the server's pushback says, and does not repeat what the server says never to repeat.
    """
    policy = {
        "maxAttempts": 5,
        "initialBackoff": "0.1s",
        "maxBackoff": "5s",
        "backoffMultiplier": 2,
        "retryableStatusCodes": ["UNAVAILABLE", "ABORTED"],
    }
    config = {"methodConfig": [{"name": [{"service": service}], "retryPolicy": policy}]}
    return [("grpc.service_config", json.dumps(config))]


class Unresolved(Exception):
    """The operation may have taken effect. Repeat the call with this key, later: a new key may do it twice.

    With the verdict `ended later`, it has ended with this error if no earlier call can arrive any more.
    """

    def __init__(self, key, verdict):
        super().__init__(f"the outcome is not known ({verdict}); the key is {key}")
        self.key, self.verdict = key, verdict


def create(stub, request, key=None, metadata=(), timeout=60.0):
    """Makes a call of a procedure that takes keys. `timeout`, in seconds, is that of all attempts together."""
    key = key or str(uuid.uuid4())
    try:
        response = stub(request, metadata=[*metadata, ("idempotency-key", key)], timeout=timeout)
    except grpc.RpcError as error:
        said = verdict(error)
        if said == "ended":
            raise
        raise Unresolved(key, said) from error
    if response is None:  # a success without a message
        raise Unresolved(key, "unknown")
    return response


def verdict(error):
    """The verdict on an error: that after a lost attempt, since gRPC does not tell of those that it repeated."""
    said = facts(error)
    fits = (row for row in FILE["rows"] if all(said.get(name) == row[name] for name in row.keys() - {"only", "after_lost"}))
    return next(fits)["after_lost"]


def facts(error):
    """The facts of an error that a row can ask for."""
    metadata = {**dict(error.initial_metadata() or ()), **dict(error.trailing_metadata() or ())}
    said = {"code": error.code().name, "outcome": metadata.get("idempotency-outcome")}
    if not metadata.get("grpc-retry-pushback-ms", "0").isdecimal():
        said["pushback"] = "never"
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == FILE["domain"]:
            said["reason"] = info.reason
        said["retry_info"] = said.get("retry_info") or detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR)
    return said
