// The driver of a browser: `node browser.js ADDRESS DESCRIPTORS CHROMIUM`. It does not know the expected replies.
//
// The libraries call from a page of another origin, so that the browser first asks the server for permission to call and to
// read the headers (CORS). fetch, without a library, calls from the server's own page. The client `idempotency-connect-web` is
// connect-web with the interceptor of clients/typescript; see idempotent-call.js for its lines and replies.

import { readFileSync } from "node:fs";

import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { chromium } from "playwright-core";

import { answerLines } from "./lines.js";
import { Schema } from "./schema.js";
import { serve } from "./site.js";

const ARGUMENTS = [
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-gpu",
  "--disable-quic",
  "--disable-sync",
  "--no-first-run",
  "--no-sandbox",
];

const [address, descriptors, executablePath] = process.argv.slice(2);
const baseUrl = `http://${address}`;
const schema = new Schema(readFileSync(descriptors));
const browser = await chromium.launch({ executablePath, args: ARGUMENTS });

const site = await serve(descriptors);
const elsewhere = await browser.newPage();
await elsewhere.goto(site.origin);
const libraries = await elsewhere.evaluateHandle(async (baseUrl) => (await import("/page.js")).caller(baseUrl), baseUrl);

const own = await browser.newPage();
await own.goto(`${baseUrl}/`);

await answerLines(async (line) =>
  line.client === "fetch"
    ? reply(await own.evaluate(fetched, line))
    : elsewhere.evaluate(([call, line]) => call(line), [libraries, line]),
);
await browser.close();
site.close();

/** Runs in the page: makes a call with `fetch`. */
async function fetched({ procedure, message, headers }) {
  const response = await fetch(`/${procedure}`, {
    method: "POST",
    headers: [["content-type", "application/json"], ...headers],
    body: JSON.stringify(message),
  });
  return { ok: response.ok, headers: [...response.headers], body: await response.json() };
}

/** The reply, with the error's code as a number and its details decoded. */
function reply({ ok, headers, body }) {
  return ok
    ? { code: 0, message: "", details: [], headers, body }
    : {
        code: codeFromString(body.code),
        message: body.message,
        details: body.details.map(({ type, value }) => schema.detail(type, value)),
        headers,
      };
}
