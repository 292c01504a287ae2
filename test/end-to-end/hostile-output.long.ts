// Hostile text in arguments, settings, files, rows, certificates and answers must not reach a terminal unescaped.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { it } from 'node:test';
import { createSqliteWarehouse } from '../../lib/sqlite/warehouse.ts';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway } from '../support/gateway.ts';
import { AUDIENCE_URI } from '../support/pki.ts';
import { Program, type ProgramName } from '../support/program.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { sqliteStore } from '../support/warehouse-store.ts';

/** A window title, colors set with ESC and with its C1 form, DEL, NEL, direction marks, and a line separator. */
const HOSTILE = 'evil\u001b]0;title\u0007\u001b[31m\u009b31m\u007f\u0085\u202e\u2066\u200f\u2028\ufeff\r';
const CONTROL =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/u; // eslint-disable-line no-control-regex -- it looks for them

const { redis, pki, producer } = await queueAndProducer();

function assertShown(output: string, words = 'evil'): void {
  const at = CONTROL.exec(output)?.index;
  assert.equal(at, undefined, JSON.stringify(output.slice(Math.max(0, (at ?? 0) - 60), (at ?? 0) + 20)));
  assert.ok(output.includes(words), output);
}

async function outputOf(name: ProgramName, args: readonly string[], env = {}, cwd?: string): Promise<string> {
  const program = new Program(name, { args, env, ...(cwd !== undefined && { cwd }) });
  await program.ended;
  return program.output;
}

it('every program escapes hostile arguments, files and URLs', async () => {
  for (const [name, args] of [
    ['ingest-gateway', [`--${HOSTILE}`]],
    ['ingest-consumer', [`--${HOSTILE}`]],
    ['ingest-admin', ['event', 'id', `--${HOSTILE}`]],
    ['ingest-admin', [HOSTILE]],
    ['ingest-send', [`--${HOSTILE}`]],
    ['ingest-send', ['--cert', `/nowhere/${HOSTILE}`, '--key', '/nowhere']],
    ['ingest-send', ['--url', HOSTILE]],
    ['toollint', ['scan', `--${HOSTILE}`]],
    ['toollint', [HOSTILE]],
    ['toollint', ['validate', HOSTILE]],
  ] as const)
    assertShown(await outputOf(name, args, { INGEST_QUEUE_URI: 'redis://127.0.0.1:1' }));
});

it('every program escapes hostile settings', async () => {
  const wrong = { INGEST_QUEUE_URI: HOSTILE, [`INGEST_${HOSTILE}`]: HOSTILE, INGEST_QUEUE_PARTITIONS: HOSTILE };
  for (const [name, args] of [
    ['ingest-gateway', []],
    ['ingest-gateway', ['--check']],
    ['ingest-consumer', []],
    ['ingest-admin', ['status']],
  ] as const)
    assertShown(await outputOf(name, args, wrong));
});

it('a gateway escapes hostile producers, request paths and files in its log', async () => {
  const INGEST_PRODUCERS_FILE = pki.write('producers.json', '{"producers":{}}');
  const gateway = await TestGateway.start(redis, pki, { INGEST_LOG_LEVEL: 'debug', INGEST_PRODUCERS_FILE });
  for (const options of [
    { uris: [`urn:${HOSTILE}`, AUDIENCE_URI] },
    { uris: [`urn:${HOSTILE}`] },
    { uris: [AUDIENCE_URI], commonName: HOSTILE },
  ])
    await gateway.client(await pki.producer('x', options)).post(`{"id":"${HOSTILE}","type":"${HOSTILE}"}`);
  pki.write('producers.json', `{"producers":{"${HOSTILE}":{"rate":-1}}}`);
  await gateway.line(/changed files refused/);
  assertShown(gateway.output);
  assert.ok(gateway.output.includes('\\u009b31m'));
});

it('ingest-admin escapes hostile rows as text and as JSON, and the JSON has the same value', async () => {
  const store = sqliteStore();
  const warehouse = createSqliteWarehouse({ path: store.uri.slice('sqlite:'.length) });
  await warehouse.prepare();
  const body = Buffer.from(JSON.stringify({ id: 'x', type: 'a', note: HOSTILE }));
  const row = { id: HOSTILE, producer: HOSTILE, reason: `invalid_event: ${HOSTILE}`, acceptedAtMs: 1 };
  await warehouse.quarantine([
    { ...row, entry: 'q/ingest/1-0', body },
    { ...row, entry: 'q/ingest/2-0', body: Buffer.from(HOSTILE) },
  ]);
  await warehouse.close();
  const env = { INGEST_QUEUE_URI: redis.uri, INGEST_WAREHOUSE_URI: store.uri };
  for (const args of [['status'], ['quarantine', 'list'], ['quarantine', 'show', 'q/ingest/1-0'], ['event', 'x']])
    for (const json of [[], ['--json']]) {
      const output = await outputOf('ingest-admin', [...args, ...json], env);
      assertShown(output, args[0] === 'quarantine' ? 'evil' : '');
      if (args[1] === 'list' && json.length > 0)
        assert.ok((JSON.parse(output) as { producer: string }[]).some((row) => row.producer === HOSTILE));
    }
});

it('ingest-send escapes the answers of a hostile server', async () => {
  const server = createServer({ cert: pki.server.certificate, key: pki.server.key }, (_request, response) => {
    response.writeHead(400, { 'content-type': 'application/problem+json' });
    response.end(JSON.stringify({ code: HOSTILE, title: HOSTILE, detail: HOSTILE, status: 400, retryable: false }));
  }).listen(0, '127.0.0.1');
  atEnd(() => void server.close());
  await eventually('it listens', () => server.listening);
  const args = ['--url', `https://localhost:${(server.address() as AddressInfo).port}`, '--ca', pki.path('ca.pem')];
  args.push('--cert', pki.write('one.pem', producer.cert), '--key', pki.write('one-key.pem', producer.key));
  args.push(pki.write(`events-${HOSTILE}.jsonl`, `${event('one')}\n`));
  assertShown(await outputOf('ingest-send', args), 'refused');
});

it('toollint escapes hostile file names and messages in every format', async () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, HOSTILE));
  const code = `if (a = "${HOSTILE.replaceAll(/[\r\u2028]/g, '')}") {}\nvar evil = ;`;
  writeFileSync(join(folder, HOSTILE, 'x.js'), code);
  writeFileSync(join(folder, 'eslint.config.js'), 'export default [{ rules: { "no-cond-assign": "error" } }];');
  for (const format of ['report', 'pretty', 'sarif', 'markdown']) {
    const output = await outputOf('toollint', ['scan', '--format', format], {}, folder);
    assertShown(output.replaceAll(/\u001b\[[0-9;]*m/g, '')); // eslint-disable-line no-control-regex -- our own colors
  }
});
