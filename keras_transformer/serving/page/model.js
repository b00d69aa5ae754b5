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

const LONG = 20; // Characters of a fact that has a line to itself.

/** The page's words for what the model writes. */
export const terms = { ...TRANSLATIONS };

/** Show whether the model is ready, waiting or absent. */
export function showState(state, message) {
  const element = byId("state");
  element.dataset.state = state;
  if (element.textContent !== message) element.textContent = message;
}

/** Show what is known about a model: `about` of page/model.json. */
export function showModel(about) {
  const { name, languages = [], license = "", description = "", facts = [], card = "" } = about;
  const title = languages.length ? directionOf(languages) : name;
  Object.assign(terms, about.makes_trees ? TREES : TRANSLATIONS);
  byId("translate").textContent = terms.verb;
  byId("form").ariaLabel = `Text to ${terms.verb.toLowerCase()}`;
  byId("compare").hidden = Boolean(about.makes_trees); // BLEU is for translations.
  byId("name").textContent = title;
  document.title = `${title} – ${terms.verb}`;
  const identity = [title === name ? "" : name, license && `License: ${license}`];
  showText(byId("identity"), identity.filter(Boolean).join(" · "));
  showText(byId("description"), firstParagraph(description));
  const items = facts.map(([term, value]) => {
    const className = value.length > LONG ? "wide" : "";
    return make("div", { className }, make("dt", {}, term), make("dd", {}, value));
  });
  byId("facts").replaceChildren(...items);
  showText(byId("card-text"), joinLines(card));
  byId("card").hidden = !card;
  byId("about").hidden = !card && !facts.length;
}

/** Return what a model translates from and to: "English to German". */
function directionOf([source, ...targets]) {
  const names = targets.length > 3 ? [`${targets.length} languages`] : targets.map(languageName);
  return `${languageName(source)} to ${new Intl.ListFormat("en").format(names)}`;
}

const languageNames = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" });

/** Return the English name of a language, or its code. */
export function languageName(code) {
  try {
    return languageNames.of(code.replaceAll("_", "-")) ?? code;
  } catch {
    return code; // It is not a code.
  }
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
