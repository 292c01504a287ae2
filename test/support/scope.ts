// Stops everything that a test file starts, in reverse order after its tests, or when the process exits.
import { once } from 'node:events';
import { spawn, type ChildProcess, type ChildProcessByStdio } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { after } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Wait, within, WITHIN_MS } from './deadline.ts';

export type Child = ChildProcessByStdio<null, Readable, Readable>;

const children = new Set<Child>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

const endings: (() => Promise<void> | void)[] = [];
after(async () => {
  for (const ending of endings.splice(0).reverse()) await ending();
  // A case that failed may have left a timer or a connection, which would keep the process.
  const wait = new Wait();
  setInterval(() => wait.isOver(WITHIN_MS) && process.exit(), 500).unref();
});

export function atEnd(ending: () => Promise<void> | void): void {
  endings.push(ending);
}

export function temporaryFolder(name = 'ingest-test-', under = tmpdir()): string {
  const folder = mkdtempSync(join(under, name));
  atEnd(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

export interface StartOptions {
  readonly cwd?: string;
  readonly input?: string | Buffer;
}

/** Starts a process, which is killed at the end of the test file if it still runs. */
export function start(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = process.env,
  options: StartOptions = {},
): Child {
  const { cwd, input } = options;
  const child = spawn(command, args, {
    env,
    cwd,
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  }) as Child;
  // The process may exit before it has read its input.
  (child as ChildProcess).stdin?.on('error', () => undefined).end(input);
  children.add(child);
  const gone = exit(child).then(() => children.delete(child));
  atEnd(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
    }
    await gone;
  });
  return child;
}

async function exit(child: Child): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit').catch(() => undefined);
}

/** Resolves when the process has exited, or could not be started. */
export const exited = (child: Child): Promise<void> => within(`process ${child.pid} exits`, exit(child));

/** Waits until `condition` returns a value other than undefined, null or false, and returns that value. */
export async function eventually<T>(
  what: string,
  condition: () => T | Promise<T>,
  deadlineMs = WITHIN_MS,
): Promise<Exclude<NonNullable<T>, false>> {
  const wait = new Wait();
  let last: unknown;
  for (let pauseMs = 5; ; pauseMs = Math.min(200, pauseMs * 1.125)) {
    try {
      const value = await condition();
      if (value !== undefined && value !== null && value !== false) return value as Exclude<NonNullable<T>, false>;
      last = value;
    } catch (cause) {
      last = cause;
    }
    if (wait.isOver(deadlineMs)) throw new Error(`not within ${deadlineMs} ms: ${what} (last: ${String(last)})`);
    // The pauses grow, so that long waits leave the processor to other programs.
    await delay(pauseMs);
  }
}

export async function everyOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}
