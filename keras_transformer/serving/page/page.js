/* The page: it reads the model's facts, translates lines, and scores translations. */

import { Failure, readModel, readScores, readSignatures, readStatus } from "./api.js";
import { listChoice } from "./controls.js";
import { byId, fitText, make, plural, showText } from "./dom.js";
import { takeFiles } from "./files.js";
import { stopInspecting } from "./inspection.js";
import { offerLanguages, otherLanguages } from "./languages.js";
import { showModel, showState, terms } from "./model.js";
import { resultItem, translate } from "./results.js";
import { WITH_TERMS } from "./spans.js";

const LINES = 4; // Lines of a request: few, so that translations appear soon.
const CHARACTERS = 2000; // Of a request of more than one line.
const MOST_LINES = 200;
const AGAIN = 3000; // Milliseconds until a model that is not ready is looked for again.

const model = {
  name: "",
  version: null,
  signatures: [],
  max_source_length: null,
  protect: "",
  examples: [],
};
let running = null; // The AbortController of a translation that runs.
let translations = []; // Those of the list.
let comparison = 0; // The number of the last one; scores of those before come too late.
let nextLook = null; // The timer of `lookForModel`.
let choosing = null; // The promise of what is read about a model that was just chosen.
let given = ""; // The text that the page wrote itself: an example, or that of a file.

const form = byId("form");
const text = byId("text");
const list = byId("list");

const linesOf = (field) =>
  field.value
    .split("\n")
    .map((line) => (line.toWellFormed?.() ?? line).trim())
    .filter(Boolean);

const sentenceOf = (error) => {
  if (error instanceof Failure) return error.message;
  console.error(error);
  return "The page met an error of its own. Reload it, and copy your text first.";
};

/* The model */

async function lookForModel() {
  clearTimeout(nextLook);
  let { name } = model;
  const isLate = () => choosing || (name && name !== model.name); // Then another is looked for.
  try {
    name = await nameOfModel();
    const { version, state } = await readStatus(name);
    if (isLate()) return;
    if (version !== model.version) {
      const about = await readModel(name);
      if (isLate()) return;
      takeModel(about);
    }
    if (state === "AVAILABLE") {
      const signatures = await readSignatures(name);
      if (isLate()) return;
      takeSignatures(signatures);
      showState("ready", `Ready, version ${version}`);
      return;
    }
    const isComing = ["START", "LOADING"].includes(state);
    showState("waiting", isComing ? `Loading version ${version}…` : "No version is served");
  } catch (error) {
    if (isLate()) return;
    model.signatures = [];
    showState("absent", error instanceof Failure ? shortOf(error.message) : sentenceOf(error));
  }
  clearTimeout(nextLook);
  nextLook = setTimeout(lookForModel, AGAIN);
}

const shortOf = (message) => message.split(/(?<=\.) /)[0];

function takeSignatures(signatures) {
  model.signatures = signatures;
  offerGlossary();
}

/** Show the glossary, unless the model or the chosen languages have no use for it. */
function offerGlossary() {
  byId("glossary").hidden = !model.signatures.includes(WITH_TERMS) || otherLanguages() !== null;
}

function takeModel(about) {
  const { name, version, max_source_length, protect = "", examples = [], models = [] } = about;
  offerModels(models, name);
  if (name !== model.name) takeSignatures([]); // Until its own are read.
  Object.assign(model, { name, version, max_source_length, protect, examples });
  showModel(about);
  offerLanguages(about);
  offerGlossary();
  byId("examples").replaceChildren(byId("examples-label"), ...examples.map(exampleButton));
  offerExamples();
}

/** Show a choice of the server's models, if there are several. */
function offerModels(names, name) {
  byId("models").hidden = names.length < 2;
  if (names.length < 2 || byId("models").contains(document.activeElement)) return;
  const options = names.map((each, index) => [index, each]);
  const choice = listChoice("Model", options, names.indexOf(name), async (index) => {
    const problem = await chooseModel(names[index]);
    if (problem === null) return;
    choice.querySelector("select").value = String(names.indexOf(model.name));
    showText(byId("problem"), problem);
    lookForModel();
  });
  byId("models").replaceChildren(choice);
}

/** Take another model, and return the problem, if any; null if one more was chosen meanwhile. */
async function chooseModel(name) {
  running?.abort();
  stopInspecting();
  clearList();
  byId("results").hidden = true;
  const reading = readModel(name);
  choosing = reading;
  let about = null;
  let problem = "";
  try {
    about = await reading;
  } catch (error) {
    problem = sentenceOf(error);
  }
  if (reading !== choosing) return null;
  choosing = null;
  if (about) takeModel(about);
  return problem;
}

/** Return a button that translates an example. */
function exampleButton(example) {
  const button = make("button", { type: "button", dir: "auto" }, example);
  button.addEventListener("click", () => {
    if (running) return;
    setText(example);
    form.requestSubmit();
  });
  return button;
}

function setText(value) {
  text.value = value;
  given = text.value; // With the browser's own line breaks.
  fitText(text);
  offerExamples();
}

/** Take the text of a file; a person's own text is replaced only if they say so. */
function openText(value, name) {
  const isOwn = text.value.trim() !== "" && text.value !== given;
  if (isOwn && !confirm(`Replace your text with that of ${name}?`)) return;
  setText(value);
  showText(byId("problem"), "");
  text.focus();
  if (!running) say(`Opened ${name}`);
}

/** Show the examples, unless a click on one would replace a person's own text. */
function offerExamples() {
  const own = text.value.trim();
  byId("examples").hidden = !model.examples.length || (own !== "" && !model.examples.includes(own));
}

/* Translating */

function groupLines(lines) {
  const groups = [];
  let size = 0;
  for (const line of lines) {
    const last = groups.at(-1);
    if (last && last.length < LINES && size + line.length <= CHARACTERS) last.push(line);
    else groups.push([line]);
    size = groups.at(-1).length === 1 ? line.length : size + line.length;
  }
  return groups;
}

async function translateText() {
  const lines = linesOf(text);
  showText(byId("problem"), "");
  if (!lines.length) return refuse("Write or paste a sentence first.");
  if (lines.length > MOST_LINES) {
    return refuse(
      `The page takes ${MOST_LINES} lines at a time, and these are ${lines.length}. For whole ` +
        "files, use the command keras-transformer client.",
    );
  }
  startRun();
  const { signal } = running;
  const stopped = new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason));
  });
  let failure = null;
  let done = 0;
  try {
    await Promise.race([choosing, stopped]); // The text is for the model that was chosen.
    if (!model.signatures.length) {
      takeSignatures(await readSignatures(await nameOfModel(), signal));
    }
    const languages = otherLanguages();
    for (const group of groupLines(lines)) {
      if (lines.length > LINES) say(`${terms.doing} ${done} of ${lines.length}…`, true);
      const answers = await translate(model, group, languages, signal);
      if (!done) clearList(); // The last results stay until there are new ones.
      // Attention is that of the languages of the export.
      show(languages ? { ...model, signatures: [] } : model, group, answers, lines.length);
      done += group.length;
    }
  } catch (error) {
    if (!signal.aborted) failure = sentenceOf(error);
  }
  endRun(done, lines.length, failure, signal.aborted);
}

async function nameOfModel() {
  if (!model.name) {
    const about = await readModel();
    if (!model.name) takeModel(about);
  }
  return model.name;
}

function refuse(message) {
  showText(byId("problem"), message);
  text.focus();
}

function startRun() {
  stopInspecting();
  running = new AbortController();
  byId("translate").setAttribute("aria-disabled", "true");
  byId("stop").hidden = false;
  list.setAttribute("aria-busy", "true");
  say(`${terms.doing}…`, true);
}

function clearList() {
  translations = [];
  list.replaceChildren();
}

function show(shown, sources, answers, count) {
  comparison += 1;
  byId("scores").replaceChildren();
  sources.forEach((source, index) => {
    const isFirst = !translations.length;
    translations.push(answers[index][0].text);
    list.append(resultItem(shown, source, answers[index], isFirst));
  });
  byId("results-title").textContent = count === 1 ? terms.one : terms.several;
  byId("results").hidden = false;
  byId("copy").hidden = !navigator.clipboard;
}

function endRun(done, count, failure, wasStopped) {
  running = null;
  list.removeAttribute("aria-busy");
  byId("translate").removeAttribute("aria-disabled");
  if (document.activeElement === byId("stop")) byId("translate").focus();
  byId("stop").hidden = true;
  if (failure) {
    say(done ? `${done} of ${plural(count, "line")} ${terms.done}` : "");
    showText(byId("problem"), failure);
    lookForModel();
  } else if (wasStopped) {
    say(`Stopped after ${done} of ${plural(count, "line")}`);
  } else {
    say(`${plural(done, "line")} ${terms.done}`);
    if (!byId("compare").hidden && linesOf(byId("reference")).length) compare();
  }
}

function say(message, isBusy = false) {
  byId("progress").textContent = message;
  byId("progress").classList.toggle("busy", isBusy);
}

/* Comparing */

async function compare() {
  const references = linesOf(byId("reference"));
  const output = byId("scores");
  const problem = (message) => output.replaceChildren(make("span", { className: "problem" }, message));
  if (!references.length) return problem("Paste a reference translation first.");
  if (references.length !== translations.length) {
    return problem(
      `There ${translations.length === 1 ? "is" : "are"} ` +
        `${plural(translations.length, "translation")}, and the reference has ` +
        `${plural(references.length, "line")}. Give one line for each.`,
    );
  }
  output.replaceChildren("Computing…");
  comparison += 1;
  const number = comparison;
  try {
    const scores = await readScores(translations, references);
    if (number !== comparison) return;
    output.replaceChildren(
      make("strong", {}, `BLEU ${scores.bleu.toFixed(1)}`),
      `, chrF ${scores.chrf.toFixed(1)}, ${plural(scores.sentences, "sentence")}`,
      make("br"),
      make("span", { className: "signature" }, scores.signature),
    );
  } catch (error) {
    if (number === comparison) problem(sentenceOf(error));
  }
}

/* Events */

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!running) translateText();
});
text.addEventListener("input", offerExamples);
byId("languages").addEventListener("change", offerGlossary);
byId("open").addEventListener("click", () => byId("file").click());
takeFiles(form, byId("file"), openText, refuse);
for (const field of [text, byId("terms"), byId("reference")]) field.addEventListener("input", () => fitText(field));
text.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});
byId("stop").addEventListener("click", () => running?.abort());
byId("score").addEventListener("click", compare);
byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(translations.join("\n"));
    say("Copied");
  } catch {
    say("The browser did not allow copying");
  }
});
if (/Mac|iPhone|iPad/.test(navigator.platform)) document.querySelector("kbd").textContent = "⌘";
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) lookForModel(); // There may be a new version.
});

lookForModel();
