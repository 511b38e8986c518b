import { byId } from "./element.js";

/** Clicks the element of a pressed single key, unless the focus is in a text field or shortcuts are disabled. */
export function listen(ids) {
  document.addEventListener("keydown", (event) => {
    const taken = event.defaultPrevented || event.repeat || event.ctrlKey || event.metaKey || event.altKey;
    if (taken || !byId("shortcuts").checked || types(event.target)) return;
    const target = ids[event.key.toLowerCase()];
    if (!target) return;
    event.preventDefault();
    (typeof target === "function" ? target() : byId(target)).click();
  });
}

const types = (target) => target instanceof HTMLInputElement && target.type === "text";
