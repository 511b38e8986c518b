/**
 * Makes a unary Connect call in JSON: `POST /<procedure>`. Returns the whole exchange. Never throws: if there is no response,
 * the exchange has a `failure`.
 */
export async function send({ procedure, message, headers = {}, token }) {
  const request = {
    path: `/${procedure}`,
    headers: {
      "content-type": "application/json",
      "connect-protocol-version": "1",
      authorization: `Bearer ${token}`,
      ...headers,
    },
    body: JSON.stringify(message),
  };
  const begun = performance.now();
  const exchange = { procedure, request, response: null, failure: null, at: new Date() };
  try {
    const { path, ...init } = request;
    const response = await fetch(path, { method: "POST", cache: "no-store", ...init });
    const body = await response.text();
    exchange.response = {
      status: response.status,
      reason: response.statusText,
      headers: Object.fromEntries(response.headers),
      body,
      json: parsed(body),
    };
  } catch (error) {
    exchange.failure = error.message;
  }
  exchange.ms = performance.now() - begun;
  return exchange;
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
