import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { createSqliteAdmin } from '../../lib/sqlite/admin.ts';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { SYSTEM } from '../support/system.ts';

const EVENTS = 4_000;
const ERASED_EACH = 40;

it('an erased body is in no byte of the database or its log', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'ingest-traces-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'warehouse.db');
  const warehouse = createSqliteWarehouse({ path });
  t.after(() => warehouse.close());
  await warehouse.prepare();
  const secret = (at: number): string => `<secret ${at}>`;
  // The unordered ids split index pages, and some bodies are long enough to need overflow pages.
  const events = Array.from({ length: EVENTS }, (_, at) => ({
    id: `${(at * 7919) % EVENTS}-${secret(at).length}`,
    type: 't',
    producer: 'shop',
    body: Buffer.from(JSON.stringify({ data: secret(at).repeat(1 + ((at * at) % (at % 97 === 0 ? 2_000 : 30))) })),
    acceptedAtMs: 1,
  }));
  for (let at = 0; at < EVENTS; at += 100) {
    await warehouse.land(events.slice(at, at + 100));
    await warehouse.quarantine(
      events.slice(at, at + 100).map(({ id, ...event }, n) => ({
        ...event,
        id,
        entry: `q/ingest/${((at + n) * 7919) % EVENTS}-0`,
        reason: 'invalid_event: x',
      })),
    );
    // Rows written later reuse the space of the rows that this call deletes.
    await warehouse.release(events.slice(at, at + 50).map((_, n) => `q/ingest/${((at + n) * 7919) % EVENTS}-0`));
  }
  const admin = createSqliteAdmin(path, SYSTEM.clock);
  t.after(() => admin.close());
  const files = (): Buffer =>
    Buffer.concat(['', '-wal', '-shm'].flatMap((end) => (existsSync(path + end) ? [readFileSync(path + end)] : [])));
  const erased = events.filter((_, at) => at % ERASED_EACH === 0);
  assert.ok(erased.every((_, n) => files().includes(secret(n * ERASED_EACH))));
  for (const [n, { id }] of erased.entries()) {
    await admin.overwriteLanded(id, `{"id":"${id}","type":"t","erased":true}`);
    for (const { entry } of await admin.quarantineOf(id)) await admin.overwriteQuarantined(entry, `{"erased":${n}}`);
  }
  await admin.eraseTraces();
  const left = files();
  assert.deepEqual(
    erased.flatMap((_, n) => (left.includes(secret(n * ERASED_EACH)) ? [secret(n * ERASED_EACH)] : [])),
    [],
  );
});
