// An event arrives in one of three forms: JSON, a CloudEvent in structured mode, or a CloudEvent in binary mode,
// which has its attributes in header fields and its data in the body. The head of the request determines the form.
// Binary mode is converted to structured mode here, so no other file handles it.
import { problem } from '../ingest/errors.ts';
import {
  cloudEventFaults,
  isBatchedMode,
  isBinaryMode,
  sourceAndId,
  structuredEvent,
  typeAdvice,
} from '../ingest/cloud-event.ts';
import { parseEvent, type InvalidEvent, type ValidEvent } from '../ingest/event.ts';
import type { EventNotes } from '../ingest/queue.ts';
import type { RequestHead } from '../http/request.ts';
import type { GatewayAnswer } from './answers.ts';

/** An event and the notes that the queue stores with it. */
export interface ReadEvent extends ValidEvent {
  readonly notes?: EventNotes;
}

/** Returns the event in a whole body, or its errors. Never throws. */
export type CloudEventReader = (body: Buffer) => ReadEvent | InvalidEvent | 'too large';

/** The members of a CloudEvent that form the event's id. */
export type EventId = 'id' | 'source+id';

const MEDIA_TYPE = /^application\/(cloudevents\+)?json[ \t]*(;.*)?$/i;
/** Parameters other than `charset` are ignored (RFC 2045, section 5; RFC 8259, section 11). */
const PARAMETER = /;[ \t]*([^;="]*?)[ \t]*(?:=[ \t]*("(?:[^"\\]|\\.)*"|[^;]*))?(?=;|$)/gy;
const UTF_8 = /^["']?utf-?8["']?[ \t]*$/i;

const ACCEPT = ['Accept', 'application/json, application/cloudevents+json'];
const refused = (detail: string): GatewayAnswer => problem('unsupportedMediaType', detail, { headers: ACCEPT });
const MEDIA_TYPE_NEEDED = refused('expected application/json or application/cloudevents+json in UTF-8');
const NO_BATCH = refused(
  'expected one event: send each CloudEvent of the batch in a request of its own, as application/cloudevents+json',
);

/** Returns the form of the event in a request, or the refusal of its media type. */
export function eventForm(
  { contentType, cloudEventFields }: RequestHead,
  { bodyBytesMax, eventId }: { readonly bodyBytesMax: number; readonly eventId: EventId },
): 'json' | CloudEventReader | GatewayAnswer {
  if (cloudEventFields !== undefined && isBinaryMode(cloudEventFields, contentType)) {
    return (body) => {
      const made = structuredEvent(cloudEventFields, contentType, body);
      if (!made.valid) return made;
      // The structured form is longer, and consumers quarantine events over the limit.
      return made.body.length > bodyBytesMax ? 'too large' : readCloudEvent(made.body, eventId);
    };
  }
  const match = contentType === undefined ? null : MEDIA_TYPE.exec(contentType);
  if (match === null || !isUtf8(match[2] ?? '')) return isBatchedMode(contentType) ? NO_BATCH : MEDIA_TYPE_NEEDED;
  return match[1] === undefined ? 'json' : (body) => readCloudEvent(body, eventId);
}

/** True if the parameters of a media type name no charset but UTF-8. False if they are malformed. */
function isUtf8(parameters: string): boolean {
  let end = 0;
  for (const [parameter, name = '', value = ''] of parameters.matchAll(PARAMETER)) {
    end += parameter.length;
    if (name.toLowerCase() === 'charset' && !UTF_8.test(value.replaceAll(/\\(.)/g, '$1'))) return false;
  }
  return end === parameters.length;
}

function readCloudEvent(body: Buffer, eventId: EventId): ReadEvent | InvalidEvent {
  const event = parseEvent(body, cloudEventFaults);
  if (event.valid) return eventId === 'id' ? event : identifiedBySource(event);
  const advice = typeAdvice(body);
  return advice === undefined ? event : { ...event, detail: `${event.detail}: ${advice}` };
}

/** Uses source and id together as the event's id. The body does not contain that id, so a note stores it. */
function identifiedBySource(event: ValidEvent): ReadEvent | InvalidEvent {
  const id = sourceAndId(event);
  if (typeof id === 'string') return { ...event, id, notes: { id } };
  return { valid: false, detail: 'source and id do not form a valid id', errors: [id] };
}
