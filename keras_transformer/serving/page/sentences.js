/* What the pictures of a panel show, in words. */

const NAMED = 3; // Words that a sentence names.
const LONGEST = 60; // Characters of a word in a sentence.

/** Smaller shares have no number. */
export const SHOWN = 0.05;

const EVENLY = "to no word much more than to another";

export const percent = (share) => `${Math.round(100 * share)}%`;

/** Return a probability, with a digit more if it is small. */
export function probability(value) {
  if (value >= 0.1) return percent(value);
  return value < 0.001 ? "<0.1%" : `${(100 * value).toFixed(1)}%`;
}

/**
 * Return probabilities as percentages with one decimal, and the percentage of everything else, which
 * makes 100.
 */
export function candidateShares(probabilities) {
  const tenths = probabilities.map((each) => Math.round(1000 * each));
  const rest = 1000 - tenths.reduce((sum, each) => sum + each, 0);
  if (rest < 0) tenths[0] += rest; // All were rounded up; the first is the largest.
  return [...tenths, Math.max(0, rest)].map((each) => each / 10);
}

/** Return the name of a word; its direction does not affect its neighbors. */
export function nameOf({ text, isEnd }) {
  if (isEnd) return text === "end" ? "the end of the sentence" : `the ${text}`;
  const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return `“\u2068${short}\u2069”`;
}

/**
 * Return a sentence about the attention of a word.
 *
 * @param {object} query The word.
 * @param {object[]} keys The words that it may attend to.
 * @param {object[]} heads Each with its number `head`, or null, and its `shares` of the keys.
 */
export function describeAttention(query, keys, heads) {
  const uneven = heads.filter(({ shares }) => isUneven(shares));
  if (!uneven.length) return `${nameOf(query)} attends ${EVENLY}`;
  if (heads.length > 1) return `${nameOf(query)} attends most to ${favorites(keys, uneven)}`;
  const [{ shares }] = heads;
  return `${nameOf(query)} attends to ${largest(keys, shares)}`;
}

/** Return a sentence about the attention that a word has from others. */
export function describeAttended(key, queries, shares) {
  const named = largest(queries, shares);
  return `${nameOf(key)} has ${named ? `attention from ${named}` : "little attention from any word"}`;
}

/** Name the words with the largest shares: “dog” 75%, “a” 8%. */
const largest = (words, shares) =>
  order(shares)
    .slice(0, NAMED)
    .filter((index) => shares[index] >= SHOWN)
    .map((index) => `${nameOf(words[index])} ${percent(shares[index])}`)
    .join(", ");

/** Return whether the largest share is clearly above an even share of the words that have any. */
function isUneven(shares) {
  const count = shares.filter((share) => share > 0).length;
  return count === 1 || Math.max(...shares) >= 1 / count + SHOWN;
}

/** Name the word that each head attends to most, such as: “dog” (heads 1 and 3), “a” (head 2). */
function favorites(keys, heads) {
  const found = new Map();
  for (const { head, shares } of heads) {
    const [most] = order(shares);
    found.set(most, [...(found.get(most) ?? []), head + 1]);
  }
  return [...found]
    .sort(([, one], [, other]) => other.length - one.length)
    .map(([key, numbers]) => `${nameOf(keys[key])} (${headsOf(numbers)})`)
    .join(", ");
}

const headsOf = (numbers) =>
  numbers.length === 1 ? `head ${numbers[0]}` : `heads ${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}`;

/** Return the indices of numbers, largest first. */
const order = (numbers) =>
  numbers.map((_, index) => index).sort((one, other) => numbers[other] - numbers[one]);
