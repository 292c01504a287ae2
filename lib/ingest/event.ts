// The event envelope, and the check that decides whether bytes are an event.
//
// Invariant: a valid event is UTF-8 text of one JSON object whose `id` and `type` follow the rules below. Its text is
// passed on unchanged. The gateway and the consumer use this check, so one never refuses an event that the other
// accepted.
//
// Limits: DEPTH_MAX levels of nesting. The caller limits the bytes. Other members are not checked (openapi/rules.md,
// 2). A second `id` or `type` is refused, because readers disagree on which one is valid (RFC 8259, section 4).
import { isUtf8 } from 'node:buffer';
import { Kind, Type, TypeRegistry, type Static, type TSchema } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import type { EventFault } from './errors.ts';

/** In Unicode code points. */
export const NAME_CHARACTERS_MAX = 256;

/** Including the envelope itself. */
export const DEPTH_MAX = 64;

/** Valid with and without the flag `u`: a pair of surrogates is a character. */
const ID_PATTERN = '^(?:[^\\u0000-\\u001F\\u007F\\uD800-\\uDFFF]|[\\uD800-\\uDBFF][\\uDC00-\\uDFFF])*$';
const TYPE_PATTERN = '^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$';

// Fact: TypeBox counts UTF-16 units and compiles patterns without the flag `u`; JSON Schema counts code points. Choice:
// a custom kind that follows JSON Schema. Most ids are printable ASCII, for which both agree.
const ASCII_ID = /^[\x20-\x7e]{1,256}$/;
// eslint-disable-next-line no-control-regex -- control characters are what it refuses
const UNICODE_ID = /^[^\u0000-\u001F\u007F\uD800-\uDFFF]{1,256}$/u;

/** 1 to 256 code points, without control characters and lone surrogates. */
export function isEventId(value: unknown): value is string {
  return typeof value === 'string' && (ASCII_ID.test(value) || UNICODE_ID.test(value));
}

TypeRegistry.Set('EventId', (_schema: TSchema, value: unknown) => isEventId(value));

/** See openapi/rules.md, 2. openapi/events.yaml has its JSON form too. */
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

export type Envelope = Static<typeof EventSchema>;

/** `text` is the unchanged body. */
export interface ValidEvent {
  readonly valid: true;
  readonly id: string;
  readonly type: string;
  readonly text: string;
}

/** With at least one fault. */
export interface InvalidEvent {
  readonly valid: false;
  readonly detail: string;
  readonly errors: readonly EventFault[];
}

const SPACE = 0x20;
const QUOTE = 0x22;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
/** `[` and `{`, and `]` and `}`, differ in one bit. */
const BRACE_BIT = 0x20;
const isOpener = (unit: number): boolean => (unit | BRACE_BIT) === 0x7b;
const isCloser = (unit: number): boolean => (unit | BRACE_BIT) === 0x7d;

const envelope = TypeCompiler.Compile(EventSchema);

export const isEnvelope = (value: unknown): value is Envelope => envelope.Check(value);

const EXPECTED: Readonly<Record<string, string>> = {
  '': 'must be a JSON object',
  '/id': `must be a string of 1 to ${NAME_CHARACTERS_MAX} characters without control characters or lone surrogates`,
  '/type': `must be 1 to ${NAME_CHARACTERS_MAX} characters: words of letters, digits, "_" or "-", joined by dots`,
};

/** A further check of an event's members. */
export type MemberCheck = (event: Readonly<Record<string, unknown>>) => readonly EventFault[];

/** Decides whether `body` is one event. Never throws. */
export function parseEvent(body: Buffer, check?: MemberCheck): ValidEvent | InvalidEvent {
  if (!isUtf8(body)) return fault('the body is not valid UTF-8');
  const text = body.toString('utf8');
  // JSON.parse refuses a byte order mark (RFC 8259, section 8.1).
  if (nestsTooDeep(text)) return fault(`the body is nested deeper than ${DEPTH_MAX} levels`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    return fault(text.charCodeAt(0) === 0xfeff ? 'the body begins with a byte order mark' : notJson(text, cause));
  }
  const faults = envelope.Check(value) ? NO_FAULTS : faultsOf(value);
  const more = check === undefined || !isRecord(value) ? NO_FAULTS : check(value);
  if (faults.length + more.length > 0) return failed([...faults, ...more]);
  const { id, type } = value as Envelope;
  const twice = mayRepeatName(text) ? repeatedName(text) : undefined;
  if (twice !== undefined) return failed([{ path: `/${twice}`, message: 'must be there once' }]);
  return { valid: true, id, type, text };
}

const NO_FAULTS: readonly EventFault[] = [];
const failed = (errors: readonly EventFault[]): InvalidEvent => ({ valid: false, detail: detailOf(errors), errors });

/** A sentence about the first fault. */
export function detailOf([first, ...more]: readonly EventFault[]): string {
  if (first === undefined) return 'the envelope failed its schema';
  const about = first.path === '' ? 'the body' : first.path.slice(1);
  return `${about} ${first.message}${more.length === 0 ? '' : ` (and ${more.length} more, see errors)`}`;
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function fault(message: string): InvalidEvent {
  return { valid: false, detail: message, errors: [{ path: '', message }] };
}

/** One fault for each path, in the schema's order. */
function faultsOf(value: unknown): EventFault[] {
  const paths = new Set(Array.from(envelope.Errors(value), ({ path }) => path));
  const isMissing = (path: string): boolean => path !== '' && isRecord(value) && !Object.hasOwn(value, path.slice(1));
  return Array.from(paths, (path) => ({
    path,
    message: isMissing(path) ? 'is missing' : (EXPECTED[path] ?? 'is not allowed'),
  }));
}

// Fact: JSON.parse silently keeps the last of two members with one name. Choice: two searches show that most texts name
// `id` and `type` once; only the others are read by character.
function mayRepeatName(text: string): boolean {
  return isTwice(text, '"id"') || isTwice(text, '"type"') || text.includes('\\u00');
}

function isTwice(text: string, name: string): boolean {
  const first = text.indexOf(name);
  return first !== -1 && text.includes(name, first + name.length);
}

/** The repeated name; `text` is JSON. */
function repeatedName(text: string): string | undefined {
  const seen = new Set<string>();
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      const from = at;
      at = endOfString(text, at);
      if (depth !== 1 || !isKey(text, at)) continue;
      const name = text.slice(from + 1, at);
      const read = name.includes('\\') ? String(JSON.parse(`"${name}"`)) : name;
      if (read !== 'id' && read !== 'type') continue;
      if (seen.has(read)) return read;
      seen.add(read);
    } else if (isOpener(unit)) depth += 1;
    else if (isCloser(unit)) depth -= 1;
  }
  return undefined;
}

/** A colon follows the string that ends at `end`. */
function isKey(text: string, end: number): boolean {
  let at = end + 1;
  while (text.charCodeAt(at) <= SPACE) at += 1;
  return text.charCodeAt(at) === COLON;
}

/** V8's message, without quotes from the body: a refusal is logged, and a body may hold secrets. */
function notJson(text: string, cause: unknown): string {
  if (text === '') return 'the body is empty';
  const { message } = cause as SyntaxError;
  const located = /^[^"]* at position \d+/.exec(message)?.[0];
  if (located !== undefined) return `the body is not JSON: ${located}`;
  if (message.startsWith('Unexpected end')) return `the body is not JSON: ${message} at position ${text.length}`;
  const position = text.length <= LOCATED_LENGTH_MAX ? ` at position ${unexpectedToken(text)}` : '';
  return `the body is not JSON: Unexpected token in JSON${position}`;
}

/** Each halving parses a part of the text again. 16 parts of this length take about as long as one long body. */
const LOCATED_LENGTH_MAX = 65_536;

/** V8 reports no position for an unexpected token. It is the last character of the shortest prefix with this fault. */
function unexpectedToken(text: string): number {
  let [sound, faulty] = [0, text.length];
  while (faulty - sound > 1) {
    const middle = (sound + faulty) >> 1;
    if (hasUnexpectedToken(text.slice(0, middle))) faulty = middle;
    else sound = middle;
  }
  return sound;
}

function hasUnexpectedToken(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (cause) {
    return (cause as SyntaxError).message.startsWith('Unexpected token');
  }
}

// Fact: JSON.parse accepts 200,000 levels, which later code may not. Choice: `indexOf` counts opening brackets at
// memory speed, and few texts have more than DEPTH_MAX; only those are read by character.
function nestsTooDeep(text: string): boolean {
  return openers(text, '{') + openers(text, '[') > DEPTH_MAX && passesDepth(text);
}

function openers(text: string, bracket: string): number {
  let count = 0;
  for (let at = text.indexOf(bracket); at !== -1 && count <= DEPTH_MAX; at = text.indexOf(bracket, at + 1)) count += 1;
  return count;
}

/** For a text that is not JSON, the result does not matter: the parser refuses it. */
function passesDepth(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) {
      at = endOfString(text, at);
    } else if (isOpener(unit)) {
      depth += 1;
      if (depth > DEPTH_MAX) return true;
    } else if (isCloser(unit)) {
      depth -= 1;
    }
  }
  return false;
}

/** The end of the text if the string does not close. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    if (unit === QUOTE) return at;
    at += unit === BACKSLASH ? 2 : 1;
  }
  return text.length;
}
