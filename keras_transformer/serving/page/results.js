/* One result: the translation of a line, the other hypotheses, and what the model did. */

import { Failure, predict } from "./api.js";
import { attentionPanel } from "./attention.js";
import { choicesPanel } from "./choices.js";
import { radioChoice } from "./controls.js";
import { make } from "./dom.js";
import { canInspect, inspectText } from "./inspection.js";
import { terms } from "./model.js";
import { WITH_TERMS, keepsSomething, keptInputs, withChips } from "./spans.js";

const UNFILLED = -1e8; // Scores below are those of missing hypotheses.
const LONG = 600; // Characters of a text that scrolls in its own box.
const SENTENCE_ENDS = /[.!?]["”’)]*\s+\p{Lu}/gu;
const SPLIT = "This line seems to have several sentences. With one per line, results are better.";

const BETWEEN = "translate"; // It takes the languages of each text.
const DOCUMENT = "translate_document"; // It divides a line into sentences.
const TOO_LONG = "This line is too long to be shown word by word.";

// What a person has chosen, kept from one translation to the next.
const chosen = { view: "Attention", isOpen: true };

/**
 * Return what a model says about each text: `[{text, score}, ...]`, the best first.
 *
 * `languages` are those of `otherLanguages`.
 */
export async function translate(model, texts, languages, signal) {
  const ways = texts.map((text) => (languages ? BETWEEN : wayOf(model, text)));
  const answers = [];
  for (const way of new Set(ways)) {
    const own = texts.filter((_, line) => ways[line] === way);
    const found = await translateBy(way, model, own, languages, signal);
    ways.forEach((each, line) => {
      if (each === way) answers[line] = found.shift();
    });
  }
  return answers;
}

/** Return the signature for a text. */
function wayOf(model, text) {
  const has = (signature) => model.signatures.includes(signature);
  if (has(WITH_TERMS) && keepsSomething(text, model.protect)) return WITH_TERMS;
  if (has(DOCUMENT) && text.match(SENTENCE_ENDS)) return DOCUMENT;
  return ["n_best", "translate_with_scores"].find(has) ?? "serving_default";
}

async function translateBy(way, model, texts, languages, signal) {
  if (way === BETWEEN) return plain(await predict(model.name, way, texts, signal, languages));
  if (way === WITH_TERMS || way === DOCUMENT) {
    const others = way === WITH_TERMS ? keptInputs(model.protect) : {};
    const found = plain(await predict(model.name, way, texts, signal, others));
    return found.map(([best]) => [{ ...best, way }]);
  }
  if (way === "n_best") {
    const { translations, scores } = await predict(model.name, "n_best", texts, signal);
    return translations.map((row, line) =>
      row
        .map((text, rank) => ({ text, score: scores[line][rank] }))
        .filter(({ score }, rank) => rank === 0 || score > UNFILLED),
    );
  }
  if (way === "translate_with_scores") {
    const { translation, score } = await predict(
      model.name,
      "translate_with_scores",
      texts,
      signal,
    );
    return translation.map((text, line) => [{ text, score: score[line] }]);
  }
  return plain(await predict(model.name, "serving_default", texts, signal));
}

function plain(outputs) {
  const translations = Array.isArray(outputs) ? outputs : outputs.translation;
  return translations.map((text) => [{ text, score: null }]);
}

/**
 * Return the list item of a result.
 *
 * @param {object} model The model.
 * @param {string} source The line.
 * @param {object[]} hypotheses What `translate` returned for it.
 * @param {boolean} isFirst Whether its details are shown at once.
 */
export function resultItem(model, source, hypotheses, isFirst) {
  const [best] = hypotheses;
  const item = make("li");
  const written = best.text || `(no ${terms.one.toLowerCase()})`;
  const chips = best.way === WITH_TERMS ? withChips(source, written) : [[source], [written]];
  item.append(textOf("source", ...chips[0]), textOf("translation", ...chips[1]));
  if (best.way !== DOCUMENT && source.match(SENTENCE_ENDS)?.length >= 2) item.append(make("p", { className: "note" }, SPLIT));
  if (hypotheses.length === 1 && best.score !== null) item.append(noteOfScore(best.score));
  const views = viewsOf(model, source, hypotheses);
  if (views.length) item.append(detailsOf(views, isFirst, source.length <= LONG));
  return item;
}

function textOf(className, ...nodes) {
  const element = make("p", { className, dir: "auto" }, ...nodes);
  if (element.textContent.length > LONG) {
    element.classList.add("long");
    element.tabIndex = 0; // So that it scrolls with the keyboard.
    element.setAttribute("role", "region");
    element.setAttribute("aria-label", className === "source" ? "Text" : terms.one);
  }
  return element;
}

const noteOfScore = (score) => make("p", { className: "note" }, `Score ${formatScore(score)}`);

function bestHypotheses(hypotheses) {
  const list = make("ol", { className: "hypotheses" });
  for (const { text, score } of hypotheses) {
    const name = make("span", { className: "hypothesis", dir: "auto" }, text);
    const number = make("span", { className: "score" }, formatScore(score));
    list.append(make("li", {}, name, number));
  }
  const about = "Scores are log-probabilities divided by a length penalty. The best is closest to 0.";
  return make("div", { className: "panel" }, list, make("p", { className: "note" }, about));
}

const formatScore = (score) => score.toFixed(2).replace("-", "−");

/** Return what there is to see of a translation: the name of each view, and a function that makes it. */
function viewsOf(model, source, hypotheses) {
  let answer = null; // One request for attention and choices.
  async function read() {
    try {
      return await (answer ??= inspectText(model, source));
    } catch (error) {
      answer = null; // The next view tries again.
      throw error;
    }
  }
  const views = [];
  if (hypotheses[0].way) return views; // The search that can be shown keeps nothing.
  if (canInspect(model)) {
    const attention = async () => attentionPanel(await read(), model.max_source_length);
    views.push({ name: "Attention", make: attention });
  }
  if (model.signatures.includes("inspect")) {
    const choices = async () => {
      const found = await read();
      return found.steps ? choicesPanel(found) : make("p", { className: "note" }, TOO_LONG);
    };
    views.push({ name: "Word by word", make: choices });
  }
  if (hypotheses.length > 1) {
    const name = `Best ${terms.several.toLowerCase()}`;
    views.push({ name, make: async () => bestHypotheses(hypotheses) });
  }
  return views;
}

/** Return a disclosure of some views, one at a time, each of which is made when it is first seen. */
function detailsOf(views, isFirst, mayOpen) {
  const panel = make("div");
  const title = views.length > 1 ? "Details" : views[0].name;
  const details = make("details", {}, make("summary", {}, title));
  const made = new Map();
  let shown = views.find(({ name }) => name === chosen.view) ?? views[0];

  async function show() {
    const view = shown;
    panel.replaceChildren(made.get(view) ?? make("p", { className: "note" }, "Loading…"));
    if (made.has(view)) return;
    try {
      made.set(view, await view.make());
      if (view === shown) panel.replaceChildren(made.get(view));
    } catch (error) {
      if (error.name === "AbortError") details.open = false; // A new translation runs.
      const message = error instanceof Failure ? error.message : "This cannot be shown.";
      if (view === shown) panel.replaceChildren(make("p", { className: "note" }, message));
    }
  }
  function choose(name) {
    chosen.view = name;
    shown = views.find((view) => view.name === name);
    show();
  }

  if (views.length > 1) {
    const options = views.map(({ name }) => ({ value: name, text: name }));
    const choice = radioChoice("Show", options, shown.name, choose);
    choice.classList.add("views");
    details.append(choice);
  }
  details.append(panel);
  details.addEventListener("toggle", () => {
    if (details.open) show();
  });
  details.firstChild.addEventListener("click", () => {
    if (isFirst) chosen.isOpen = !details.open;
  });
  details.open = isFirst && chosen.isOpen && mayOpen;
  return details;
}
