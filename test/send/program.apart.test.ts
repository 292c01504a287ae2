import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { before, beforeEach, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { readSettings } from '../../lib/send/command-line.ts';
import { TestProcess } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { eventually } from '../support/scope.ts';
import { accepted as acceptance, problem, serve, type AnyServer, type Seen } from './server.ts';

const { existsSync, readFileSync, statSync, writeFileSync } = fs;

let server: AnyServer;
const path = (name: string): string => server.pki.path(name);

const accepted = (seen: Seen, members: object = {}): unknown => seen.socket.write(acceptance(seen, '', members));
const refused = (seen: Seen, status = 400, code = 'INVALID_EVENT'): unknown =>
  seen.socket.write(problem(seen, { code, retryable: false }, status));
const unavailable = (seen: Seen, more = ''): unknown =>
  seen.socket.write(
    problem(seen, { code: 'QUEUE_UNAVAILABLE', retryable: true, detail: 'the queue is full' }, 503, more),
  );

/** The bodies that arrived. */
const bodies = (): string[] => server.seen.map(({ body }) => body);

before(async () => {
  process.umask(0o022);
  server = await serve();
  server.pki.write('producer.pem', String(server.options.cert));
  server.pki.write('producer-key.pem', String(server.options.key));
});
beforeEach(() => {
  server.seen = [];
  server.answer = accepted;
});

const SENDER = new URL('../../bin/ingest-send', import.meta.url).pathname;
const own = (): string[] => [
  ...['--url', String(server.options.url), '--ca', path('ca.pem')],
  ...['--cert', path('producer.pem'), '--key', path('producer-key.pem')],
];

const send = (input: string, ...args: string[]): Program =>
  new Program('ingest-send', { args: [...own(), ...args], cwd: server.pki.folder, input });

async function ended(code: number, input: string, ...args: string[]): Promise<Program> {
  const program = send(input, ...args);
  assert.equal(await program.ended, code, program.output);
  assert.doesNotMatch(program.output, /\n\s+at /, 'a stack');
  return program;
}

/** Returns the summary that the program printed with --json. */
function summary(program: Program): Record<string, unknown> {
  return JSON.parse(program.lines.find((one) => one.startsWith('{')) ?? '') as Record<string, unknown>;
}

function figures(program: TestProcess): Record<string, number> {
  const always = new Set(['accepted', 'refused']);
  const found: Record<string, number> = {};
  for (const line of program.lines) {
    const row = /^ *([A-Za-z_][\w ]*?) +(\d+)$/.exec(line);
    if (row === null) continue;
    const [, name = '', value] = row;
    if (always.has(name) || Number(value) > 0) found[name] = Number(value);
  }
  return found;
}

const event = (id: string): string => `{"id":"${id}","type":"t"}`;

describe('ingest-send', () => {
  it('sends each line byte for byte, --concurrency of them at a time, and reports the answers', async () => {
    const input = Array.from({ length: 40 }, (_, at) => ` ${event(String(at))}  `);
    writeFileSync(path('token'), 'abc.def.ghi\n');
    const waiting: Seen[] = [];
    server.answer = (seen) => {
      waiting.push(seen);
      // A group is answered only when it is full, so the program exits only if it sends five events at a time.
      if (waiting.length !== 5) return;
      for (const [at, one] of waiting.splice(0).entries()) accepted(one, { duplicate: at < 2, differs: at === 0 });
    };
    const args = ['--concurrency', '5', '--pipelining', '1', '--token', path('token')];
    const program = await ended(0, input.join('\n'), ...args);
    assert.deepEqual(bodies().sort(), input.sort());
    for (const { head } of server.seen) assert.match(head, /\r\nAuthorization: Bearer abc\.def\.ghi\r\n/);
    const counts = { accepted: 40, 'of these duplicate': 16, 'of these differing': 8, refused: 0 };
    assert.deepEqual(figures(program), counts);
    assert.match(program.output, /^events\/s +\d+\np50 ms +\d+\.\d\np99 ms +\d+\.\d$/m);
    assert.equal(existsSync(path('ingest-send.refused')), false);
  });

  it('continues an interrupted file after its position, and detects another file', async () => {
    const lines = Array.from({ length: 300 }, (_, at) => event(`file-${at}`));
    writeFileSync(path('long.ndjson'), `\n${lines.join('\n')}\n`);
    const held: Seen[] = [];
    server.answer = (seen) => (/^file-(2\d\d|9)$/.test(seen.id) ? held.push(seen) : accepted(seen));
    // Without pipelining, the unanswered tenth event does not delay the answers to later events.
    const program = send('', '--concurrency', '8', '--pipelining', '1', 'long.ndjson');
    // Eight events have no answer: the tenth event and seven of events 200 to 299.
    await eventually('all that is answered was sent', () => held.length === 8);
    program.signal('SIGTERM');
    // More events may be sent before the signal arrives. All except the tenth are accepted.
    server.answer = (seen) => (seen.id === 'file-9' ? seen.socket.destroy() : accepted(seen));
    held.splice(0).forEach((seen) => server.answer(seen));
    assert.equal(await program.ended, 130, program.output);
    const { accepted: before = 0, interrupted } = figures(program);
    assert.ok(before >= 206 && interrupted === 1, program.output);
    assert.equal(statSync(path('long.ndjson.position')).mode & 0o777, 0o600);
    server.seen = [];
    server.answer = accepted;
    fs.copyFileSync(path('long.ndjson.position'), path('changed.ndjson.position'));
    for (const changed of [lines.toReversed(), lines.slice(0, 5)]) {
      writeFileSync(path('changed.ndjson'), changed.join('\n'));
      const { output } = await ended(2, '', 'changed.ndjson');
      assert.match(output, /stopped: changed\.ndjson changed since .*; remove changed\.ndjson\.position/);
    }
    assert.deepEqual(server.seen, []);

    const again = await ended(0, '', 'long.ndjson');
    assert.match(again.output, /continuing after line 10, which long\.ndjson\.position holds/);
    assert.deepEqual(new Set(bodies()), new Set(lines.slice(9)));
    assert.equal(existsSync(path('long.ndjson.position')), false);
  });

  it('ends at a signal although its standard input stays open, and waits for answers to events in flight', async () => {
    const lines = Array.from({ length: 12 }, (_, at) => event(`pipe-${at}`));
    writeFileSync(path('lines'), `${lines.join('\n')}\n`);
    execFileSync('mkfifo', [path('pipe')]);
    const held: Seen[] = [];
    server.answer = (seen) => (lines.indexOf(seen.body) < 4 ? accepted(seen) : held.push(seen));
    // The program inherits descriptor 3, so the pipe never ends.
    const opened = 'exec 3<>pipe; cat lines >&3; exec "$0" "$@" <pipe';
    const args = ['-c', opened, SENDER, ...own(), '--pipelining', '1'];
    const program = new TestProcess('sh', args, {}, { cwd: server.pki.folder });
    await eventually('eight events have no answer', () => held.length === 8);
    program.signal('SIGTERM');
    // The signal may arrive after the answers.
    server.answer = ({ socket }) => socket.destroy();
    held.splice(0).forEach((seen, at) => (at === 0 ? seen.socket.destroy() : accepted(seen)));
    assert.equal((await program.exited()).code, 130, program.output);
    assert.deepEqual(figures(program), { accepted: 11, refused: 0, interrupted: 1 });
    // Neither a position nor refused events.
    assert.ok(!fs.readdirSync(server.pki.folder).some((name) => name.startsWith('ingest-send.')));
    server.answer = (seen) => accepted(seen, { duplicate: true });
    await ended(0, lines.join('\n'));
  });

  it('reads a named pipe, keeps no position of it, and exits if it is interrupted while it waits', async () => {
    execFileSync('mkfifo', [path('named')]);
    const program = send('', 'named');
    const writer = fs.createWriteStream(path('named'));
    writer.write(`${event('first')}\n`);
    await eventually('the first event has arrived', () => server.seen.length === 1);
    program.signal('SIGTERM');
    assert.equal(await program.ended, 130, program.output);
    assert.ok(!existsSync(path('named.position')));
    writer.destroy();
    const last = ended(0, '', 'named');
    writeFileSync(path('named'), event('second'));
    assert.deepEqual(figures(await last), { accepted: 1, refused: 0 });
  });

  it('starts at most --rate events in a second, and sends a file although it cannot write its position', async () => {
    const lines = Array.from({ length: 14 }, (_, at) => event(`rate-${at}`));
    writeFileSync(path('rate.ndjson'), lines.join('\n'));
    fs.mkdirSync(path('rate.ndjson.position.new'));
    const program = await ended(0, '', '--rate', '10', '--json', 'rate.ndjson');
    const { accepted: count, eventsPerS } = summary(program);
    // The last event starts 1.3 seconds after the first. The position is written after a second.
    assert.ok(count === 14 && Number(eventsPerS) <= 12, program.output);
  });

  it('exits with 1 at an untrusted server, with the reason', async () => {
    writeFileSync(path('other-ca.pem'), (await Pki.create()).authority.certificate);
    const lines = Array.from({ length: 40 }, (_, at) => event(`untrusted-${at}`));
    writeFileSync(path('untrusted.ndjson'), lines.join('\n'));
    for (const [input, ...args] of [['', 'untrusted.ndjson'], [lines.join('\n')]] as const) {
      const ca = input === '' ? ['--ca', path('other-ca.pem')] : [];
      const all = [...own().toSpliced(2, 2), ...ca, '--tries', '2', ...args];
      const program = new Program('ingest-send', { args: all, cwd: server.pki.folder, input });
      assert.equal(await program.ended, 1, program.output);
      const { output } = program;
      assert.equal(/^ingest-send: --cert without --ca: /m.test(output), ca.length === 0);
      const waiting = output.match(
        /waiting 0\.\d s to try again, NO_ANSWER: the server is not trusted: .*; --ca must/g,
      );
      assert.ok(waiting !== null && waiting.length < 5, 'one line for ten seconds');
      assert.equal(/stopped: the server is not trusted: .*; run again to send the rest$/m.test(output), input === '');
    }
    assert.deepEqual(server.seen, []);
    await ended(0, '', 'untrusted.ndjson');
    assert.deepEqual(new Set(bodies()), new Set(lines));
  });

  it('goes on after events without an answer, unless the first ten events have none', async () => {
    server.answer = (seen) => (seen.id === 'many-0' ? accepted(seen) : seen.socket.destroy());
    const lines = Array.from({ length: 12 }, (_, at) => event(`many-${at}`));
    const program = await ended(1, lines.join('\n'), '--concurrency', '1', '--tries', '1');
    assert.deepEqual(figures(program), { accepted: 1, refused: 11, NO_ANSWER: 11 });
    fs.rmSync(path('ingest-send.refused'));
  });

  it('sends events again that a gateway did not accept for a while, but not those that it refused for good', async () => {
    const lines = Array.from({ length: 60 }, (_, at) => event(`later-${at}`));
    writeFileSync(path('later.ndjson'), lines.join('\n'));
    const forGood = lines.slice(0, 5);
    const code = { 401: 'UNAUTHORIZED_PRODUCER', 431: 'HEADERS_TOO_LARGE' } as const;
    for (const status of [401, 431] as const) {
      server.answer = (seen) => {
        if (forGood.includes(seen.body)) refused(seen);
        else if (lines.indexOf(seen.body) % 7 === 0) accepted(seen);
        else refused(seen, status, code[status]);
      };
      const { output } = await ended(1, '', 'later.ndjson');
      assert.match(output, /some events may be accepted later; run again to send the rest$/m);
      const { line } = JSON.parse(readFileSync(path('later.ndjson.position'), 'utf8')) as { line: number };
      assert.equal(line, 5);
    }
    server.answer = accepted;
    server.seen = [];
    const again = await ended(0, '', 'later.ndjson');
    assert.match(again.output, /continuing after line 5,/);
    assert.equal(new Set(bodies()).size, 55);
    assert.equal(existsSync(path('later.ndjson.position')), false);

    // Ten answers of 401 stop the program: nothing is left out by the next run.
    server.answer = (seen) => refused(seen, 401, code[401]);
    const stopped = await ended(1, '', 'later.ndjson');
    assert.match(
      stopped.output,
      /stopped: the gateway does not accept this producer: .*; run again to send the rest$/m,
    );
    server.answer = accepted;
    server.seen = [];
    await ended(0, '', 'later.ndjson');
    assert.equal(new Set(bodies()).size, 60);
  });

  it('keeps its position when its input or its file of refused events fails, and writes refusals before it', async () => {
    const lines = Array.from({ length: 400 }, (_, at) => event(`cut-${at}-${randomBytes(60).toString('hex')}`));
    writeFileSync(path('failing.ndjson.gz'), gzipSync(lines.join('\n')).subarray(0, -20));
    const { output } = await ended(2, '', 'failing.ndjson.gz');
    assert.match(output, /stopped: failing\S*: the file was cut off: .*; the last whole line is \d+$/m);
    const { line } = JSON.parse(readFileSync(path('failing.ndjson.gz.position'), 'utf8')) as { line: number };
    assert.ok(line > 0);
    writeFileSync(path('full.ndjson'), lines.slice(0, 20).join('\n'));
    server.answer = (seen) => {
      if (seen.body !== lines[9]) return accepted(seen);
      writeFileSync(path('full.ndjson.refused'), 'of another run');
      return refused(seen);
    };
    const full = await ended(2, '', '--concurrency', '1', 'full.ndjson');
    assert.match(full.output, /stopped: .*EEXIST/);
    // The event whose refusal could not be written is not settled.
    server.seen = [];
    await ended(1, '', 'full.ndjson');
    assert.ok(bodies().includes(String(lines[9])));
  });

  it('shows in a terminal what was sent and refused, the rate, and the time left, also of a file that it continues', async () => {
    const lines = Array.from({ length: 120 }, (_, at) => event(`progress-${String(at).padStart(3, '0')}`));
    writeFileSync(path('progress.ndjson'), lines.join('\n'));
    server.answer = (seen) =>
      lines.indexOf(seen.body) < 60 ? accepted(seen) : refused(seen, 401, 'UNAUTHORIZED_PRODUCER');
    await ended(1, '', 'progress.ndjson');
    server.answer = (seen) => (seen.id.endsWith('0') ? refused(seen) : accepted(seen));
    const command = [SENDER, ...own(), '--rate', '15', 'progress.ndjson'].join(' ');
    const program = new TestProcess('script', ['-qec', command, '/dev/null'], {}, { cwd: server.pki.folder });
    assert.equal((await program.exited()).code, 1, program.output);
    const steps = program.output.matchAll(
      /\[K(\d+) sent, (\d+) refused, (\d+) events\/s, (\d+) %, about 0 min (\d+) s left/g,
    );
    const shown = Array.from(steps, (step) => step.slice(1).map(Number));
    assert.ok(shown.length >= 3, program.output);
    for (const [sent = 0, refusals = 0, perS = 0, percent = 0, leftS = 0] of shown) {
      assert.ok(Math.abs(refusals - sent / 10) <= 1, program.output);
      assert.ok(perS >= 8 && perS <= 20, program.output);
      assert.ok(Math.abs(percent - (sent / 60) * 100) <= 2, program.output);
      assert.ok(Math.abs(leftS - (60 - sent) / perS) <= 1, program.output);
    }
  });

  it('writes to a pipe why it waits, and its progress once a minute', { tags: ['long'] }, async () => {
    server.answer = (seen) => (server.seen.length === 1 ? unavailable(seen) : accepted(seen));
    const lines = Array.from({ length: 100 }, (_, at) => event(`minute-${at}`));
    const program = send(lines.join('\n'), '--rate', '1');
    assert.equal((await program.exited(150_000)).code, 0, program.output);
    const [waiting, ...others] = program.lines.filter((line) => line.startsWith('ingest-send: '));
    assert.match(waiting ?? '', /^ingest-send: waiting 0\.\d s to try again, QUEUE_UNAVAILABLE: the queue is full$/);
    for (const line of others) assert.match(line, /^ingest-send: \d+ sent, 0 refused, 1 events\/s$/);
    assert.ok(others.length === 1 || others.length === 2, program.output);
    assert.doesNotMatch(program.output, /\r/);
  });

  it('writes nothing but its summary with --quiet, and exits with 1 if it cannot write that', async () => {
    server.answer = (seen) => (server.seen.length <= 2 ? unavailable(seen) : accepted(seen));
    const input = `${event('one')}\n${event('two')}`;
    const quiet = await ended(0, input, '--quiet');
    assert.doesNotMatch(quiet.output, /ingest-send:/);
    assert.deepEqual(figures(quiet), { accepted: 2, refused: 0, retries: 2 });
    const shell = ['-c', 'exec "$0" "$@" >/dev/full', SENDER, ...own(), '--quiet'];
    const full = new TestProcess('sh', shell, {}, { cwd: server.pki.folder, input });
    assert.equal((await full.exited()).code, 1, full.output);
  });

  it('never overwrites refused events, and sends them again byte for byte with --resend', async () => {
    const binary = Buffer.concat([Buffer.from('{"id":"'), Buffer.from([0xff, 0xfe]), Buffer.from('","type":"t"}')]);
    server.answer = (seen) => refused(seen);
    writeFileSync(path('some.ndjson'), Buffer.concat([Buffer.from(`\n${event('text')}\n`), binary]));
    for (const run of [1, 2]) {
      const program = await ended(1, '', 'some.ndjson');
      assert.match(program.output, new RegExp(`are in some\\.ndjson\\.refused${run === 1 ? '' : '\\.2'}$`, 'm'));
    }
    const first = readFileSync(path('some.ndjson.refused'), 'utf8');
    const rows = first.trim().split('\n').sort();
    assert.equal(rows.map((row) => (JSON.parse(row) as { line: number }).line).join(), '2,3');
    const named = await ended(2, '', '--refused', 'some.ndjson.refused', 'some.ndjson');
    assert.match(named.output, /some\.ndjson\.refused: it exists already/);
    assert.equal(readFileSync(path('some.ndjson.refused'), 'utf8'), first);

    server.seen = [];
    const half = (body: string): boolean => body.includes('text');
    server.answer = (seen) => (half(seen.body) ? accepted(seen) : refused(seen));
    await ended(1, '', '--resend', 'some.ndjson.refused');
    assert.deepEqual(bodies().sort(), [event('text'), binary.toString('latin1')].sort());
    const left = JSON.parse(readFileSync(path('some.ndjson.refused.3'), 'utf8')) as Record<string, unknown>;
    assert.equal(left['line'], 3, 'the line of the first file');
    assert.deepEqual(Buffer.from(String(left['bodyBase64']), 'base64'), binary);
    const wrong = await ended(2, '', '--resend', 'some.ndjson');
    assert.match(wrong.output, /some\.ndjson: line 2 is not a line of a refused file/);
  });

  it('exits with 2 for a file without JSON objects on its lines, and names the remedy', async () => {
    const array = JSON.stringify([{ id: 'a', type: 't' }], null, 2);
    writeFileSync(path('array.json'), array);
    writeFileSync(path('table.csv'), 'id,type\n'.repeat(20));
    writeFileSync(path('empty.ndjson'), '');
    for (const [input, ...args] of [[array], ['', 'array.json'], ['', 'table.csv']] as const) {
      const { output } = await ended(2, input, ...args);
      assert.match(output, /expected one JSON object on each line, found none in the first \d+; jq -c '\.\[\]'/);
    }
    assert.deepEqual(server.seen, []);
    const late = send([...Array<string>(9).fill('no object'), event('late')].join('\n'), '--refused', 'late.refused');
    server.answer = (seen) => (seen.body.startsWith('{') ? accepted(seen) : refused(seen));
    assert.equal(await late.ended, 1, late.output);
    assert.deepEqual(figures(late), { accepted: 1, refused: 9, INVALID_EVENT: 9 });
    await ended(0, '', 'empty.ndjson');
  });

  it('prints its summary as JSON with --json, and makes refused events readable only for the owner', async () => {
    server.answer = (seen) => (seen.id === 'bad' ? refused(seen) : accepted(seen, { duplicate: true }));
    const program = await ended(1, [event('good'), event('bad')].join('\n'), '--json', '--refused', 'json.refused');
    const { eventsPerS, p50Ms, p99Ms, ...counts } = summary(program);
    for (const figure of [eventsPerS, p50Ms, p99Ms]) assert.equal(typeof figure, 'number');
    assert.deepEqual(counts, {
      accepted: 1,
      duplicate: 1,
      differing: 0,
      refused: 1,
      refusedByCode: { INVALID_EVENT: 1 },
      interrupted: 0,
      retries: 0,
      refusedFile: 'json.refused',
    });
    assert.equal(statSync(path('json.refused')).mode & 0o777, 0o600);
    const row = JSON.parse(readFileSync(path('json.refused'), 'utf8')) as object;
    const answered = { code: 'INVALID_EVENT', retryable: false };
    assert.deepEqual(row, { line: 2, code: 'INVALID_EVENT', status: 400, answer: answered, body: event('bad') });
  });

  it('continues an interrupted refused file, and writes no position through a link', async () => {
    const rows = ['done', 'waits'].map((id) => JSON.stringify({ line: 7, body: event(id) }));
    writeFileSync(path('linked.refused'), rows.join('\n'));
    writeFileSync(path('victim'), 'untouched');
    for (const name of ['linked.refused.position', 'linked.refused.position.new'])
      fs.symlinkSync(path('victim'), path(name));
    server.answer = (seen) => (seen.id === 'done' ? accepted(seen) : unavailable(seen, 'Retry-After: 600\r\n'));
    const program = send('', '--resend', 'linked.refused');
    await eventually('the second event waits', () => /waiting/.test(program.output));
    program.signal('SIGINT');
    assert.equal(await program.ended, 130);
    assert.equal(readFileSync(path('victim'), 'utf8'), 'untouched');
    server.seen = [];
    server.answer = accepted;
    await ended(0, '', '--resend', 'linked.refused');
    assert.equal(bodies().join(), event('waits'));
  });

  it('exits with 2 for a wrong option, and names the mistake', async () => {
    const refusals: Readonly<Record<string, RegExp>> = {
      '--url http://127.0.0.1': /^--url http:\/\/127\.0\.0\.1: expected an https URL/,
      '--concurrency 0': /^--concurrency 0: expected a whole number from 1 to 1000/,
      '--pipelining 33': /^--pipelining 33: expected a whole number from 1 to 32/,
      '--rate 1e3': /^--rate 1e3: expected a whole number/,
      '--fast': /fast/,
      '--cert nowhere.pem': /^--cert nowhere\.pem: expected a readable file \(ENOENT\)/,
      '--refused absent/some.refused': /^--refused absent\/some\.refused: .*\(ENOENT\)/,
      '--refused /proc/some.refused': /^--refused \/proc\/some\.refused: /,
      '--refused ./a.position a': /^--refused \.\/a\.position: the position of the run is kept there/,
      'a b': /^expected one file at a time/,
      '--sample 1 --resend x': /^expected one file at a time/,
    };
    const read = (...args: string[]) => readSettings([...own(), ...args], '.ingest', () => undefined);
    for (const [line, message] of Object.entries(refusals)) assert.throws(() => read(...line.split(' ')), { message });
    for (const alone of [
      ['--key', path('producer-key.pem')],
      ['--cert', path('producer.pem')],
    ])
      assert.throws(() => readSettings(alone, server.pki.folder, () => undefined), /--cert and --key together/);
    const flow = { concurrency: 1_000, connections: 2, pipelining: 3 };
    const numbers = { ...flow, rate: 1_000_000, tries: 5, timeout: 3_600_000, sample: 7 };
    const settings = read(...Object.entries(numbers).flatMap(([name, value]) => [`--${name}`, String(value)]));
    assert.ok(typeof settings === 'object');
    const wanted = { ...flow, ratePerS: 1_000_000, tries: 5, timeoutMs: 3_600_000 };
    assert.deepEqual([settings.options, settings.sample], [{ ...settings.options, ...wanted }, 7]);
    const resending = read('--resend', 'some.refused.2');
    assert.equal(typeof resending === 'object' && resending.refusedFile, 'some.refused');
    for (const [args, why] of [
      [['--cert', path('producer-key.pem')], /--cert: expected the text of a PEM certificate/],
      [['--cert', path('ca.pem')], /--cert, --key: expected a certificate and the key that belongs to it/],
      [['.'], /expected a file, found a directory/],
      [['absent.ndjson'], /absent\.ndjson: cannot be read \(ENOENT\)/],
    ] as const)
      assert.match((await ended(2, '', ...args)).output, why);
    const help = await ended(0, '', '--help');
    assert.ok(help.output.trim().split(/\s+/).length <= 250);
  });
});
