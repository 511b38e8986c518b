// Calls that have no answer yet, on a phone.
import assert from "node:assert/strict";
import { blend } from "./contrast.mjs";
import { PHONE, Playground } from "./page.mjs";

export default async function ({ open }) {
  const page = await open(PHONE);
  const playground = new Playground(page);
  const rows = page.locator("#log li");
  await page.getByLabel("Watch the work").uncheck();
  await page.getByText("No calls yet").waitFor();

  // Nothing is answered, and the first call is there.
  const release = await playground.hold();
  await playground.press(/^Send/);
  await playground.row(1).filter({ hasText: "Running CreateProject" }).waitFor();
  assert.equal(await page.getByText("No calls yet").isVisible(), false);
  await playground.ended("Running");
  assert.match(await playground.wire("request"), new RegExp(`\nidempotency-key: ${await playground.key()}\n`));
  assert.equal(await playground.wire("response"), "not yet\n\n");
  assert.deepEqual([await rows.count(), await page.locator("#tape .running").count()], [1, 1]);

  assert.deepEqual(await blend(page), [], "too little contrast");

  // The next one has a row of its own, and is selected.
  await playground.press("Send again");
  await playground.row(2).filter({ hasText: "Running again" }).waitFor();
  await page.locator("#wire .title", { hasText: "#2 Running" }).waitFor();

  // Their rows get the answers.
  release();
  await playground.quiet();
  assert.equal(await rows.count(), 2);
  assert.doesNotMatch(await page.locator("#log").textContent(), /Running/);
  assert.match(await page.locator("#wire .title").textContent(), /^#2 (First|Replayed|In progress)$/);
  assert.match(await playground.wire("response"), /^(200|409) /);

  // A call that was cleared from the list while it ran does not come back.
  const releaseAgain = await playground.hold();
  await playground.press("Send again");
  await playground.row(3).waitFor();
  await playground.press("Clear");
  releaseAgain();
  await playground.quiet();
  assert.equal(await rows.count(), 0);
  await page.getByText("No calls yet").waitFor();
}
