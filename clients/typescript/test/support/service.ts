// The service of the tests, from a descriptor as generated code carries it, with the option among the unknown fields.

import { create, toBinary } from "@bufbuild/protobuf";
import { type GenFile, fileDesc, messageDesc, serviceDesc } from "@bufbuild/protobuf/codegenv2";
import { base64Encode } from "@bufbuild/protobuf/wire";
import {
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FileDescriptorProtoSchema,
  MethodOptionsSchema,
  file_google_protobuf_any,
  file_google_protobuf_duration,
} from "@bufbuild/protobuf/wkt";

type Field = [name: string, type: Type, typeName?: string, label?: Label];

const message = (name: string, ...fields: Field[]) => ({
  name,
  field: fields.map(([name, type, typeName = "", label = Label.OPTIONAL], index) => ({
    name,
    number: index + 1,
    type,
    typeName,
    label,
    jsonName: name,
  })),
});

/** The option `(idempotency.v1.procedure)`, without a policy. */
const option = () => {
  const options = create(MethodOptionsSchema);
  options.$unknown = [{ no: 51915, wireType: 2, data: Uint8Array.of(0) }];
  return options;
};

const order = { inputType: ".test.Order", outputType: ".test.Order" };

function file(name: string, messages: ReturnType<typeof message>[], dependencies: GenFile[] = []): GenFile {
  const proto = create(FileDescriptorProtoSchema, {
    name: `${name}.proto`,
    package: name,
    syntax: "proto3",
    dependency: dependencies.map((file) => file.proto.name),
    messageType: messages,
    service:
      name !== "test"
        ? []
        : [
            {
              name: "Orders",
              method: [
                { name: "Create", ...order, options: option() },
                { name: "Delete", ...order },
                { name: "Watch", ...order, serverStreaming: true, options: option() },
              ],
            },
          ],
  });
  return fileDesc(base64Encode(toBinary(FileDescriptorProtoSchema, proto), "std_raw"), dependencies);
}

const test = file("test", [message("Order", ["item", Type.STRING])]);
const rpc = file(
  "google.rpc",
  [
    message("Status", ["code", Type.INT32], ["message", Type.STRING], ["details", Type.MESSAGE, ".google.protobuf.Any", Label.REPEATED]),
    message("ErrorInfo", ["reason", Type.STRING], ["domain", Type.STRING]),
    message("RetryInfo", ["retryDelay", Type.MESSAGE, ".google.protobuf.Duration"]),
  ],
  [file_google_protobuf_any, file_google_protobuf_duration],
);

export const Orders = serviceDesc<{
  create: { methodKind: "unary"; input: typeof OrderSchema; output: typeof OrderSchema };
  delete: { methodKind: "unary"; input: typeof OrderSchema; output: typeof OrderSchema };
  watch: { methodKind: "server_streaming"; input: typeof OrderSchema; output: typeof OrderSchema };
}>(test, 0);
export const OrderSchema = messageDesc<import("@bufbuild/protobuf").Message<"test.Order"> & { item: string }>(test, 0);
export const StatusSchema = messageDesc(rpc, 0);
export const ErrorInfoSchema = messageDesc(rpc, 1);
export const RetryInfoSchema = messageDesc(rpc, 2);
