import assert from 'node:assert/strict';
import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { startFakeGateway } from '../../lib/send/fake-gateway.ts';
import type { SendEventsOptions } from '../../lib/send/client.ts';
import { startPostgres } from '../support/postgres.ts';
import { atEnd } from '../support/scope.ts';
import { ensureCommand, folderWithClient, python, snippet, SnippetRunner } from '../support/snippets.ts';

describe("the loops of the producers' page", () => {
  let runner: SnippetRunner;
  before(async () => {
    runner = await SnippetRunner.start();
  });

  it('in shell with curl sends an event until it is accepted', async () => {
    ensureCommand('curl', 'curl');
    await runner.sends('sh', 'send.sh', 'sh', ['send.sh']);
  });

  it('in Python sends an event until it is accepted', async () => {
    await runner.sends('python', 'send.py', python(), ['send.py']);
  });

  it('in JavaScript sends an event until it is accepted', async () => {
    await runner.sends('js', 'send.mjs', process.execPath, ['--disable-warning=ExperimentalWarning', 'send.mjs']);
  });
});

type SendOutbox = (connection: string, options: SendEventsOptions, batch?: number) => Promise<number>;

it("the outbox of the producers' page sends each event once and keeps refused events with their answer", async () => {
  const server = await startPostgres();
  atEnd(() => server.stop());
  const uri = await server.freshDatabase();
  const gateway = await startFakeGateway();
  atEnd(() => gateway.close());
  await server.query(uri, snippet('sql'));
  const folder = folderWithClient();
  symlinkSync(new URL('../../node_modules/pg', import.meta.url).pathname, join(folder, 'node_modules/pg'));
  writeFileSync(join(folder, 'outbox.mjs'), snippet('js outbox'));
  const { sendOutbox } = (await import(join(folder, 'outbox.mjs'))) as { sendOutbox: SendOutbox };
  const put = (id: string, type = 'order.placed') =>
    server.query(uri, 'INSERT INTO outbox (id, body) VALUES ($1, $2)', [id, JSON.stringify({ id, type })]);
  for (let at = 0; at < 25; at += 1) await put(`shop-${at}`);
  await put('shop-bad', 'not a type');

  const options = { url: gateway.url, tries: 3 };
  const counts = await Promise.all([sendOutbox(uri, options, 10), sendOutbox(uri, options, 10)]);
  assert.equal(counts[0] + counts[1], 25);
  assert.equal(gateway.events.length, 25);
  const rows = await server.query<{ id: string; refused: { code: string } }>(uri, 'SELECT id, refused FROM outbox');
  assert.deepEqual(
    rows.map(({ id, refused }) => [id, refused.code]),
    [['shop-bad', 'INVALID_EVENT']],
  );

  await put('shop-later');
  gateway.next('unavailable', 'unavailable', 'unavailable');
  assert.equal(await sendOutbox(uri, { ...options, tries: 1 }), 0);
  assert.equal(await sendOutbox(uri, options), 1);
});

it("every example of the producers' page has the producer's name in its id", () => {
  const page = readFileSync(new URL('../../openapi/PRODUCERS.md', import.meta.url), 'utf8');
  const ids = [...page.matchAll(/\\?"?\bid\\?"?: ?['"\\]+([^'"\\]+)/g)].map(([, id]) => id);
  assert.ok(ids.length >= 7, ids.join());
  assert.deepEqual(
    ids.filter((id) => !id?.startsWith('shop-')),
    [],
  );
});
