import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { StoredEntry, StoredEvent } from '../support/warehouse-store.ts';
import { compare } from './comparison.ts';
import { bodyOf, idOf } from './event.ts';
import { Ledger, type Producer } from './ledger.ts';

const NUMBER = 7;
const OWN = 'spiffe://test/producer:own';
const OTHER = 'spiffe://test/producer:other';

type Tried = readonly [producer: Producer, status: number, moves: number, variant?: number];

/** `moves` is the number of clock changes before the try was sent. */
function ledgerOf(...tries: readonly Tried[]): Ledger {
  const ledger = new Ledger();
  tries.forEach(([producer, status, moves, variant = 0], at) => {
    const answer = { status, code: undefined, duplicate: false, differs: false };
    const times = { sentMs: 10 * at, doneMs: 10 * at + 5, clockMoves: [moves, moves] as const };
    ledger.note({ number: NUMBER, variant, producer, gateway: 'gateway 1', answer, ...times });
  });
  return ledger;
}

const landed = { id: idOf(NUMBER), body: bodyOf(NUMBER, 0), producer: OWN } as StoredEvent;
const conflict = {
  entry: 'q/ingest/1-1',
  id: idOf(NUMBER),
  body: Buffer.from(bodyOf(NUMBER, 0)),
  producer: OTHER,
  reason: "id_conflict: the id belongs to another producer's event",
} as StoredEntry;

const reused = {
  ...conflict,
  producer: OWN,
  body: Buffer.from(bodyOf(NUMBER, 1)),
  reason: 'id_reused: the id belongs to an earlier event of this producer with another body',
} as StoredEntry;

const both = ledgerOf(['own', 202, 0], ['other', 202, 2]);
const again = ledgerOf(['own', 202, 0], ['own', 202, 2, 1]);
const once = ledgerOf(['own', 202, 0]);
const UNENTITLED = /rows of another producer that it has no right to/;
const TAKEN = /accepted from another producer, though the id was taken/;
const NOT_AGAIN = /rows of an id that was not used again/;

type Rows = readonly [events: readonly StoredEvent[], entries: readonly StoredEntry[]];
type Case = readonly [name: string, ledger: Ledger, ...Rows, ...found: RegExp[]];

const CASES: readonly Case[] = [
  ["may have a row for each of two producers if the queue's clock was moved in between", both, [landed], [conflict]],
  [
    'may have them the other way round if the second event landed first',
    ...([both, [{ ...landed, producer: OTHER }], [{ ...conflict, producer: OWN }]] as const),
  ],
  [
    'is a violation if the second event was answered 202 and has no row',
    ...([both, [landed], [], /^answered 202 to another producer, and there is no row$/] as const),
  ],
  [
    'is a violation if the second event was refused and has a row',
    ...([ledgerOf(['own', 202, 0], ['other', 409, 2]), [landed], [conflict], UNENTITLED] as const),
  ],
  [
    'is a violation if two producers have it and the clock was not moved',
    ...([ledgerOf(['own', 202, 0], ['other', 202, 0]), [landed], [conflict], UNENTITLED, TAKEN] as const),
  ],
  ['may have a row and a quarantine row if its producer used it again after a move', again, [landed], [reused]],
  [
    'is a violation if the second body was answered 202 and has no row',
    ...([again, [landed], [], /^answered 202 as new, and no row has body 1$/] as const),
  ],
  [
    'is a violation if the same body went to quarantine',
    ...([ledgerOf(['own', 202, 0], ['own', 202, 2]), [landed], [reused], NOT_AGAIN] as const),
  ],
  [
    'is a violation if its producer used it again and the clock was not moved',
    ...([ledgerOf(['own', 202, 0], ['own', 202, 0, 1]), [landed], [reused], NOT_AGAIN] as const),
  ],
  ['has one row after a 202', once, [landed], []],
  ['is a violation if it has no row after a 202', once, [], [], /^answered 202, and there is no row$/],
  ['is a violation if it has two rows', once, [landed, landed], [], /^2 rows/],
  [
    'is a violation if its row is not, byte for byte, what was sent',
    ...([once, [{ ...landed, body: `${landed.body} ` }], [], /not, byte for byte/] as const),
  ],
];

describe('an id', () => {
  for (const [name, ledger, events, entries, ...wanted] of CASES)
    it(name, async () => {
      const store = { events: async () => events, quarantine: async () => entries };
      const found = (await compare(ledger, store as never)).map(({ what }) => what).join('\n');
      for (const one of wanted) assert.match(found, one);
      if (wanted.length === 0) assert.equal(found, '');
    });
});
