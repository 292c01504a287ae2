// How the event of a request is read: by the head of the request, before its body has come.
//
// Three forms: JSON, a CloudEvent in structured mode (its media type says so) and a CloudEvent in binary mode (its
// attributes are header fields, the body is its data). The last is made into the structured form at once, and nothing
// behind this knows of it.
import { problem } from '../ingest/errors.ts';
import {
  cloudEventFaults,
  isBatchedMode,
  isBinaryMode,
  sourceAndId,
  structuredEvent,
  typeAdvice,
} from '../ingest/cloud-event.ts';
import { isErased } from '../ingest/erased.ts';
import { parseEvent, type InvalidEvent, type ValidEvent } from '../ingest/event.ts';
import type { EventNotes } from '../ingest/queue.ts';
import type { RequestHead } from '../http/request.ts';
import { JSON_TYPE, type GatewayAnswer } from './answers.ts';

/** What is kept with the event in addition to its text. */
export interface ReadEvent extends ValidEvent {
  readonly notes?: EventNotes;
}

/** Makes the event of a whole body, or says what is wrong with it. Never throws. */
export type EventReader = (body: Buffer) => ReadEvent | InvalidEvent | 'too large';

/** What the id of a CloudEvent is: its `id` alone, or its `source` and `id` (sourceAndId). */
export type EventId = 'id' | 'source+id';

const MEDIA_TYPE = /^application\/(cloudevents\+)?json(?:[ \t]*;[ \t]*charset="?utf-8"?)?[ \t]*$/i;

const ACCEPT = ['Accept', 'application/json, application/cloudevents+json'];
const refused = (detail: string): GatewayAnswer => problem('unsupportedMediaType', detail, { headers: ACCEPT });
const MEDIA_TYPE_NEEDED = refused('expected application/json or application/cloudevents+json in UTF-8');
const NO_BATCH = refused(
  'expected one event: send each CloudEvent of the batch in a request of its own, as application/cloudevents+json',
);

/** The reader of this request's body, or the refusal of a media type that has none. */
export function eventReader(
  { contentType, cloudEventFields }: RequestHead,
  { bodyBytesMax, eventId }: { readonly bodyBytesMax: number; readonly eventId: EventId },
): EventReader | GatewayAnswer {
  const readCloudEvent = CLOUD_EVENT_READERS[eventId];
  if (cloudEventFields !== undefined && isBinaryMode(cloudEventFields, contentType)) {
    return (body) => {
      const made = structuredEvent(cloudEventFields, contentType, body);
      if (!made.valid) return made;
      // The structured form is longer, and consumers quarantine events over the limit.
      return made.body.length > bodyBytesMax ? 'too large' : readCloudEvent(made.body);
    };
  }
  if (contentType === JSON_TYPE) return plainEvent;
  const match = contentType === undefined ? null : MEDIA_TYPE.exec(contentType);
  if (match === null) return isBatchedMode(contentType) ? NO_BATCH : MEDIA_TYPE_NEEDED;
  return match[1] === undefined ? plainEvent : readCloudEvent;
}

// A producer's event in the form of an erased one would pass for erased, and no schema would be applied to it.
const ERASED: InvalidEvent = {
  valid: false,
  detail: 'the event has the form of one that an operator erased',
  errors: [{ path: '/erased', message: 'is reserved in an event without other members than id and type' }],
};

const plainEvent = (body: Buffer): ValidEvent | InvalidEvent => {
  const event = parseEvent(body);
  return event.valid && isErased(event.text) ? ERASED : event;
};

const CLOUD_EVENT_READERS: Readonly<Record<EventId, (body: Buffer) => ReadEvent | InvalidEvent>> = {
  id: advised,
  'source+id': (body) => {
    const event = advised(body);
    return event.valid ? identifiedBySource(event) : event;
  },
};

function advised(body: Buffer): ValidEvent | InvalidEvent {
  const event = parseEvent(body, cloudEventFaults);
  if (event.valid) return event;
  const advice = typeAdvice(body);
  return advice === undefined ? event : { ...event, detail: `${event.detail}: ${advice}` };
}

/** The event under its source and id together, with that id as a note: its body says another one. */
function identifiedBySource(event: ValidEvent): ReadEvent | InvalidEvent {
  const id = sourceAndId(event);
  if (typeof id === 'string') return { ...event, id, notes: { id } };
  return { valid: false, detail: 'source and id do not form a valid id', errors: [id] };
}
