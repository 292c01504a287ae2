// The gateway as a process that is run to its end.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before } from 'node:test';
import { GATEWAY, TestProcess } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { temporaryFolder } from '../support/scope.ts';

export type Env = Readonly<Record<string, string>>;

export let redis: TestRedis;
export let pki: Pki;
export let good: Env;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  good = {
    INGEST_QUEUE_URI: redis.uri,
    INGEST_GATEWAY_ADDR: '127.0.0.1:0',
    INGEST_STATE_DIR: temporaryFolder(),
    ...pki.environment,
  };
});

/** What a line says: the message of a log line, any other line whole. */
function messageOf(line: string): string {
  try {
    return String((JSON.parse(line) as { msg: unknown }).msg);
  } catch {
    return line;
  }
}

/** Runs it to its end. */
export async function run(
  args: readonly string[],
  env: Env,
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = new TestProcess(GATEWAY, args, env);
  const { code } = await child.exited();
  return { code, output: child.lines.map(messageOf).join('\n') };
}

/** Ends with `code`, and says each of `words`. */
export async function assertEnds(
  code: number,
  env: Env,
  words: readonly RegExp[],
  args: readonly string[] = [],
): Promise<string> {
  const ended = await run(args, env);
  assert.equal(ended.code, code, ended.output);
  for (const word of words) assert.match(ended.output, word);
  assert.doesNotMatch(ended.output, /listening on|\n {4}at /, 'it did not listen and shows no stack');
  return ended.output;
}

export const file = (name: string, content: string): string => {
  const path = join(temporaryFolder(), name);
  writeFileSync(path, content);
  return path;
};
