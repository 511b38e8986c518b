// The service's descriptors, read at run time, so that no generated code has to follow changes of the service.

import { createFileRegistry, fromBinary, toJson } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { FileDescriptorSetSchema, anyUnpack } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";

export class Schema {
  #registry;

  /** The schema of an encoded `FileDescriptorSet`. */
  constructor(descriptors) {
    this.#registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));
  }

  /** The method of a procedure such as `organization.v1.ProjectService/CreateProject`, with its service. */
  method(procedure) {
    const [service, name] = procedure.split("/");
    const method = this.#registry.getService(service)?.methods.find((method) => method.name === name);
    if (method === undefined) {
      throw new Error(`unknown procedure ${procedure}`);
    }
    return method;
  }

  /** A detail of an error, decoded from Connect's JSON. */
  detail(type, base64) {
    const message = this.#registry.getMessage(type);
    return { type, value: toJson(message, fromBinary(message, base64Decode(base64))) };
  }

  /** The details of an error, decoded from gRPC's `grpc-status-details-bin`. */
  details(base64 = "") {
    const status = fromBinary(this.#registry.getMessage("google.rpc.Status"), base64Decode(base64));
    return status.details.map((detail) => {
      const message = anyUnpack(detail, this.#registry);
      return { type: message.$typeName, value: toJson(this.#registry.getMessage(message.$typeName), message) };
    });
  }

  /** A failed call as a reply, its details decoded. */
  refusal(reason) {
    const error = ConnectError.from(reason);
    return {
      code: error.code,
      message: error.rawMessage,
      details: error.findDetails(this.#registry).map((detail) => ({
        type: detail.$typeName,
        value: toJson(this.#registry.getMessage(detail.$typeName), detail),
      })),
      headers: [...error.metadata],
    };
  }
}
