/* One result: the translation of a line, the other hypotheses, and what the model did. */

import { Failure, predict } from "./api.js";
import { attentionPanel } from "./attention.js";
import { choicesPanel } from "./choices.js";
import { make } from "./dom.js";
import { canInspect, inspectText } from "./inspection.js";
import { terms } from "./model.js";

const UNFILLED = -1e8; // Scores below are those of missing hypotheses.
const LONG = 600; // Characters of a text that scrolls in its own box.
const SENTENCE_ENDS = /[.!?]["”’)]*\s+\p{Lu}/gu;
const SPLIT = "This line seems to have several sentences. With one per line, results are better.";

const TOO_LONG = "This line is too long to be shown word by word.";

let opensAttention = true; // Until a person closes it.

/** Return what a model says about each text: `[{text, score}, ...]`, the best first. */
export async function translate(model, texts, signal) {
  const has = (signature) => model.signatures.includes(signature);
  if (has("n_best")) {
    const { translations, scores } = await predict(model.name, "n_best", texts, signal);
    return translations.map((row, line) =>
      row
        .map((text, rank) => ({ text, score: scores[line][rank] }))
        .filter(({ score }, rank) => rank === 0 || score > UNFILLED),
    );
  }
  if (has("translate_with_scores")) {
    const { translation, score } = await predict(
      model.name,
      "translate_with_scores",
      texts,
      signal,
    );
    return translation.map((text, line) => [{ text, score: score[line] }]);
  }
  const outputs = await predict(model.name, "serving_default", texts, signal);
  const translations = Array.isArray(outputs) ? outputs : outputs.translation;
  return translations.map((text) => [{ text, score: null }]);
}

/**
 * Return the list item of a result.
 *
 * @param {object} model The model.
 * @param {string} source The line.
 * @param {object[]} hypotheses What `translate` returned for it.
 * @param {boolean} isFirst Whether its attention is shown at once.
 */
export function resultItem(model, source, hypotheses, isFirst) {
  const [best] = hypotheses;
  const item = make("li");
  item.append(textOf("source", source), textOf("translation", best.text || `(no ${terms.one.toLowerCase()})`));
  if (source.match(SENTENCE_ENDS)?.length >= 2) item.append(make("p", { className: "note" }, SPLIT));
  if (hypotheses.length > 1) item.append(bestHypotheses(hypotheses));
  else if (best.score !== null) item.append(noteOfScore(best.score));
  if (canInspect(model)) item.append(...inspection(model, source, isFirst));
  return item;
}

function textOf(className, text) {
  const element = make("p", { className, dir: "auto" }, text);
  if (text.length > LONG) {
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
  const panel = make("div", { className: "panel" }, list, make("p", { className: "note" }, about));
  const summary = make("summary", {}, `The ${hypotheses.length} best ${terms.several.toLowerCase()}`);
  return make("details", {}, summary, panel);
}

const formatScore = (score) => score.toFixed(2).replace("-", "−");

/** Return the panels of attention and of choices, which share one request. */
function inspection(model, source, isFirst) {
  let answer = null;
  const read = () => (answer ??= inspectText(model, source));
  const forget = () => (answer = null); // The next opening tries again.
  const attention = lazyPanel("Attention", read, forget, (found) =>
    attentionPanel(found, model.max_source_length),
  );
  attention.firstChild.addEventListener("click", () => {
    if (isFirst) opensAttention = !attention.open;
  });
  attention.open = isFirst && opensAttention && source.length <= LONG;
  if (!model.signatures.includes("inspect")) return [attention];
  const choices = lazyPanel("Word by word", read, forget, (found) =>
    found.steps ? choicesPanel(found) : make("p", { className: "note" }, TOO_LONG),
  );
  return [attention, choices];
}

/** Return a panel that is filled when a person opens it. */
function lazyPanel(title, read, forget, fill) {
  const panel = make("div", { className: "panel" });
  const details = make("details", {}, make("summary", {}, title), panel);
  let isLoading = false;
  let isShown = false;
  details.addEventListener("toggle", async () => {
    if (!details.open || isLoading || isShown) return;
    isLoading = true;
    panel.replaceChildren(make("p", { className: "note" }, "Loading…"));
    try {
      panel.replaceChildren(fill(await read()));
      isShown = true;
    } catch (error) {
      forget();
      if (error.name === "AbortError") details.open = false; // A new translation runs.
      const message = error instanceof Failure ? error.message : "This cannot be shown.";
      panel.replaceChildren(make("p", { className: "note" }, message));
    } finally {
      isLoading = false;
    }
  });
  return details;
}
