/* From the subwords of a model to words, and attention between them. */

const START = "▁"; // How SentencePiece marks the beginning of a word.
const BYTE = /^<0x([0-9A-F]{2})>$/;
const PUNCTUATION = /^(?:(?!['’-])[\p{P}\p{S}])+$/u; // Not of "don't" and "well-kept".
const END = "</s>";

/** Return words, each with its text and the positions of its subwords. */
export function joinSubwords(tokens) {
  const count = tokens.findIndex((token) => token === "");
  const known = count < 0 ? tokens : tokens.slice(0, count);
  const hasMarks = known.some((token) => token.startsWith(START));
  const words = [];
  known.forEach((token, position) => {
    const isEnd = token === END;
    const last = words.at(-1);
    const before = last?.tokens.join("").replaceAll(START, "") ?? "";
    const differs = PUNCTUATION.test(token.replaceAll(START, "")) !== PUNCTUATION.test(before);
    const begins = !hasMarks || !last || last.isEnd || isEnd || token.startsWith(START) || differs;
    if (begins && (!last || before)) {
      words.push({ tokens: [token], positions: [position], isEnd });
    } else {
      last.tokens.push(token);
      last.positions.push(position);
      last.isEnd = isEnd;
    }
  });
  return words.map(({ tokens: parts, positions, isEnd }) => ({
    text: isEnd ? "end" : textOf(parts),
    positions,
    isEnd,
  }));
}

function textOf(parts) {
  const bytes = [];
  const encoder = new TextEncoder();
  for (const part of parts) {
    const byte = BYTE.exec(part);
    if (byte) bytes.push(parseInt(byte[1], 16));
    else bytes.push(...encoder.encode(part));
  }
  const text = new TextDecoder().decode(new Uint8Array(bytes));
  return text.replaceAll(START, " ").trim() || "␣";
}

/**
 * Return the share of each source word in the attention of a target word.
 *
 * It is the mean over the target word's subwords of the sums over a source word's subwords.
 */
export function wordWeights(rows, target, sources) {
  const own = target.positions.map((position) => rows[position]).filter(Boolean);
  return sources.map(({ positions }) => {
    const sums = own.map((row) => positions.reduce((sum, each) => sum + (row[each] ?? 0), 0));
    return sums.reduce((sum, each) => sum + each, 0) / Math.max(1, own.length);
  });
}

/** Return the attention [T, S] of one layer, or the mean over all for -1. */
export function layerRows(attention, layer) {
  if (layer >= 0) return attention[layer];
  return attention[0].map((row, target) =>
    row.map(
      (_, source) =>
        attention.reduce((sum, each) => sum + each[target][source], 0) / attention.length,
    ),
  );
}
