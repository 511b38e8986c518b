// The page in light, in dark and on a phone. Nothing is blank, cut off or hard to read.
import assert from "node:assert/strict";
import { join } from "node:path";
import { blend } from "./contrast.mjs";
import { Playground } from "./page.mjs";

const DESKTOP = { viewport: { width: 1280, height: 1080 } };
const PHONE = { viewport: { width: 360, height: 780 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };

export default async function ({ browser, directory, open }) {
  const light = await shoot(open, join(directory, "light.png"), { ...DESKTOP, colorScheme: "light" });
  const dark = await shoot(open, join(directory, "dark.png"), { ...DESKTOP, colorScheme: "dark" });
  const phone = await shoot(open, join(directory, "phone.png"), { ...PHONE, colorScheme: "light" });

  const looker = await browser.newPage();
  const [ofLight, ofDark, ofPhone] = [await look(looker, light), await look(looker, dark), await look(looker, phone)];
  for (const [name, { colours }] of Object.entries({ ofLight, ofDark, ofPhone })) {
    assert.ok(colours > 100, `${name}: only ${colours} colours, as on a blank page`);
  }
  assert.ok(ofLight.brightness > 200, `the light page has a brightness of ${ofLight.brightness}`);
  assert.ok(ofDark.brightness < 60, `the dark page has a brightness of ${ofDark.brightness}`);
  assert.ok(ofPhone.brightness > 200, `the light page on a phone has a brightness of ${ofPhone.brightness}`);

  // Outcomes differ by a word, and marks by more than a colour.
  const plain = await open(DESKTOP);
  const kinds = await plain.evaluate(async () => {
    const { KINDS } = await import("/playground/outcome.js");
    return Object.entries(KINDS).map(([kind, { title }]) => {
      const pip = document.body.appendChild(document.createElement("i"));
      pip.className = `pip ${kind}`;
      const { backgroundImage, backgroundColor, borderRadius, borderStyle } = getComputedStyle(pip);
      const filled = backgroundImage !== "none" || backgroundColor !== "rgba(0, 0, 0, 0)";
      return { title, mark: [getComputedStyle(pip, "::after").content, filled, borderRadius, borderStyle].join() };
    });
  });
  for (const part of ["title", "mark"]) {
    assert.equal(new Set(kinds.map((kind) => kind[part])).size, kinds.length, `${part}: ${JSON.stringify(kinds)}`);
  }
  assert.equal(await plain.locator(":is(h1, h2, h3) button").count(), 0, "headings are read as they are");

  // The button overrides the system's theme, and the choice is remembered.
  const page = await open({ ...DESKTOP, colorScheme: "dark" });
  await page.getByRole("button", { name: "Dark", pressed: true }).click();
  await page.reload();
  await page.getByRole("button", { name: "Dark", pressed: false }).waitFor();
  assert.ok((await look(looker, await page.screenshot())).brightness > 200);
}

/** Makes a screenshot of a page with calls of every kind. */
async function shoot(open, path, options) {
  const page = await open(options);
  const playground = new Playground(page);
  await page.getByLabel("Hold up the handler").check();
  await playground.press("Twenty at once");
  await playground.work("completed");
  await playground.quiet();
  await page.getByLabel("Hold up the handler").uncheck();
  await playground.expectTally({ first: 1, projects: 1 });
  await playground.send("Another message, same key", "Refused");

  const { clientWidth, scrollWidth } = await page.evaluate(() => {
    const { clientWidth, scrollWidth } = document.documentElement;
    return { clientWidth, scrollWidth };
  });
  assert.ok(scrollWidth <= clientWidth, `${path}: ${scrollWidth} wide in ${clientWidth}`);
  assert.deepEqual(await cutOff(page), [], `${path}: outside the window`);
  assert.deepEqual(await blend(page), [], `${path}: too little contrast`);
  await page.mouse.move(0, 0);
  await page.evaluate(() => scrollTo(0, 0));
  return page.screenshot({ path });
}

/** Returns the elements that extend beyond the right edge of the window. */
function cutOff(page) {
  return page.evaluate(() =>
    [...document.querySelectorAll("main *, header *, footer *")]
      .filter((element) => !element.closest("svg, .message .long") && element.getBoundingClientRect().right > innerWidth + 0.5)
      .map((element) => `${element.tagName}.${element.className}`),
  );
}

/** Returns the number of colours of a picture, and its brightness from 0 to 255. */
async function look(page, png) {
  return page.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const context = canvas.getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const { data } = context.getImageData(0, 0, bitmap.width, bitmap.height);
    const colours = new Set();
    let sum = 0;
    for (let at = 0; at < data.length; at += 4) {
      colours.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
      sum += (data[at] + data[at + 1] + data[at + 2]) / 3;
    }
    return { colours: colours.size, brightness: sum / (data.length / 4) };
  }, png.toString("base64"));
}
