// A call whose answer the sample loses, and the page's retry.
import assert from "node:assert/strict";
import { Playground } from "./page.mjs";

export default async function ({ open }) {
  const page = await open();
  const playground = new Playground(page);
  await page.getByLabel("Watch the work").uncheck();
  await page.getByLabel("Lose the answer").check();

  await playground.send(/^Send/, "Unclear");
  await playground.record("unknown");
  assert.match(await page.locator("#wire .advice").textContent(), /lost on purpose.*Send it again with the same key/);
  assert.match(await playground.wire("request"), /\nsample-lose-answer: 1\n/);
  assert.match(await playground.wire("response"), /^none: /);
  // The call was carried out: its project is there while the page knows nothing of it.
  await playground.expectTally({ first: 0, replayed: 0, lost: 1, projects: 1 });

  await playground.ended("Replayed");
  await playground.record("completed");
  assert.doesNotMatch(await playground.wire("request"), /sample-lose-answer/);
  assert.match(await playground.wire("request"), new RegExp(`\nidempotency-key: ${await playground.key()}\n`));
  assert.match(await page.locator("#log").textContent(), /Replayed retry, same key.*Unclear CreateProject/);
  await playground.expectTally({ first: 0, replayed: 1, lost: 1, projects: 1 });

  // With another key in the page's hands, nothing is sent again.
  await page.clock.install();
  await playground.press("New key");
  await playground.send(/^Send/, "Unclear");
  await playground.press("New key");
  await page.getByLabel("Lose the answer").uncheck();
  await page.clock.runFor(5000);
  await playground.send(/^Send/, "First");
  assert.equal(await page.locator("#log li").count(), 4);
}
