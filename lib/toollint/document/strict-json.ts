// Parses JSON (RFC 8259) and reports two faults that JSON.parse ignores: a member name that appears twice, and nesting
// that is too deep for JSON.stringify.
import { messageOf } from './failure.ts';

/** The root object is level one. JSON.stringify overflows the stack at about 10,000 levels. */
const MAX_DEPTH = 64;

type JsonProblem = Readonly<Record<'code' | 'pointer' | 'message', string>>;

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Returns the value and all problems in the order of the text. Nothing is checked after 'syntax' or 'too-deep'. */
export function readJson(text: string): { value: unknown; problems: JsonProblem[] } {
  try {
    return { value: JSON.parse(text) as unknown, problems: silentProblems(text) };
  } catch (cause) {
    return { value: undefined, problems: [{ code: 'syntax', pointer: '', message: `not JSON: ${messageOf(cause)}` }] };
  }
}

const TOKEN = /[{}[\],"]/g;

/** Checks only brackets and names, because JSON.parse has already accepted the text. */
function silentProblems(text: string): JsonProblem[] {
  const problems: JsonProblem[] = [];
  /** For each open object or array: the name or index of the current value, and the names of an object. */
  const open: { at: string | number; names?: Set<string> }[] = [];
  let isNameNext = false;
  const add = (code: string, message: string) => {
    const pointer = open.map(({ at }) => `/${String(at).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
    problems.push({ code, pointer, message });
  };
  TOKEN.lastIndex = 0;
  for (let token = TOKEN.exec(text)?.[0]; token !== undefined; token = TOKEN.exec(text)?.[0]) {
    const inner = open.at(-1);
    if (token === '"') {
      const start = TOKEN.lastIndex - 1;
      // A regular expression for the string would overflow its stack on several megabytes.
      let end = start + 1;
      while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
      TOKEN.lastIndex = end + 1;
      if (isNameNext && inner?.names !== undefined) {
        inner.at = JSON.parse(text.slice(start, TOKEN.lastIndex)) as string;
        if (inner.names.has(inner.at)) add('duplicate-member', 'the member appears twice');
        inner.names.add(inner.at);
      }
      isNameNext = false;
    } else if (token === '{' || token === '[') {
      if (open.length === MAX_DEPTH) {
        add('too-deep', `nested deeper than ${MAX_DEPTH} levels`);
        return problems;
      }
      isNameNext = token === '{';
      open.push(isNameNext ? { at: 0, names: new Set() } : { at: 0 });
    } else if (token === ',') {
      isNameNext = inner?.names !== undefined;
      if (!isNameNext && inner !== undefined) inner.at = Number(inner.at) + 1;
    } else open.pop();
  }
  return problems;
}
