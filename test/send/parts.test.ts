// What ingest-send is made of besides the sender: its command line, inputs, position, progress, summary and refused file.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { HELP, readSettings, type Settings } from '../../lib/send/command-line.ts';
import { InputError, openInput, type InputEvent } from '../../lib/send/input.ts';
import { Position } from '../../lib/send/position.ts';
import { Progress } from '../../lib/send/progress.ts';
import { freeName, RefusedFile, whyUnwritable } from '../../lib/send/refused-file.ts';
import { sampleInput } from '../../lib/send/sample.ts';
import type { Retry } from '../../lib/send/sender.ts';
import { Summary } from '../../lib/send/summary.ts';
import { Pki } from '../support/pki.ts';
import { temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const folder = temporaryFolder();
const path = (name: string): string => join(folder, name);
const write = (name: string, content: string | Buffer): string => {
  writeFileSync(path(name), content);
  return path(name);
};

describe('the command line', () => {
  let tls: string[];
  before(async () => {
    const pki = await Pki.create();
    const { cert, key } = await pki.producer('line');
    mkdirSync(path('state/tls'), { recursive: true });
    write('state/tls/producer.pem', cert);
    write('state/tls/producer-key.pem', key);
    write('state/tls/ca.pem', pki.authority.certificate);
    tls = ['--cert', path('state/tls/producer.pem'), '--key', path('state/tls/producer-key.pem')];
  });
  const read = (...args: string[]): Settings => {
    const settings = readSettings(['--refused', path('line.refused'), ...args], path('state'));
    assert.ok(typeof settings === 'object');
    return settings;
  };

  it('has defaults for everything, and the development certificates', () => {
    const { url, identity, ...rest } = read();
    assert.equal(url.href, 'https://127.0.0.1:8443/');
    assert.match(String(identity.ca), /BEGIN CERTIFICATE/);
    assert.equal(identity.token, undefined);
    assert.deepEqual(rest, {
      file: undefined,
      resend: false,
      sample: undefined,
      concurrency: 16,
      ratePerS: undefined,
      triesMax: 10,
      timeoutMs: 30_000,
      refusedFile: path('line.refused'),
      quiet: false,
    });
  });

  it('takes each option', () => {
    const token = write('token', ' abc \n');
    const numbers = ['--concurrency', '1000', '--rate', '5', '--tries', '1', '--timeout', '3600000'];
    const settings = read('--url', 'https://g:1/x', ...tls, '--token', token, '--quiet', ...numbers, 'events');
    assert.equal(settings.url.href, 'https://g:1/x');
    assert.equal(settings.identity.token, 'abc');
    assert.equal(settings.identity.ca, undefined, "with a certificate of one's own, the authorities that node trusts");
    const { concurrency, ratePerS, triesMax, timeoutMs, quiet, file, resend } = settings;
    assert.deepEqual(
      { concurrency, ratePerS, triesMax, timeoutMs, quiet, file, resend },
      { concurrency: 1000, ratePerS: 5, triesMax: 1, timeoutMs: 3_600_000, quiet: true, file: 'events', resend: false },
    );
    assert.equal(read('-').file, undefined);
    assert.equal(read('--sample', '1000000').sample, 1_000_000);
    assert.deepEqual([read('--resend', 'x.refused').file, read('--resend', 'x.refused').resend], ['x.refused', true]);
    assert.match(String(read(...tls, '--ca', path('state/tls/ca.pem')).identity.ca), /BEGIN CERTIFICATE/);
  });

  it('answers --help and --version before anything else', () => {
    assert.equal(readSettings(['--help', '--url', 'nonsense'], 'nowhere'), 'help');
    assert.equal(readSettings(['--version'], 'nowhere'), 'version');
    assert.match(HELP, /^ingest-send: .*\n\nUsage: /);
  });

  it('names the refused file after the input, with a number where one is there', () => {
    const plain = (...args: string[]): string => {
      const settings = readSettings(args, path('state'));
      return typeof settings === 'object' ? settings.refusedFile : settings;
    };
    assert.equal(plain(path('a.ndjson')), path('a.ndjson.refused'));
    write('a.ndjson.refused', '');
    write('a.ndjson.refused.2', '');
    assert.equal(plain(path('a.ndjson')), path('a.ndjson.refused.3'));
    assert.equal(plain('--resend', path('a.ndjson.refused.2')), path('a.ndjson.refused.3'));
    assert.equal(plain(), 'ingest-send.refused');
  });

  for (const [args, why] of [
    [['--url', 'http://127.0.0.1'], /^--url http:\/\/127\.0\.0\.1: expected an https URL$/],
    [['--url', 'https://g/events'], /^--url https:\/\/g\/events: expected a URL without \/events/],
    [['--cert', 'x'], /^expected --cert and --key together$/],
    [['--key', 'x'], /^expected --cert and --key together$/],
    [['--cert', 'no', '--key', 'no'], /^--cert no: expected a readable file \(ENOENT\)$/],
    [['--ca', 'no'], /^--ca no: expected a readable file \(ENOENT\)$/],
    [['--token', 'no'], /^--token no: expected a readable file \(ENOENT\)$/],
    [['--concurrency', '0'], /^--concurrency 0: expected a whole number from 1 to 1000$/],
    [['--concurrency', '1001'], /from 1 to 1000$/],
    [['--tries', '1.5'], /from 1 to 1000000$/],
    [['--rate', '-1'], /rate/],
    [['--rate', '1e3'], /^--rate 1e3: expected a whole number from 1 to 1000000$/],
    [['--timeout', '3600001'], /from 1 to 3600000$/],
    [['--sample', '1000001'], /from 1 to 1000000$/],
    [['a', 'b'], /^expected one file at a time$/],
    [['--sample', '1', 'a'], /^expected one file at a time$/],
    [['--resend', 'x', 'a'], /^expected one file at a time$/],
    [
      ['--refused', '/nowhere/x'],
      /^--refused \/nowhere\/x: it cannot be written \(ENOENT\); name another file with --refused$/,
    ],
    [['--fast'], /fast/],
  ] as const)
    it(`refuses ${args.join(' ')}`, () => {
      assert.throws(() => read(...args), { message: why });
    });

  it('refuses files that do not belong together', () => {
    const wrong = ['--cert', path('state/tls/ca.pem'), '--key', path('state/tls/producer-key.pem')];
    assert.throws(() => read(...wrong), /^Error: --cert, --key, --ca: expected PEM files that belong together \(ERR_/);
  });
});

describe('an input', () => {
  async function read(name: string, refused = false, position?: Position): Promise<InputEvent[]> {
    const input = await openInput(path(name), refused, position);
    const events: InputEvent[] = [];
    for await (const event of input.events) events.push(event);
    assert.equal(input.bytes?.read(), input.bytes?.total);
    input.close();
    return events;
  }
  const texts = (events: readonly InputEvent[]): string[] => events.map(({ bytes }) => bytes.toString());

  it('gives the events of a file, plain and compressed, with their lines', async () => {
    const text = 'a\n\nb\nc';
    write('plain', text);
    write('some.gz', gzipSync(text));
    write('some.zst', zstdCompressSync(text));
    for (const name of ['plain', 'some.gz', 'some.zst']) {
      const events = await read(name);
      assert.deepEqual(texts(events), ['a', 'b', 'c'], name);
      assert.deepEqual(
        events.map(({ number, line }) => [number, line]),
        [
          [1, 1],
          [3, 3],
          [4, 4],
        ],
        name,
      );
    }
    write('empty', '');
    const empty = await openInput(path('empty'), false);
    assert.equal(empty.bytes, undefined);
    empty.close();
  });

  it('gives the bodies of a refused file, with the lines they first had', async () => {
    const binary = Buffer.from([0xff, 0x00]);
    write('r', `{"line":7,"body":"x"}\n{"bodyBase64":"${binary.toString('base64')}"}\n`);
    assert.deepEqual(await read('r', true), [
      { number: 7, line: 1, bytes: Buffer.from('x') },
      { number: 2, line: 2, bytes: binary },
    ]);
    for (const line of ['{}', 'text', '{"body":7}', 'null'])
      await assert.rejects(
        read(`${write('bad', `${line}\n`) && 'bad'}`, true),
        new InputError(`${path('bad')}: line 1 is no line of a refused file (expected a JSON object with "body")`),
      );
  });

  it('says what is wrong with a file that cannot be read, or not to its end', async () => {
    const lines = Array.from({ length: 2_000 }, (_, at) => `{"id":"${at * 7919}"}`).join('\n');
    const whole = gzipSync(lines);
    const damaged = Buffer.from(whole);
    damaged.fill(0xff, damaged.length - 200);
    for (const [name, content, why] of [
      [
        'cut.gz',
        whole.subarray(0, -20),
        /the file was cut off: its compressed data ends too early; the last whole line is \d+$/,
      ],
      ['bad.gz', damaged, /its compressed data is damaged \(.+\); the last whole line is \d+$/],
      [
        'no.gz',
        Buffer.from('{"id":"plain"}\n'),
        /its compressed data is damaged \(incorrect header check\); the last whole line is 0$/,
      ],
      ['no.zst', Buffer.from('{"id":"plain"}\n'), /its compressed data is damaged/],
      ['cut.zst', zstdCompressSync(lines).subarray(0, -20), /the file was cut off/],
    ] as const) {
      write(name, content);
      await assert.rejects(read(name), (cause: unknown) => {
        assert.ok(cause instanceof InputError && cause.message.startsWith(`${path(name)}: `), String(cause));
        assert.match(cause.message, why);
        assert.equal(cause.name, 'InputError');
        return true;
      });
    }
    await assert.rejects(read('absent'), new InputError(`${path('absent')}: cannot be read (ENOENT)`));
    await assert.rejects(openInput(folder, false), new InputError(`${folder}: expected a file, found a directory`));
  });

  it('leaves out what an earlier run settled, and knows when the file is another one', async () => {
    const file = write('long', 'a\n\nb\nc\nd\n');
    const first = new Position(file, 'https://g/', SYSTEM.clock);
    const events = await read('long');
    const settled = events.map((event) => first.begin(event));
    settled[0]?.();
    settled[1]?.();
    settled[3]?.();
    first.write();
    assert.equal(new Position(file, 'https://g/', SYSTEM.clock).line, 3);
    assert.deepEqual(texts(await read('long', false, new Position(file, 'https://g/', SYSTEM.clock))), ['c', 'd']);
    assert.equal(new Position(file, 'https://other/', SYSTEM.clock).line, 0);
    const why = new InputError(
      `${file} changed since the interrupted run; remove ${file}.position to send the whole file`,
    );
    for (const other of ['a\n\nX\nc\n', 'a\n']) {
      write('long', other);
      await assert.rejects(read('long', false, new Position(file, 'https://g/', SYSTEM.clock)), why);
    }
    settled[2]?.();
    first.write();
    assert.equal(new Position(file, 'https://g/', SYSTEM.clock).line, 5);
    first.remove();
    assert.equal(existsSync(first.path), false);
    first.remove();
    for (const text of ['', '7', '{"url":"https://g/","line":"x"}', '{"url":"https://g/"}'].map((one) =>
      write('long.position', one),
    ))
      assert.equal(new Position(file, 'https://g/', SYSTEM.clock).line, 0, text);
  });

  it('has its position written a second after the last time, and not before', (context) => {
    let nowMs = 5_000;
    context.mock.method(performance, 'now', () => nowMs);
    const position = new Position(path('timed'), 'https://g/', SYSTEM.clock);
    const [first, second] = [1, 2].map((line) => position.begin({ line, bytes: Buffer.from('a') }));
    nowMs += 999;
    first?.();
    assert.equal(existsSync(position.path), false);
    nowMs += 1;
    second?.();
    assert.equal(new Position(path('timed'), 'https://g/', SYSTEM.clock).line, 2);
  });

  it('has no position to write before anything is settled', () => {
    const position = new Position(path('untouched'), 'https://g/', SYSTEM.clock);
    position.begin({ line: 1, bytes: Buffer.from('a') });
    position.write();
    assert.equal(existsSync(position.path), false);
  });

  it('may be sample events, each with an id of its own', async () => {
    const input = sampleInput(12, SYSTEM);
    const events: { id: string; type: string; data: { number: number; total: string } }[] = [];
    const numbers: number[] = [];
    for await (const { number, line, bytes } of input.events) {
      assert.equal(number, line);
      numbers.push(number);
      events.push(JSON.parse(bytes.toString()) as (typeof events)[0]);
      assert.ok(bytes.length > 200 && bytes.length < 400);
    }
    input.close();
    assert.deepEqual(
      numbers,
      Array.from({ length: 12 }, (_, at) => at + 1),
    );
    assert.equal(new Set(events.map(({ id }) => id)).size, 12);
    assert.equal(new Set(events.map(({ type }) => type)).size, 5);
    assert.deepEqual(events[1]?.data, {
      number: 2,
      customer: { id: 'c-1002', country: 'DE' },
      items: [{ sku: 'A-2', quantity: 3, price: '19.90' }],
      total: '19.90',
      currency: 'EUR',
    });
    assert.deepEqual(
      events.map(({ data }) => data.number),
      numbers,
    );
    assert.equal(input.bytes, undefined);
  });
});

describe('the refused file', () => {
  it('is made at the first refused event, keeps the bytes, and is never overwritten', async () => {
    const file = new RefusedFile(path('refused'));
    await new RefusedFile(path('never')).close();
    assert.deepEqual([file.written, existsSync(path('refused')), existsSync(path('never'))], [false, false, false]);
    const event = (bytes: Buffer): InputEvent => ({ number: 7, line: 3, bytes });
    const told = { code: 'INVALID_EVENT', status: 400, answer: { detail: 'd' } };
    await file.add({ event: event(Buffer.from('é')), ...told });
    await file.add({ event: event(Buffer.from([0xff])), ...told });
    assert.equal(file.written, true);
    await file.close();
    await assert.rejects(file.add({ event: event(Buffer.from('late')), ...told }), /closed|EBADF/);
    const row = { line: 7, code: 'INVALID_EVENT', status: 400, answer: { detail: 'd' } };
    assert.deepEqual(
      readFileSync(path('refused'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as object),
      [
        { ...row, body: 'é' },
        { ...row, bodyBase64: '/w==' },
      ],
    );
    await assert.rejects(new RefusedFile(path('refused')).add({ event: event(Buffer.from('x')), ...told }), {
      code: 'EEXIST',
    });
  });

  it('has a free name, and says why it cannot be made', () => {
    write('free', '');
    assert.equal(freeName(path('absent')), path('absent'));
    assert.equal(freeName(path('free')), path('free.2'));
    write('free.2', '');
    assert.equal(freeName(path('free')), path('free.3'));
    assert.equal(whyUnwritable(path('free')), 'it exists already, and refused files are never overwritten');
    assert.equal(whyUnwritable('/nowhere/x'), 'it cannot be written (ENOENT)');
    assert.equal(whyUnwritable(path('new')), undefined);
    assert.equal(existsSync(path('new')), false);
  });
});

describe('the progress', () => {
  const stream = (isTTY: boolean, columns = 200) => {
    const written: string[] = [];
    const stderr = { isTTY, columns, write: (text: string) => written.push(text) > 0 } as unknown as NodeJS.WriteStream;
    return { written, stderr };
  };
  const half = { events: undefined as never, bytes: { total: 100, read: () => 50 }, close: () => undefined };
  const unknown = { events: undefined as never, bytes: undefined, close: () => undefined };
  const retry: Retry = {
    code: 'QUEUE_UNAVAILABLE',
    status: 503,
    answer: { detail: 'later\u001b[2J' },
    tries: 1,
    pauseMs: 1_234,
  };

  it('on a terminal is one line with the share, the events, their rate and the time that is left', (context) => {
    context.mock.timers.enable({ apis: ['setInterval'] });
    const { written, stderr } = stream(true);
    const progress = new Progress(half, stderr, SYSTEM.clock);
    /** The latest line, between the return to its begin and the erasure of what is behind it. */
    const seen = (): string => (written.at(-1) ?? '').replace('\r', '<').replace('\u001b[K', '>');
    progress.settle();
    progress.settle();
    context.mock.timers.tick(200);
    assert.match(seen(), /^<50 % \| 2 events \| \d+ events\/s \| \d+ s left>$/);
    progress.retry(retry);
    context.mock.timers.tick(200);
    assert.match(seen(), /left \| waiting, QUEUE_UNAVAILABLE: later\\u001b\[2J>$/);
    progress.stop();
    assert.equal(written.at(-1), '\n');
    const count = written.length;
    context.mock.timers.tick(1_000);
    assert.equal(written.length, count);
  });

  it('is no longer than the terminal is wide', (context) => {
    context.mock.timers.enable({ apis: ['setInterval'] });
    for (const [columns, width] of [
      [20, 19],
      [0, 79],
    ] as const) {
      const { written, stderr } = stream(true, columns);
      const progress = new Progress(half, stderr, SYSTEM.clock);
      progress.retry({ ...retry, answer: { detail: 'x'.repeat(300) } });
      context.mock.timers.tick(200);
      assert.equal(written.at(-1)?.length, 1 + width + 3);
      progress.stop();
    }
  });

  it('elsewhere is a line every ten seconds, and at most as often one about waiting', (context) => {
    context.mock.timers.enable({ apis: ['setInterval'] });
    const { written, stderr } = stream(false);
    const progress = new Progress(unknown, stderr, SYSTEM.clock);
    progress.retry(retry);
    progress.retry(retry);
    assert.deepEqual(written, ['ingest-send: waiting 1.2 s to try again, QUEUE_UNAVAILABLE: later\\u001b[2J\n']);
    context.mock.timers.tick(9_999);
    assert.equal(written.length, 1);
    progress.settle();
    context.mock.timers.tick(1);
    assert.match(written[1] ?? '', /^ingest-send: 1 events \| \d+ events\/s\n$/);
    progress.stop();
    context.mock.timers.tick(20_000);
    assert.equal(written.length, 2);
  });

  it('says nothing of the share before anything is read', () => {
    const nothing = new Progress({ ...half, bytes: { total: 100, read: () => 0 } }, stream(false).stderr, SYSTEM.clock);
    assert.match(nothing.text(), /^0 events \| /);
    nothing.stop();
    const over = new Progress({ ...half, bytes: { total: 100, read: () => 120 } }, stream(false).stderr, SYSTEM.clock);
    assert.match(over.text(), /^100 % \| 0 events \| 0 events\/s \| 0 s left$/);
    over.stop();
  });
});

describe('the summary', () => {
  it('counts what was accepted, refused by code, interrupted and repeated', () => {
    const summary = new Summary(SYSTEM.clock);
    assert.match(summary.table(), /^p50 ms +-\np99 ms +-\n$/m);
    assert.equal(summary.missing, 0);
    const accepted = {
      kind: 'accepted',
      event: 1,
      duplicate: false,
      differs: false,
      requestId: undefined,
      tries: 1,
      answerMs: 5,
    } as const;
    const refused = {
      kind: 'refused',
      event: 1,
      status: 0,
      answer: '',
      retryable: false,
      requestId: undefined,
      tries: 3,
      answerMs: 5,
    } as const;
    summary.add(accepted);
    summary.add({ ...accepted, duplicate: true });
    summary.add({ ...accepted, duplicate: true, differs: true });
    summary.add({ ...refused, code: 'B' });
    summary.add({ ...refused, code: 'A' });
    summary.add({ ...refused, code: 'B' });
    summary.add({ kind: 'interrupted', event: 1, tries: 2 });
    const table = summary.table().split('\n');
    assert.deepEqual(
      table.slice(0, 8).map((line) => line.replaceAll(/ {2,}(?=\S)/g, '  ')),
      [
        'accepted  3',
        '  of these duplicate  2',
        '  of these differing  1',
        'refused  3',
        '  A  1',
        '  B  2',
        'interrupted  1',
        'retries  7',
      ],
    );
    assert.match(table[8] ?? '', /^events\/s +\d+$/);
    assert.match(table[9] ?? '', /^p50 ms +5\.0$/);
    assert.match(table[10] ?? '', /^p99 ms +5\.0$/);
    assert.equal(new Set(table.slice(0, 11).map(({ length }) => length)).size, 1, 'columns');
    assert.equal(summary.missing, 4);
  });
});
