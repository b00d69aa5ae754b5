/* What the page says about the model. */

import { byId, make, showText } from "./dom.js";

const TRANSLATIONS = {
  verb: "Translate",
  doing: "Translating",
  done: "translated",
  one: "Translation",
  several: "Translations",
};
const TREES = { verb: "Parse", doing: "Parsing", done: "parsed", one: "Tree", several: "Trees" };

/** The page's words for what the model writes. */
export const terms = { ...TRANSLATIONS };

/** Show whether the model is ready, waiting or absent. */
export function showState(state, message) {
  const element = byId("state");
  element.dataset.state = state;
  if (element.textContent !== message) element.textContent = message;
}

/** Show the name, the description, the facts and the card of a model. */
export function showModel({ name, description = "", facts = [], card = "", makes_trees = false }) {
  Object.assign(terms, makes_trees ? TREES : TRANSLATIONS);
  byId("translate").textContent = terms.verb;
  byId("form").ariaLabel = `Text to ${terms.verb.toLowerCase()}`;
  byId("compare").hidden = makes_trees; // BLEU is for translations.
  byId("name").textContent = name;
  document.title = `${name} – ${terms.verb}`;
  showText(byId("description"), firstParagraph(description));
  const items = facts.map(([term, value]) =>
    make("div", {}, make("dt", {}, term), make("dd", {}, value)),
  );
  byId("facts").replaceChildren(...items);
  showText(byId("card-text"), joinLines(card));
  byId("card").hidden = !card;
  byId("about").hidden = !card && !facts.length;
}

/** Return the first paragraph of a Markdown text, without its marks for links and emphasis. */
function firstParagraph(markdown) {
  const [first] = markdown.trim().split(/\n\s*\n/);
  const links = first.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  return links.replace(/\*\*|`/g, "").replace(/\s+/g, " ");
}

/** Return a Markdown text whose paragraphs are lines, so that they fit any width. */
function joinLines(markdown) {
  const isProse = (line) => /^[^\s|#>-]/.test(line);
  const parts = markdown.split(/^(```.*\n[^]*?^```$)/m); // Code is at odd places.
  const joined = parts.map((part, place) => {
    if (place % 2) return part;
    const lines = part.split("\n");
    return lines.reduce(
      (text, line, at) =>
        text + (at === 0 ? "" : isProse(line) && isProse(lines[at - 1]) ? " " : "\n") + line,
      "",
    );
  });
  return joined.join("");
}
