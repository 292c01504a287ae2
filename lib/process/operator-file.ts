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

interface Open {
  /** `undefined` for an array. */
  readonly names: Set<string> | undefined;
  readonly pointer: string;
  expectsName: boolean;
  next: string;
  index: number;
}

/** Returns the JSON Pointer of the first repeated name in valid JSON. */
function repeatedName(text: string): string | undefined {
  const open: Open[] = [];
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],]/g)) {
    const top = open.at(-1);
    if (token === '{' || token === '[') {
      const pointer = top === undefined ? '' : `${top.pointer}/${top.names === undefined ? top.index : top.next}`;
      const isObject = token === '{';
      open.push({ names: isObject ? new Set() : undefined, pointer, expectsName: isObject, next: '', index: 0 });
    } else if (token === '}' || token === ']') open.pop();
    else if (top === undefined) continue;
    else if (token === ',') {
      top.expectsName = top.names !== undefined;
      top.index += 1;
    } else if (top.expectsName && top.names !== undefined) {
      const name = String(JSON.parse(token));
      top.next = name.replaceAll('~', '~0').replaceAll('/', '~1');
      if (top.names.has(name)) return `${top.pointer}/${top.next}`;
      top.names.add(name);
      top.expectsName = false;
    }
  }
  return undefined;
}
