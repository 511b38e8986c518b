// One call with a Connect client, over any transport.

import { fromJson, toJson } from "@bufbuild/protobuf";
import { createClient } from "@connectrpc/connect";

/**
 * Makes a call over `transport` with the library's `options`, and returns the reply that the client saw, with what `more` says
 * of the response's headers, or of the error.
 */
export async function call(schema, transport, { procedure, message, headers }, options = {}, more = () => ({})) {
  const method = schema.method(procedure);
  const client = createClient(method.parent, transport);
  const request = fromJson(method.input, message);
  let received = new Headers();
  const onHeader = (headers) => (received = headers);
  try {
    const response = await client[method.localName](request, { ...options, headers, onHeader });
    const body = toJson(method.output, response);
    return { code: 0, message: "", details: [], headers: [...received], body, ...more({ headers: received }) };
  } catch (error) {
    return { ...schema.refusal(error), ...more({ error }) };
  }
}
