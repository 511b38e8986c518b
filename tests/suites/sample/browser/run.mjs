// node run.mjs SCENARIO URL DIRECTORY: runs a scenario on the page at URL in a real chromium. Exits with 1 if the page is not as
// expected. CHROMIUM is the path of the program; screenshots go to DIRECTORY.
import { chromium } from "playwright-core";

const [scenario, url, directory] = process.argv.slice(2);
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const complaints = [];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS });

/** Opens a page in a new profile. Errors that the page logs fail the scenario. */
async function open(options = {}, address = url) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(30_000);
  const page = await context.newPage();
  page.on("pageerror", (error) => complaints.push(error.stack));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type()) && !isAnswer(message)) complaints.push(message.text());
  });
  await page.goto(address);
  return page;
}

/** Chromium logs every answer of 400 and above and every lost one. They are expected: the page shows them itself. */
const isAnswer = (message) => message.text().startsWith("Failed to load resource") && /\/organization\.v1\.|\/users\.json$/.test(message.location().url);

try {
  const { default: run } = await import(`./${scenario}.mjs`);
  await run({ browser, directory, open, url });
  if (complaints.length > 0) throw new Error(`the browser logged errors:\n${complaints.join("\n")}`);
} finally {
  await browser.close();
}
