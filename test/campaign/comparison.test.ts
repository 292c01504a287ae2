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

async function found(ledger: Ledger, events: StoredEvent[], quarantine: StoredEntry[]): Promise<string[]> {
  const store = { events: async () => events, quarantine: async () => quarantine };
  return (await compare(ledger, store as never)).map(({ what }) => what);
}

describe("an id that two producers' events have", () => {
  const both = ledgerOf(['own', 202, 0], ['other', 202, 2]);

  it("may have a row for each if the queue's clock was moved in between", async () => {
    assert.deepEqual(await found(both, [landed], [conflict]), []);
  });

  it('may have them the other way round if the second event landed first', async () => {
    const first = { ...landed, producer: OTHER };
    assert.deepEqual(await found(both, [first], [{ ...conflict, producer: OWN }]), []);
  });

  it('is a violation if the second event was answered 202 and has no row', async () => {
    assert.deepEqual(await found(both, [landed], []), ['answered 202 to another producer, and there is no row']);
  });

  it('is a violation if the second event was refused and has a row', async () => {
    const refused = ledgerOf(['own', 202, 0], ['other', 409, 2]);
    assert.match(
      (await found(refused, [landed], [conflict])).join(),
      /rows of another producer that it has no right to/,
    );
  });

  it('is a violation if the clock was not moved', async () => {
    const still = ledgerOf(['own', 202, 0], ['other', 202, 0]);
    const all = (await found(still, [landed], [conflict])).join();
    assert.match(all, /accepted from another producer, though the id was taken/);
    assert.match(all, /rows of another producer that it has no right to/);
  });
});

describe('an id that its producer used again', () => {
  const again = ledgerOf(['own', 202, 0], ['own', 202, 2, 1]);
  const reused = {
    ...conflict,
    producer: OWN,
    body: Buffer.from(bodyOf(NUMBER, 1)),
    reason: 'id_reused: the id belongs to an earlier event of this producer with another body',
  } as StoredEntry;

  it("may have a row and a quarantine row if the queue's clock was moved in between", async () => {
    assert.deepEqual(await found(again, [landed], [reused]), []);
  });

  it('is a violation if the second body was answered 202 and has no row', async () => {
    assert.deepEqual(await found(again, [landed], []), ['answered 202 as new, and no row has body 1']);
  });

  it('is a violation if the same body went to quarantine or the clock was not moved', async () => {
    const same = ledgerOf(['own', 202, 0], ['own', 202, 2]);
    const still = ledgerOf(['own', 202, 0], ['own', 202, 0, 1]);
    for (const ledger of [same, still])
      assert.match((await found(ledger, [landed], [reused])).join(), /rows of an id that was not used again/);
  });
});

describe('an event that was answered 202', () => {
  const ledger = ledgerOf(['own', 202, 0]);

  it('has one row', async () => {
    assert.deepEqual(await found(ledger, [landed], []), []);
    assert.deepEqual(await found(ledger, [], []), ['answered 202, and there is no row']);
    assert.match((await found(ledger, [landed, landed], [])).join(), /^2 rows/);
  });

  it('has it byte for byte', async () => {
    const other = { ...landed, body: `${landed.body} ` };
    assert.match((await found(ledger, [other], [])).join(), /not, byte for byte/);
  });
});
