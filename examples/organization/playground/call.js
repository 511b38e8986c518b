/** Returns a unary Connect call in JSON, `POST /<procedure>`, before it is sent: an exchange without a response. */
export function prepare({ procedure, message, headers = {}, token }) {
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
  return { procedure, request, response: null, failure: null, at: new Date(), ms: null };
}

/** Sends a call, and completes its exchange. Never throws: if there is no response, the exchange has a `failure`. */
export async function send(exchange) {
  const { path, ...init } = exchange.request;
  const begun = performance.now();
  try {
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
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
