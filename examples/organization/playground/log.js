import { byId, element } from "./element.js";

/** The maximum number of calls in the list. */
const KEPT = 200;

/** The list of calls, newest first. One of them is selected; the arrow keys move between them. */
export class Log {
  #list = byId("log");
  #exchanges = new Map();
  #onSelect;

  constructor(onSelect) {
    this.#onSelect = onSelect;
    this.#list.addEventListener("click", (event) => this.#select(event.target.closest("button")));
    this.#list.addEventListener("keydown", (event) => this.#move(event));
    byId("clear").addEventListener("click", () => this.#clear());
  }

  /** Adds an exchange. */
  add(exchange) {
    const row = rowOf(exchange);
    this.#exchanges.set(row, exchange);
    this.#list.prepend(element("li", {}, row));
    while (this.#list.children.length > KEPT) {
      this.#exchanges.delete(this.#list.lastElementChild.firstElementChild);
      this.#list.lastElementChild.remove();
    }
    byId("log-empty").hidden = true;
    row.tabIndex = -1;
    if (this.#exchanges.size === 1) this.#select(row);
  }

  /** Selects an exchange, unless the focus is in the list. */
  select(exchange) {
    if (this.#list.contains(document.activeElement)) return;
    for (const [row, other] of this.#exchanges) if (other === exchange) this.#select(row);
  }

  #select(row) {
    if (!row) return;
    for (const other of this.#exchanges.keys()) {
      other.tabIndex = other === row ? 0 : -1;
      other.setAttribute("aria-current", String(other === row));
    }
    this.#onSelect(this.#exchanges.get(row));
  }

  #move(event) {
    const rows = [...this.#exchanges.keys()].reverse();
    const at = rows.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const row = rows[Math.max(0, Math.min(to, rows.length - 1))];
    row.focus();
    this.#select(row);
  }

  #clear() {
    this.#exchanges.clear();
    this.#list.replaceChildren();
    byId("log-empty").hidden = false;
    this.#onSelect(null);
  }
}

function rowOf({ number, user, what, outcome, response, ms, at }) {
  const http = response ? String(response.status) : "–";
  return element(
    "button",
    { type: "button", "data-kind": outcome.kind, "data-user": user, title: at.toLocaleTimeString() },
    element("span", { class: "number" }, `#${number}`),
    element("span", { class: "what" }, element("b", {}, outcome.title), ` ${what}`),
    element("span", { class: `pip ${outcome.kind}`, "aria-hidden": "true" }),
    element("span", { class: "aside" }, [user, outcome.status ?? outcome.reason ?? outcome.code, http, `${Math.round(ms)} ms`].filter(Boolean).join(" · ")),
  );
}
