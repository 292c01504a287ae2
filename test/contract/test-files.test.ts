import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';

const cwd = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(cwd, path), 'utf8');

const SHARED = ['together', 'waiting', 'analyzing'];

/** The commands of a target, whatever the settings of the `make` that runs this test. */
const commandsOf = (target: string): string => {
  const env = { ...process.env, MAKEFLAGS: '' };
  return execFileSync('make', ['--dry-run', target, 'TESTS='], { cwd, encoding: 'utf8', env });
};

const filesOf = (target: string): string[] => commandsOf(target).match(/(?<= )test\/\S+\.test\.ts/g) ?? [];

describe('the files of tests', () => {
  it('named *.test.ts are all run by `make ingest-test`, each once', () => {
    assert.match(commandsOf('test'), /-j4 together waiting analyzing apart$/m);
    const shared = SHARED.flatMap(filesOf);
    const run = [...shared, ...filesOf('apart')];
    assert.deepEqual(run.toSorted(), globSync('test/**/*.test.ts', { cwd }).toSorted());
    // A hook for each case outside a suite would run for the cases of all files that share a process.
    assert.deepEqual(
      shared.filter((path) => /^(?:before|after)Each\(/m.test(read(path))),
      [],
    );
  });

  it('with other names are named by a target of the Makefile or by another file', () => {
    const makefile = read('Makefile');
    const files = globSync('test/**/*.ts', { cwd }).map((path) => ({ path, text: read(path) }));
    const named = new Set(
      files.flatMap(({ path, text }) =>
        [...text.matchAll(/'([^']+\.ts)'/g)].map(([, name = '']) => join(dirname(path), name)),
      ),
    );
    const long = commandsOf('ingest-test-long');
    assert.ok(long.includes("'test/**/*.long.ts'"), long);
    const forgotten = files.filter(
      ({ path, text }) =>
        /^\s*(?:it|test)\(/m.test(text) &&
        !/\.(?:test|long)\.ts$/.test(path) &&
        !makefile.includes(path) &&
        !named.has(path),
    );
    assert.deepEqual(
      forgotten.map(({ path }) => path),
      [],
    );
  });

  it('have the tag `long` only where `make ingest-test-long` looks for it', () => {
    const tagged = globSync('test/**/*.ts', { cwd }).filter((path) => read(path).includes("tags: ['long']"));
    assert.ok(tagged.length > 10);
    assert.deepEqual(
      tagged.filter((path) => !path.endsWith('.test.ts')),
      [],
    );
  });
});
