// The journal of sendEvents: the file alone.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Journal, type Entry } from '../../lib/send/journal.ts';
import { eventually, start, temporaryFolder } from '../support/scope.ts';

const folder = temporaryFolder();
let files = 0;
const newPath = (): string => join(folder, `journal-${(files += 1)}`);

async function resumed(journal: Journal): Promise<[number, string][]> {
  const found: Entry[] = [];
  for await (const entry of journal.resumed()) found.push(entry);
  return found.map(({ number, body }) => [number, body.toString()]);
}

/** What the next process finds in it. */
async function leftIn(path: string): Promise<string[]> {
  const journal = await Journal.open(path);
  const bodies = (await resumed(journal)).map(([, body]) => body);
  await journal.close();
  return bodies;
}

describe('a journal', () => {
  it('gives the next process what was not settled, in order and byte for byte', async () => {
    const path = newPath();
    const journal = await Journal.open(path);
    assert.deepEqual(await resumed(journal), []);
    const binary = Buffer.from([0x7b, 0xff, 0x0a, 0x7d]);
    const numbers = await Promise.all(['a', 'b\n', 'c'].map((text) => journal.put(Buffer.from(text))));
    await journal.put(binary);
    journal.settle(numbers[0] ?? 0);
    await journal.close();
    const next = await Journal.open(path);
    const entries: Entry[] = [];
    for await (const entry of next.resumed()) entries.push(entry);
    assert.deepEqual(
      entries.map(({ body }) => body),
      [Buffer.from('b\n'), Buffer.from('c'), binary],
    );
    next.settle(entries[1]?.number ?? 0);
    const more = await next.put(Buffer.from('d'));
    assert.ok(more > (entries.at(-1)?.number ?? 0), 'a number of its own');
    await next.close();
    assert.deepEqual(await leftIn(path), ['b\n', binary.toString(), 'd']);
  });

  it('holds an event once put has resolved, and a mark soon after settle', async () => {
    const path = newPath();
    const journal = await Journal.open(path);
    const number = await journal.put(Buffer.from('{"id":"1"}'));
    assert.equal(readFileSync(path, 'utf8'), '{"put":1,"body":"{\\"id\\":\\"1\\"}"}\n');
    journal.settle(number);
    await eventually('the mark is written', () => readFileSync(path, 'utf8').endsWith('{"settled":1}\n'));
    await journal.close();
    assert.deepEqual(await leftIn(path), []);
    assert.equal(statSync(path).size, 0, 'nothing of what is settled');
  });

  it('has an event on the disk before put resolves, and does not wait for the disk at a mark', async (t) => {
    const probe = await open(newPath(), 'w');
    const handles = Object.getPrototypeOf(probe) as FileHandle;
    await probe.close();
    const journal = await Journal.open(newPath());
    let syncs = 0;
    let letGo = (): void => undefined;
    t.mock.method(handles, 'datasync', () => {
      syncs += 1;
      return new Promise<void>((resolve) => (letGo = resolve));
    });
    let resolved = false;
    const putting = journal.put(Buffer.from('a')).finally(() => (resolved = true));
    await eventually('the file is synced', () => syncs === 1);
    assert.equal(resolved, false);
    letGo();
    journal.settle(await putting);
    await journal.close();
    assert.equal(syncs, 1);
  });

  it('does without the end of a line that a crash cut off, and refuses a file that is damaged elsewhere', async () => {
    const path = newPath();
    writeFileSync(path, '{"put":1,"body":"a"}\n{"put":2,"bo');
    assert.deepEqual(await leftIn(path), ['a']);
    for (const line of ['{"put":2,"bo', 'null', '[]', '{"put":3}', '7']) {
      writeFileSync(path, `{"put":1,"body":"a"}\n${line}\n{"put":4,"body":"b"}\n`);
      await assert.rejects(Journal.open(path), /line 2 is no line of a journal/, line);
    }
    assert.equal(existsSync(`${path}.lock`), false);
  });

  it('is open in one process at a time, and free once that has ended', async () => {
    const path = newPath();
    const journal = await Journal.open(path);
    await assert.rejects(Journal.open(path), new RegExp(`process ${process.pid} has this journal open`));
    await journal.close();
    assert.equal(existsSync(`${path}.lock`), false);
    const other = start(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    writeFileSync(`${path}.lock`, String(other.pid));
    await assert.rejects(Journal.open(path), new RegExp(`process ${other.pid} has this journal open`));
    other.kill('SIGKILL');
    await once(other, 'exit');
    for (const left of [String(other.pid), '', 'nonsense', String(process.pid)]) {
      writeFileSync(`${path}.lock`, left);
      assert.deepEqual(await leftIn(path), [], left);
    }
  });

  it('is written anew when it holds 16 MiB of what is settled, with what is not', async () => {
    const path = newPath();
    const journal = await Journal.open(path);
    await journal.put(Buffer.from('kept'));
    const body = Buffer.alloc(1024 * 1024, 'x');
    for (let at = 0; at < 40; at += 1) journal.settle(await journal.put(body));
    assert.ok(statSync(path).size < 18 * 1024 * 1024, String(statSync(path).size));
    await journal.put(Buffer.from('after'));
    await journal.close();
    assert.deepEqual(await leftIn(path), ['kept', 'after']);
  });

  it('takes nothing more once the disk has refused something', async () => {
    const journal = await Journal.open(newPath());
    await journal.close();
    await assert.rejects(journal.put(Buffer.from('late')), /closed|EBADF/);
    await assert.rejects(journal.put(Buffer.from('later')), /closed|EBADF/);
  });

  it('writes only the events that are not settled anew', async () => {
    const path = newPath();
    writeFileSync(path, '{"put":1,"body":"a"}\n{"put":2,"body":"b"}\n{"settled":1}\n');
    const journal = await Journal.open(path);
    assert.equal(readFileSync(path, 'utf8'), '{"put":2,"body":"b"}\n');
    assert.deepEqual(await resumed(journal), [[2, 'b']]);
    await journal.close();
  });

  it('names the folder that is not there', async () => {
    await assert.rejects(Journal.open(join(folder, 'absent', 'journal')), { code: 'ENOENT' });
  });
});
