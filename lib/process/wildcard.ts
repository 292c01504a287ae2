// Patterns in which `*` matches any text, such as `order.*`. Not regular expressions, because these could backtrack on
// the text that a producer chose.

/** True if `text` consists of `parts`, a pattern split at each `*`, with any characters between them. */
export function matchesParts([first = '', ...rest]: readonly string[], text: string): boolean {
  const last = rest.pop();
  if (last === undefined) return text === first;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const start = text.indexOf(part, at);
    if (start === -1) return false;
    at = start + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
