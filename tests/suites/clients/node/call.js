// One call with a Connect client, over any transport.

import { fromJson, toJson } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";

/** Makes a call over `transport`, and returns the reply that the client saw. */
export async function call(schema, transport, { procedure, message, headers }) {
  const method = schema.method(procedure);
  const client = createClient(method.parent, transport);
  const request = fromJson(method.input, message);
  let received = [];
  const onHeader = (headers) => (received = [...headers]);
  try {
    const response = await client[method.localName](request, { headers, onHeader });
    return { code: 0, message: "", details: [], headers: received, body: toJson(method.output, response) };
  } catch (error) {
    return schema.refusal(error);
  }
}
