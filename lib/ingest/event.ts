// The event envelope: what one is, and the one check that decides whether bytes are one.
//
// Invariant: a valid event is UTF-8 text of one JSON object whose `id` and `type` keep the rules below. The text is
// handed on as it came; nothing is trimmed, folded, normalised or re-serialised. Both the gateway and the consumer
// use this very check, so what one accepts the other cannot refuse.
//
// Limits: 64 levels of nesting (DEPTH_MAX). The caller bounds the number of bytes. Members beyond `id` and
// `type` are not looked at (openapi/rules.md, 2).
import { isUtf8 } from 'node:buffer';
import { Kind, Type, TypeRegistry, type Static, type TSchema } from '@sinclair/typebox';
import { TypeCompiler } from '@sinclair/typebox/compiler';

/** Longest `id` and `type`, in Unicode characters (code points). */
export const NAME_CHARACTERS_MAX = 256;

/** Deepest nesting of arrays and objects that is read; the envelope itself is level 1. */
export const DEPTH_MAX = 64;

const ID_PATTERN = '^[^\\u0000-\\u001F\\u007F\\uD800-\\uDFFF]*$';
const TYPE_PATTERN = '^[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*$';

// Fact: TypeBox counts maxLength in UTF-16 units and compiles patterns without the `u` flag, while JSON Schema counts
// code points. Choice: a kind of our own that means what JSON Schema means. Most ids are printable ASCII, where
// both counts agree, so that case is one small regular expression.
const ASCII_ID = /^[\x20-\x7e]{1,256}$/;
const UNICODE_ID = /^[^\u0000-\u001F\u007F\uD800-\uDFFF]{1,256}$/u; // eslint-disable-line no-control-regex -- control characters are what it refuses

/** True for a string that may be an event's id: 1 to 256 code points, no control characters, no lone surrogates. */
export function isEventId(value: unknown): value is string {
  return typeof value === 'string' && (ASCII_ID.test(value) || UNICODE_ID.test(value));
}

TypeRegistry.Set('EventId', (_schema: TSchema, value: unknown) => isEventId(value));

/** The envelope (openapi/rules.md, 2). Its JSON form stands in openapi/events.yaml too. */
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

/** Why a body is not an event: where (JSON Pointer, RFC 6901; `''` is the whole body) and what is expected there. */
export interface EventFault {
  readonly path: string;
  readonly message: string;
}

/** A body that is an event. `text` is the body as it came. */
export interface ValidEvent {
  readonly valid: true;
  readonly id: string;
  readonly type: string;
  readonly text: string;
}

/** A body that is not an event, with every fault that was found (at least one). */
export interface InvalidEvent {
  readonly valid: false;
  readonly detail: string;
  readonly errors: readonly EventFault[];
}

const envelope = TypeCompiler.Compile(EventSchema);

const EXPECTED: Readonly<Record<string, string>> = {
  '': 'must be a JSON object',
  '/id': `must be a string of 1 to ${NAME_CHARACTERS_MAX} characters without control characters or lone surrogates`,
  '/type': `must be 1 to ${NAME_CHARACTERS_MAX} characters: words of letters, digits, "_" or "-", joined by dots`,
};

/**
 * Decides whether `body` is one event. Never throws; reads at most DEPTH_MAX levels deep.
 * The happy path makes the text, the parsed value and the verdict, and nothing else.
 */
export function parseEvent(body: Buffer): ValidEvent | InvalidEvent {
  if (!isUtf8(body)) return fault('the body is not valid UTF-8');
  const text = body.toString('utf8');
  // A byte order mark is no JSON (RFC 8259, section 8.1); JSON.parse refuses it by itself.
  if (nestsTooDeep(text)) return fault(`the body is nested deeper than ${DEPTH_MAX} levels`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return fault(text.charCodeAt(0) === 0xfeff ? 'the body begins with a byte order mark' : 'the body is not JSON');
  }
  if (!envelope.Check(value))
    return { valid: false, detail: 'the envelope failed its schema', errors: faultsOf(value) };
  return { valid: true, id: value.id, type: value.type, text };
}

function fault(message: string): InvalidEvent {
  return { valid: false, detail: message, errors: [{ path: '', message }] };
}

/** One entry per path, in the schema's own order. Runs after a failure only. */
function faultsOf(value: unknown): EventFault[] {
  const paths = new Set(Array.from(envelope.Errors(value), ({ path }) => path));
  return Array.from(paths, (path) => ({ path, message: EXPECTED[path] ?? 'is not allowed' }));
}

// Fact: JSON.parse takes 200,000 levels, and what walks the value afterwards may not. Choice: few texts hold more
// than 64 opening brackets at all, and counting those with indexOf runs at memory speed; only the others are read
// character by character, strings left out.
function nestsTooDeep(text: string): boolean {
  return openers(text, '{') + openers(text, '[') > DEPTH_MAX && passesDepth(text);
}

function openers(text: string, bracket: string): number {
  let count = 0;
  for (let at = text.indexOf(bracket); at !== -1 && count <= DEPTH_MAX; at = text.indexOf(bracket, at + 1)) count += 1;
  return count;
}

/** Whether a level lies past DEPTH_MAX. Texts that are no JSON may get either answer; the parser refuses them. */
function passesDepth(text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) {
      at = endOfString(text, at);
    } else if (unit === 0x7b || unit === 0x5b) {
      depth += 1;
      if (depth > DEPTH_MAX) return true;
    } else if (unit === 0x7d || unit === 0x5d) {
      depth -= 1;
    }
  }
  return false;
}

/** Where the string that opens at `from` closes; the text's end where it never does. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    if (unit === 0x22) return at;
    at += unit === 0x5c ? 2 : 1;
  }
  return text.length;
}
