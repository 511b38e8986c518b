/** Returns the element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** Creates an element. Omits attributes that are `null`, `false` or undefined. Children are elements or text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(attribute, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(attribute, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
