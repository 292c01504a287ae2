import assert from 'node:assert/strict';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import type { ReadFile } from '../../lib/process/operator-file.ts';
import { reloadable, type Reloadable } from '../../lib/process/reloadable.ts';
import { keepingLog } from '../support/gateway-in-process.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

/** Longer than the time until a retry by more than the interval between two checks, which need not divide it. */
const AFTER_RETRY_MS = 31_000;

async function watched(path: string, parse = (read: ReadFile): Promise<string> => read(path).then(String)) {
  const clock = new VirtualClock();
  const { log, lines } = keepingLog();
  const changes: string[] = [];
  const outcomes: boolean[] = [];
  const parsed = async (read: ReadFile): Promise<string> => {
    const text = await parse(read);
    if (!/^[a-z]/.test(text)) throw new Error('no letter');
    return text;
  };
  const files: Reloadable<string> = await reloadable([path], parsed);
  const onChange = (value: string): void => void changes.push(value);
  const onOutcome = (good: boolean): void => void outcomes.push(good);
  const watch = (): void => files.watch({ kind: 'list', clock, log, onChange, onOutcome });
  atEnd(() => files.stop());
  const pass = async (ms = 500): Promise<void> => {
    await eventually('the next read is due later', () => clock.pending === 1);
    await clock.advance(ms);
    await eventually('the read is done', () => clock.pending === 1);
  };
  return { files, clock, lines, changes, outcomes, watch, pass };
}

function fileWith(text: string): string {
  const path = join(temporaryFolder(), 'list');
  writeFileSync(path, text);
  return path;
}

describe('watched files', () => {
  it('are used only when they are completely written', async () => {
    const path = fileWith('a');
    const { files, changes, watch, pass, clock } = await watched(path);
    watch();
    await pass(250);
    let written = 'a';
    for (let line = 0; line < 20; line += 1) {
      written += `line ${line}\n`;
      writeFileSync(path, written);
      await pass(250);
    }
    assert.deepEqual(changes, []);
    await pass();
    assert.deepEqual(changes, [written]);
    assert.equal(files.value, written);
    files.stop();
    assert.equal(clock.pending, 0);
  });

  it('are used as they were when they were compared, even if they change before they are parsed', async () => {
    const path = fileWith('one');
    let isRewritten = false;
    const { changes, watch, pass } = await watched(path, async (read) => {
      if (isRewritten) writeFileSync(path, 'one');
      return String(await read(path));
    });
    watch();
    await pass();
    writeFileSync(path, 'one and two');
    isRewritten = true;
    await pass();
    await pass();
    assert.equal(changes[0], 'one and two');
  });

  it('keep their last good content while they are refused, and are current when they are good again', async () => {
    const path = fileWith('good');
    const { files, lines, outcomes, watch, pass } = await watched(path);
    watch();
    await pass();
    writeFileSync(path, '!');
    await pass();
    await pass();
    assert.equal(files.value, 'good');
    assert.deepEqual(outcomes, [false]);
    const msg = 'changed files refused; the last good ones stay in use';
    assert.deepEqual(lines.splice(0), [{ level: 'error', msg, kind: 'list', reason: 'no letter' }]);
    await pass();
    assert.deepEqual(outcomes, [false], 'one change is one failure');
    writeFileSync(path, 'good');
    await pass();
    await pass();
    assert.deepEqual(outcomes, [false, true]);
    assert.deepEqual(lines, [{ level: 'info', msg: 'files reloaded and in use', kind: 'list' }]);
  });

  it('that become valid later are used without another change', async () => {
    const path = fileWith('early');
    let [valid, loads] = [true, 0];
    const { files, outcomes, watch, pass } = await watched(path, async (read) => {
      loads += 1;
      return valid ? String(await read(path)) : '!';
    });
    watch();
    await pass();
    writeFileSync(path, 'later');
    valid = false;
    await pass();
    await pass();
    assert.deepEqual(outcomes, [false]);
    await pass(AFTER_RETRY_MS);
    assert.deepEqual([outcomes, files.value], [[false], 'early'], 'a retry that fails is silent');
    const retried = loads;
    await pass();
    assert.equal(loads, retried, 'and the next one is later');
    valid = true;
    await pass(AFTER_RETRY_MS);
    assert.deepEqual([outcomes, files.value], [[false, true], 'later']);
    await pass();
    assert.deepEqual(outcomes, [false, true], 'they are not loaded again');
  });

  it('that changed between the first read and the watch are loaded again', async () => {
    const path = fileWith('old');
    const { changes, watch, pass } = await watched(path);
    writeFileSync(path, 'new');
    watch();
    await pass();
    assert.deepEqual(changes, ['new']);
  });

  it('may be a mounted secret, which changes through a symbolic link two folders up', async () => {
    const folder = temporaryFolder();
    for (const version of ['v1', 'v2']) {
      mkdirSync(join(folder, version));
      writeFileSync(join(folder, version, 'cert'), version);
    }
    symlinkSync('v1', join(folder, 'data'));
    symlinkSync('data/cert', join(folder, 'cert'));
    const { changes, watch, pass } = await watched(join(folder, 'cert'));
    watch();
    await pass();
    symlinkSync('v2', join(folder, 'next'));
    renameSync(join(folder, 'next'), join(folder, 'data'));
    await pass();
    await pass();
    assert.deepEqual(changes, ['v2']);
  });

  it('may be a folder, and a change of a name or a file in it is a change', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'one.json');
    const { changes, watch, pass } = await watched(folder, async () => 'folder');
    watch();
    await pass();
    const edits: readonly (() => void)[] = [
      () => writeFileSync(path, ''),
      () => writeFileSync(path, '1'),
      () => renameSync(path, join(folder, 'two.json')),
      () => mkdirSync(join(folder, 'inner')),
      () => rmSync(join(folder, 'two.json')),
    ];
    for (const [at, edit] of edits.entries()) {
      edit();
      await pass();
      await pass();
      assert.equal(changes.length, at + 1);
    }
  });

  it('can be stopped before their first read has ended', async () => {
    const { files, clock, watch } = await watched(fileWith('a'));
    watch();
    files.stop();
    await files.reload();
    await clock.settle();
    assert.equal(clock.pending, 0);
  });
});
