import { type DescMessage, type MessageShape, fromBinary } from "@bufbuild/protobuf";
import { AnySchema, BytesValueSchema, DurationSchema } from "@bufbuild/protobuf/wkt";
import type { ConnectError } from "@connectrpc/connect";

/** Returns the reason of the layer's `google.rpc.ErrorInfo` in an error's details. */
export function reasonIn(error: ConnectError): string | undefined {
  // Its reason and domain are fields 1 and 2, as those of `Any`. No library for Connect has its code.
  const info = read(AnySchema, valueOf(error, "google.rpc.ErrorInfo"));
  return info && new TextDecoder().decode(info.value) === "tonic-idempotency" ? info.typeUrl : undefined;
}

/** Returns the delay of the `google.rpc.RetryInfo` in an error's details, in milliseconds. A server may say any number. */
export function retryInfoIn(error: ConnectError): number | undefined {
  // Its delay is field 1, a message, which is written as bytes are.
  const delay = read(DurationSchema, read(BytesValueSchema, valueOf(error, "google.rpc.RetryInfo"))?.value);
  return delay && delay.seconds >= 0n && delay.nanos >= 0 ? Number(delay.seconds) * 1000 + delay.nanos / 1e6 : undefined;
}

function valueOf({ details }: ConnectError, type: string): Uint8Array | undefined {
  return details.flatMap((detail) => ("type" in detail && detail.type === type ? [detail.value] : []))[0];
}

function read<T extends DescMessage>(type: T, bytes: Uint8Array | undefined): MessageShape<T> | undefined {
  try {
    return bytes && fromBinary(type, bytes);
  } catch {
    return undefined;
  }
}
