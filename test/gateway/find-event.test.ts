// The way of a look-up, on a queue and a warehouse that a test answers for: what is asked before what, and that its
// turn is given back. The answers to what is found are in answers.test.ts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { findEvent } from '../../lib/gateway/find-event.ts';
import { LookUpTurns } from '../../lib/gateway/look-up-turns.ts';
import { Producers } from '../../lib/gateway/producers-file.ts';
import { Quotas } from '../../lib/gateway/quotas.ts';
import type { Authority } from '../../lib/identity/authority.ts';
import { unauthenticated, type Verdict } from '../../lib/identity/producer-identity.ts';
import type { Queue, QueueLookup } from '../../lib/ingest/queue.ts';
import type { Warehouse } from '../../lib/ingest/warehouse.ts';
import { exchanging, SHOP } from '../support/exchange.ts';

interface Given {
  readonly verdict?: Verdict;
  readonly holder?: string;
  readonly known?: boolean;
  readonly row?: object;
  readonly find?: () => Promise<QueueLookup>;
  readonly warehouse?: Pick<Warehouse, 'find'>;
  readonly id?: string;
}

/** A look-up, what the queue was asked, and how many turns are left. */
function lookingUp(given: Given = {}) {
  const { holder = 'shop', known = true, id = 'a' } = given;
  const about = exchanging({ method: 'GET', target: `/events/${id}` }, { holder, known });
  const asked: (readonly [id: string, producer: string])[] = [];
  const turns = new LookUpTurns(about.clock);
  const options = {
    queue: {
      find: (...what: readonly [string, string]) => {
        asked.push(what);
        return given.find?.() ?? Promise.resolve({ kind: 'unknown' });
      },
    } as unknown as Queue,
    warehouse: given.warehouse,
    authority: { judge: () => given.verdict ?? SHOP } as unknown as Authority,
    quotas: new Quotas(
      Producers.parse(JSON.stringify({ producers: { '*': given.row ?? {} } })),
      undefined,
      about.clock,
    ),
    challenge: () => 'who are you',
    turns,
  };
  /** How many of its two turns may be taken at once. */
  const free = async (): Promise<number> => {
    let taken = 0;
    for (let at = 0; at < 3; at += 1) void turns.take('other').then(() => (taken += 1));
    await new Promise((resolve) => setImmediate(resolve));
    return taken;
  };
  const find = () => findEvent(options, about.exchange, id);
  return { ...about, asked, turns, free, find };
}

async function refusal(find: ReturnType<typeof lookingUp>['find']): Promise<readonly unknown[]> {
  const { body } = await find();
  const { code, detail } = JSON.parse(String(body)) as Record<string, unknown>;
  return [code, detail];
}

describe('a look-up', () => {
  it('asks the queue for an id of the producer that asks, where there is no warehouse', async () => {
    const { find, asked, free } = lookingUp({ id: 'a%2Fb' });
    assert.deepEqual(await refusal(find), ['EVENT_NOT_FOUND', 'no event has this id']);
    assert.deepEqual(asked, [['a/b', 'shop']]);
    assert.equal(await free(), 2);
  });

  it('asks the warehouse before the queue and after it, and not the queue where it knows the event', async () => {
    const order: string[] = [];
    const landed = { kind: 'landed', text: '{}', type: 't', acceptedAtMs: 0, landedAtMs: 0 } as const;
    const of = (kinds: readonly ('unknown' | 'landed')[]): Given => ({
      warehouse: {
        find: () => {
          const kind = kinds[order.push('warehouse') - 1] ?? 'unknown';
          return Promise.resolve(kind === 'landed' ? { ...landed, traceparent: undefined } : { kind });
        },
      },
      find: () => {
        order.push('queue');
        return Promise.resolve({ kind: 'unknown' });
      },
    });
    assert.equal((await lookingUp(of(['landed'])).find()).status, 200);
    assert.deepEqual(order.splice(0), ['warehouse']);
    assert.equal((await lookingUp(of([])).find()).status, 404);
    assert.deepEqual(order, ['warehouse', 'queue', 'warehouse']);
  });

  it('of nobody who is known, or whose producer may have no other connection, is refused', async () => {
    const stranger = lookingUp({ verdict: unauthenticated('who'), holder: '' });
    assert.equal((await stranger.find()).status, 401);
    assert.deepEqual(stranger.asked, []);
    const short = lookingUp({ holder: '', known: false });
    const [code, detail] = await refusal(short.find);
    assert.equal(code, 'LOOKUP_UNAVAILABLE');
    assert.match(String(detail), /^all connections are in use/);
    const first = lookingUp({ holder: '' });
    assert.equal((await first.find()).status, 404);
    assert.equal((await lookingUp({ known: false }).find()).status, 404);
  });

  it('over the quota of its producer is refused before its id is looked at', async () => {
    const { find } = lookingUp({ row: { lookUpRate: 1 }, id: '%zz' });
    assert.deepEqual((await refusal(find))[0], 'EVENT_NOT_FOUND');
    assert.deepEqual((await refusal(find))[0], 'PRODUCER_RATE_LIMITED');
  });

  it('of an id that no event can have takes no turn', async () => {
    for (const id of ['%zz', '%07', 'x'.repeat(300)]) {
      const { find, asked, turns } = lookingUp({ id });
      for (let at = 0; at < 3; at += 1) void turns.take('other');
      assert.deepEqual(await refusal(find), ['EVENT_NOT_FOUND', 'no event has this id']);
      assert.deepEqual(asked, []);
    }
  });

  it('that has waited too long for its turn is refused, and says so', async () => {
    const { clock, find, turns, asked } = lookingUp();
    for (let at = 0; at < 2; at += 1) await turns.take('other');
    const refused = refusal(find);
    await clock.advance(5_001);
    turns.giveBack();
    assert.deepEqual(await refused, ['LOOKUP_UNAVAILABLE', 'too many look-ups wait']);
    assert.deepEqual(asked, []);
  });

  it('gives its turn back where its client is gone, whom nothing is looked up for, and where it fails', async () => {
    const gone = lookingUp();
    gone.request.gone = true;
    await gone.find();
    assert.deepEqual(gone.asked, []);
    assert.equal(await gone.free(), 2);
    const failing = lookingUp({ find: () => Promise.reject(new Error('a bug')) });
    await assert.rejects(failing.find(), /a bug/);
    assert.equal(await failing.free(), 2);
  });
});
