// A page of one column: the diagram is next to the buttons, and the details of a call are below it.
import assert from "node:assert/strict";
import { PHONE, Playground } from "./page.mjs";

const { height } = PHONE.viewport;

export default async function ({ open }) {
  const page = await open(PHONE);
  const playground = new Playground(page);
  const box = (selector) => page.locator(selector).evaluate((element) => element.getBoundingClientRect().toJSON());
  const scroll = () => page.evaluate(() => scrollY);
  await page.getByLabel("Watch the work").uncheck();

  // The button and the diagram of the record fit into the window together; the list is next.
  const [send, record, life, log] = [await box("#send"), await box("#record"), await box(".life"), await box(".log")];
  assert.ok(send.top < record.top && record.bottom - send.top < height, `#send at ${send.top}, #record to ${record.bottom}`);
  assert.ok(log.top >= life.bottom && log.top - life.bottom < 32, `.life to ${life.bottom}, .log at ${log.top}`);

  // The effect of a call is in the window, wherever its button was.
  await page.evaluate(() => document.querySelector("#send").scrollIntoView({ block: "end" }));
  assert.ok((await box("#record")).bottom > height, "the diagram is below the window");
  await page.locator("#send").tap();
  await playground.ended("First");
  const drawn = await box("#record");
  assert.ok(drawn.top >= 0 && drawn.bottom <= height, `#record from ${drawn.top} to ${drawn.bottom} of ${height}`);

  // A call that is sent moves nothing then.
  const before = await scroll();
  await playground.send("Send again", "Replayed");
  await playground.send("Another message, same key", "Refused");
  assert.equal(await scroll(), before);

  // The details of a call open below it, and are in the window: also if others were open above, or the call is at the window's end.
  for (const [number, title] of [[2, "Replayed"], [1, "First"], [3, "Refused"]]) {
    await playground.row(number).evaluate((row) => row.scrollIntoView({ block: "end" }));
    await playground.row(number).tap();
    await playground.ended(title);
    const [row, wire, verdict] = [await playground.row(number).boundingBox(), await box(".wire"), await box("#wire .verdict")];
    assert.ok(Math.abs(wire.top - row.y - row.height) < 8, `#${number} to ${row.y + row.height}, .wire at ${wire.top}`);
    assert.ok(row.y >= 0 && verdict.bottom <= height, `#${number} at ${row.y}, its verdict to ${verdict.bottom} of ${height}`);
  }
  await page.getByRole("button", { name: "Copy as curl" }).tap();
  await playground.ended("Refused");

  // With room for both, they are side by side; without, below again.
  await page.setViewportSize({ width: 1280, height });
  const [wide, beside] = [await box(".log"), await box(".wire")];
  assert.ok(beside.left >= wide.right && beside.top === wide.top, `.log to ${wide.right}, .wire at ${beside.left}`);
  await page.setViewportSize(PHONE.viewport);
  await page.locator("#log li").filter({ has: playground.row(3) }).locator(".wire").waitFor();

  // A tablet has room for the key in one line.
  await page.setViewportSize({ width: 768, height: 1024 });
  const lines = await page.locator("#key").evaluate((key) => key.getClientRects().length);
  assert.equal(lines, 1, "the key wraps");
  await page.setViewportSize(PHONE.viewport);

  await playground.press("Clear");
  await page.getByText("The request and the response of the selected call.").waitFor();
  await playground.send("Send again", "Replayed");
}
