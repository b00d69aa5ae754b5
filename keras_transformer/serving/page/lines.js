/* Attention as lines between two columns of words: the paper's Figures 3 to 5. */

const SVG = "http://www.w3.org/2000/svg";
const COLORS = 8; // As many as page/attention.css has; further heads begin anew.
const FAINT = 0.02; // Smaller weights cannot be seen.
const FAINT_AMONG_ALL = 0.1; // Smaller ones blur a picture of all lines, next to larger ones.
const BAR = 5; // Percent of the width, for the bar next to a word that is attended to.

/** Return the class with a head's color; without a number, that of a mean over heads. */
export const headClass = (head) => (head === null ? "head-mean" : `head-${head % COLORS}`);

/** Return an empty picture for the given number of rows. */
export function linesElement(rows) {
  const svg = shape("svg", { viewBox: `0 0 100 ${rows}`, preserveAspectRatio: "none" });
  svg.setAttribute("aria-hidden", "true"); // A sentence says the same.
  svg.setAttribute("class", "lines");
  svg.style.setProperty("--rows", rows);
  return svg;
}

/**
 * Draw lines whose opacity is the weight.
 *
 * @param {SVGElement} svg From `linesElement`.
 * @param {object[]} heads Each with its number `head` and `weights` [queries, keys].
 * @param {?number} selected The query whose lines are drawn, with bars; null draws all.
 * @param {?number} pointed The key whose lines are drawn; null draws all.
 */
export function drawLines(svg, heads, selected, pointed) {
  const shapes = [];
  const drawsAll = selected === null && pointed === null;
  const end = selected === null ? 100 : 100 - BAR;
  heads.forEach(({ head, weights }, place) => {
    const height = 0.7 / heads.length;
    const top = 0.15 + height * place;
    const middle = top + height / 2;
    weights.forEach((row, query) => {
      if (selected !== null && query !== selected) return;
      const least = drawsAll ? leastAmongAll(row) : FAINT;
      row.forEach((weight, key) => {
        if (weight < least || (pointed !== null && key !== pointed)) return;
        const line = { x1: 0, y1: query + middle, x2: end, y2: key + middle };
        shapes.push(colored("line", head, { ...line, "stroke-opacity": weight }));
        if (selected === null) return;
        const bar = { x: end, y: key + top, width: BAR, height };
        shapes.push(colored("rect", head, { ...bar, "fill-opacity": weight }));
      });
    });
  });
  svg.replaceChildren(...shapes);
}

const leastAmongAll = (row) => Math.max(FAINT, Math.min(FAINT_AMONG_ALL, Math.max(...row) / 2));

const colored = (name, head, attributes) =>
  shape(name, { class: headClass(head), "vector-effect": "non-scaling-stroke", ...attributes });

function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
