/* The translation as it is chosen: each step's word, and what else the model considered. */

import { wordButtons } from "./controls.js";
import { make } from "./dom.js";
import { terms } from "./model.js";
import { candidateShares, nameOf, probability } from "./sentences.js";
import { subwordTexts } from "./words.js";

const PACE = 900; // Milliseconds from one word to the next.
const ABOUT =
  "The search compares whole sentences and follows rules, so it may choose a word that is not the " +
  "likeliest here.";

/**
 * Return an element that shows how a translation was chosen.
 *
 * @param {object} found What `inspectText` returned, with `steps`.
 */
export function choicesPanel({ steps, targets }) {
  const panel = make("div", { className: "panel" });
  if (!targets.length) {
    panel.append(make("p", { className: "note" }, "There are no words to show."));
    return panel;
  }
  const textOf = subwordTexts(steps.map(({ token }) => token));
  const lists = make("div", { className: "candidate-lists" });
  const said = make("p", { className: "note" });
  said.setAttribute("aria-live", "polite");

  const words = wordButtons("written", terms.one, targets, (shown) => {
    words.buttons.forEach((button, index) => button.classList.toggle("later", index > shown));
    const parts = targets[shown].positions.map((position) => steps[position]);
    lists.replaceChildren(...parts.map((part, at) => candidateList(part, at, parts.length, textOf)));
    const chance = parts.reduce((product, part) => product * part.probability, 1);
    said.textContent =
      `Word ${shown + 1} of ${targets.length}: ${nameOf(targets[shown])}, chosen with a probability ` +
      `of ${probability(chance)}`;
  });
  words.element.dir = "auto";
  panel.append(words.element, said, lists);
  if (steps.some(({ token, candidates }) => token !== candidates[0].token)) {
    panel.append(make("p", { className: "note" }, ABOUT));
  }
  if (targets.length > 1 && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    panel.prepend(playButton(words, said));
  }
  words.keep(0);
  return panel;
}

/**
 * Return the candidates of a step, likeliest first, what was chosen if it is not among them, and what is
 * left for all other tokens.
 */
function candidateList({ token, probability: chance, candidates }, at, count, textOf) {
  const isAmong = candidates.some((each) => each.token === token);
  const shown = isAmong ? candidates : [...candidates, { token, probability: chance }];
  const shares = candidateShares(shown.map(({ probability: each }) => each));
  const items = [...shown, null].map((each, rank) => {
    const isChosen = each?.token === token;
    const bar = make("span", { className: "bar" });
    bar.style.setProperty("--share", `${shares[rank].toFixed(1)}%`);
    const name = make("bdi", { className: each ? "candidate" : "candidate end" });
    name.textContent = each ? textOf(each.token) : "other";
    const item = make("li", { className: isChosen ? "chosen" : "" }, name, bar);
    const number = shares[rank] ? `${shares[rank].toFixed(1)}%` : "<0.1%";
    item.append(make("span", { className: "score" }, number));
    item.append(make("span", { className: "mark" }, isChosen ? "chosen" : ""));
    return item;
  });
  const list = make("ol", { className: "candidates", ariaLabel: "Candidates" }, ...items);
  const label = `Part ${at + 1} of ${count}`;
  return make("div", {}, ...(count > 1 ? [make("p", { className: "words-label" }, label)] : []), list);
}

/** Return a button that shows one word after the other. */
function playButton({ element, buttons, keep }, said) {
  const button = make("button", { type: "button", className: "quiet play" }, "Play");
  let timer = null;
  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
    said.setAttribute("aria-live", "polite");
  }
  element.addEventListener("pointerdown", stop);
  element.addEventListener("keydown", stop);
  button.addEventListener("click", () => {
    if (timer !== null) return stop();
    let next = 0;
    button.textContent = "Stop";
    said.setAttribute("aria-live", "off"); // Speech is slower than the steps.
    keep(next);
    timer = setInterval(() => {
      next += 1;
      keep(next);
      if (next === buttons.length - 1 || !button.isConnected) stop();
    }, PACE);
  });
  return button;
}
