// What landing does with the connection that a COPY failed on, against a pool that a test answers for.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import pg from 'pg';
import { BatchRefused, BatchTooSlow, type LandingOutcome } from '../../lib/ingest/warehouse.ts';
import { Landing } from '../../lib/postgres/landing.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const EVENT = { id: 'one', type: 't', producer: 'shop', body: Buffer.from('{}'), acceptedAtMs: 1 };

function stateOf(code: string): Error {
  return Object.assign(new pg.DatabaseError('told by the server', 0, 'error'), { code });
}

interface Landed {
  readonly outcome: readonly LandingOutcome[] | Error;
  /** Whether the connection was given back as broken. */
  readonly broken: readonly unknown[];
  readonly inserts: number;
}

/** Lands an event where COPY fails with `failure`, and INSERT would pass. */
async function land(failure: Error): Promise<Landed> {
  const broken: unknown[] = [];
  let inserts = 0;
  const client = {
    query: ({ callback }: { callback: (cause: Error, rows: number) => void }) => callback(failure, 0),
    release: (given: unknown) => void broken.push(given),
  };
  const pool = {
    connect: () => Promise.resolve(client),
    query: () => {
      inserts += 1;
      return Promise.resolve({ rows: [{ id: EVENT.id }] });
    },
  } as unknown as pg.Pool;
  const clock = new VirtualClock();
  const system = { clock, random: { uuid: () => '', fraction: () => 0, bytes: (size: number) => Buffer.alloc(size) } };
  const landing = new Landing(pool, system);
  const outcome = await landing.land([EVENT]).catch((cause: unknown) => cause as Error);
  return { outcome, broken, inserts };
}

describe('the connection of a COPY that failed', () => {
  it('is broken where no server has answered, and nothing else is tried meanwhile', async () => {
    const slow = await land(new Error('Query read timeout'));
    assert.ok(slow.outcome instanceof BatchTooSlow);
    assert.deepEqual(slow.broken, [true]);
    assert.equal(slow.inserts, 0);
    const cut = await land(new Error('Connection terminated unexpectedly'));
    assert.match(String(cut.outcome), /terminated/);
    assert.deepEqual(cut.broken, [true]);
    assert.equal(cut.inserts, 0);
  });

  it('serves the next call where the server refused the rows, which are inserted then', async () => {
    for (const code of ['23505', '22021', 'P0001', '0A000']) {
      const { outcome, broken, inserts } = await land(stateOf(code));
      assert.deepEqual(outcome, ['landed'], code);
      assert.deepEqual(broken, [false], code);
      assert.equal(inserts, 1, code);
    }
  });

  it('is given back where the server cannot serve, and the batch is neither inserted nor refused', async () => {
    for (const code of ['08006', '53300', '55P03', '57P01', '58030', 'XX000']) {
      const { outcome, broken, inserts } = await land(stateOf(code));
      assert.ok(outcome instanceof pg.DatabaseError && !(outcome instanceof BatchRefused), code);
      assert.deepEqual(broken, [false], code);
      assert.equal(inserts, 0, code);
    }
  });
});
