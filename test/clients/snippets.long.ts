import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { promisify } from 'node:util';
import { startFakeGateway } from '../../lib/send/fake-gateway.ts';
import { createClient, type Client } from '../../lib/send/client.ts';
import { Pki } from '../support/pki.ts';
import { startPostgres } from '../support/postgres.ts';
import { atEnd } from '../support/scope.ts';
import { ADDRESS, folderWithClient, PAGE, snippet, SnippetRunner } from '../support/snippets.ts';
import { tool } from '../support/tool.ts';

it("the web server of the producers' page answers after its event was accepted, survives a mistake, and ends", async () => {
  const runner = await SnippetRunner.start();
  runner.gateway.next('shed', 'unavailable');
  const text = `${snippet('js handler')}
import { once } from 'node:events';
await once(server, 'listening');
for (const body of ['{"number":7}', 'not JSON', '{"number":8}'])
  console.log((await fetch(\`http://127.0.0.1:\${server.address().port}\`, { method: 'POST', body })).status);
process.kill(process.pid, 'SIGTERM');`;
  const program = { text: text.replace('listen(8080)', "listen(0, '127.0.0.1')"), file: 'handler.mjs' };
  const args = ['--disable-warning=ExperimentalWarning'];
  const stdout = await runner.run({ ...program, command: process.execPath, args });
  assert.equal(stdout, '201\n500\n201\n');
  assert.equal(runner.gateway.events.map(({ id }) => id).join(), 'shop-order-7,shop-order-8');
});

type SendOutbox = (connection: string, client: Client, batch?: number) => Promise<number>;

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

  const client = createClient({ url: gateway.url, tries: 3 });
  const counts = await Promise.all([sendOutbox(uri, client, 10), sendOutbox(uri, client, 10)]);
  assert.equal(counts[0] + counts[1], 25);
  assert.equal(gateway.events.length, 25);
  const rows = await server.query<{ id: string; refused: { code: string } }>(uri, 'SELECT id, refused FROM outbox');
  assert.equal(rows.map(({ id, refused }) => `${id} ${refused.code}`).join(), 'shop-bad INVALID_EVENT');

  await put('shop-later');
  for (const refusals of [['unavailable', 'shed', 'unavailable'], [401], [403], ['PRODUCER_DISABLED']] as const) {
    gateway.next(...refusals);
    assert.equal(await sendOutbox(uri, client), 0);
  }
  assert.equal(await sendOutbox(uri, client), 1);
  await client.close();
});

it("the first commands of the producers' page make a certificate, send an event and look it up", async () => {
  tool('curl', 'curl');
  const pki = await Pki.create();
  const { certificate: cert, key } = pki.server;
  const gateway = await startFakeGateway({ tls: { cert, key, ca: pki.authority.certificate } });
  atEnd(() => gateway.close());
  pki.write('ca-key.pem', pki.authority.key);
  const [, begin = ''] = /\n## Begin\n([^]*?)\n## /.exec(PAGE) ?? [];
  const blocks = [...begin.matchAll(/\n```(\w*)\n([^]*?)```/g)];
  const commands = blocks.filter(([, language, text]) => language === '' && text?.startsWith('step ') === false);
  const args = ['-ec', commands.map(([, , text]) => text?.replaceAll(ADDRESS, gateway.url)).join('\n')];
  const { stdout } = await promisify(execFile)('sh', args, { cwd: pki.folder, timeout: 30_000 });
  assert.match(stdout, /URI:urn:ingest:producer:shop, URI:urn:ingest:aud:ingest-gateway/);
  assert.match(stdout, /\{"id":"shop-order-1","status":"accepted"\}\{"id":"shop-order-1","type":"order.placed",/);
});

it("every example of the producers' page has the producer's name in its id", () => {
  const ids = [...PAGE.matchAll(/\\?"?\bid\\?"?: ?['"\\]+([^'"\\]+)/g)].map(([, id]) => id);
  assert.ok(ids.length >= 7, ids.join());
  for (const id of ids) assert.match(id ?? '', /^shop-/);
});
