/* From the subwords of a model to words, and attention between them. */

const START = "▁"; // How SentencePiece marks the beginning of a word.
const BYTE = /^<0x([0-9A-F]{2})>$/;
const PUNCTUATION = /^(?:(?!['’-])[\p{P}\p{S}])+$/u; // Not of "don't" and "well-kept".
const END = "</s>";

/** Return whether a vocabulary marks where words begin. */
const marksWords = (tokens) => tokens.some((token) => token.startsWith(START));

/** Return a function from a subword to its text, with "…" before what continues a word. */
export function subwordTexts(tokens) {
  const hasMarks = marksWords(tokens);
  return (token) => {
    if (token === END) return "end";
    const [, byte] = BYTE.exec(token) ?? [];
    if (byte) return `byte ${byte}`;
    const begins = !hasMarks || token.startsWith(START) || PUNCTUATION.test(token);
    return `${begins ? "" : "…"}${textOf([token])}`;
  };
}

/** Return words, each with its text and the positions of its subwords. */
export function joinSubwords(tokens) {
  const count = tokens.findIndex((token) => token === "");
  const known = count < 0 ? tokens : tokens.slice(0, count);
  const hasMarks = marksWords(known);
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
 * Return the share of each key's word in the attention of each query's word, for one head.
 *
 * It is the mean over the subwords that attend of the sums over those that they attend to.
 */
export function wordWeights(rows, queries, keys) {
  return queries.map((query) => {
    const own = query.positions.map((position) => rows[position]).filter(Boolean);
    return keys.map(({ positions }) => {
      const sums = own.map((row) => positions.reduce((sum, each) => sum + (row[each] ?? 0), 0));
      return mean(sums);
    });
  });
}

/** Return the mean of matrices of one size. */
export const meanOf = (matrices) =>
  matrices[0].map((row, query) =>
    row.map((_, key) => mean(matrices.map((matrix) => matrix[query][key]))),
  );

const mean = (numbers) => numbers.reduce((sum, each) => sum + each, 0) / Math.max(1, numbers.length);
