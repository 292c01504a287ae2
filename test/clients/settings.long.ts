import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { TestGateway, PATIENT } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { atEnd, temporaryFolder } from '../support/scope.ts';
import { ADDRESS, python, snippet, SnippetRunner } from '../support/snippets.ts';

const EVENTS = 40;
const PACKAGES = ['axios@1.21.1', 'axios-retry@4.5.0', 'got@16.1.0', 'undici@8.12.4', 'cloudevents@10.0.0'];
const SEND_ALL = `
const all = Array.from({ length: ${EVENTS} }, (_, at) => ({ id: \`\${process.argv[2]}-\${at}\`, type: 'order.placed' }));
await Promise.all(all.map((event) => send(event)));
`;
const SEND_ALL_PYTHON = `
import sys
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(${EVENTS}) as threads:
    list(threads.map(send, [{"id": f"{sys.argv[1]}-{at}", "type": "order.placed"} for at in range(${EVENTS})]))
`;

describe('the settings for retry libraries in openapi/PRODUCERS.md', () => {
  let redis: TestRedis;
  let pki: Pki;
  let gateway: TestGateway;
  let shedding: SnippetRunner;
  let folder: string;

  before(async () => {
    [redis, pki, shedding] = await Promise.all([TestRedis.start(), Pki.create(), SnippetRunner.start()]);
    gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_PRODUCER_RATE_MAX: '5' });
    ({ folder } = shedding);
    writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}\n');
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    execFileSync('npm', ['install', ...options, ...PACKAGES], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  });

  /** Runs a program against the real gateway, in a copy of the folder that has an identity for it. */
  async function runs(producer: string, file: string, text: string): Promise<string> {
    const { cert, key } = await pki.producer(producer);
    const path = temporaryFolder();
    cpSync(folder, path, { recursive: true, verbatimSymlinks: true });
    const pem = { 'ca.pem': pki.authority.certificate, 'producer.pem': cert, 'producer-key.pem': key };
    const program = { [file]: text.replaceAll(ADDRESS, `https://127.0.0.1:${gateway.port}`) };
    for (const [name, content] of Object.entries({ ...pem, ...program })) writeFileSync(join(path, name), content);
    return run(path, file, producer);
  }

  async function run(cwd: string, file: string, ...args: readonly string[]): Promise<string> {
    const command = file.endsWith('.py') ? python() : process.execPath;
    return (await promisify(execFile)(command, [file, ...args], { cwd, timeout: 60_000 })).stdout;
  }

  for (const library of ['axios-retry', 'got', 'undici', 'urllib3']) {
    const isPython = library === 'urllib3';
    const text = snippet(`${isPython ? 'python' : 'js'} ${library}`);
    const file = `send-${library}.${isPython ? 'py' : 'mjs'}`;
    const all = text + (isPython ? SEND_ALL_PYTHON : SEND_ALL);

    it(`have every event accepted with ${library}`, async () => {
      await runs(library, file, all);
      const bodies = (await redis.entries()).map(({ fields }) => JSON.parse(fields['body'] ?? '') as { id: string });
      assert.equal(bodies.filter(({ id }) => id.startsWith(`${library}-`)).length, EVENTS);
    });

    it(`have shed events sent again with ${library}, and stop at an untrusted server`, async () => {
      writeFileSync(join(folder, file), all.replaceAll(ADDRESS, shedding.gateway.url));
      shedding.gateway.reset();
      shedding.gateway.next('unavailable', 'shed', 'shed', 'internal', 'shed');
      await run(folder, file, library);
      assert.deepEqual([shedding.gateway.events.length, shedding.gateway.requests], [EVENTS, EVENTS + 5]);
      const one = isPython
        ? '\nsend({"id": "shop-one", "type": "t"})\n'
        : `\nawait send({ id: 'shop-one', type: 't' });\n`;
      const { path, link } = await shedding.distrusting(file, text + one);
      await assert.rejects(run(path, file), { code: 1 });
      assert.ok(link.taken <= 4, `${link.taken} connections`);
    });
  }

  for (const [library, event] of [
    ['fetch', `{ id: 'once-fetch', type: 'order.placed' }`],
    [
      'cloudevents',
      `new CloudEvent({ id: 'once-cloudevents', source: '/shop', type: 'order.placed', data: { n: 1 } })`,
    ],
  ] as const)
    it(`have an event accepted with ${library}, and a refusal reported`, async () => {
      const imported = library === 'cloudevents' ? "import { CloudEvent } from 'cloudevents';\n" : '';
      const all = `${imported}${snippet(`js ${library}`)}
        const [event, bad] = [${event}, { ...${event}, id: '' }];
        const refused = await send(bad).catch(({ retryable }) => ({ retryable }));
        console.log((await send(event)).status, refused.retryable);
        process.exit(0);`;
      assert.equal(await runs(library, `once-${library}.mjs`, all), 'accepted false\n');
      const bodies = (await redis.entries()).map(({ fields }) => JSON.parse(fields['body'] ?? '') as { id: string });
      assert.equal(bodies.filter(({ id }) => id === `once-${library}`).length, 1);
    });

  for (const [library, event] of [
    ['fetch', `{ id: 'shop-silence', type: 't' }`],
    ['cloudevents', `new CloudEvent({ id: 'shop-silence', source: '/shop', type: 't' })`],
  ] as const)
    it(`end a try without an answer with ${library}`, async () => {
      const silent = createServer().listen(0, '127.0.0.1');
      await once(silent, 'listening');
      atEnd(() => void silent.close());
      const imported = library === 'cloudevents' ? "import { CloudEvent } from 'cloudevents';\n" : '';
      const text = `${imported}${snippet(`js ${library}`)}
        console.log((await send(${event}).catch((error) => error)).name);
        process.exit(0);`;
      const url = `https://127.0.0.1:${(silent.address() as AddressInfo).port}`;
      writeFileSync(join(folder, `${library}-silence.mjs`), text.replaceAll(ADDRESS, url));
      assert.match(await run(folder, `${library}-silence.mjs`), /^(Timeout|Abort)Error\n$/);
    });

  it('report a shed event as retryable with fetch', async () => {
    shedding.gateway.next('shed');
    const text = `${snippet('js fetch')}
      console.log((await send({ id: 'shop-shed', type: 't' }).catch((error) => error)).retryable);
      process.exit(0);`;
    writeFileSync(join(folder, 'shed.mjs'), text.replaceAll(ADDRESS, shedding.gateway.url));
    assert.equal(await run(folder, 'shed.mjs'), 'true\n');
  });
});
