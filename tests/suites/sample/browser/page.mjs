import assert from "node:assert/strict";

/** The options of a small phone. */
export const PHONE = { viewport: { width: 375, height: 667 }, hasTouch: true, isMobile: true };

/** The page, in terms of its visible elements. */
export class Playground {
  constructor(page) {
    this.page = page;
  }

  key() {
    return this.page.locator("#key").textContent();
  }

  press(name) {
    return this.page.getByRole("button", { name }).click();
  }

  /** Holds calls of CreateProject back. Returns the function that lets them go. */
  async hold() {
    let release;
    const released = new Promise((resolve) => (release = resolve));
    await this.page.route("**/organization.v1.ProjectService/CreateProject", async (route) => {
      await released;
      await route.continue();
    });
    return release;
  }

  /** The row of a call in the list. */
  row(number) {
    return this.page.getByRole("button", { name: new RegExp(`^#${number} `) });
  }

  /** Makes a call, and waits until it is selected and has this outcome. */
  async send(name, title) {
    const before = await this.page.locator("#wire .title").allTextContents();
    await this.press(name);
    await this.page.waitForFunction((before) => document.querySelector("#wire .title")?.textContent !== before, before[0]);
    await this.ended(title);
  }

  /** Waits until the selected call has this outcome. */
  ended(title) {
    return this.page.locator("#wire .title", { hasText: new RegExp(`^#\\d+ ${title}$`) }).waitFor();
  }

  /** Waits until the picture of the record, or of the work, shows this. */
  record(state) {
    return this.page.locator(`#record[data-state="${state}"]`).waitFor();
  }

  work(state) {
    return this.page.locator(`#work[data-state="${state}"]`).waitFor();
  }

  /** Waits until every call has its answer. */
  async quiet() {
    await this.page.waitForFunction(() => !document.querySelector("#tape .running"));
  }

  /** The number of calls with this outcome, or the number of `projects`. */
  async tally(kind) {
    return Number(await this.page.locator(`#tally [data-tally="${kind}"] dd`).textContent());
  }

  async expectTally(expected) {
    for (const [kind, count] of Object.entries(expected)) {
      const shown = this.page.locator(`#tally [data-tally="${kind}"] dd`, { hasText: new RegExp(`^${count}$`) });
      await shown.waitFor().catch(async () => assert.equal(await this.tally(kind), count, kind));
    }
  }

  /** The shown text of the selected call’s `request` or `response`. */
  wire(message) {
    return this.page.locator(`[data-message="${message}"] pre`).textContent();
  }

  announcement() {
    return this.page.getByRole("status").textContent();
  }
}
