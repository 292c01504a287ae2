// Reads files that people write: text that may begin with a byte order mark, and JSON without repeated names.

const UTF_8 = new TextDecoder('utf-8', { fatal: true });

/** Decodes UTF-8 without its byte order mark. Throws a TypeError with a code for anything else. */
export const textOf = (bytes: Uint8Array): string => UTF_8.decode(bytes);

/**
 * Parses JSON. Throws a SyntaxError if it is malformed or an object has two members of one name: JSON.parse would keep
 * the last one, and a line that somebody reads in the file would have no effect.
 */
export function strictJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  const pointer = repeatedName(text);
  if (pointer !== undefined) throw new SyntaxError(`the name at ${pointer} is repeated`);
  return value;
}

/** Returns the JSON Pointer of the first repeated name in valid JSON. */
function repeatedName(text: string): string | undefined {
  /** The open objects and arrays, each with the latest name or index in it. */
  const open: { readonly names: Set<string>; at: string | number }[] = [];
  for (const [token, name, colon] of text.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?|[{}[\],]/g)) {
    const top = open.at(-1);
    if (token === '{' || token === '[') open.push({ names: new Set(), at: 0 });
    else if (token === '}' || token === ']') open.pop();
    else if (token === ',' && typeof top?.at === 'number') top.at += 1;
    else if (top !== undefined && colon !== undefined) {
      top.at = String(JSON.parse(name ?? ''));
      if (top.names.has(top.at))
        return open.map(({ at }) => `/${String(at).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
      top.names.add(top.at);
    }
  }
  return undefined;
}
