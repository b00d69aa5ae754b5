/* What a model attends to while it translates a text, in one form for all exports. */

import { predict } from "./api.js";
import { terms } from "./model.js";
import { joinSubwords } from "./words.js";

// UTF-8 bytes of a text, above which the weights of every head are usually too much to send: their number
// grows with the square of the number of subwords, of which few texts have more than bytes.
const LONG = 200;

const bytesOf = (text) => new TextEncoder().encode(text).length;

let current = new AbortController(); // Of the requests for the results on the page.

/** Abort the requests of `inspectText` that have no answer yet. */
export function stopInspecting() {
  current.abort();
  current = new AbortController();
}

/** Return whether the model has a signature for `inspectText`. */
export const canInspect = (model) => signatureFor(model, "") !== null;

function signatureFor(model, text) {
  const names = bytesOf(text) > LONG ? ["attend", "inspect"] : ["inspect", "attend"];
  return names.find((name) => model.signatures.includes(name)) ?? null;
}

/**
 * Return the attention of a text and its translation.
 *
 * @returns {object} `kinds`, each with its `name`, what attends (`from`) and to what (`to`), the words
 *   of both (`queries` and `keys`), and `weights` [layers, heads, queries, keys] of their subwords; `steps`,
 *   one for each subword of the translation, or null; and the number of subwords read, `length`.
 */
export async function inspectText(model, text) {
  const signature = signatureFor(model, text);
  const answer = await predict(model.name, signature, [text], current.signal);
  const of = (name) => answer[name][0];
  const sources = joinSubwords(of("source_tokens"));
  const targets = joinSubwords(of("target_tokens"));
  const cross = { name: "cross", from: terms.one, to: "Text", queries: targets, keys: sources };
  const length = of("source_tokens").filter((token) => token !== "").length;
  if (signature === "attend") {
    const means = of("attention").map((layer) => [layer]); // One head: the mean of all.
    return { kinds: [{ ...cross, weights: means }], steps: null, length, targets };
  }
  const kinds = [
    {
      name: "encoder",
      from: "Text",
      to: "Text",
      queries: sources,
      keys: sources,
      weights: of("encoder_attention"),
    },
    { ...cross, weights: of("cross_attention") },
    {
      name: "decoder",
      from: terms.one,
      to: terms.one,
      queries: targets,
      keys: wordsRead(targets),
      weights: of("decoder_attention"),
    },
  ];
  const steps = of("target_tokens")
    .filter((token) => token !== "")
    .map((token, at) => ({
      token,
      probability: of("probabilities")[at],
      candidates: of("candidates")[at].map((each, rank) => ({
        token: each,
        probability: of("candidate_probabilities")[at][rank],
      })),
    }));
  return { kinds, steps, length, targets };
}

/** Return what the decoder reads: a start, and each word that it has written but the end. */
function wordsRead(targets) {
  const start = { text: "start", positions: [0], isEnd: true };
  const written = targets.filter(({ isEnd }) => !isEnd);
  const shifted = written.map((word) => ({
    ...word,
    positions: word.positions.map((position) => position + 1),
  }));
  return [start, ...shifted];
}
