/* Text from a file: opened, or dropped onto the text. */

const MOST = 200_000; // Bytes; the page takes 200 lines.

/** Return the text of a file, or throw an error with a sentence for people. */
async function readText(file) {
  if (file.size > MOST) throw new Error(`A file may have ${MOST / 1000} kB here. Give a part of it.`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    return text.replaceAll("\r\n", "\n");
  } catch {
    throw new Error("The file must be text in UTF-8, such as a .txt or .md file.");
  }
}

/**
 * Take the text of files that a person gives.
 *
 * @param {HTMLElement} area Where a file may be dropped.
 * @param {HTMLInputElement} field The field for a file.
 * @param {function} taken Called with the text and the name of the file.
 * @param {function} refused Called with a sentence.
 */
export function takeFiles(area, field, taken, refused) {
  const take = (file) =>
    readText(file).then(
      (text) => taken(text, file.name),
      (error) => refused(error.message),
    );
  const hasFile = (event) => event.dataTransfer?.types.includes("Files");
  area.addEventListener("dragover", (event) => {
    if (hasFile(event)) event.preventDefault(); // Otherwise the browser leaves the page.
  });
  area.addEventListener("drop", (event) => {
    if (!hasFile(event)) return;
    event.preventDefault();
    if (event.dataTransfer.files.length) take(event.dataTransfer.files[0]);
  });
  field.addEventListener("change", () => {
    if (field.files.length) take(field.files[0]);
    field.value = ""; // So that the same file can be given again.
  });
}
