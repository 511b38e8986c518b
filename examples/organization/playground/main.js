import { send } from "./call.js";
import { curl } from "./curl.js";
import { byId } from "./element.js";
import { newKey } from "./key.js";
import { Lives } from "./life.js";
import { Log } from "./log.js";
import { outcomeOf } from "./outcome.js";
import { bounce, draw } from "./picture.js";
import { Sample } from "./sample.js";
import { listen } from "./shortcuts.js";
import { columns, place, show } from "./wire.js";

const CREATE_PROJECT = "organization.v1.ProjectService/CreateProject";
const CREATE_CLUSTER = "organization.v1.ClusterService/CreateCluster";

/** The number of calls made “at once”. */
const BURST = 20;

/** How long a held-up handler waits, in milliseconds. */
const SLOW = 2000;

/** The pause before a call whose answer was lost on purpose is sent again, in milliseconds: long enough to see what is known then. */
const RETRY = 1500;

/** The interval between replays while the background work is watched, in milliseconds. */
const LOOK = 1000;

const log = new Log((exchange, row) => {
  selected = exchange;
  byId("curl").hidden = !exchange;
  byId("curl").textContent = "Copy as curl";
  show(exchange);
  place(row);
});
const lives = new Lives();
let key = newKey();
let number = 0;
let sample = null;
let watching = null;
let selected = null;

const user = () => document.querySelector("input[name=user]:checked").value;
const life = () => lives.of(user(), key);
const announce = (text) => (byId("announcement").textContent = text);

/** Returns the label by which the projects of a key are counted. */
const label = (key) => key.slice(0, 8);

/** Returns the message with the content of the form. */
function project(name = byId("name").value) {
  return { clusterId: sample?.cluster ?? "", name, labels: { playground: label(key) } };
}

/** Begins one call with the key, and shows that it is running. */
function begin(what, procedure, message, headers = {}) {
  const now = life();
  now.sent(procedure, JSON.stringify(message));
  const exchange = sample.prepare(now.user, procedure, message, { "idempotency-key": now.key, ...headers });
  number += 1;
  Object.assign(exchange, { number, user: now.user, key: now.key, what, outcome: outcomeOf(exchange) });
  log.add(exchange);
  redraw();
  return exchange;
}

/** Sends a call that was begun, and shows the outcome. */
async function finish(exchange) {
  await send(exchange);
  exchange.outcome = outcomeOf(exchange);
  const of = lives.of(exchange.user, exchange.key);
  of.received(exchange.outcome);
  log.update(exchange);
  if (of === life() && (exchange.outcome.kind === "progress" || exchange.outcome.kind === "refused")) bounce();
  redraw();
  return exchange;
}

/** Scrolls to the picture of the record, in a page of one column: a call for the user changes it. */
function lookAtRecord() {
  if (!columns.matches) byId("record").scrollIntoView({ block: "nearest" });
}

/** Makes a call for the user: also announces the outcome, counts the projects and watches the background work. */
async function callAndTell(...parts) {
  const exchange = begin(...parts);
  lookAtRecord();
  log.select(exchange);
  await finish(exchange);
  announce(said(exchange));
  await count(lives.of(exchange.user, exchange.key));
  watch();
  return exchange;
}

const slowly = () => (byId("slow").checked ? { "sample-handler-delay-ms": String(SLOW) } : {});

/** Asks the sample to carry the call out and to break the connection in place of an answer. */
const losing = () => (byId("lose").checked ? { "sample-lose-answer": "1" } : {});

async function sendProject() {
  if (!(await meet())) return;
  const [message, headers] = [project(), losing()];
  const exchange = await callAndTell(life().first ? "again" : "CreateProject", CREATE_PROJECT, message, { ...slowly(), ...headers });
  if ("sample-lose-answer" in headers && exchange.outcome.kind === "lost") setTimeout(() => retry(exchange, message), RETRY);
}

/** Sends a call again whose answer was lost, as every client should: with the same key and the same message. */
function retry({ user: sender, key: used, procedure }, message) {
  if (sender === user() && used === key) callAndTell("retry, same key", procedure, message);
}

function sendChanged() {
  if (!taken()) return;
  callAndTell("another message", CREATE_PROJECT, project(`another ${byId("name").value}`));
}

function sendElsewhere() {
  if (!taken()) return;
  callAndTell("CreateCluster", CREATE_CLUSTER, { name: byId("name").value, region: "nl-1" });
}

async function sendBurst() {
  if (!(await meet())) return;
  const [message, headers] = [project(), slowly()];
  const calls = Array.from({ length: BURST }, (_, index) => finish(begin(`${index + 1} of ${BURST}`, CREATE_PROJECT, message, headers)));
  lookAtRecord();
  const exchanges = await Promise.all(calls);
  log.select(exchanges.find(({ outcome }) => outcome.kind === "first") ?? exchanges.at(-1));
  announce(`${BURST} at once: ${summary(exchanges)}.`);
  await count(lives.of(exchanges[0].user, exchanges[0].key));
  watch();
}

/** Returns whether the key belongs to a call already, so that another call is refused. */
function taken() {
  if (life().first) return true;
  announce("Send a call first: this key does not belong to a call yet.");
  byId("send").focus();
  return false;
}

/** If enabled, replays the call until the background work has ended. A client learns the result of the work in this way. */
function watch() {
  clearTimeout(watching);
  const { record, work, first } = life();
  if (!byId("follow").checked || record !== "completed" || work !== "processing" || first?.procedure !== CREATE_PROJECT) return;
  watching = setTimeout(async () => {
    const before = life();
    const exchange = await finish(begin("watching", before.first.procedure, JSON.parse(before.first.body)));
    if (before === life() && before.work && before.work !== "processing") announce(`The background work: ${before.work}.`);
    if (exchange.outcome.kind === "replayed") watch();
  }, LOOK);
}

/** Counts the user's own projects of a key. */
async function count(counted) {
  const ids = await sample.projects(counted.user, label(counted.key));
  const others = lives.resourcesOfOthers(counted);
  if (ids) counted.projects = ids.filter((id) => !others.includes(id)).length;
  redraw();
}

/** Fetches the users, once. */
async function meet() {
  try {
    sample ??= await Sample.meet();
  } catch (error) {
    byId("hint").textContent = `The sample does not answer (${error.message}). Start it with “cargo run --example organization” and send the call again.`;
    announce(byId("hint").textContent);
  }
  redraw();
  return sample;
}

function redraw() {
  const now = life();
  byId("key").textContent = key;
  draw(now);
  const fits = now.fits(CREATE_PROJECT, JSON.stringify(project()));
  byId("send-label").textContent = now.first ? (fits ? "Send again" : "Send the changed message") : "Send";
  for (const id of ["changed", "procedure"]) byId(id).setAttribute("aria-disabled", String(!now.first));
  if (sample) byId("hint").textContent = fits ? "" : "The key belongs to another message, so this call will be refused. Take a new key to create another project.";
}

function said({ number, outcome }) {
  const { title, status, reason, meaning, advice } = outcome;
  return [`Call ${number}: ${title}.`, reason ? `${reason}.` : "", status ? `Status ${status}.` : "", meaning, advice].join(" ");
}

/** Returns the number of calls by outcome: “1 first, 19 in progress”. */
function summary(exchanges) {
  const titles = exchanges.map(({ outcome }) => outcome.title.toLowerCase());
  return [...new Set(titles)].map((title) => `${titles.filter((other) => other === title).length} ${title}`).join(", ");
}

function takeNewKey() {
  key = newKey();
  clearTimeout(watching);
  announce("A new key.");
  redraw();
}

async function copy() {
  try {
    await navigator.clipboard.writeText(curl(selected.request, location.origin));
    byId("curl").textContent = "Copied";
    announce("Copied.");
  } catch {
    byId("curl").textContent = "Cannot copy";
    announce("Cannot copy: the browser does not allow it for a page served over plain HTTP from another machine.");
  }
}

function switchUser() {
  clearTimeout(watching);
  redraw();
  watch();
}

function nameChanged() {
  byId("fails").checked = byId("name").value.startsWith("fail-");
  redraw();
}

function failsChanged() {
  const name = byId("name").value.replace(/^fail-/, "");
  byId("name").value = byId("fails").checked ? `fail-${name}` : name;
  redraw();
}

byId("send").addEventListener("click", sendProject);
byId("curl").addEventListener("click", copy);
byId("burst").addEventListener("click", sendBurst);
byId("changed").addEventListener("click", sendChanged);
byId("procedure").addEventListener("click", sendElsewhere);
byId("new-key").addEventListener("click", takeNewKey);
byId("name").addEventListener("input", nameChanged);
byId("fails").addEventListener("change", failsChanged);
byId("follow").addEventListener("change", watch);
document.querySelectorAll("input[name=user]").forEach((input) => input.addEventListener("change", switchUser));

listen({
  c: "changed",
  f: "fails",
  h: "slow",
  l: "lose",
  n: "new-key",
  p: "procedure",
  s: "send",
  t: "burst",
  u: () => document.querySelector("input[name=user]:not(:checked)"),
  w: "follow",
});

redraw();
await meet();
