// The whole life of a key, with the mouse.
import assert from "node:assert/strict";
import { Playground } from "./page.mjs";

export default async function ({ open }) {
  const page = await open({ permissions: ["clipboard-read", "clipboard-write"] });
  const playground = new Playground(page);
  await page.getByLabel("Watch the work").uncheck();
  const key = await playground.key();
  assert.match(key, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  await playground.record("free");

  await playground.send(/^Send/, "First");
  await playground.record("completed");
  await playground.work("processing");
  const request = await playground.wire("request");
  assert.match(request, /^POST \/organization\.v1\.ProjectService\/CreateProject\n/);
  assert.match(request, new RegExp(`\nidempotency-key: ${key}\n`));
  assert.match(request, /\nconnect-protocol-version: 1\n/);
  await page.getByRole("button", { name: "Copy as curl" }).click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(command, new RegExp(`^curl -i [^]* -H 'idempotency-key: ${key}' [^]*/organization\\.v1\\.ProjectService/CreateProject$`));
  const first = await playground.wire("response");
  assert.match(first, /^200 OK\n/);
  assert.match(first, /\nidempotency-status: processing\n/);
  assert.doesNotMatch(first, /^idempotent-replayed:/m);

  await playground.send("Send again", "Replayed");
  const replay = await playground.wire("response");
  assert.match(replay, /\nidempotent-replayed: true\n/);
  assert.equal(body(replay), body(first));
  await playground.expectTally({ first: 1, replayed: 1, refused: 0, projects: 1 });

  await playground.send("Another message, same key", "Refused");
  assert.match(await playground.wire("response"), /^400 .*\n[^]*IDEMPOTENCY_KEY_REUSED/);
  assert.match(await page.locator("#wire .verdict").textContent(), /IDEMPOTENCY_KEY_REUSED mismatch: request/);
  await playground.send("Another procedure, same key", "Refused");
  assert.match(await page.locator("#wire .verdict").textContent(), /IDEMPOTENCY_KEY_REUSED mismatch: procedure/);
  assert.match(await playground.announcement(), /Refused\. IDEMPOTENCY_KEY_REUSED\..*Take a new key/);
  assert.equal(await page.locator("#turned-away").textContent(), "2 turned away");

  // bob has not used this key, although alice has.
  await page.getByRole("radio", { name: "bob" }).check();
  await playground.record("free");
  await playground.send(/^Send/, "First");
  assert.notEqual(body(await playground.wire("response")), body(first));
  await playground.expectTally({ first: 1, replayed: 0, projects: 1 });

  // alice’s work has ended by now, or ends while it is watched.
  await page.getByRole("radio", { name: "alice" }).check();
  await page.getByLabel("Watch the work").check();
  await playground.work("completed");
  await playground.record("completed");

  await playground.press("New key");
  assert.notEqual(await playground.key(), key);
  await page.getByLabel("Hold up the handler").check();
  await playground.press("Twenty at once");
  await playground.record("reserved");
  await page.getByText("Until it ends, every other call with this key is turned away.").waitFor();
  await playground.record("completed");
  await playground.quiet();
  await playground.expectTally({ first: 1, refused: 0, projects: 1 });
  assert.ok((await playground.tally("progress")) > 0, "no call arrived while the first one ran");
  assert.match(await page.locator("#log").textContent(), /IDEMPOTENCY_IN_PROGRESS/);
  await playground.work("completed");

  await playground.press("New key");
  await page.getByLabel("Hold up the handler").uncheck();
  await page.getByLabel("The background work fails").check();
  assert.equal(await page.getByLabel("Project name").inputValue(), "fail-shop");
  await playground.send(/^Send/, "First");
  await playground.work("failed");
  await page.getByText("learns that the background work failed").waitFor();

  // The page predicts a refusal.
  await page.getByLabel("Project name").fill("");
  await page.getByText("The key belongs to another message").waitFor();
  await playground.press("New key");
  await playground.send(/^Send/, "Failed");
  assert.match(await page.locator("#wire .verdict").textContent(), /Correct the message/);
  await playground.record("free");
  await page.getByText("Free again: the call failed").waitFor();
}

const body = (message) => message.split("\n\n").at(-1);
