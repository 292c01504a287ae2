// test/redis has the delays in virtual time.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Load } from '../support/load.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { rule } from '../support/redis-rights.ts';
import { eventually } from '../support/scope.ts';
import { assertAlive, assertProblem } from '../support/verdicts.ts';

/** This timeout is shorter than a producer waits, but long enough for a healthy queue on a busy machine. */
const ENQUEUE_TIMEOUT = { INGEST_ENQUEUE_TIMEOUT_MS: '1000' };

const pki = await Pki.create();
const producer = await pki.producer('one');

const becomesReady = (gateway: TestGateway, status: 200 | 503, reason = /./): Promise<unknown> =>
  eventually(`readiness is ${status}`, async () => {
    const reply = await gateway.client().ask({ path: '/health/ready' });
    return reply.status === status && reason.test(status === 200 ? '-' : String(reply.json?.['reason']));
  });

async function assertOnStream(redis: TestRedis, accepted: Iterable<string>): Promise<void> {
  const bodies = new Set((await redis.entries()).map(({ fields }) => fields['body']));
  assert.deepEqual(
    [...accepted].filter((id) => !bodies.has(event(id))),
    [],
    'answered 202 and not on the stream',
  );
}

it('a killed queue answers 503, changes readiness both ways, and loses no accepted event', async () => {
  const redis = await TestRedis.start();
  const gateway = await TestGateway.start(redis, pki, ENQUEUE_TIMEOUT);
  const load = new Load(gateway.client(producer), 'outage', 8, 10);
  await load.more(40);
  assert.deepEqual(load.statuses, [202]);

  await redis.signal('SIGKILL');
  await becomesReady(gateway, 503, /ECONNREFUSED|closed/);
  const client = gateway.client(producer);
  assertProblem(await client.post(event('refused')), 503, 'QUEUE_UNAVAILABLE');
  assertProblem(await client.find('refused'), 503, 'LOOKUP_UNAVAILABLE');
  assert.equal((await client.ask({ path: '/health/live' })).status, 200);

  await redis.start();
  await becomesReady(gateway, 200);
  await eventually('events are taken', async () => (await client.post(event('back'))).status === 202);
  await load.more(40);
  await load.stop();
  assert.deepEqual([load.errors, load.statuses], [[], [202, 503]]);
  await assertOnStream(redis, load.accepted);
  await assertAlive(gateway);
});

const OLD_MS = 26 * 3_600_000;
const FILL = `for n = 1, 20000 do
  redis.call('XADD', KEYS[1], ARGV[1] .. '-' .. n, 'producer', 'p', 'body', string.rep('x', 300))
end`;

it('a queue full of landed events past retention accepts events again without help', async () => {
  const redis = await TestRedis.start();
  const gateway = await TestGateway.start(redis, pki, ENQUEUE_TIMEOUT);
  const client = gateway.client(producer);
  await redis.command('CONFIG', 'SET', 'maxmemory', '1');
  await becomesReady(gateway, 503);
  await redis.command('CONFIG', 'SET', 'maxmemory', '0');
  await redis.command('EVAL', FILL, '1', 'ingest', String(Date.now() - OLD_MS));
  await redis.land();
  const info = String(await redis.command('INFO', 'memory'));
  const used = Number(/^used_memory:(\d+)/m.exec(info)?.[1]);
  await redis.command('CONFIG', 'SET', 'maxmemory', String(used - 1_000_000));
  await eventually('events are accepted', async () => (await client.post(event('after'))).status === 202);
  await eventually('the old ones are gone', async () => (await redis.length()) === 1);
});

describe('a body that Redis never takes', () => {
  const LIMIT = 1 << 20;
  const long = (id: string, bytes = LIMIT + 1_000_000): string => {
    const start = `{"id":"${id}","type":"a.b","text":"`;
    return `${start}${'x'.repeat(bytes - start.length - 2)}"}`;
  };
  // On a busy machine, Redis may need more than a second for the first long body.
  const env = { ...PATIENT, INGEST_BODY_BYTES_MAX: String(4 << 20) };

  for (const [setting, user, limit] of [
    ['proto-max-bulk-len', 'a user that may not read settings', LIMIT / 2],
    ['client-query-buffer-limit', 'the default user', LIMIT / 2],
  ] as const)
    it(`is refused with 413, and nobody else's events are: ${setting}, ${user}`, async () => {
      const redis = await TestRedis.start([`--${setting}`, String(LIMIT)]);
      await redis.command('ACL', 'SETUSER', 'ingest-gateway', ...rule('ingest-gateway'));
      const uri = user.startsWith('a user') ? redis.uri.replace('//', '//ingest-gateway:secret@') : redis.uri;
      const gateway = await TestGateway.start({ uri }, pki, env);
      const check = new Program('ingest-gateway', {
        args: ['--check=connect'],
        env: { ...env, ...pki.environment, INGEST_QUEUE_URI: uri },
      });
      await check.ended;
      assert.match(check.output, new RegExp(`but no bodies over ${limit} bytes \\(a limit of Redis`));
      const load = new Load(gateway.client(producer), 'bystander', 4, 5);
      const client = gateway.client(producer);
      for (let n = 0; n < 3; n += 1) {
        assertProblem(await client.post(long(`long-${n}`)), 413, 'INVALID_EVENT');
        assertProblem(await client.post(long(`over-${n}`, limit + 1)), 413, 'INVALID_EVENT');
        assert.equal((await client.post(long(`longest-${n}`, limit))).status, 202);
      }
      await load.more(40);
      await load.stop();
      assert.deepEqual([load.errors, load.statuses], [[], [202]]);
      assert.equal((await client.ask({ path: '/health/ready' })).status, 200);
    });

  it('is refused with 413 after the limit was lowered, and taken after it was raised and the connection replaced', async () => {
    const redis = await TestRedis.start();
    const gateway = await TestGateway.start(redis, pki, env);
    const client = gateway.client(producer);
    assert.equal((await client.post(long('before'))).status, 202);
    await redis.command('CONFIG', 'SET', 'proto-max-bulk-len', String(LIMIT));
    await eventually('it is refused for good', async () => (await client.post(long('lowered'))).status === 413);
    await becomesReady(gateway, 200);
    const load = new Load(gateway.client(producer), 'bystander', 4, 5);
    for (let n = 0; n < 5; n += 1) assertProblem(await client.post(long('lowered')), 413, 'INVALID_EVENT');
    assert.equal((await client.post(long('longest', LIMIT))).status, 202);
    await load.more(20);
    await load.stop();
    assert.deepEqual([load.errors, load.statuses], [[], [202]]);
    await redis.command('CONFIG', 'SET', 'proto-max-bulk-len', String(512 << 20));
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually('it is taken', async () => (await client.post(long('raised'))).status === 202);
  });
});

it('a stream whose last name has been used makes gateways not ready with the cure, which the commands of the runbook are', async () => {
  const redis = await TestRedis.start();
  const gateway = await TestGateway.start(redis, pki, ENQUEUE_TIMEOUT);
  const client = gateway.client(producer);
  assert.equal((await client.post(event('before'))).status, 202);
  const last = `${2n ** 64n - 1n}-${2n ** 64n - 1n}`;
  await redis.command('XADD', 'ingest', `${2n ** 64n - 1n}-${2n ** 64n - 2n}`, 'note', 'x');
  assert.equal((await client.post(event('at-the-end'))).status, 202);
  assert.equal((await redis.entries()).at(-1)?.entry, last);
  assertProblem(await client.post(event('after')), 503, 'QUEUE_UNAVAILABLE');
  await becomesReady(gateway, 503, /the last possible name.*runbook/);
  const tail = new Program('ingest-admin', { args: ['tail', '-n', '3'], env: { INGEST_QUEUE_URI: redis.uri } });
  assert.equal(await tail.ended, 0, tail.output);
  assert.match(tail.output, /before[^]*at-the-end/);
  await redis.command('ACL', 'SETUSER', 'ingest-operator', ...rule('ingest-operator'));
  await redis.command('AUTH', 'ingest-operator', 'secret');
  const page = readFileSync('deploy/RUNBOOK.md', 'utf8').split('### A name that ends the stream')[1] ?? '';
  const [, commands = ''] = /```\n([^]*?)```/.exec(page) ?? [];
  for (const name of [last, `${2n ** 64n - 1n}-${2n ** 64n - 2n}`]) {
    const lines = commands.replaceAll(last, name).replaceAll("'", '').trim().split('\n');
    for (const line of lines) {
      const [[newest = ''] = []] = (await redis.command('XREVRANGE', 'ingest', '+', '-', 'COUNT', '1')) as [string][];
      const [, ...words] = line.replaceAll('NAME', newest).trim().split(' ');
      await redis.command(...(words as [string]));
    }
  }
  await assert.rejects(redis.command('XDEL', 'ingest', '1-1'), /NOPERM/);
  await becomesReady(gateway, 200);
  assert.equal((await client.post(event('after'))).status, 202);
  const names = (await redis.entries()).map(({ entry }) => entry);
  assert.ok(Number(names.at(-1)?.split('-')[0]) <= Date.now());
});
