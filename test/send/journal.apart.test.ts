import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Journal } from '../../lib/send/journal.ts';
import { atEnd, eventually, everyOf, temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const folder = temporaryFolder();
/**
 * Opens the journal in another process and puts one event, then one for each line of its input. Prints each outcome.
 */
const HOLDER = `
import { createInterface } from 'node:readline';
const [{ Journal }, { SYSTEM }] = await Promise.all([import(process.argv[1]), import(process.argv[2])]);
const { signal } = new AbortController();
const journal = await Journal.open(process.argv[3], SYSTEM, { closing: signal, end: signal });
const put = async (text) => console.log(await journal.put(Buffer.from(text)).then(() => 'put', String));
await put('kept');
for await (const line of createInterface({ input: process.stdin })) await put(line);
`;
function startHolder(path: string) {
  const modules = ['../../lib/send/journal.ts', '../support/system.ts'].map((name) => import.meta.resolve(name));
  const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '--eval', HOLDER, ...modules, path];
  const holder = spawn(process.execPath, args);
  atEnd(() => void holder.kill('SIGKILL'));
  return holder;
}

/** Returns the open descriptors of files whose path begins so. */
const descriptors = (path: string): string[] =>
  fs.readdirSync('/proc/self/fd').filter((fd) => {
    const link = `/proc/self/fd/${fd}`;
    return fs.existsSync(link) && fs.readlinkSync(link).startsWith(path);
  });

/** The signals of a client that is not closing. */
const { signal } = new AbortController();
const OPEN = { closing: signal, end: signal };

let files = 0;
const newPath = (): string => join(folder, `journal-${(files += 1)}`);

async function opened(): Promise<{ readonly path: string; readonly journal: Journal }> {
  const path = newPath();
  return { path, journal: await Journal.open(path, SYSTEM, OPEN) };
}

const resumed = (journal: Journal) => everyOf(journal.pending());

async function leftIn(path: string): Promise<string[]> {
  const journal = await Journal.open(path, SYSTEM, OPEN);
  const bodies = (await resumed(journal)).map(({ body }) => body.toString());
  await journal.close();
  return bodies;
}

describe('a journal', () => {
  it('returns unsettled events to the next process, in order and byte for byte', async () => {
    const { path, journal } = await opened();
    assert.deepEqual(await resumed(journal), []);
    const binary = Buffer.from([0x7b, 0xff, 0x0a, 0x7d]);
    const numbers = await Promise.all(['a', 'b\n', 'c'].map((text) => journal.put(Buffer.from(text))));
    await journal.put(binary);
    journal.settle(numbers[0] ?? 0);
    journal.release(numbers[2] ?? 0);
    assert.deepEqual([journal.unsettled, journal.unsent], [3, 1]);
    await journal.close();
    const next = await Journal.open(path, SYSTEM, OPEN);
    const more = await next.put(Buffer.from('d'));
    const entries = await resumed(next);
    const bodies = entries.map(({ body }) => body);
    assert.deepEqual(bodies, [Buffer.from('b\n'), Buffer.from('c'), binary]);
    next.settle(entries[1]?.number ?? 0);
    assert.ok(more > (entries.at(-1)?.number ?? 0), 'a new number');
    await next.close();
    const third = await Journal.open(path, SYSTEM, OPEN);
    assert.ok((await third.put(Buffer.from('e'))) > more, 'also without the settled events before it');
    await third.close();
    assert.deepEqual(await leftIn(path), ['b\n', binary.toString(), 'd', 'e']);
  });

  it('syncs an event before put resolves, but not a mark', async (t) => {
    const probe = await open(newPath(), 'w');
    const handles = Object.getPrototypeOf(probe) as FileHandle;
    await probe.close();
    const path = newPath();
    const isNew: boolean[] = [];
    t.mock.method(handles, 'sync', () => Promise.resolve(isNew.push(fs.existsSync(`${path}.new`))));
    const journal = await Journal.open(path, SYSTEM, OPEN);
    assert.deepEqual(isNew, [true, false], 'the file before it is renamed, and then its folder');
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

  it('ignores a last line that a crash truncated, and refuses a file that is damaged elsewhere', async () => {
    const path = newPath();
    for (const end of ['{"put":2,"bo', '{"p', '{"settled":', '\0\0', '{"put":2,"body":"\0\0"}\n']) {
      fs.writeFileSync(path, `{"put":1,"body":"a"}\n${end}`);
      assert.deepEqual(await leftIn(path), ['a'], end);
    }
    const damaged = ['{"put":2,"bo', 'null', '[]', '{"put":3}', '7'].map((line) => `${line}\n{"put":4,"body":"b"}\n`);
    for (const text of ['a note', '{"id":"a"}\n', '{"put":1,"body":"a}\n', '{"put":1,"body":"a"}*', ...damaged]) {
      fs.writeFileSync(path, text);
      await assert.rejects(Journal.open(path, SYSTEM, OPEN), /line 1 is not a line of a journal/, text);
      assert.equal(fs.readFileSync(path, 'utf8'), text);
    }
  });

  it('is made again when it closes, with its unsettled events, and free even if that fails', async () => {
    const { path, journal } = await opened();
    await journal.put(Buffer.from('a'));
    fs.renameSync(path, `${path}.moved`);
    await journal.close();
    assert.deepEqual(await leftIn(path), ['a']);
    const next = await Journal.open(path, SYSTEM, OPEN);
    fs.closeSync(Number(descriptors(path).find((fd) => fs.readlinkSync(`/proc/self/fd/${fd}`) === path)));
    await next.close();
    assert.deepEqual(await leftIn(path), ['a']);
  });

  it('is refused if its numbers do not increase, as those of joined journals, or if a line is blank', async () => {
    const path = newPath();
    const [first, second, settled] = ['{"put":1,"body":"a"}\n', '{"put":2,"body":"b"}\n', '{"settled":1}\n'];
    for (const [text, line] of [
      [`${second}${first}`, 2],
      [`${first}${first}`, 2],
      [`${first}${second}${settled}${first}${second}${settled}`, 4],
      [`${first}{"body":"b"}\n`, 2],
      [`${first}\n${second}`, 2],
    ] as const) {
      fs.writeFileSync(path, text);
      await assert.rejects(Journal.open(path, SYSTEM, OPEN), new RegExp(`line ${line} `));
      assert.equal(fs.readFileSync(path, 'utf8'), text);
    }
    // A journal has no marks of other events, so it can be appended to another one.
    const { path: one, journal } = await opened();
    const numbers = await Promise.all(['a', 'b', 'c'].map((body) => journal.put(Buffer.from(body))));
    fs.renameSync(one, `${one}.moved`);
    const last = journal.put(Buffer.from('d'));
    for (const number of numbers.slice(0, 2)) journal.settle(number);
    journal.settle(await last);
    await journal.close();
    const marks = fs.readFileSync(one, 'utf8').match(/"(put|settled)":\d/g);
    assert.deepEqual(marks, ['"put":3', '"put":4', '"settled":4']);
    assert.deepEqual(await leftIn(one), ['c']);
  });

  it('keeps a copy of a file whose end is zeros', async () => {
    const path = newPath();
    const text = `{"put":1,"body":"a"}\n${'\0'.repeat(400)}`;
    for (const copy of ['damaged', 'damaged.2']) {
      fs.writeFileSync(path, text);
      const warned = once(process, 'warning');
      assert.deepEqual(await leftIn(path), ['a']);
      assert.match(String(await warned), /ends with zeros/);
      assert.equal(fs.readFileSync(`${path}.${copy}`, 'utf8'), text);
    }
  });

  it('loses and changes no event if a bit of it changes', async () => {
    const { path, journal } = await opened();
    journal.settle(await journal.put(Buffer.from('a')));
    await journal.put(Buffer.from('b'));
    await journal.close();
    const bytes = fs.readFileSync(path);
    for (const [at, byte] of bytes.entries()) {
      fs.writeFileSync(path, bytes.with(at, byte ^ (1 << (at % 8))));
      assert.deepEqual(await leftIn(path).catch(({ message }: Error) => [message.includes('damaged') && 'b']), ['b']);
    }
  });

  it('is open in one process at a time, without process ids, and free after the holder has ended', async () => {
    const path = newPath();
    const holder = startHolder(path);
    await once(holder.stdout, 'data');
    const lock = JSON.parse(fs.readFileSync(`${path}.lock`, 'utf8')) as Record<string, unknown>;
    assert.deepEqual(Object.keys(lock), ['bootId', 'token', 'beat']);
    await assert.rejects(Journal.open(path, SYSTEM, OPEN), /another process has this journal open/);
    holder.kill('SIGKILL');
    await once(holder, 'exit');
    assert.deepEqual(await leftIn(path), ['kept']);
    assert.equal(fs.existsSync(`${path}.lock`), false);
  });

  it('is a regular file, so that a device or a pipe is not replaced', async () => {
    const path = newPath();
    execFileSync('mkfifo', [path]);
    await assert.rejects(Journal.open(path, SYSTEM, OPEN), { message: `${path}: the journal must be a regular file` });
    assert.ok(fs.statSync(path).isFIFO());
  });

  it('has one lock under all its names', async () => {
    const { path, journal } = await opened();
    fs.symlinkSync(path, `${path}.link`);
    const taken = /another client of this process has this journal open/;
    await assert.rejects(Journal.open(`${path}.link`, SYSTEM, OPEN), taken);
    // Another copy of the module, as after import and require.
    const copy = '../../lib/send/journal.ts?copy';
    const { Journal: Copy } = (await import(copy)) as { Journal: typeof Journal };
    await assert.rejects(Copy.open(path, SYSTEM, OPEN), taken);
    await journal.close();
    fs.symlinkSync(`${path}.later`, `${path}.dangling`);
    const later = await Journal.open(`${path}.dangling`, SYSTEM, OPEN);
    await later.put(Buffer.from('kept'));
    await assert.rejects(Journal.open(`${path}.later`, SYSTEM, OPEN), taken);
    await later.close();
    assert.deepEqual(await leftIn(`${path}.later`), ['kept']);
  });

  it('is free after the holder on this machine was silent for 3 s, and one on another machine for 10 s', async () => {
    const bootId = fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    for (const [holder, silentMs] of [
      [bootId, 3_000],
      ['another', 10_000],
    ] as const) {
      const path = newPath();
      fs.writeFileSync(`${path}.lock`, JSON.stringify({ bootId: holder, token: 'a', beat: 1 }));
      let waitedMs = 0;
      const clock = {
        ...SYSTEM.clock,
        ms: () => waitedMs,
        sleep: (ms: number) => Promise.resolve(void (waitedMs += ms)),
      };
      const journal = await Journal.open(path, { ...SYSTEM, clock }, OPEN);
      assert.ok(waitedMs >= silentMs && waitedMs < silentMs + 500, `${holder} ${waitedMs}`);
      await journal.close();
    }
  });

  it('survives a heartbeat whose write fails', async () => {
    const { path, journal } = await opened();
    const beat = (): number => (JSON.parse(fs.readFileSync(`${path}.lock`, 'utf8')) as { beat: number }).beat;
    const [lock] = descriptors(`${path}.lock`);
    // The lowest free number is that of the lock file, so the heartbeat writes to a full device, and later to the lock.
    fs.closeSync(Number(lock));
    const full = fs.openSync('/dev/full', 'w');
    assert.equal(full, Number(lock));
    await SYSTEM.clock.sleep(1_000);
    fs.closeSync(full);
    assert.equal(fs.openSync(`${path}.lock`, 'r+'), full);
    const before = beat();
    await eventually('the heartbeat goes on', () => beat() > before);
    await journal.put(Buffer.from('kept'));
    await journal.close();
    assert.deepEqual(await leftIn(path), ['kept']);
  });

  it('is free if nobody renews its lock, and then one of several processes opens it', async () => {
    await Promise.all(
      ['', 'nonsense', '1234'].map(async (left) => {
        const path = newPath();
        fs.writeFileSync(`${path}.lock`, left);
        const opened = await Promise.allSettled([1, 2, 3].map(() => Journal.open(path, SYSTEM, OPEN)));
        const journals = opened.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
        assert.equal(journals.length, 1, left);
        await journals[0]?.close();
      }),
    );
  });

  it('accepts no more events in a frozen process after another one has taken over', async () => {
    const path = newPath();
    const holder = startHolder(path);
    const output: string[] = [];
    holder.stdout.on('data', (chunk: Buffer) => output.push(String(chunk)));
    await eventually('it holds the journal', () => output.length > 0);
    holder.kill('SIGSTOP');
    const journal = await Journal.open(path, SYSTEM, OPEN);
    holder.kill('SIGCONT');
    holder.stdin.write('more\n');
    await eventually('it has answered', () => output.length > 1);
    assert.match(output[1] ?? '', /(journal|lock file) was removed or replaced/);
    assert.deepEqual(await resumed(journal), [{ number: 1, body: Buffer.from('kept') }]);
    await journal.close();
    assert.deepEqual(await leftIn(path), ['kept']);
  });

  it('contains an event and soon its mark, and rejects put after its file was replaced or after it was closed', async () => {
    const { path, journal } = await opened();
    const number = await journal.put(Buffer.from('a'));
    assert.match(fs.readFileSync(path, 'utf8'), /^\{"put":1,"body":"a","digest":"[\w-]{8}"\}\n$/);
    journal.settle(number);
    await eventually('the mark is written', () => /"settled":1,"digest":".*"\}\n$/.test(fs.readFileSync(path, 'utf8')));
    fs.renameSync(path, `${path}.moved`);
    fs.writeFileSync(path, '');
    await assert.rejects(journal.put(Buffer.from('b')), /was removed or replaced/);
    fs.rmSync(`${path}.lock`);
    fs.writeFileSync(`${path}.lock`, 'of another process');
    await journal.close();
    assert.equal(fs.readFileSync(`${path}.lock`, 'utf8'), 'of another process');
    for (const late of ['late', 'later']) await assert.rejects(journal.put(Buffer.from(late)), /closed|EBADF/);
  });

  it('is readable only for its owner, even if it was readable for others, and begins without settled events', async () => {
    const path = newPath();
    fs.writeFileSync(path, '{"put":1,"body":"a"}\n{"put":2,"body":"b"}\n{"settled":1}\n', { mode: 0o644 });
    const journal = await Journal.open(path, SYSTEM, OPEN);
    assert.match(fs.readFileSync(path, 'utf8'), /^\{"put":2,"body":"b","digest":".*"\}\n$/);
    for (const file of [path, `${path}.lock`]) assert.equal(fs.statSync(file).mode & 0o777, 0o600, file);
    await journal.close();
  });

  it('is rewritten with its unsettled events, however long they are, when it has doubled and grown by 16 MiB', async () => {
    const { path, journal } = await opened();
    const body = Buffer.alloc(4 << 20, 'x');
    await journal.put(Buffer.from('kept'));
    for (let at = 0; at < 10; at += 1) journal.settle(await journal.put(body));
    assert.ok(fs.statSync(path).size < 18 << 20, String(fs.statSync(path).size));
    // The next rewrite fails, as on a disk without space for a copy.
    fs.mkdirSync(`${path}.new`);
    await journal.put(Buffer.alloc(65 << 20, 'x'));
    fs.rmdirSync(`${path}.new`);
    const { ino } = fs.statSync(path);
    for (let at = 0; at < 5; at += 1) await journal.put(body);
    assert.equal(fs.statSync(path).ino, ino);
    await journal.close();
    const lengths = (await leftIn(path)).map(({ length }) => length);
    assert.deepEqual(lengths, ['kept'.length, 65 << 20, ...Array<number>(5).fill(4 << 20)]);
  });

  it('accepts events that are longer together than a string', { tags: ['long'] }, async () => {
    const { path, journal } = await opened();
    fs.mkdirSync(`${path}.new`); // Without a rewrite, the test takes half the time.
    const puts = [1, 2, 3].map(() => journal.put(Buffer.alloc(32 << 20, '\x01')));
    assert.deepEqual(await Promise.all(puts), [1, 2, 3]);
    await journal.close();
  });

  // Past the limit, a write is cut off as on a full disk. Without a listener, the signal would end the process.
  const limitFiles = (bytes: number | 'unlimited') =>
    execFileSync('prlimit', ['--pid', String(process.pid), `--fsize=${bytes}:`]);
  process.on('SIGXFSZ', () => undefined);

  it('does not hold an event whose sync failed', async (t) => {
    const { path, journal } = await opened();
    const probe = await open(newPath(), 'w');
    const handles = Object.getPrototypeOf(probe) as FileHandle;
    await probe.close();
    const mocked = t.mock.method(handles, 'datasync', () => Promise.reject(new Error('no sync')));
    await assert.rejects(journal.put(Buffer.from('rejected')), /no sync/);
    mocked.mock.restore();
    await journal.put(Buffer.from('kept'));
    assert.deepEqual(await resumed(journal), []);
    await journal.close();
    assert.deepEqual(await leftIn(path), ['kept']);
  });

  it('rejects put while the disk is full, and accepts events again afterwards', async () => {
    const { path, journal } = await opened();
    await journal.put(Buffer.from('a'));
    limitFiles(fs.statSync(path).size + 20);
    await Promise.all(['b', 'c'].map((body) => assert.rejects(journal.put(Buffer.from(body)), /EFBIG/)));
    await assert.rejects(journal.put(Buffer.from('d')), /EFBIG/);
    limitFiles('unlimited');
    await journal.put(Buffer.from('e'));
    await journal.close();
    assert.deepEqual(await leftIn(path), ['a', 'e']);
  });

  it('that cannot be opened on a full disk leaves no lock and no open file', async () => {
    const path = newPath();
    limitFiles(0);
    await assert.rejects(Journal.open(path, SYSTEM, OPEN), /EFBIG/);
    limitFiles('unlimited');
    assert.equal(fs.existsSync(`${path}.lock`), false);
    assert.deepEqual(descriptors(path), []);
  });
});
