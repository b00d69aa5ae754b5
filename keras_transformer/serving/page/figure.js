/* Two columns of words, the lines between them, and a sentence about the selected word. */

import { wordButtons } from "./controls.js";
import { make } from "./dom.js";
import { drawLines, linesElement } from "./lines.js";
import { SHOWN, describeAttended, describeAttention, percent } from "./sentences.js";
import { meanOf } from "./words.js";

/**
 * Return a picture, `element`, and a function that shows some heads in it, `show`.
 *
 * @param {object} kind One of the kinds that `inspectText` returns.
 * @param {Element} said Where a sentence says what the picture shows.
 */
export function attentionFigure({ from, to, queries, keys }, said) {
  let heads = [];
  let selected = null; // A word on the left.
  let pointed = null; // A word on the right.
  const lines = linesElement(Math.max(queries.length, keys.length));
  const targets = keys.map(keyWord);

  function draw() {
    const query = pointed === null ? selected : null;
    drawLines(lines, heads, query, pointed);
    const means = meanOf(heads.map(({ weights }) => weights));
    targets.forEach(({ lastChild }, key) => {
      const share = means[query]?.[key];
      lastChild.textContent = share >= SHOWN ? percent(share) : "";
    });
    said.textContent = sentence(query, means);
  }
  function sentence(query, means) {
    if (pointed !== null) {
      return describeAttended(keys[pointed], queries, means.map((shares) => shares[pointed]));
    }
    if (query === null) {
      return "Point at a word, or move on the left with the arrow keys, to see its lines alone.";
    }
    const own = heads.map(({ head, weights }) => ({ head, shares: weights[query] }));
    return describeAttention(queries[query], keys, own);
  }
  function point(key) {
    pointed = key;
    draw();
  }

  const words = wordButtons("attending", from, queries, (index) => {
    selected = index;
    if (heads.length) draw();
  });
  words.element.addEventListener("keydown", (event) => {
    if (event.key === "Escape") words.keep(null);
  });
  targets.forEach((word, key) => word.addEventListener("pointerenter", () => point(key)));
  const column = make("div", { className: "attended" }, ...targets);
  column.addEventListener("pointerleave", () => point(null));
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
