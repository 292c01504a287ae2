// Which lines of lib count as changed, in a repository of the test's own.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { changedLines } from './changed-lines.ts';

const cwd = mkdtempSync(join(tmpdir(), 'changed-lines-'));
const git = (...args: string[]): string =>
  execFileSync('git', ['-c', 'user.name=test', '-c', 'user.email=test@example.org', ...args], { cwd })
    .toString()
    .trim();

const body = (name: string): string =>
  [
    `export function ${name}(first: number): number {`,
    `  const ${name}Doubled = first * 2;`,
    '  return first;',
    '}',
    '',
  ].join('\n');

/** Commits these files as the only ones; gives the commit. */
function committed(files: Readonly<Record<string, string>>): string {
  for (const folder of ['lib', 'bin']) rmSync(join(cwd, folder), { recursive: true, force: true });
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(cwd, path, '..'), { recursive: true });
    writeFileSync(join(cwd, path), text);
  }
  git('add', '--all');
  git('commit', '--quiet', '--allow-empty', '--message', 'x');
  return git('rev-parse', 'HEAD');
}

describe('the lines of lib that were changed since a commit', () => {
  git('init', '--quiet');
  const before = committed({ 'lib/a.ts': body('one') + body('two'), 'bin/b.ts': body('three') });
  after(() => rmSync(cwd, { recursive: true, force: true }));
  const since = (): unknown =>
    Object.fromEntries([...changedLines(before, cwd)].map(([file, some]) => [file, [...some]]));

  it('are those that were added or rewritten, by file', () => {
    const text = body('one').replace('first * 2', 'first * 3') + body('two') + 'export const added = 1;\n';
    committed({
      'lib/a.ts': text,
      'lib/new.ts': 'export const other = 2;\n',
      'bin/b.ts': `${body('three')}// added\n`,
    });
    assert.deepEqual(since(), { 'lib/a.ts': [2, 9], 'lib/new.ts': [1] });
  });

  it('are none of a file that was renamed', () => {
    committed({ 'lib/room/a.ts': body('one') + body('two'), 'bin/b.ts': body('three') });
    assert.deepEqual(since(), {});
  });

  it('are none of what moved to another place, into another file, or from bin, with another indentation too', () => {
    const indented = body('three').replace(/^(?=.)/gm, '  ');
    committed({ 'lib/a.ts': body('two'), 'lib/b.ts': body('one'), 'lib/c.ts': indented });
    assert.deepEqual(since(), {});
  });

  it('are none where nothing was changed, and unknown for a commit that is not there', () => {
    committed({ 'lib/a.ts': body('one') + body('two'), 'bin/b.ts': body('three') });
    assert.deepEqual(since(), {});
    assert.throws(() => changedLines('0'.repeat(40), cwd));
  });
});
