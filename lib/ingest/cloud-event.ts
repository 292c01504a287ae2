// Converts a CloudEvent 1.0 in binary content mode (HTTP protocol binding 1.0.2, section 3.1) to the structured form
// (JSON event format 1.0.2), so that the queue, the warehouse and lookups handle one form only.
//
// Invariants: the result is one JSON object. `data` holds the exact bytes of a JSON body; any other body becomes
// `data_base64`. A body becomes part of the object only if it is valid JSON by itself, so it cannot add members.
// parseEvent checks the result.
import { isUtf8 } from 'node:buffer';
import { namesIn } from './erased.ts';
import type { EventFault } from './errors.ts';
import { detailOf, isEventId, NAME_CHARACTERS_MAX, type InvalidEvent, type ValidEvent } from './event.ts';

/** The name is in lower case. The value has one character per byte. */
export type CloudEventField = readonly [name: string, value: string];

const PREFIX = 'ce-';
const REQUIRED = ['specversion', 'id', 'source', 'type'] as const;
/** CloudEvents 1.0.2, section "Naming conventions". */
const ATTRIBUTE_NAME = /^[a-z0-9]+$/;
/** Members of the JSON event format that must not be sent as header fields. */
const NOT_HEADERS = ['data', 'datacontenttype'];
const JSON_MEDIA_TYPE = /^[^;]*[/+]json[ \t]*(?:;|$)/i;

export function isBinaryMode(fields: Iterable<CloudEventField>, contentType: string | undefined): boolean {
  if (contentType?.toLowerCase().startsWith('application/cloudevents') === true) return false;
  for (const [name] of fields) if (name === 'ce-specversion' || name === 'ce-id') return true;
  return false;
}

export const isBatchedMode = (contentType: string | undefined): boolean =>
  contentType?.toLowerCase().startsWith('application/cloudevents-batch') === true;

export function structuredEvent(
  fields: Iterable<CloudEventField>,
  contentType: string | undefined,
  body: Buffer,
): { readonly valid: true; readonly body: Buffer } | InvalidEvent {
  const faults: EventFault[] = [];
  const attributes = attributesOf(fields, faults);
  for (const name of REQUIRED)
    if (!attributes.has(name)) faults.push({ path: `/${name}`, message: `must be sent as header field ce-${name}` });
  const data = dataMember(contentType, body);
  if (typeof data !== 'string') faults.push(data);
  if (faults.length > 0 || typeof data !== 'string') return { valid: false, detail: detailOf(faults), errors: faults };
  if (contentType !== undefined) attributes.set('datacontenttype', contentType);
  const members = [...attributes].map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`);
  return { valid: true, body: Buffer.from(`{${members.join(',')}${data}}`) };
}

const TIME = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d):(\d\d)(?:\.\d+)?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))$/i;

/** Returns the faults of a CloudEvent 1.0, except those in `id` and `type`, which parseEvent checks. */
export function cloudEventFaults(event: Readonly<Record<string, unknown>>): EventFault[] {
  const { specversion, source, time } = event;
  const faults: EventFault[] = [];
  if (specversion === undefined) faults.push({ path: '/specversion', message: 'is missing' });
  else if (specversion !== '1.0') faults.push({ path: '/specversion', message: 'must be 1.0' });
  if (source === undefined) faults.push({ path: '/source', message: 'is missing' });
  else if (typeof source !== 'string' || source === '')
    faults.push({ path: '/source', message: 'must be a URI reference that is not empty' });
  if (time !== undefined && time !== null && !isTime(time))
    faults.push({ path: '/time', message: 'must be a time of RFC 3339, such as 2026-01-31T12:00:00Z' });
  // The JSON event format 1.0.2, section 3.1, does not allow both.
  if (Object.hasOwn(event, 'data') && Object.hasOwn(event, 'data_base64'))
    faults.push({ path: '/data_base64', message: 'must not be sent together with data' });
  return faults;
}

/** True for a time that exists (RFC 3339, sections 5.6 and 5.7). A leap second ends a month in UTC. */
function isTime(value: unknown): boolean {
  const match = typeof value === 'string' ? TIME.exec(value) : null;
  if (match === null) return false;
  const [, date, minute, second = '', sign, hours = '0', minutes = '0'] = match;
  const isLeap = second === '60';
  const text = `${date}T${minute}:${isLeap ? '59' : second}`;
  const local = new Date(`${text}Z`);
  // Date moves 30 February to March, and hour 24 to the next day.
  if (Number.isNaN(local.getTime()) || !local.toISOString().startsWith(text)) return false;
  const offsetMs = (Number(hours) * 60 + Number(minutes)) * 60_000 * (sign === '-' ? -1 : 1);
  return !isLeap || /-01T00:00:00/.test(new Date(local.getTime() - offsetMs + 1_000).toISOString());
}

export function typeAdvice(body: Buffer): string | undefined {
  if (!isUtf8(body) || !/[/:]/.test(namesIn(body).type ?? '')) return undefined;
  return (
    'CloudEvents allows "/" and ":" in a type, this service takes dotted words only, ' +
    'such as com.example.order.placed'
  );
}

/** Returns `<source> <id>`, which is unique because a source is a URI reference without spaces, or a fault. */
export function sourceAndId({ id, body }: ValidEvent): string | EventFault {
  const path = '/source';
  const { source } = JSON.parse(body.toString('utf8')) as { readonly source?: unknown };
  if (typeof source !== 'string' || source === '' || source.includes(' '))
    return { path, message: "must be a URI reference, which holds no space: it is part of the event's id here" };
  const both = `${source} ${id}`;
  if (isEventId(both)) return both;
  const charactersMax = NAME_CHARACTERS_MAX - 1;
  return { path, message: `must have, with the id, at most ${charactersMax} characters, and no control characters` };
}

function attributesOf(fields: Iterable<CloudEventField>, faults: EventFault[]): Map<string, string> {
  const attributes = new Map<string, string>();
  for (const [field, raw] of fields) {
    if (!field.startsWith(PREFIX)) continue;
    const name = field.slice(PREFIX.length);
    const value = attributeValue(raw);
    const path = `/${name}`;
    if (!ATTRIBUTE_NAME.test(name) || NOT_HEADERS.includes(name))
      faults.push({ path, message: `must not be sent as header field ${field}` });
    else if (attributes.has(name)) faults.push({ path, message: `must be sent once as header field ${field}` });
    else if (value === undefined)
      faults.push({ path, message: 'must be printable ASCII, with everything else percent-encoded in UTF-8' });
    else attributes.set(name, value);
  }
  return attributes;
}

function attributeValue(raw: string): string | undefined {
  if (!/^[\t\x20-\x7e]*$/.test(raw)) return undefined;
  const quoted = /^"((?:[^"\\]|\\.)*)"$/.exec(raw)?.[1];
  const text = quoted === undefined ? raw : quoted.replaceAll(/\\(.)/g, '$1');
  if (!text.includes('%')) return text;
  const bytes = Buffer.from(
    text.replaceAll(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
  return isUtf8(bytes) ? bytes.toString('utf8') : undefined;
}

/** Returns `,"data":…`, `,"data_base64":…`, '' for an empty body, or a fault. */
function dataMember(contentType: string | undefined, body: Buffer): string | EventFault {
  if (body.length === 0) return '';
  const isJson = isJsonText(body);
  // Without a content type, a body that is valid JSON is treated as JSON (JSON event format, section 3.1).
  if (contentType === undefined ? !isJson : !JSON_MEDIA_TYPE.test(contentType))
    return `,"data_base64":"${body.toString('base64')}"`;
  if (isJson) return `,"data":${body.toString('utf8')}`;
  return { path: '/data', message: `must be JSON in UTF-8, as the content type ${contentType} says` };
}

function isJsonText(body: Buffer): boolean {
  try {
    JSON.parse(body.toString('utf8'));
    return isUtf8(body);
  } catch {
    return false;
  }
}
