import { byId, element } from "./element.js";

/** The maximum number of calls in the list. */
const KEPT = 200;

/** The list of calls, newest first. One of them is selected; the arrow keys move between them. */
export class Log {
  #list = byId("log");
  #exchanges = new Map();
  #selected = null;
  #onSelect;

  /** Tells `onSelect` the selected exchange and its row, also when it has changed; both are null if none is selected. */
  constructor(onSelect) {
    this.#onSelect = onSelect;
    this.#list.addEventListener("click", (event) => this.#choose(event.target.closest("button")));
    this.#list.addEventListener("keydown", (event) => this.#move(event));
    byId("clear").addEventListener("click", () => this.#clear());
  }

  /** Adds an exchange. */
  add(exchange) {
    const row = element("button", { type: "button", tabindex: "-1" });
    fill(row, exchange);
    this.#exchanges.set(row, exchange);
    this.#list.prepend(element("li", {}, row));
    if (this.#exchanges.size > KEPT) this.#dropOldest();
    byId("log-empty").hidden = true;
    if (this.#exchanges.size === 1) this.#select(row);
  }

  /** Shows an exchange as it is now, if it is in the list. */
  update(exchange) {
    const row = this.#rowOf(exchange);
    if (!row) return;
    fill(row, exchange);
    if (row === this.#selected) this.#onSelect(exchange, row);
  }

  /** Selects an exchange if it is in the list, unless the focus is there. */
  select(exchange) {
    const row = this.#rowOf(exchange);
    if (row && !this.#list.contains(document.activeElement)) this.#select(row);
  }

  #rowOf(exchange) {
    return [...this.#exchanges.keys()].find((row) => this.#exchanges.get(row) === exchange);
  }

  #select(row) {
    this.#selected = row;
    for (const other of this.#exchanges.keys()) {
      other.tabIndex = other === row ? 0 : -1;
      other.setAttribute("aria-current", String(other === row));
    }
    this.#onSelect(this.#exchanges.get(row), row);
  }

  /** Selects a row for the user, and scrolls to it: the layout says in its margins how much of what follows is to be seen. */
  #choose(row) {
    if (!this.#exchanges.has(row)) return;
    this.#select(row);
    row.scrollIntoView({ block: "nearest" });
  }

  #move(event) {
    const rows = [...this.#exchanges.keys()].reverse();
    const at = rows.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const row = rows[Math.max(0, Math.min(to, rows.length - 1))];
    row.focus({ preventScroll: true });
    this.#choose(row);
  }

  /** Drops the oldest row but the selected one. */
  #dropOldest() {
    const oldest = [...this.#exchanges.keys()].find((row) => row !== this.#selected);
    this.#exchanges.delete(oldest);
    oldest.parentElement.remove();
  }

  #clear() {
    this.#selected = null;
    this.#onSelect(null, null);
    this.#exchanges.clear();
    this.#list.replaceChildren();
    byId("log-empty").hidden = false;
  }
}

function fill(row, { number, user, what, outcome, response, ms, at }) {
  const http = response ? String(response.status) : "–";
  const facts = ms === null ? [user] : [user, outcome.status ?? outcome.reason ?? outcome.code, http, `${Math.round(ms)} ms`];
  row.dataset.kind = outcome.kind;
  row.dataset.user = user;
  row.title = at.toLocaleTimeString();
  row.replaceChildren(
    element("span", { class: "number" }, `#${number}`),
    element("span", { class: "what" }, element("b", {}, outcome.title), ` ${what}`),
    element("span", { class: `pip ${outcome.kind}`, "aria-hidden": "true" }),
    element("span", { class: "aside" }, facts.filter(Boolean).join(" · ")),
  );
}
