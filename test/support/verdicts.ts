import assert from 'node:assert/strict';
import type { Reply, TestGateway, TestProcess } from './gateway.ts';
import type { TestRedis } from './redis.ts';

export function assertProblem(reply: Reply, status: number, code: string): void {
  assert.equal(reply.status, status, reply.body);
  assert.equal(reply.headers['content-type'], 'application/problem+json');
  assert.ok(reply.headers['x-request-id']);
  assert.equal(reply.json?.['code'], code, reply.body);
  assert.equal(reply.json['status'], status);
  assert.equal(reply.json['retryable'], status === 503 || status === 500 || status === 429 || status === 408);
  if (status === 503 || status === 429) assert.ok(Number(reply.headers['retry-after']) >= 1);
}

export async function addsNothing<T>(redis: TestRedis, ask: () => Promise<T>): Promise<T> {
  const before = await redis.length();
  const value = await ask();
  assert.equal(await redis.length(), before, 'the stream has grown');
  return value;
}

export function assertNoBugs(process: TestProcess): void {
  const bad = process.lines.filter((line) => /"level":"fatal"|a handler failed|UnhandledPromise|uncaught/i.test(line));
  assert.deepEqual(bad, []);
}

export async function assertAlive(gateway: TestGateway): Promise<void> {
  assert.equal(gateway.child.exitCode, null, gateway.output);
  assert.equal(gateway.child.signalCode, null, gateway.output);
  assert.equal((await gateway.client().ask({ path: '/health/live' })).status, 200);
  assertNoBugs(gateway);
}
