/* Controls of a panel: choices, and words that are selected by pointing or with the arrow keys. */

import { make } from "./dom.js";

let groups = 0;

/**
 * Return a choice of one of several, as a row of buttons.
 *
 * @param {string} label What is chosen.
 * @param {object[]} options Each with its `value`, `text` and, if it has a color, `className`.
 * @param {*} chosen The value of the first choice.
 * @param {function} changed Called with the value of another.
 */
export function radioChoice(label, options, chosen, changed) {
  const name = `choice-${(groups += 1)}`;
  const items = options.map(({ value, text, className = "" }) => {
    const input = make("input", { type: "radio", name, checked: value === chosen });
    input.addEventListener("change", () => changed(value));
    const swatch = className ? [make("span", { className: `swatch ${className}` })] : [];
    return make("label", {}, input, make("span", {}, ...swatch, text));
  });
  const legend = make("legend", {}, label);
  return make("fieldset", { className: "choice" }, legend, make("div", {}, ...items));
}

/** Return a choice from a list of `[value, text]`. */
export function listChoice(label, options, chosen, changed) {
  const choice = make("select", {}, ...options.map(([value, text]) => new Option(text, value)));
  choice.value = String(chosen);
  choice.addEventListener("change", () => changed(Number(choice.value)));
  return make("label", { className: "list-choice" }, label, choice);
}

/**
 * Return words as buttons, which are one stop of the Tab key.
 *
 * A word is shown while the pointer is on it, and stays if it is clicked or has the focus.
 *
 * @param {string} className The class of the group.
 * @param {string} label What the words are.
 * @param {object[]} words Each with its `text` and whether it `isEnd`.
 * @param {function} show Called with the index of the word to show, or null for none.
 */
export function wordButtons(className, label, words, show) {
  let kept = null;
  const buttons = words.map(({ text, isEnd }, index) => {
    const properties = { type: "button", className: isEnd ? "end" : "", tabIndex: index ? -1 : 0 };
    const button = make("button", properties, text);
    button.addEventListener("pointerenter", () => mark(index));
    button.addEventListener("focus", () => keep(index));
    button.addEventListener("click", () => keep(index));
    return button;
  });

  function mark(shown) {
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(index === shown)));
    show(shown);
  }
  function keep(index) {
    buttons[kept ?? 0].tabIndex = -1;
    kept = index;
    buttons[kept ?? 0].tabIndex = 0;
    mark(kept);
  }

  const element = make("div", { className, ariaLabel: label }, ...buttons);
  element.setAttribute("role", "group");
  element.addEventListener("pointerleave", () => mark(kept));
  element.addEventListener("keydown", (event) => {
    const next = nextIndex(event, kept ?? 0, buttons.length);
    if (next === null) return;
    event.preventDefault();
    buttons[next].focus();
  });
  return { element, buttons, keep };
}

function nextIndex(event, index, count) {
  const isRtl = getComputedStyle(event.currentTarget).direction === "rtl";
  const steps = { ArrowDown: 1, ArrowUp: -1, ArrowRight: isRtl ? -1 : 1, ArrowLeft: isRtl ? 1 : -1 };
  const step = steps[event.key];
  if (step) return Math.min(count - 1, Math.max(0, index + step));
  return { Home: 0, End: count - 1 }[event.key] ?? null;
}
