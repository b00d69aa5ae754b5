/* Elements. Text becomes text nodes and never HTML. */

/** Return an element with properties and children; strings become text. */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Return the element of the page with an id. */
export const byId = (id) => document.getElementById(id);

/** Show a text in an element, or hide the element if there is none. */
export function showText(element, text) {
  element.textContent = text;
  element.hidden = !text;
}

/** Return a count with its noun: "1 line", "2 lines". */
export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Make a text area as tall as its text, where CSS (`field-sizing`) does not. */
export function fitText(field) {
  if (CSS.supports("field-sizing", "content")) return;
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + field.offsetHeight - field.clientHeight}px`;
}
