// The event envelope, and the check that decides whether bytes are an event.
//
// Invariant: a valid event is the UTF-8 text of one JSON object whose `id` and `type` match EventSchema. Its bytes are
// passed on unchanged. The gateway and the consumer both use this check, so the consumer never refuses an event that
// the gateway accepted.
//
// Other members are not checked (openapi/rules.md, 2), and the caller limits the size. A second `id` or `type` is
// refused, because parsers disagree about which one is valid (RFC 8259, section 4).
import { isUtf8 } from 'node:buffer';
import { Kind, Type, TypeRegistry, type Static, type TSchema } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import type { EventFault } from './errors.ts';

/** Counted in Unicode code points. */
export const NAME_CHARACTERS_MAX = 256;

export const DEPTH_MAX = 64;

/** Works with and without the flag `u`, because it matches a surrogate pair as one character. */
const ID_PATTERN = '^(?:[^\\u0000-\\u001F\\u007F\\uD800-\\uDFFF]|[\\uD800-\\uDBFF][\\uDC00-\\uDFFF])*$';
const TYPE_PATTERN = '^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$';

// TypeBox counts UTF-16 units and compiles patterns without the flag `u`, but JSON Schema counts code points, so ids
// have a custom kind. ASCII_ID is faster and matches most ids.
const ASCII_ID = /^[\x20-\x7e]{1,256}$/;
// eslint-disable-next-line no-control-regex -- control characters are what it refuses
const UNICODE_ID = /^[^\u0000-\u001F\u007F\uD800-\uDFFF]{1,256}$/u;

export function isEventId(value: unknown): value is string {
  return typeof value === 'string' && (ASCII_ID.test(value) || UNICODE_ID.test(value));
}

TypeRegistry.Set('EventId', (_schema: TSchema, value: unknown) => isEventId(value));

export const EventSchema = Type.Object(
  {
    id: Type.Unsafe<string>({
      [Kind]: 'EventId',
      type: 'string',
      minLength: 1,
      maxLength: NAME_CHARACTERS_MAX,
      pattern: ID_PATTERN,
    }),
    type: Type.String({ minLength: 1, maxLength: NAME_CHARACTERS_MAX, pattern: TYPE_PATTERN }),
  },
  { additionalProperties: true },
);

type Envelope = Static<typeof EventSchema>;

export interface ValidEvent {
  readonly valid: true;
  readonly id: string;
  readonly type: string;
  readonly body: Buffer;
}

export interface InvalidEvent {
  readonly valid: false;
  readonly detail: string;
  readonly errors: readonly EventFault[];
}

const SPACE = 0x20;
const QUOTE = 0x22;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const BRACE_BIT = 0x20;
const isOpener = (unit: number): boolean => (unit | BRACE_BIT) === 0x7b;
const isCloser = (unit: number): boolean => (unit | BRACE_BIT) === 0x7d;

const envelope = TypeCompiler.Compile(EventSchema);

const EXPECTED: Readonly<Record<string, string>> = {
  '': 'must be one JSON object: one event per request',
  '/id': `must be a string of 1 to ${NAME_CHARACTERS_MAX} characters without control characters or lone surrogates`,
  '/type': `must be 1 to ${NAME_CHARACTERS_MAX} characters: words of letters, digits, "_" or "-", joined by dots`,
};

type MemberCheck = (event: Readonly<Record<string, unknown>>) => readonly EventFault[];

export function parseEvent(body: Buffer, check?: MemberCheck): ValidEvent | InvalidEvent {
  if (!isUtf8(body)) return fault('the body is not valid UTF-8');
  const text = body.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    return fault(text.charCodeAt(0) === 0xfeff ? 'the body begins with a byte order mark' : notJson(text, cause));
  }
  const { deepest, repeated } = mayNestTooDeep(text) || mayRepeatName(text) ? structureOf(text) : PLAIN;
  if (deepest > DEPTH_MAX) return fault(`the body is nested deeper than ${DEPTH_MAX} levels`);
  const faults = envelope.Check(value) ? NO_FAULTS : faultsOf(value);
  const more = check === undefined || !isRecord(value) ? NO_FAULTS : check(value);
  if (faults.length + more.length > 0) return failed([...faults, ...more]);
  if (repeated !== undefined) return failed([{ path: `/${repeated}`, message: 'must be there once' }]);
  const { id, type } = value as Envelope;
  return { valid: true, id, type, body };
}

const NO_FAULTS: readonly EventFault[] = [];
const failed = (errors: readonly EventFault[]): InvalidEvent => ({ valid: false, detail: detailOf(errors), errors });

export function detailOf([first, ...more]: readonly EventFault[]): string {
  if (first === undefined) return 'the envelope failed its schema';
  const about = first.path === '' ? 'the body' : first.path.slice(1);
  return `${about} ${first.message}${more.length === 0 ? '' : ` (and ${more.length} more, see errors)`}`;
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const fault = (message: string): InvalidEvent => ({ valid: false, detail: message, errors: [{ path: '', message }] });

function faultsOf(value: unknown): EventFault[] {
  const paths = new Set(Array.from(envelope.Errors(value), ({ path }) => path));
  const isMissing = (path: string): boolean => path !== '' && isRecord(value) && !Object.hasOwn(value, path.slice(1));
  return Array.from(paths, (path) => ({
    path,
    message: isMissing(path) ? 'is missing' : (EXPECTED[path] ?? 'is not allowed'),
  }));
}

/** Returns V8's message without excerpts from the body, because refusals are logged and a body may hold secrets. */
function notJson(text: string, cause: unknown): string {
  if (text === '') return 'the body is empty';
  const { message } = cause as SyntaxError;
  if (message.startsWith('Unexpected end')) return `the body is not JSON: ${message} at position ${text.length}`;
  const located = /^[^"]* at position \d+/.exec(message)?.[0];
  if (located !== undefined) return `the body is not JSON: ${located}`;
  const position = text.length <= LOCATED_LENGTH_MAX ? ` at position ${unexpectedToken(text)}` : '';
  return `the body is not JSON: Unexpected token in JSON${position}`;
}

/** For a text of this length, unexpectedToken parses up to 12 prefixes, 48 KiB in all. */
const LOCATED_LENGTH_MAX = 4_096;

/** V8 reports no position for an unexpected token. The token ends the shortest prefix with this fault. */
function unexpectedToken(text: string, sound = 0, faulty = text.length): number {
  if (faulty - sound <= 1) return sound;
  const middle = (sound + faulty) >> 1;
  try {
    JSON.parse(text.slice(0, middle));
  } catch (cause) {
    if ((cause as SyntaxError).message.startsWith('Unexpected token')) return unexpectedToken(text, sound, middle);
  }
  return unexpectedToken(text, middle, faulty);
}

// JSON.parse accepts 200,000 levels of nesting, which later code may not survive, and silently keeps the last of two
// members with the same name. Fast searches clear most texts, so few are scanned by character.
const mayNestTooDeep = (text: string): boolean => openers(text, '{') + openers(text, '[') > DEPTH_MAX;

function openers(text: string, bracket: string): number {
  let count = 0;
  for (let at = text.indexOf(bracket); at !== -1 && count <= DEPTH_MAX; at = text.indexOf(bracket, at + 1)) count += 1;
  return count;
}

const mayRepeatName = (text: string): boolean =>
  isTwice(text, '"id"') || isTwice(text, '"type"') || text.includes('\\u00');

function isTwice(text: string, name: string): boolean {
  const first = text.indexOf(name);
  return first !== -1 && text.includes(name, first + name.length);
}

const PLAIN = { deepest: 0, repeated: undefined };

/** `text` must be valid JSON. `repeated` is `id` or `type` if the outer object has it twice. */
function structureOf(text: string): { readonly deepest: number; readonly repeated: string | undefined } {
  const names = new Set<string>();
  let [depth, deepest] = [0, 0];
  let repeated: string | undefined;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      const from = at;
      at = endOfString(text, at);
      if (depth !== 1 || !isKey(text, at)) continue;
      const name = text.slice(from + 1, at);
      const read = name.includes('\\') ? String(JSON.parse(`"${name}"`)) : name;
      if (read !== 'id' && read !== 'type') continue;
      if (names.has(read)) repeated ??= read;
      names.add(read);
    } else if (isOpener(unit)) {
      depth += 1;
      deepest = Math.max(deepest, depth);
    } else if (isCloser(unit)) depth -= 1;
  }
  return { deepest, repeated };
}

function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1;
  return at;
}

function isKey(text: string, end: number): boolean {
  let at = end + 1;
  while (text.charCodeAt(at) <= SPACE) at += 1;
  return text.charCodeAt(at) === COLON;
}
