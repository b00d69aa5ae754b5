/* The attention of a translation, one word at a time. */

import { make } from "./dom.js";
import { terms } from "./model.js";
import { joinSubwords, layerRows, wordWeights } from "./words.js";

const SHOWN = 0.05; // Smaller shares have no number.
const NAMED = 3; // Words that the sentence below names.

let chosenLayer = -1; // The mean; kept from one translation to the next.
let panels = 0;

/**
 * Return an element that shows attention.
 *
 * @param {object} answer source_tokens [S], target_tokens [T] and attention [layers, T, S].
 * @param {?number} longest Subwords of the longest text that the model reads.
 */
export function attentionPanel(answer, longest) {
  const sources = joinSubwords(answer.source_tokens);
  const targets = joinSubwords(answer.target_tokens);
  if (!targets.length || !sources.length) {
    return make("p", { className: "note" }, "There are no words to show.");
  }
  const layers = answer.attention.length;
  if (chosenLayer >= layers) chosenLayer = -1;
  let rows = layerRows(answer.attention, chosenLayer);

  const sourceWords = sources.map(sourceWord);
  const targetWords = targets.map(targetWord);
  const said = make("p", { className: "note" });
  said.setAttribute("aria-live", "polite");

  let selected = 0;
  function select(index) {
    targetWords[selected].tabIndex = -1;
    targetWords[selected].setAttribute("aria-pressed", "false");
    selected = index;
    targetWords[selected].tabIndex = 0;
    targetWords[selected].setAttribute("aria-pressed", "true");
    const weights = wordWeights(rows, targets[selected], sources);
    sourceWords.forEach((word, at) => shade(word, weights[at]));
    said.textContent = describe(targets[selected], sources, weights);
  }

  targetWords.forEach((word, index) => {
    word.addEventListener("pointerenter", () => select(index));
    word.addEventListener("focus", () => select(index));
    word.addEventListener("click", () => select(index));
  });
  const group = row(terms.one, "target-words", targetWords);
  group.words.addEventListener("keydown", (event) => {
    const next = nextIndex(event, selected, targetWords.length);
    if (next === null) return;
    event.preventDefault();
    targetWords[next].focus();
  });

  const layerChoice = chooseLayer(layers, (layer) => {
    chosenLayer = layer;
    rows = layerRows(answer.attention, layer);
    select(selected);
  });
  const hint = `Point at a word of the ${terms.one.toLowerCase()}, or move with the arrow keys.`;
  const tools = make("div", { className: "attention-tools" }, make("p", { className: "note" }, hint));
  if (layers > 1) tools.append(layerChoice);
  const panel = make("div", { className: "panel" }, tools);
  panel.append(group.element, row("Text", "source-words", sourceWords).element, said);
  const read = answer.source_tokens.filter((token) => token !== "").length;
  if (longest && read >= longest) panel.append(make("p", { className: "note" }, cut(longest)));
  select(0);
  return panel;
}

const cut = (longest) =>
  `The model reads at most ${longest} subwords of a line. If this line is longer, its end was not ` +
  "translated. Write one sentence per line.";

function sourceWord({ text, isEnd }) {
  const word = make("span", { className: isEnd ? "end" : "" }, text);
  word.append(make("span", { className: "weight", dir: "ltr" }));
  return word;
}

function targetWord({ text, isEnd }) {
  const word = make("button", { type: "button", className: isEnd ? "end" : "", tabIndex: -1 }, text);
  word.setAttribute("aria-pressed", "false");
  return word;
}

function shade(word, weight) {
  const strength = Math.min(1, weight) ** 0.75; // Small shares stay visible.
  word.style.setProperty("--share", `${Math.round(100 * strength)}%`);
  word.lastChild.textContent = weight >= SHOWN ? percent(weight) : "";
}

const percent = (share) => `${Math.round(100 * share)}%`;

/** Say in words what the shades show. */
function describe(target, sources, weights) {
  const order = weights.map((weight, index) => [weight, index]).sort((one, two) => two[0] - one[0]);
  const most = order
    .slice(0, NAMED)
    .filter(([weight]) => weight >= SHOWN)
    .map(([weight, index]) => `${nameOf(sources[index])} ${percent(weight)}`);
  const what = most.length ? most.join(", ") : "no word more than another";
  return `${nameOf(target)} attends to ${what}`;
}

const nameOf = ({ text, isEnd }) => (isEnd ? "the end of the sentence" : `“${isolate(text)}”`);
const isolate = (text) => `\u2068${text}\u2069`; // Its direction does not affect its neighbors.

function row(label, className, words) {
  const id = `words-${(panels += 1)}`;
  const list = make("div", { className: `words ${className}`, dir: "auto" }, ...words);
  list.setAttribute("role", "group");
  list.setAttribute("aria-labelledby", id);
  const name = make("p", { className: "words-label", id }, label);
  return { words: list, element: make("div", { className: "words-row" }, name, list) };
}

function nextIndex(event, index, count) {
  const isRtl = getComputedStyle(event.currentTarget).direction === "rtl";
  const step = { ArrowRight: isRtl ? -1 : 1, ArrowLeft: isRtl ? 1 : -1 }[event.key];
  if (step) return Math.min(count - 1, Math.max(0, index + step));
  return { Home: 0, End: count - 1 }[event.key] ?? null;
}

function chooseLayer(layers, changed) {
  const choice = make("select");
  choice.append(new Option("mean of all", "-1"));
  for (let layer = 0; layer < layers; layer += 1) {
    const place = layer === layers - 1 ? " (last)" : "";
    choice.append(new Option(`${layer + 1}${place}`, String(layer)));
  }
  choice.value = String(chosenLayer);
  choice.addEventListener("change", () => changed(Number(choice.value)));
  return make("label", {}, "Layer", choice);
}
