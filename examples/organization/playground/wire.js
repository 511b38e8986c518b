import { byId, element } from "./element.js";

/** The headers of the idempotency layer, which are highlighted. */
const OURS = new Set(["idempotency-key", "idempotency-status", "idempotent-replayed"]);

/** Whether there is room for the list and the details side by side. `layout.css` asks the same. */
export const columns = matchMedia("(min-width: 62rem)");

/** The row of the selected call, or null. */
let selected = null;

columns.addEventListener("change", settle);

/** Puts the details beside the list, or below the row of the selected call in a page of one column. */
export function place(row) {
  selected = row;
  settle();
}

function settle() {
  const details = byId("wire").parentElement;
  const parent = selected && !columns.matches ? selected.parentElement : document.querySelector("main");
  if (details.parentElement !== parent) parent.append(details);
}

/** Shows the request and the response of an exchange, or a placeholder if there is none. */
export function show(exchange) {
  const wire = byId("wire");
  if (!exchange) {
    wire.replaceChildren(element("p", { class: "empty" }, "The request and the response of the selected call."));
    return;
  }
  wire.replaceChildren(verdict(exchange), request(exchange), response(exchange));
}

function verdict({ number, outcome }) {
  const { kind, title, meaning, reason, mismatch, detail, advice } = outcome;
  return element(
    "div",
    { class: "verdict", "data-kind": kind },
    element("p", { class: "title" }, `#${number} ${title}`),
    reason ? element("p", { class: "reason" }, element("code", {}, reason), mismatch ? ` mismatch: ${mismatch}` : "") : null,
    element("p", {}, meaning),
    detail ? element("p", { class: "detail" }, `“${detail}”`) : null,
    advice ? element("p", { class: "advice" }, advice) : null,
  );
}

function request({ request }) {
  return message("Request", `POST ${request.path}`, request.headers, request.body);
}

function response({ response, failure }) {
  if (!response) return message("Response", failure === null ? "not yet" : `none: ${failure}`, {}, "");
  return message("Response", `${response.status} ${response.reason}`.trim(), response.headers, response.body);
}

function classOf(name) {
  if (OURS.has(name)) return "header ours";
  return name === "authorization" ? "header long" : "header";
}

function message(title, line, headers, body) {
  const lines = Object.entries(headers).map(([name, value]) =>
    element("span", { class: classOf(name) }, element("b", {}, `${name}: `), value, "\n"),
  );
  return element(
    "section",
    { class: "message", "data-message": title.toLowerCase(), "aria-label": title },
    element("h3", {}, title),
    element("pre", {}, element("span", { class: "line" }, `${line}\n`), ...lines, element("span", { class: "body" }, `\n${body}`)),
  );
}
