// What the operator lets each producer do, seen by producers: rates, types, disabled ones, and a file that changes.
import assert from 'node:assert/strict';
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { event, PATIENT, TestGateway, type TestClient } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { clockFrom, TestRedis } from '../support/redis.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { addsNothing, assertAlive, assertProblem } from '../support/verdicts.ts';
import { postText, replies, type WireReply } from '../support/wire.ts';

let redis: TestRedis;
let pki: Pki;
const folder = temporaryFolder('ingest-producers-');
let shop: ClientCertificate;
let bank: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  [shop, bank] = await Promise.all([pki.producer('shop'), pki.producer('bank')]);
});

async function start(env: Readonly<Record<string, string>>): Promise<TestGateway> {
  const gateway = await TestGateway.start(redis, pki, { ...PATIENT, ...env });
  atEnd(() => assertAlive(gateway));
  return gateway;
}

let files = 0;
/** A producers file, written whole as an operator's tool does it. */
function producersFile(producers: object, path = join(folder, `producers-${(files += 1)}.json`)): string {
  writeFileSync(`${path}.new`, JSON.stringify({ producers }));
  renameSync(`${path}.new`, path);
  return path;
}

let ids = 0;
const fresh = (type = 'test.event'): string => event(`quota-${(ids += 1)}`, { type });

/** The answers to requests that arrive together. */
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

  it(
    'counts each producer by itself, and every request to accept an event, but no look-up',
    { tags: ['long'] },
    async () => {
      const gateway = await start({ INGEST_PRODUCERS_FILE: producersFile({ '*': { rate: 0.01 } }) });
      const lookUp = 'GET /events/nothing HTTP/1.1\r\nHost: g\r\n\r\n';
      const answers = await together(gateway, shop, [lookUp, lookUp, postText('no event'), lookUp, postText(fresh())]);
      assert.deepEqual(statuses(answers), [404, 404, 400, 404, 429]);
      for (const { status, headers } of answers) assert.equal(headers['ratelimit'] !== undefined, status !== 404);
      assert.deepEqual(statuses(await together(gateway, bank, [postText(fresh()), postText(fresh())])), [202, 429]);
    },
  );

  it('is counted in time that passes, whatever the clock of the machine is set to', { tags: ['long'] }, async () => {
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

  it('is kept to by ingest-send, which has every event accepted in the end', { tags: ['long'] }, async () => {
    const stateDir = temporaryFolder('ingest-state-');
    const gateway = new Program('ingest-gateway', {
      env: {
        INGEST_QUEUE_URI: redis.uri,
        INGEST_GATEWAY_ADDR: '127.0.0.1:0',
        INGEST_STATE_DIR: stateDir,
        INGEST_PRODUCER_RATE_MAX: '6',
      },
    });
    const send = new Program('ingest-send', {
      env: { INGEST_STATE_DIR: stateDir },
      args: ['--url', await gateway.listening(), '-'],
      input: Array.from({ length: 9 }, () => `${fresh()}\n`).join(''),
    });
    assert.equal(await send.ended, 0, send.output);
    assert.match(send.output, /accepted +9\b/);
    await gateway.kill();
  });
});

describe('the producers file', () => {
  it(
    'disables a producer with a reason that it is told, and allows types by patterns',
    { tags: ['long'] },
    async () => {
      const gateway = await start({
        INGEST_PRODUCERS_FILE: producersFile({
          'urn:test:producer:shop': { types: ['order.*', 'cart.abandoned'] },
          'urn:test:producer:bank': { disabled: 'moved to urn:test:producer:treasury' },
        }),
      });
      const [one, two] = [gateway.client(shop), gateway.client(bank)];
      for (const type of ['order.placed', 'order.placed.eu', 'cart.abandoned'])
        assert.equal((await one.post(fresh(type))).status, 202, type);
      await addsNothing(redis, async () => {
        for (const type of ['order', 'reorder.placed', 'cart.abandoned.eu', 'payment'])
          assertProblem(await one.post(fresh(type)), 403, 'TYPE_NOT_ALLOWED');
        const disabled = await two.post(fresh());
        assertProblem(disabled, 403, 'PRODUCER_DISABLED');
        assert.match(String(disabled.json?.['detail']), /moved to urn:test:producer:treasury/);
      });
      assert.equal(await gateway.metric('ingest_errors_total', { code: 'TYPE_NOT_ALLOWED' }), 4);
      assert.equal(await gateway.metric('ingest_errors_total', { code: 'PRODUCER_DISABLED' }), 1);
    },
  );

  it('is taken into use when it changes, on connections that stand too, and a bad one is not', async () => {
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

  it(
    'that is bad is reported by --check and by the start, with exit 2 and every problem',
    { tags: ['long'] },
    async () => {
      const redis = await TestRedis.start();
      const folder = temporaryFolder('ingest-producers-');
      const bad = join(folder, 'bad.json');
      writeFileSync(bad, '{"producers":{"a":{"rate":0},"b":{"types":"order"},"c":{"speed":1}}}');
      const broken = join(folder, 'broken.json');
      writeFileSync(broken, '{');
      const good = join(folder, 'good.json');
      writeFileSync(good, '{"producers":{"a":{"rate":1}}}');
      const run = (path: string, args: readonly string[]): Program =>
        new Program('ingest-gateway', {
          env: { INGEST_QUEUE_URI: redis.uri, INGEST_GATEWAY_ADDR: '127.0.0.1:0', INGEST_PRODUCERS_FILE: path },
          cwd: folder,
          args,
        });
      for (const args of [['--check'], []]) {
        for (const [path, problem] of [
          [bad, /INGEST_PRODUCERS_FILE=.*\/producers\/a\/rate.*\/producers\/b\/types.*\/producers\/c\/speed/],
          [broken, /INGEST_PRODUCERS_FILE=.*not JSON/],
          [join(folder, 'nowhere.json'), /INGEST_PRODUCERS_FILE=.*expected a readable file \(ENOENT\)/],
        ] as const) {
          const program = run(path, args);
          assert.equal(await program.ended, 2, program.output);
          assert.match(program.output, problem);
        }
      }
      assert.equal(await run(good, ['--check']).ended, 0);
    },
  );
});
