/* The languages of a model of many: two lists, and what a person has chosen. */

import { byId } from "./dom.js";
import { languageName } from "./model.js";

const SIDES = ["source_language", "target_language"];

let model = { name: "" }; // What page/model.json says.

const listOf = (side) => byId(side.replace("_", "-"));
const keyOf = (side) => `${model.name} ${side}`;

/** Offer the languages of a model: `about` of page/model.json. */
export function offerLanguages(about) {
  model = about;
  const codes = about.language_codes ?? [];
  const names = codes.map((code) => [nameOf(code, codes), code]);
  names.sort(([one], [other]) => one.localeCompare(other, "en"));
  for (const side of SIDES) {
    listOf(side).replaceChildren(...names.map(([name, code]) => new Option(name, code)));
    const kept = remembered(side);
    listOf(side).value = codes.includes(kept) ? kept : about[side];
  }
  byId("languages").hidden = !codes.length;
}

/** Return the inputs of a request for other languages than those of the export; null for those. */
export function otherLanguages() {
  if (byId("languages").hidden) return null;
  const chosen = Object.fromEntries(SIDES.map((side) => [side, listOf(side).value]));
  return SIDES.some((side) => chosen[side] !== model[side]) ? chosen : null;
}

/** Return the name of a language and its code, such as "German (deu_Latn)". */
function nameOf(code, codes) {
  const [language] = code.split("_");
  const isOnly = codes.filter((other) => other.split("_")[0] === language).length === 1;
  const name = languageName(isOnly ? language : code); // With its script, if there are several.
  return name === code || name === language ? code : `${name.replace(/[()]/g, "")} (${code})`;
}

function remembered(side) {
  try {
    return localStorage.getItem(keyOf(side));
  } catch {
    return null; // The browser keeps nothing.
  }
}

for (const side of SIDES) {
  listOf(side).addEventListener("change", () => {
    try {
      localStorage.setItem(keyOf(side), listOf(side).value);
    } catch {
      // It is chosen until the page is closed.
    }
  });
}
