// How events are stored in the id index of accept.lua, and what the index's answer about a known id means.
//
// The field of an id is a keyed hash, so that no client can choose two ids of one field. The key is the queue's secret
// (identity.ts): all who read or write the index have it from there. What is answered from the index is still
// checked against the entry's own id. An id whose field another id has is a collision: its event is noted under the
// id's next field.
//
// Limits: the check reads the entry, except of long and of compressed bodies. Those have digests in the index, so a
// repeated id never makes the server read a long body, nor the gateway decompress one.
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { namesIn } from '../../ingest/erased.ts';
import type { Outcome, Submission } from '../../ingest/queue.ts';
import type { Reply } from '../wire/reply.ts';

/** Fields that an id can have: one, and one more where the first is another id's. */
export const FIELDS_MAX = 2;

/** The n-th field of an id, from 0 to FIELDS_MAX - 1. */
export type IndexField = (id: string, n: number) => string;

/** Characters of a field: 84 bits. */
const FIELD_CHARACTERS = 14;
const HMAC_BLOCK_BYTES = 64;

/**
 * The first characters of the id's HMAC-SHA256 (RFC 2104), in base64url.
 *
 * Fact: Redis gives a field of up to 14 bytes 16, and a longer one 32 or more. Choice: 14 characters. Effect: an event
 * takes 74 bytes of the index (`BENCH_CASES=queue-memory make bench`). Among 172 million ids (2,000 a second for 24
 * hours) two of one field are less likely than 1 in 10 ^ 9.
 *
 * Fact: createHmac takes 1.7 us for an id. Choice: its two hashes by the one-shot function. Effect: 0.75 us; an unkeyed
 * hash takes 0.4. `secret`: at most 64 characters of ASCII, which stay ASCII with the pads.
 */
export function indexField(secret: string): IndexField {
  assert(secret.length <= HMAC_BLOCK_BYTES);
  const pad = (mask: number): string =>
    String.fromCharCode(...Array.from(secret.padEnd(HMAC_BLOCK_BYTES, '\0'), (one) => one.charCodeAt(0) ^ mask));
  const inner = pad(0x36);
  const outer = Buffer.alloc(HMAC_BLOCK_BYTES + 32, pad(0x5c));
  return (id, n) => {
    // An id holds no control character, so no id's first field is another id's second one.
    outer.write(hash('sha256', n === 0 ? inner + id : `${inner}\u0001${id}`, 'latin1'), HMAC_BLOCK_BYTES, 'latin1');
    return hash('sha256', outer, 'base64url').slice(0, FIELD_CHARACTERS);
  };
}

/** Longer bodies, and compressed ones, have digests in the index. */
const READ_CHARACTERS_MAX = 16_384;
const DIGEST_CHARACTERS = 22;

const digestOf = (text: string): string => hash('sha256', text, 'base64url').slice(0, DIGEST_CHARACTERS);

export const hasDigests = (text: string, isCompressed: boolean): boolean =>
  isCompressed || text.length > READ_CHARACTERS_MAX;

/** What the index has of such an event: digests of 132 bits each, by which a repeated id is compared. */
export const digestsOf = ({ id, producer, text }: Pick<Submission, 'id' | 'producer' | 'text'>): string =>
  digestOf(id) + digestOf(producer) + digestOf(text);

/** All fields of an id. */
export const fieldsOf = (field: IndexField, id: string): readonly string[] =>
  Array.from({ length: FIELDS_MAX }, (_, n) => field(id, n));

/** Whether digests are those of this id's event. */
export const areOf = (digests: string, id: string): boolean => digests.startsWith(digestOf(id));

/** What a queue has of a known id: the event's digests, or the event. */
export type Known = { readonly digests: string } | Pick<Submission, 'id' | 'producer' | 'text'>;

/**
 * The answer of accept.lua about each event in order; undefined: the queue has the id and did not look at its entry.
 * Throws at an answer of another form.
 */
export function knownOf(reply: Reply, submissions: readonly Submission[]): readonly (Known | 'accepted' | undefined)[] {
  const witnesses = (reply.array() ?? 0) - 1;
  assert.equal(reply.array(), submissions.length, 'an answer about another number of events');
  const marks = submissions.map(() => reply.integer());
  const known = Array.from({ length: witnesses }, () => (reply.isString ? { digests: reply.text() } : entryOf(reply)));
  return marks.map((mark) => (mark === 0 ? 'accepted' : mark < 0 ? submissions[-mark - 1] : known[mark - 1]));
}

/** Whether the answer of accept.lua says of each event that it was accepted. */
export function acceptedOf(reply: Reply): readonly boolean[] {
  if (reply.isString) return Array.from(reply.text(), (digit) => digit === '0');
  reply.array();
  return Array.from({ length: reply.array() ?? 0 }, () => reply.integer() === 0);
}

/** The event of an entry, from its members; undefined where there are none. */
function entryOf(reply: Reply): Known | undefined {
  const members = new Map<string, Buffer>();
  const size = reply.array();
  if (size === undefined) return undefined;
  for (let left = size; left > 0; left -= 2) members.set(reply.utf8(), reply.bytes());
  const [body = Buffer.alloc(0), producer = ''] = [members.get('body'), members.get('producer')?.toString()];
  return { id: members.get('id')?.toString() ?? namesIn(body).id ?? '', producer, text: body.toString() };
}

/** What a submission is where the queue has this; `collision`: it is another id's. */
export function judged(submission: Submission, known: Known): Outcome | 'collision' {
  if ('digests' in known) {
    const mine = digestsOf(submission);
    const same = (part: number): boolean => {
      const [from, to] = [part * DIGEST_CHARACTERS, (part + 1) * DIGEST_CHARACTERS];
      return mine.slice(from, to) === known.digests.slice(from, to);
    };
    if (!same(0)) return 'collision';
    if (!same(1)) return 'conflict';
    return same(2) ? 'duplicate' : 'differing';
  }
  if (known.id !== submission.id) return 'collision';
  if (known.producer !== submission.producer) return 'conflict';
  return known.text === submission.text ? 'duplicate' : 'differing';
}
