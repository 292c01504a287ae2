import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { queueAndProducer } from '../support/file-gateway.ts';
import { event, TestGateway, type TestClient } from '../support/gateway.ts';
import type { ClientCertificate } from '../support/pki.ts';
import { clockFrom } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { assertAlive, assertProblem } from '../support/verdicts.ts';
import { postText, replies, type WireReply } from '../support/wire.ts';

const folder = temporaryFolder('ingest-producers-');

const { redis, pki, producer: shop } = await queueAndProducer('shop');

async function start(env: Readonly<Record<string, string>>): Promise<TestGateway> {
  const gateway = await TestGateway.start(redis, pki, { ...env });
  atEnd(() => assertAlive(gateway));
  return gateway;
}

let files = 0;
/** Replaces the file atomically, as an operator's tool does. */
function producersFile(producers: object, path = join(folder, `producers-${(files += 1)}.json`)): string {
  writeFileSync(`${path}.new`, JSON.stringify({ producers }));
  renameSync(`${path}.new`, path);
  return path;
}

let ids = 0;
const fresh = (type = 'test.event'): string => event(`quota-${(ids += 1)}`, { type });

async function together(gateway: TestGateway, from: ClientCertificate, texts: readonly string[]): Promise<WireReply[]> {
  const connection = await gateway.socket(from);
  connection.write(texts.join(''));
  return replies(connection, texts.length);
}

const statuses = (all: readonly WireReply[]): number[] => all.map(({ status }) => status);

describe('a rate', () => {
  it("lets a second's worth of events pass at once, and answers 429 to the next one", async () => {
    const gateway = await start({ INGEST_PRODUCER_RATE_MAX: '3' });
    const all = await together(
      gateway,
      shop,
      Array.from({ length: 4 }, () => postText(fresh())),
    );
    assert.deepEqual(statuses(all), [202, 202, 202, 429]);
    assert.deepEqual(
      all.map(({ headers }) => [headers['ratelimit-policy'], headers['ratelimit']?.replace(/t=\d+$/, 't=')]),
      [2, 1, 0, 0].map((left) => ['"producer";q=3;w=1', `"producer";r=${left};t=`]),
    );
    const problem = JSON.parse(all[3]?.body ?? '') as { code: string; retryable: boolean };
    assert.deepEqual([problem.code, problem.retryable], ['PRODUCER_RATE_LIMITED', true]);
    assert.equal(all[3]?.headers['retry-after'], '1');
    assert.equal(await gateway.metric('ingest_errors_total', { code: 'PRODUCER_RATE_LIMITED' }), 1);
  });

  it('does not depend on the wall clock', { tags: ['long'] }, async () => {
    const clock = join(folder, 'clock');
    const setClock = (offset: string): void => writeFileSync(clock, `${offset}\n`);
    setClock('+0');
    const gateway = await start({
      INGEST_PRODUCERS_FILE: producersFile({ '*': { rate: 0.01 } }),
      ...clockFrom(clock),
    });
    const client = gateway.client(shop);
    assert.equal((await client.post(fresh())).status, 202);
    for (const [offset, hours] of [
      ['+3600', 1],
      ['-3600', -1],
    ] as const) {
      setClock(offset);
      const offHours = async (): Promise<number> =>
        Math.round((Date.parse((await client.find('nothing')).headers.date ?? '') - Date.now()) / 3_600_000);
      await eventually('the clock is set', async () => (await offHours()) === hours);
      const over = await client.post(fresh());
      assertProblem(over, 429, 'PRODUCER_RATE_LIMITED');
      assert.ok(Number(over.headers['retry-after']) <= 100);
    }
  });
});

describe('the producers file', () => {
  it('is reloaded when it changes, also for open connections, and a bad one is refused', async () => {
    const path = producersFile({ '*': {} });
    const gateway = await start({ INGEST_PRODUCERS_FILE: path });
    const client = gateway.client(shop);
    const codeIs = (client: TestClient, code: string | undefined): Promise<unknown> =>
      eventually(`the answer is ${code}`, async () => (await client.post(fresh())).json?.['code'] === code);
    await codeIs(client, undefined);
    producersFile({ 'urn:test:producer:shop': { disabled: 'for now' } }, path);
    await codeIs(client, 'PRODUCER_DISABLED');
    assert.equal(await gateway.metric('ingest_reloads_total'), 1);

    writeFileSync(path, '{"producers":{"*":{"rate":"many"}}}');
    await gateway.line(/"reason":"[^"]*\/producers\/\*\/rate.*changed files refused/);
    assert.equal(await gateway.metric('ingest_reload_failures_total'), 1);
    await codeIs(client, 'PRODUCER_DISABLED');

    producersFile({}, path);
    gateway.signal('SIGHUP');
    await codeIs(client, undefined);
  });
});
