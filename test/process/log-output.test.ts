import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, createReadStream, openSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { describe, it } from 'node:test';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';

const PROGRAM = new URL('noisy-program.ts', import.meta.url).pathname;

interface Line {
  readonly level: string;
  readonly at?: number;
  readonly lost?: number;
}

/** Starts the program. Its standard output is a pipe, or the socket that node makes for a child process. */
function noisy(kind: 'pipe' | 'socket', lines: number, end: 'run' | 'exit' | 'throw') {
  const program = `${process.execPath} ${PROGRAM}`;
  const command = kind === 'socket' ? `exec ${program}` : `set -o pipefail; ${program} | { read -r go <&3; exec cat; }`;
  const env = { ...process.env, LINES: String(lines), END: end };
  const child = spawn('bash', ['-c', command], { env, stdio: ['ignore', 'pipe', 'pipe', 'pipe'], detached: true });
  atEnd(() => void (child.exitCode === null && process.kill(-(child.pid ?? 0), 'SIGKILL')));
  (child.stdio[3] as Writable).on('error', () => undefined);
  let errors = '';
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => (errors += chunk));
  return {
    exited: once(child, 'exit') as Promise<[number | null]>,
    longestMs: () => eventually('its longest turn', () => Number(/turn: (\S+)/.exec(errors)?.[1] ?? 0)),
    /** Begins to read, until a line is the last one. */
    read: (isLast: (line: Line) => boolean) => {
      (child.stdio[3] as Writable).write('go\n');
      return linesOf(child.stdout as Readable, isLast);
    },
  };
}

async function linesOf(output: Readable, isLast: (line: Line) => boolean): Promise<Line[]> {
  const lines: Line[] = [];
  let rest = '';
  for await (const chunk of output.setEncoding('utf8') as AsyncIterable<string>) {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop() ?? '';
    lines.push(...parts.map((line) => JSON.parse(line) as Line));
    if (lines.some(isLast)) break;
  }
  return lines;
}

describe('a log to a reader that does not read', () => {
  for (const kind of ['pipe', 'socket'] as const)
    it(`through a ${kind} never waits, and reports how many of its oldest lines are lost`, async () => {
      const count = 20_000;
      const { longestMs, read } = noisy(kind, count, 'run');
      assert.ok((await longestMs()) < 1_000);
      const lines = await read(({ at }) => at === count);
      const lost = lines.reduce((sum, line) => sum + (line.lost ?? 0), 0);
      const numbers = lines.flatMap(({ at }) => (at === undefined || at === count ? [] : [at]));
      assert.ok(lost > 1_000, String(lost));
      assert.equal(lost + numbers.length, count);
      assert.deepEqual(numbers.slice(-3), [count - 3, count - 2, count - 1]);
    });

  it('is written completely at an exit if it is read soon, and does not delay the exit for long otherwise', async () => {
    const count = 2_000;
    for (const [kind, end] of [
      ['pipe', 'throw'],
      ['socket', 'exit'],
    ] as const) {
      const { longestMs, read, exited } = noisy(kind, count, end);
      await longestMs();
      const lines = await read(({ at, level }) => (end === 'exit' ? at === count - 1 : level === 'fatal'));
      assert.equal(lines.filter(({ at }) => at !== undefined).length, count);
      assert.equal((await exited)[0], end === 'exit' ? 0 : 1);
    }
    const unread = noisy('socket', count, 'throw');
    const sinceMs = performance.now();
    assert.equal((await unread.exited)[0], 1);
    assert.ok(performance.now() - sinceMs < 10_000);
  });

  it('goes on with a reader that comes after another one left, and counts the lines in between', async () => {
    const path = join(temporaryFolder(), 'log');
    execFileSync('mkfifo', [path]);
    const first = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const writable = openSync(path, constants.O_WRONLY);
    const env = { ...process.env, LINES: '1', END: 'run' };
    const child = spawn(process.execPath, [PROGRAM], { env, stdio: ['ignore', writable, 'pipe'] });
    assert.ok(child.stderr);
    atEnd(() => void child.kill('SIGKILL'));
    await once(child.stderr, 'data');
    for (const end of [first, writable]) closeSync(end);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const lines = await linesOf(createReadStream(path), ({ lost }) => lost !== undefined);
    const lost = lines.find((line) => line.lost !== undefined)?.lost ?? 0;
    assert.ok(lines.length > 1 && lost > 1 && lost < 1_000, JSON.stringify(lines));
  });
});
