/* Two columns of words, the lines between them, and a sentence about the selected word. */

import { wordButtons } from "./controls.js";
import { make } from "./dom.js";
import { drawLines, linesElement } from "./lines.js";
import { SHOWN, describeAttention, percent } from "./sentences.js";
import { meanOf } from "./words.js";

/**
 * Return a picture, `element`, and a function that shows some heads in it, `show`.
 *
 * @param {object} kind One of the kinds that `inspectText` returns.
 * @param {Element} said Where a sentence says what the picture shows.
 */
export function attentionFigure({ from, to, queries, keys }, said) {
  let heads = [];
  let selected = null;
  const lines = linesElement(Math.max(queries.length, keys.length));
  const targets = keys.map(keyWord);

  function draw() {
    drawLines(lines, heads, selected);
    const shares = selected === null ? null : meanOf(heads.map(({ weights }) => weights))[selected];
    targets.forEach(({ lastChild }, key) => {
      lastChild.textContent = shares?.[key] >= SHOWN ? percent(shares[key]) : "";
    });
    const own = heads.map(({ head, weights }) => ({ head, shares: weights[selected] }));
    said.textContent =
      selected === null
        ? "Point at a word on the left, or move with the arrow keys, to see its lines alone."
        : describeAttention(queries[selected], keys, own);
  }

  const words = wordButtons("attending", from, queries, (index) => {
    selected = index;
    if (heads.length) draw();
  });
  words.element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") words.keep(null);
  });
  const column = make("div", { className: "attended" }, ...targets);
  const heading = (text) => make("p", { className: "words-label", ariaHidden: "true" }, text);
  const element = make(
    "div",
    { className: "figure" },
    ...[heading(from), make("span"), heading(to), words.element, lines, column],
  );
  return {
    element,
    show: (shown) => {
      heads = shown;
      draw();
    },
  };
}

function keyWord({ text, isEnd }) {
  const word = make("div", { className: isEnd ? "end" : "" }, make("bdi", {}, text));
  word.append(make("span", { className: "weight", dir: "ltr" }));
  return word;
}
