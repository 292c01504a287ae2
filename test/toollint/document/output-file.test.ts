import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { chmod, lstat, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type TextSink, writeWhole } from '../../../lib/toollint/toollint.ts';
import { Interrupted } from '../../../lib/toollint/document/failure.ts';
import { project } from '../support/verbs.ts';

describe('a file that is written', () => {
  it('leaves no draft if writing is interrupted or fails', async (t) => {
    const folder = await project(t, { 'eslint.config.mjs': null, 'out.json': 'old' });
    const path = join(folder, 'out.json');
    const interrupt = new AbortController();
    const write = async (sink: TextSink) => {
      await sink('new');
      assert.equal(readdirSync(folder).length, 2, 'there is a draft');
      interrupt.abort();
      await sink('more');
    };
    await assert.rejects(writeWhole(path, 'out.json', write, interrupt.signal), Interrupted);
    await assert.rejects(
      writeWhole(path, 'out.json', () => Promise.reject(new Error('no report'))),
      /no report/u,
    );
    assert.deepEqual(readdirSync(folder), ['out.json']);
    assert.equal(await readFile(path, 'utf8'), 'old');
  });

  it('keeps the mode of the old file, follows a link, and writes to a pipe unless it is interrupted', async (t) => {
    const folder = await project(t, { 'eslint.config.mjs': null, 'out.json': 'old' });
    const write = async (name: string): Promise<void> =>
      await writeWhole(join(folder, name), name, async (sink) => {
        await sink('one ');
        await sink('two');
      });
    await chmod(join(folder, 'out.json'), 0o750);
    await symlink('out.json', join(folder, 'link.json'));
    await write('link.json');
    assert.ok((await lstat(join(folder, 'link.json'))).isSymbolicLink());
    assert.equal(await readFile(join(folder, 'out.json'), 'utf8'), 'one two');
    assert.equal((await lstat(join(folder, 'out.json'))).mode & 0o777, 0o750);
    await write('new.json');
    assert.equal((await lstat(join(folder, 'new.json'))).mode & 0o111, 0);
    assert.deepEqual(readdirSync(folder).sort(), ['link.json', 'new.json', 'out.json']);
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    const [text] = await Promise.all([readFile(join(folder, 'pipe'), 'utf8'), write('pipe')]);
    assert.equal(text, 'one two');
    assert.ok((await lstat(join(folder, 'pipe'))).isFIFO());
    const interrupt = new AbortController();
    const unread = writeWhole(join(folder, 'pipe'), 'pipe', (sink) => sink('x'), interrupt.signal);
    interrupt.abort();
    await assert.rejects(unread, Interrupted);
  });
});
