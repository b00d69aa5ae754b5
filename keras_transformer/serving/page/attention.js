/* The attention panel: which words, which layer, which heads, and the lines between the words. */

import { listChoice, radioChoice, wordButtons } from "./controls.js";
import { make } from "./dom.js";
import { drawLines, headClass, linesElement } from "./lines.js";
import { SHOWN, describeAttention, percent } from "./sentences.js";
import { meanOf, wordWeights } from "./words.js";

const ALL = -1; // All heads, or the mean of all layers.

// What a person has chosen, kept from one translation to the next. A null layer is the last.
const chosen = { kind: "cross", layer: null, head: ALL };

/**
 * Return an element that shows attention.
 *
 * @param {object} found What `inspectText` returned.
 * @param {?number} longest Subwords of the longest text that the model reads.
 */
export function attentionPanel({ kinds, length }, longest) {
  const panel = make("div", { className: "panel" });
  if (!kinds.every(({ queries, keys }) => queries.length && keys.length)) {
    panel.append(make("p", { className: "note" }, "There are no words to show."));
    return panel;
  }
  const tools = make("div", { className: "tools" });
  const picture = make("div", { className: "picture" });
  const said = make("p", { className: "note" });
  said.setAttribute("aria-live", "polite");
  panel.append(tools, picture, said);
  if (longest && length >= longest) panel.append(make("p", { className: "note" }, cut(longest)));

  const layerChoice = make("div");
  const headChoice = make("div");
  function showKind() {
    const kind = kinds.find(({ name }) => name === chosen.kind) ?? kinds.at(-1);
    const layers = kind.weights.length;
    if (chosen.layer >= layers) chosen.layer = null;
    const figure = figureOf(kind, said);
    picture.replaceChildren(figure.element);
    function show() {
      const layer = chosen.layer ?? layers - 1;
      const heads = kind.weights.at(layer).length;
      if (chosen.head >= heads) chosen.head = ALL;
      headChoice.replaceChildren(...(heads > 1 ? [chooseHead(heads, show)] : []));
      headChoice.classList.toggle("unused", layer === ALL); // Keeps its place, or words would move.
      figure.show(headsOf(kind, layer));
    }
    layerChoice.replaceChildren(...(layers > 1 ? [chooseLayer(layers, show)] : []));
    show();
  }
  if (kinds.length > 1) tools.append(chooseKind(kinds, showKind));
  tools.append(layerChoice, headChoice);
  showKind();
  return panel;
}

const cut = (longest) =>
  `The model reads at most ${longest} subwords of a line. If this line is longer, its end was not ` +
  "translated. Write one sentence per line.";

function chooseKind(kinds, changed) {
  const options = kinds.map(({ name, label }) => ({ value: name, text: label }));
  const known = kinds.some(({ name }) => name === chosen.kind);
  const value = known ? chosen.kind : kinds.at(-1).name;
  return radioChoice("Attention of", options, value, (kind) => {
    chosen.kind = kind;
    changed();
  });
}

function chooseLayer(layers, changed) {
  const options = Array.from({ length: layers }, (_, layer) => [
    layer,
    `${layer + 1}${layer === layers - 1 ? " (last)" : ""}`,
  ]);
  options.push([ALL, "mean of all"]);
  return listChoice("Layer", options, chosen.layer ?? layers - 1, (layer) => {
    chosen.layer = layer === layers - 1 ? null : layer;
    changed();
  });
}

function chooseHead(heads, changed) {
  const options = Array.from({ length: heads }, (_, head) => ({
    value: head,
    text: String(head + 1),
    className: headClass(head),
  }));
  return radioChoice("Heads", [{ value: ALL, text: "all" }, ...options], chosen.head, (head) => {
    chosen.head = head;
    changed();
  });
}

/** Return the chosen heads of a layer, each with its number and weights between words. */
function headsOf({ queries, keys, weights }, layer) {
  const toWords = (matrix) => wordWeights(matrix, queries, keys);
  if (layer === ALL) return [{ head: null, weights: toWords(meanOf(weights.flat())) }];
  const heads = weights[layer];
  if (heads.length === 1) return [{ head: null, weights: toWords(heads[0]) }];
  return heads
    .map((matrix, head) => ({ head, matrix }))
    .filter(({ head }) => chosen.head === ALL || chosen.head === head)
    .map(({ head, matrix }) => ({ head, weights: toWords(matrix) }));
}

/** Return a picture of words and lines, and a function that shows some heads in it. */
function figureOf({ label, queries, keys }, said) {
  const [from, to] = label.split(" to ");
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
    ...[heading(from), make("span"), heading(capital(to)), words.element, lines, column],
  );
  return {
    element,
    show: (shown) => {
      heads = shown;
      draw();
    },
  };
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

function keyWord({ text, isEnd }) {
  const word = make("div", { className: isEnd ? "end" : "" }, make("bdi", {}, text));
  word.append(make("span", { className: "weight", dir: "ltr" }));
  return word;
}
