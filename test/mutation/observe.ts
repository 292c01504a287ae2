// A module loaded into each thread of a test process. It records the mutants and Lua scripts that the thread reaches,
// and exits the process after the first failing test.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import type { TestEvent } from 'node:test/reporters';
import { isMainThread, threadId } from 'node:worker_threads';

const WORKER_WRITES_MS = 20;

interface Switches {
  readonly __stryker__?: { readonly mutantCoverage?: { readonly static: Readonly<Record<string, number>> } };
}

export interface Reached {
  readonly mutants: readonly string[];
  readonly scripts: readonly string[];
}

const output = process.env['MUTATION_REACHED'];
if (output !== undefined) {
  const scripts = new Set<string>();
  const read = fs.readFileSync;
  const noting = (path: fs.PathOrFileDescriptor, options?: never): string | Buffer => {
    const name = String(path);
    if (name.endsWith('.lua')) scripts.add(name.replace(/^.*\//, ''));
    return read(path, options);
  };
  fs.readFileSync = noting as typeof fs.readFileSync;
  syncBuiltinESMExports();
  const write = (): void => {
    const mutants = Object.keys((globalThis as Switches).__stryker__?.mutantCoverage?.static ?? {});
    const reached: Reached = { mutants, scripts: [...scripts] };
    fs.writeFileSync(join(output, `${threadId}.json`), JSON.stringify(reached));
  };
  process.on('exit', write);
  // A terminated worker runs no exit handlers, so a worker writes regularly.
  if (!isMainThread) setInterval(write, WORKER_WRITES_MS).unref();
}

/** A reporter that prints only the first failure, then exits the process. Exit handlers stop the test's servers. */
export default async function* untilFirstFailure(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    if (event.type !== 'test:fail') continue;
    yield `${event.data.name}: ${event.data.details.error.message}\n`;
    process.exit(1);
  }
}
