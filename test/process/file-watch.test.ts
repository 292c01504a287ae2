// A watched file is read as a whole: what a writer leaves half done is not acted on.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { FileWatch, lookAt, type Look } from '../../lib/process/file-watch.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

async function watched(path: string, before?: Look): Promise<string[]> {
  const seen: string[] = [];
  const watch = new FileWatch(
    SYSTEM.clock,
    [path],
    before ?? (await lookAt([path])),
    async () => void seen.push(readFileSync(path, 'utf8')),
  );
  atEnd(() => watch.stop());
  await watch.now(false);
  return seen;
}

describe('a file watch', () => {
  it('sees what changes in a folder: a file, its name, and another one', async () => {
    const folder = temporaryFolder();
    const looks: string[] = [];
    const look = async (): Promise<void> => void looks.push((await lookAt([folder])).get(folder) ?? '');
    const path = join(folder, 'one.json');
    await look();
    writeFileSync(path, '1');
    await look();
    writeFileSync(path, '2');
    await look();
    renameSync(path, join(folder, 'two.json'));
    await look();
    mkdirSync(join(folder, 'inner'));
    await look();
    assert.equal(new Set(looks).size, looks.length);
    await look();
    assert.equal(looks.at(-1), looks.at(-2), 'nothing has changed');
  });

  it('waits until a writer is done, and acts on what it wrote within a second', async () => {
    const path = join(temporaryFolder(), 'slow.pem');
    writeFileSync(path, '');
    const clock = new VirtualClock();
    const seen: string[] = [];
    const watch = new FileWatch(
      clock,
      [path],
      await lookAt([path]),
      async () => void seen.push(readFileSync(path, 'utf8')),
    );
    atEnd(() => watch.stop());
    const pass = async (ms: number): Promise<void> => {
      await eventually('the look is done, and the next one is due later', () => clock.pending === 1);
      await clock.advance(ms);
      await eventually('the look is done', () => clock.pending === 1);
    };
    let written = '';
    for (let line = 0; line < 20; line += 1) {
      written += `line ${line}\n`;
      writeFileSync(path, written);
      await pass(200);
    }
    assert.deepEqual(seen, []);
    for (let passedMs = 0; passedMs < 1_000 && seen.length === 0; passedMs += 50) await pass(50);
    assert.deepEqual(seen, [written]);
    watch.stop();
    assert.equal(clock.pending, 0);
  });

  it('sees a change that came after the look before, and none where there was none', async () => {
    const folder = temporaryFolder();
    const [changed, same] = [join(folder, 'changed'), join(folder, 'same')];
    for (const path of [changed, same]) writeFileSync(path, 'old');
    const before = await lookAt([changed, same]);
    writeFileSync(changed, 'new');
    const [seen, nothing] = await Promise.all([watched(changed, before), watched(same, before)]);
    await eventually('the change is seen', () => seen.length > 0);
    assert.deepEqual([seen, nothing], [['new'], []]);
  });

  it('sees a file that is empty now come, and go', async () => {
    const path = join(temporaryFolder(), 'list');
    const look = async (): Promise<unknown> => (await lookAt([path])).get(path);
    const missing = await look();
    writeFileSync(path, '');
    assert.notEqual(await look(), missing);
    rmSync(path);
    assert.equal(await look(), missing);
  });

  it('can be stopped before its first look is done', async () => {
    const clock = new VirtualClock();
    const path = join(temporaryFolder(), 'list');
    const watch = new FileWatch(clock, [path], await lookAt([path]), () => Promise.resolve());
    watch.stop();
    await watch.now(false);
    await clock.settle();
    assert.equal(clock.pending, 0);
  });

  it('sees a mounted secret change, which is a symbolic link swapped two folders up', async () => {
    const folder = temporaryFolder();
    for (const version of ['v1', 'v2']) {
      mkdirSync(join(folder, version));
      writeFileSync(join(folder, version, 'cert'), version);
    }
    symlinkSync('v1', join(folder, 'data'));
    symlinkSync('data/cert', join(folder, 'cert'));
    const seen = await watched(join(folder, 'cert'));
    symlinkSync('v2', join(folder, 'next'));
    renameSync(join(folder, 'next'), join(folder, 'data'));
    await eventually('the change is seen', () => seen.length > 0);
    assert.deepEqual(seen, ['v2']);
  });
});
