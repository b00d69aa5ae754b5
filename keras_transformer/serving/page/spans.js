/* What a translation keeps: placeholders, tags and addresses of the text, and terms of a glossary. */

import { byId, make } from "./dom.js";

export const WITH_TERMS = "translate_with_terms";

// The server decides what it keeps; these find it again, to show it.
const SPANS = [
  /(?:https?|ftp):\/\/[^\s<>"'()[\]{}]*[\w/]/,
  /(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+/,
  /<\/?(?:[A-Za-z][^<>]*|\d+\s*\/?)>|&(?:[A-Za-z][A-Za-z0-9]+|#\d+|#x[0-9A-Fa-f]+);/,
  /\{\{\{?[^{}\n]*\}?\}\}|\{%[^{}\n]*%\}|\{#[^{}\n]*#\}/,
  /[$%]\{[\w.:-]+\}|\$\([\w.:-]+\)|(?<![\w$])\$[A-Za-z_]\w+/,
  /\{[^{}\s]*\}|%\([^()\s]+\)[a-z]/,
  /(?<![\d%])%(?:\d{1,2}\$)?[-+#0']{0,5}\d{0,4}(?:\.\d{1,4})?(?:ll|l|h|z)?[diouxXeEfFgGcsp](?![A-Za-z])|%%/,
  /(?<![\d%])%L?[1-9]\d?/,
  /(?<![\w-])--?[A-Za-z](?:[\w-]*\w)?/,
  /(?<![\w/])(?:~|\.\.?)?(?:\/[\w.@+-]*\w)+\/?/,
];

const joined = (patterns, flags) => new RegExp(patterns.map(({ source }) => source).join("|"), flags);
const SPAN = joined(SPANS, "u");
const EACH_SPAN = joined(SPANS, "gu");

/** Return the terms of the glossary, each with its `source` and `target`. */
export function readTerms() {
  return byId("terms")
    .value.split("\n")
    .map((line) => (line.includes("\t") ? line : line.replace("=", "\t")).split("\t"))
    .map(([source, target = ""]) => ({ source: source.trim(), target: target.trim() }))
    .filter(({ source, target }) => source && target);
}

/** What a model may keep besides, by the names of its `protect`. */
const OTHERS = { numbers: /\d/, accelerators: /[&_~]\p{L}/u };

const namesOf = (protect) => protect.split(/[\s,]+/).filter(Boolean);

/** Return whether a text is to be translated with what it must keep. */
export const keepsSomething = (text, protect) =>
  readTerms().length > 0 ||
  (byId("protect").checked &&
    (SPAN.test(text) || namesOf(protect).some((name) => OTHERS[name]?.test(text))));

/** Return the inputs of the signature besides the text; `protect` is what the model keeps. */
export function keptInputs(protect) {
  const terms = readTerms().map(({ source, target }) => `${source}\t${target}`);
  const kept = [...new Set(["all", ...namesOf(protect)])].join(" ");
  return { terms: terms.join("\n"), protect: byId("protect").checked ? kept : "" };
}

/** Return a text and its translation as nodes, with chips for what is in both, and for terms. */
export function withChips(source, translation) {
  const terms = readTerms().map((term) => ({ ...term, pattern: patternOf(term.source) }));
  const found = terms.filter(({ pattern }) => new RegExp(pattern, "iu").test(source));
  const spans = byId("protect").checked ? source.match(EACH_SPAN) ?? [] : [];
  const shown = (text) => ({ text, pattern: escaped(text) });
  const kept = spans.filter((span) => translation.includes(span)).map(shown);
  const sources = found.map(({ source: text, pattern }) => ({ text, pattern }));
  const targets = found.map(({ target }) => shown(target));
  return [chips(source, [...kept, ...sources]), chips(translation, [...kept, ...targets])];
}

/** Return the pattern of a term: whole words, with any letters for a * at the end. */
function patternOf(term) {
  const words = escaped(term).replace(/\\\*$/, `${LETTER}*`);
  return `(?<!${LETTER})${words}(?!${LETTER})`;
}

const LETTER = "[\\p{L}\\p{M}\\p{N}_]";

const escaped = (text) => text.replace(/[$()*+.?[\\\]^{|}/]/g, "\\$&");

function chips(text, marked) {
  if (!marked.length) return [text];
  const longestFirst = marked.sort((one, other) => other.text.length - one.text.length);
  const patterns = longestFirst.map(({ pattern }) => pattern);
  const parts = text.split(new RegExp(`(${patterns.join("|")})`, "iu"));
  return parts.map((part, place) => (place % 2 ? make("mark", { className: "chip" }, part) : part));
}
