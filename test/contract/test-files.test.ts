// No test is forgotten: each file of tests is run by a make target, or named by a file that is.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';

const cwd = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(cwd, path), 'utf8');

describe('the files of tests', () => {
  it('are *.test.ts or *.long.ts, stand in the Makefile, or are named by another file', () => {
    const makefile = read('Makefile');
    for (const glob of ["find test -name '*.test.ts'", "'test/**/*.long.ts'"]) assert.ok(makefile.includes(glob), glob);
    const files = globSync('test/**/*.ts', { cwd }).map((path) => ({ path, text: read(path) }));
    const named = new Set(
      files.flatMap(({ path, text }) =>
        [...text.matchAll(/'([^']+\.ts)'/g)].map(([, name = '']) => join(dirname(path), name)),
      ),
    );
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

  it('that share a process start no program, and have no hook that would run for the cases of other files', () => {
    const printed = execFileSync('make', ['--silent', '--eval=shared: ; @echo $(TOGETHER)', 'shared'], {
      cwd,
      encoding: 'utf8',
    });
    const shared = printed.trim().split(' ');
    assert.ok(shared.length > 50);
    assert.deepEqual(
      shared.filter((path) =>
        /^(?:before|after)Each\(|\b(?:TestGateway|Pipeline|TestRedis)\.start\b|\bnew Program\(|\bstartPostgres\b/m.test(
          read(path),
        ),
      ),
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
