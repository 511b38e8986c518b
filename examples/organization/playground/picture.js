import { byId, element } from "./element.js";
import { KINDS } from "./outcome.js";

/** The order of the legend. The first four are always shown, the others only if they occurred. */
const ORDER = ["first", "replayed", "progress", "refused", "unprotected", "failed", "lost"];

/** The maximum number of pips on the tape. */
const TAPE = 60;

/** Draws the life of a key. */
export function draw(life) {
  byId("whose").textContent = `as ${life.user}`;
  drawRecord(life);
  drawWork(life);
  byId("story").textContent = story(life);
  drawTape(life);
  drawTally(life);
}

/** Shows that a call was turned away. */
export function bounce() {
  const picture = byId("record");
  picture.classList.remove("bouncing");
  picture.getBoundingClientRect(); // forces a reflow, so that the animation restarts
  picture.classList.add("bouncing");
}

function drawRecord(life) {
  const picture = byId("record");
  picture.dataset.state = life.record;
  picture.dataset.released = life.released;
  picture.dataset.turnedAway = life.turnedAway() > 0;
  byId("record-says").textContent = `The record: ${life.record}`;
  // The call may never have arrived: then there is no record.
  byId("held").textContent = life.record === "unknown" ? "unknown" : "reserved";
  byId("held-why").textContent = life.record === "unknown" ? "no answer arrived" : "first call running";
  byId("turned-away").textContent = life.turnedAway() > 0 ? `${life.turnedAway()} turned away` : "";
}

function drawWork(life) {
  byId("work").dataset.state = life.work ?? "none";
  byId("work-says").textContent = `The background work: ${life.work ?? "not started"}`;
  byId("asked").textContent = life.asked > 0 ? `replayed ${times(life.asked)}` : "";
}

function drawTape(life) {
  const pips = life.outcomes.slice(-TAPE).map((kind) => element("li", { class: `pip ${kind}` }));
  const flying = Array.from({ length: Math.min(life.flying, TAPE) }, () => element("li", { class: "pip running" }));
  byId("tape").replaceChildren(...pips, ...flying);
}

function drawTally(life) {
  const entry = (name, value, kind) =>
    element("div", { "data-tally": kind }, element("dt", {}, element("i", { class: `pip ${kind}` }), name), element("dd", {}, value));
  const shown = ORDER.filter((kind, index) => index < 4 || life.count(kind) > 0);
  byId("tally").replaceChildren(
    ...shown.map((kind) => entry(KINDS[kind].title, String(life.count(kind)), kind)),
    entry("Projects in the database", life.projects === null ? "–" : String(life.projects), "projects"),
  );
}

function story(life) {
  switch (life.record) {
    case "free":
      return life.released
        ? "Free again: the call failed and had no effect. The next call with this key is the first."
        : "No record. The next call with this key is the first: its handler will run.";
    case "reserved":
      return "Reserved: the first call is running. Until it ends, every other call with this key is turned away.";
    case "unknown":
      return "Unclear: a response was lost. Send the call again with the same key; it will not take effect twice.";
    default:
      return `Completed: ${work(life)}`;
  }
}

function work({ work }) {
  switch (work) {
    case "processing":
      return "every retry gets the first response. The background work is still running.";
    case "failed":
      return "every retry gets the first response, and learns that the background work failed.";
    default:
      return "every retry gets the first response, and learns that the background work is done.";
  }
}

const times = (count) => (count === 1 ? "once" : `${count} times`);
