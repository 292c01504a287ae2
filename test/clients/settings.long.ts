import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { TestGateway, PATIENT } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';
import { ADDRESS, python, snippet } from '../support/snippets.ts';

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
  const folder = temporaryFolder();

  before(async () => {
    [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    gateway = await TestGateway.start(redis, pki, { ...PATIENT, INGEST_PRODUCER_RATE_MAX: '5' });
    writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}\n');
    writeFileSync(join(folder, 'ca.pem'), pki.authority.certificate);
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'];
    execFileSync('npm', ['install', ...options, ...PACKAGES], { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  });

  for (const library of ['axios-retry', 'got', 'undici', 'urllib3']) {
    it(`have every event accepted with ${library}`, async () => {
      const { cert, key } = await pki.producer(library);
      writeFileSync(join(folder, 'producer.pem'), cert);
      writeFileSync(join(folder, 'producer-key.pem'), key);
      const isPython = library === 'urllib3';
      const text = snippet(`${isPython ? 'python' : 'js'} ${library}`);
      const file = `send-${library}.${isPython ? 'py' : 'mjs'}`;
      const address = `https://127.0.0.1:${gateway.port}`;
      writeFileSync(join(folder, file), text.replaceAll(ADDRESS, address) + (isPython ? SEND_ALL_PYTHON : SEND_ALL));
      await promisify(execFile)(isPython ? python() : process.execPath, [file, library], { cwd: folder });
      const bodies = (await redis.entries()).map(({ fields }) => JSON.parse(fields['body'] ?? '') as { id: string });
      assert.equal(bodies.filter(({ id }) => id.startsWith(`${library}-`)).length, EVENTS);
    });
  }

  for (const [library, event] of [
    ['fetch', `{ id: 'once-fetch', type: 'order.placed' }`],
    [
      'cloudevents',
      `new CloudEvent({ id: 'once-cloudevents', source: '/shop', type: 'order.placed', data: { n: 1 } })`,
    ],
  ] as const)
    it(`have an event accepted with ${library}`, async () => {
      const { cert, key } = await pki.producer(library);
      writeFileSync(join(folder, 'producer.pem'), cert);
      writeFileSync(join(folder, 'producer-key.pem'), key);
      const text = snippet(`js ${library}`).replaceAll(ADDRESS, `https://127.0.0.1:${gateway.port}`);
      const print =
        'const answer = await send(event);\nconsole.log(answer.status ?? answer.statusCode);\nprocess.exit(0);';
      const imported = library === 'cloudevents' ? "import { CloudEvent } from 'cloudevents';\n" : '';
      writeFileSync(join(folder, `once-${library}.mjs`), `${imported}${text}\nconst event = ${event};\n${print}\n`);
      const { stdout } = await promisify(execFile)(process.execPath, [`once-${library}.mjs`], { cwd: folder });
      assert.equal(stdout, '202\n');
      const bodies = (await redis.entries()).map(({ fields }) => JSON.parse(fields['body'] ?? '') as { id: string });
      assert.equal(bodies.filter(({ id }) => id === `once-${library}`).length, 1);
    });
});
