// The main flow without a mouse.
import assert from "node:assert/strict";
import { Playground } from "./page.mjs";

export default async function ({ open }) {
  const page = await open();
  const playground = new Playground(page);
  const tab = async (expected) => {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => {
      const element = document.activeElement;
      const shown = element.name === "user" ? element.nextElementSibling : element;
      return { at: element.id || element.value || element.textContent.trim(), outline: getComputedStyle(shown).outlineStyle };
    });
    assert.deepEqual(focus, { at: expected, outline: "solid" });
  };

  await tab("Skip to the call");
  await tab("theme");
  await tab("new-key");
  await tab("alice");
  for (const id of ["name", "fails", "slow", "lose", "follow", "send", "burst", "changed", "procedure", "clear", "shortcuts"]) await tab(id);

  // Skip the header with the skip link.
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("Home");
  await page.locator(".skip").focus();
  await page.keyboard.press("Enter");
  for (const id of ["name", "fails", "slow", "lose", "follow"]) await tab(id);
  await page.keyboard.press("Space");
  assert.equal(await page.getByLabel("Watch the work").isChecked(), false);
  await tab("send");
  await page.keyboard.press("Enter");
  await playground.ended("First");
  assert.match(await playground.announcement(), /^Call 1: First\. {2}Status processing\./);
  await page.keyboard.press("Enter");
  await playground.ended("Replayed");
  for (const id of ["burst", "changed"]) await tab(id);
  await page.keyboard.press("Space");
  await playground.ended("Refused");

  // Walk through the calls.
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  assert.match(await page.evaluate(() => document.activeElement.textContent), /^#3/);
  await page.keyboard.press("ArrowDown");
  await playground.ended("Replayed");
  await page.keyboard.press("End");
  await playground.ended("First");
  await page.evaluate(() => document.activeElement.blur());

  // Use the single-key shortcuts, one after the other.
  const key = await playground.key();
  await page.keyboard.press("n");
  assert.notEqual(await playground.key(), key);
  await page.keyboard.press("f");
  await page.keyboard.press("s");
  await playground.record("completed");
  await page.keyboard.press("p");
  await playground.ended("Refused");
  await page.keyboard.press("u");
  await playground.record("free");
  await page.keyboard.press("t");
  await playground.record("completed");
  await playground.quiet();
  await playground.expectTally({ first: 1, projects: 1 });

  // Shortcuts do nothing while typing, or when they are switched off.
  const now = await playground.key();
  await page.getByLabel("Project name").press("n");
  assert.equal(await page.getByLabel("Project name").inputValue(), "nfail-shop");
  await page.getByLabel("Enable single-key shortcuts").uncheck();
  await page.keyboard.press("n");
  assert.equal(await playground.key(), now);
}
