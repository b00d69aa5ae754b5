/* The server's REST API, and its errors in plain sentences. */

/** A failure whose message is a sentence for people. */
export class Failure extends Error {}

const NO_CONNECTION =
  "There is no connection to the server. Check that it is still running; your text is kept.";

/** Return the JSON of an answer. Paths are relative, so that a proxy may add a prefix. */
async function ask(path, body, signal) {
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  if (body !== undefined) options.headers = { "Content-Type": "application/json" };
  let response;
  let text;
  try {
    response = await fetch(path, { ...options, signal, cache: "no-store" });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(NO_CONNECTION);
  }
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    answer = null;
  }
  const isStatus = Array.isArray(answer?.model_version_status); // It is 503 while none is served.
  if (!response.ok && !isStatus) throw new Failure(sentence(response.status, String(answer?.error ?? ""), path));
  if (answer === null) {
    throw new Failure("The server sent an answer that this page cannot read. Reload the page.");
  }
  return answer;
}

function sentence(status, message, path) {
  if (status === 503 || status === 429) {
    return "The server is busy. Wait a moment, then try again.";
  }
  if (status === 404) {
    const [, name = ""] = path.match(/^(?:v1\/models\/|page\/model\.json\?name=)([^/:]+)/) ?? [];
    return `The server has no model${name && ` ${decodeURIComponent(name)}`}, or it is still loading.`;
  }
  if (status === 413) return "This is more text than the server takes at once. Send less of it.";
  if (status === 408) return "The text took too long to arrive. Check the connection, then try again.";
  if (status === 504 || /timed out/i.test(message)) {
    return "The model took too long. Send shorter sentences, or fewer of them.";
  }
  const reason = message.trim().slice(0, 300).replace(/\.$/, "");
  if (status === 502) {
    return `${reason || "The model server behind this page does not answer"}. Check that it runs.`;
  }
  if (status >= 400 && status < 500) {
    return `The server did not accept this text${reason ? `: ${reason}` : ""}.`;
  }
  return "The server had an error. Its log says more; you can try again.";
}

/** Return the name, card and facts of a model, by default the first, and the names of all. */
export const readModel = (name) =>
  ask(`page/model.json${name ? `?name=${encodeURIComponent(name)}` : ""}`);

const modelPath = (name) => `v1/models/${encodeURIComponent(name)}`;

/** Return the names of the model's signatures. */
export async function readSignatures(name, signal) {
  const answer = await ask(`${modelPath(name)}/metadata`, undefined, signal);
  return Object.keys(answer.metadata?.signature_def?.signature_def ?? {});
}

/** Return the number and state of the newest version, available ones first. */
export async function readStatus(name) {
  const { model_version_status: versions = [] } = await ask(modelPath(name));
  const available = versions.filter((version) => version.state === "AVAILABLE");
  const [first] = (available.length ? available : versions).sort(
    (one, other) => Number(other.version) - Number(one.version),
  );
  return { version: first?.version, state: first?.state ?? "ABSENT" };
}

/**
 * Return the outputs of a signature for some texts; each output has a row for each text.
 *
 * `options` are other inputs, each the same for all texts.
 */
export async function predict(name, signature, texts, signal, options = {}) {
  const columns = Object.entries(options).map(([key, value]) => [key, texts.map(() => value)]);
  const body = { signature_name: signature, inputs: { text: texts, ...Object.fromEntries(columns) } };
  return (await ask(`${modelPath(name)}:predict`, body, signal)).outputs;
}

/** Return sacrebleu's scores of translations. */
export const readScores = (translations, references) =>
  ask("page/bleu", { translations, references });
