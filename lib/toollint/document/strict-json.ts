// Parses JSON (RFC 8259) and reports two faults that JSON.parse ignores: a member name that appears twice, and a
// number that a double changes into another kind of number.
import { messageOf } from './failure.ts';

/** The root object is level one. JSON.stringify overflows the stack at about 10,000 levels. */
const MAX_DEPTH = 64;

export interface JsonProblem {
  readonly code: 'syntax' | 'too-deep' | 'duplicate-member' | 'inexact-number';
  readonly pointer: string;
  readonly message: string;
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

export function looseJson(text: string, refuse: (fault: string) => never): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return refuse('not JSON');
  }
}

/** Returns the value and all problems in the order of the text. Nothing is checked after 'syntax' or 'too-deep'. */
export function readJson(text: string): { value: unknown; problems: JsonProblem[] } {
  try {
    return { value: JSON.parse(text) as unknown, problems: silentProblems(text) };
  } catch (cause) {
    return { value: undefined, problems: [{ code: 'syntax', pointer: '', message: `not JSON: ${messageOf(cause)}` }] };
  }
}

const NUMBER = /[-+.0-9eE]+/y;

/** Checks only brackets, names and numbers, because JSON.parse has already accepted the text. */
function silentProblems(text: string): JsonProblem[] {
  const problems: JsonProblem[] = [];
  /** The name or index of the current value in each open object or array. */
  const path: (string | number)[] = [];
  /** The names in each open object; `undefined` for an array. */
  const names: (Set<string> | undefined)[] = [];
  let isNameNext = false;
  const add = (code: JsonProblem['code'], message: string) => {
    const pointer = path.map((name) => `/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
    problems.push({ code, pointer, message });
  };
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at] as string;
    if (character === '"') {
      const end = stringEnd(text, at);
      if (isNameNext) {
        const name = JSON.parse(text.slice(at, end + 1)) as string;
        const seen = names.at(-1);
        path[path.length - 1] = name;
        if (seen?.has(name) === true) add('duplicate-member', 'the member appears twice');
        seen?.add(name);
      }
      isNameNext = false;
      at = end;
    } else if (character === '{' || character === '[') {
      if (path.length === MAX_DEPTH) {
        add('too-deep', `nested deeper than ${MAX_DEPTH} levels`);
        return problems;
      }
      isNameNext = character === '{';
      path.push(0);
      names.push(isNameNext ? new Set() : undefined);
    } else if (character === '}' || character === ']') {
      path.pop();
      names.pop();
    } else if (character === ',') {
      isNameNext = names.at(-1) !== undefined;
      if (!isNameNext) path[path.length - 1] = Number(path.at(-1)) + 1;
    } else if (character === '-' || (character >= '0' && character <= '9')) {
      NUMBER.lastIndex = at;
      const [literal = ''] = NUMBER.exec(text) ?? [];
      if (isRounded(literal)) add('inexact-number', `the number ${literal.slice(0, 40)} cannot be read exactly`);
      at += literal.length - 1;
    }
  }
  return problems;
}

/** A regular expression would overflow its stack on a string of several megabytes. */
function stringEnd(text: string, start: number): number {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at;
}

/** True if rounding made the number infinite, or an integer of a fraction. The schema limits integers. */
function isRounded(literal: string): boolean {
  const value = Number(literal);
  const [digits = '', exponent] = literal.split(/e/iu);
  const becameInteger = exponent === undefined && Number.isInteger(value) && /\.\d*[1-9]/u.test(digits);
  return !Number.isFinite(value) || becameInteger || (value === 0 && /[1-9]/u.test(digits));
}
