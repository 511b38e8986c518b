// The driver of a browser: `node browser.js ADDRESS DESCRIPTORS CHROMIUM`. What a call is to show is not known here.
//
// The libraries call from a page of another origin, so that the browser asks the server first whether it may, and may read
// the headers. fetch, without any library, calls from the server's own page.

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

/** In the page: a call as anybody makes it by hand. */
async function fetched({ procedure, message, headers }) {
  const response = await fetch(`/${procedure}`, {
    method: "POST",
    headers: [["content-type", "application/json"], ...headers],
    body: JSON.stringify(message),
  });
  return { ok: response.ok, headers: [...response.headers], body: await response.json() };
}

/** What was fetched, its error's code as a number and its details decoded. */
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
