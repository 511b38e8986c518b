// Lost answers, and answers that do not come from the sample.
import assert from "node:assert/strict";
import { Playground } from "./page.mjs";

const CALLS = "**/organization.v1.ProjectService/CreateProject";

export default async function ({ open }) {
  const page = await open();
  const playground = new Playground(page);
  await page.getByLabel("Watch the work").uncheck();

  // The call arrives, and takes effect; its answer is lost.
  await page.route(CALLS, async (route) => {
    await route.fetch();
    await route.abort();
  });
  await playground.send(/^Send/, "Unclear");
  await playground.record("unknown");
  await page.getByText("Unclear: a response was lost").waitFor();
  assert.match(await page.locator("#wire .advice").textContent(), /Send it again with the same key/);
  await page.unroute(CALLS);
  await playground.send("Send again", "Replayed");
  await playground.record("completed");
  await playground.expectTally({ first: 0, replayed: 1, lost: 1, projects: 1 });

  await playground.press("New key");
  await page.route(CALLS, (route) => route.fulfill({ status: 502, contentType: "text/html", body: "<h1>Bad gateway</h1>" }));
  await playground.send(/^Send/, "Unclear");
  assert.match(await page.locator("#wire .detail").textContent(), /answered 502/);
  assert.match(await playground.wire("response"), /^502 Bad Gateway\n[^]*<h1>Bad gateway<\/h1>$/);
  await page.unroute(CALLS);
  await playground.send("Send again", "First");

  await page.context().setOffline(true);
  await playground.send("Send again", "Unclear");
  assert.match(await page.locator("#wire .advice").textContent(), /Is the sample still running\?/);
  await playground.record("completed");
  await page.context().setOffline(false);
  await playground.send("Send again", "Replayed");

  // A first call that never arrives reserves nothing.
  await playground.press("New key");
  await page.context().setOffline(true);
  await playground.send(/^Send/, "Unclear");
  await playground.record("unknown");
  assert.equal(await page.locator("#record .reserved text").first().textContent(), "unknown");
  await page.context().setOffline(false);
  await playground.send("Send again", "First");
  assert.equal(await page.locator("#record .reserved text").first().textContent(), "reserved");

  // The sample was restarted and has new tokens.
  await page.route("**/playground/users.json", async (route) => {
    const users = await (await route.fetch()).json();
    await route.fulfill({ json: { ...users, tokens: { alice: "old", bob: "old" } } });
  });
  await page.reload();
  await playground.send(/^Send/, "Failed");
  assert.match(await page.locator("#wire .verdict").textContent(), /Reload the page/);

  // The sample is not running when the page opens.
  await page.route("**/playground/users.json", (route) => route.abort());
  await page.reload();
  await page.locator("#hint", { hasText: "The sample does not answer" }).waitFor();
  await page.unroute("**/playground/users.json");
  await playground.send(/^Send/, "First");
  assert.equal(await page.locator("#hint").textContent(), "");
}
