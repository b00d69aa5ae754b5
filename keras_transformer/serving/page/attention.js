/* The attention panel: which words, which layer, which heads, and the lines between the words. */

import { listChoice, radioChoice } from "./controls.js";
import { make } from "./dom.js";
import { attentionFigure } from "./figure.js";
import { headClass } from "./lines.js";
import { meanOf, wordWeights } from "./words.js";

const ALL = -1; // All heads at once, or the mean of all layers.

// What a person has chosen, kept from one translation to the next. A null layer is the last.
const chosen = { kind: "cross", layer: null, head: 0 };

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
    const figure = attentionFigure(kind, said);
    picture.replaceChildren(figure.element);
    const showHeads = () => figure.show(headsOf(kind, layerOf(layers)));
    function showLayer() {
      const layer = layerOf(layers);
      const heads = kind.weights.at(layer).length;
      if (chosen.head >= heads) chosen.head = 0;
      headChoice.replaceChildren(...(heads > 1 ? [chooseHead(heads, showHeads)] : []));
      headChoice.classList.toggle("unused", layer === ALL); // Keeps its place, or words would move.
      showHeads();
    }
    layerChoice.replaceChildren(...(layers > 1 ? [chooseLayer(layers, showLayer)] : []));
    showLayer();
  }
  if (kinds.length > 1) tools.append(chooseKind(kinds, showKind));
  tools.append(layerChoice, headChoice);
  showKind();
  return panel;
}

/** Return the chosen layer, or the last if there is no such choice among so many. */
function layerOf(layers) {
  const isThere = layers > 1 && chosen.layer !== null && chosen.layer < layers;
  return isThere ? chosen.layer : layers - 1;
}

const cut = (longest) =>
  `The model reads at most ${longest} subwords of a line. If this line is longer, its end was not ` +
  "translated. Write one sentence per line.";

function chooseKind(kinds, changed) {
  const options = kinds.map(({ name, from, to }) => ({
    value: name,
    text: `${from} to ${to.toLowerCase()}`,
  }));
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
  return listChoice("Layer", options, layerOf(layers), (layer) => {
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
  return radioChoice("Head", [...options, { value: ALL, text: "all" }], chosen.head, (head) => {
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
