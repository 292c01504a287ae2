import assert from 'node:assert/strict';
import fs from 'node:fs';
import type { AddressInfo } from 'node:net';
import { describe, it, type TestContext } from 'node:test';
import { bound, runDaemon, type Daemon, type OnStop, type Stop } from '../../lib/process/daemon.ts';
import type { BindAddress, Environment } from '../../lib/process/env.ts';
import { EXIT, StartFailure } from '../../lib/process/program.ts';
import { onEarlySignals, onStopSignals } from '../../lib/process/shutdown.ts';
import { VirtualClock } from '../support/virtual-clock.ts';

const GOOD = { port: 1 };
const LOGGING = { level: 'error', format: 'text' } as const;

interface Ran {
  readonly exitCode: number | undefined;
  readonly printed: string;
  readonly complaints: readonly string[];
}

async function run(
  args: readonly string[],
  how: Partial<Daemon<typeof GOOD>> = {},
  clock = new VirtualClock(),
  end: (code: number) => void = () => undefined,
  environment: Environment = {},
): Promise<Ran> {
  let printed = '';
  const complaints: string[] = [];
  const daemon: Daemon<typeof GOOD> = {
    name: 'ingest-gateway',
    help: 'the help\n',
    read: () => ({ config: GOOD, report: { problems: [], warnings: ['one thing is odd'] }, log: LOGGING }),
    check: () => Promise.resolve([]),
    connect: () => Promise.resolve(),
    run: () => Promise.resolve(),
    ...how,
  };
  const before = new Set(process.listeners('uncaughtException'));
  const exitCode = await runDaemon(daemon, {
    clock,
    args,
    environment,
    print: (text) => (printed += text),
    complain: (text) => complaints.push(text),
    end,
  });
  for (const listener of process.listeners('uncaughtException'))
    if (!before.has(listener)) process.off('uncaughtException', listener); // Test errors must reach the test runner.
  return { exitCode, printed, complaints };
}

const talkative: Daemon<typeof GOOD>['read'] = () => ({
  config: GOOD,
  report: { problems: [], warnings: ['one thing is odd'] },
  log: { level: 'info', format: 'json' },
});

interface Line {
  readonly level: string;
  readonly msg: string;
  readonly signal?: string;
  readonly exitCode?: number;
  readonly settings?: unknown;
  readonly err?: { readonly message: string };
}

function logged(t: TestContext): readonly Line[] {
  const lines: Line[] = [];
  t.mock.method(fs, 'writeSync', (_fd: number, text: string) => {
    for (const line of text.trim().split('\n')) lines.push(JSON.parse(line) as Line);
    return Buffer.byteLength(text);
  });
  return lines;
}

describe('a daemon with --check', () => {
  it('prints that its configuration is good and its warnings, and does not connect', async () => {
    const connected: string[] = [];
    const connect = (): Promise<void> => Promise.resolve(void connected.push('connected'));
    const { exitCode, printed, complaints } = await run(['--check'], { connect });
    assert.equal(exitCode, EXIT.clean);
    assert.equal(printed, 'the configuration is good\n');
    assert.deepEqual(complaints, ['warning: one thing is odd']);
    assert.deepEqual(connected, []);
  });

  it('prints a line for each connection with --check=connect', async () => {
    const { exitCode, printed } = await run(['--check=connect'], {
      connect: (_, found) => {
        found('the queue answers');
        found('the warehouse answers');
        return Promise.resolve();
      },
    });
    assert.equal(exitCode, EXIT.clean);
    assert.equal(printed, 'the configuration is good\nthe queue answers\nthe warehouse answers\n');
  });

  it('exits with the code of a failed connection', async () => {
    const connect = (): Promise<void> => Promise.reject(new StartFailure(EXIT.queue, 'the queue is unavailable'));
    const { exitCode, complaints } = await run(['--check=connect'], { connect });
    assert.equal(exitCode, EXIT.queue);
    assert.equal(complaints.at(-1), 'the queue is unavailable');
  });
});

describe('a daemon that starts', () => {
  it('exits with the code of a failed start, and with 1 for a bug in the start', async () => {
    const failing = (cause: Error): Promise<Ran> => run([], { run: () => Promise.reject(cause) });
    const { exitCode, complaints } = await failing(new StartFailure(EXIT.bind, 'the port is taken'));
    assert.equal(exitCode, EXIT.bind);
    assert.deepEqual(complaints, ['the port is taken']);
    assert.equal((await failing(new Error('a bug'))).exitCode, EXIT.fatal);
  });

  it('logs its settings, and a line for each problem of a failed start', async (t) => {
    const lines = logged(t);
    const refuse = (): Promise<void> => Promise.reject(new StartFailure(EXIT.queue, 'the first\nthe second'));
    const { exitCode, complaints } = await run([], { read: talkative, run: refuse }, undefined, undefined, {
      INGEST_LOG_LEVEL: 'info',
    });
    assert.equal(exitCode, EXIT.queue);
    assert.deepEqual(complaints, []);
    assert.deepEqual(
      lines.map(({ msg }) => msg),
      ['starting', 'one thing is odd', 'the first', 'the second'],
    );
    assert.deepEqual(lines[0]?.settings, { INGEST_LOG_LEVEL: 'info' });
    assert.equal(lines[3]?.exitCode, EXIT.queue);
  });

  it('reports a bug in the start in the log, or on standard error before the log exists', async (t) => {
    const lines = logged(t);
    const bug = new Error('a bug');
    const { complaints } = await run([], { read: talkative, run: () => Promise.reject(bug) });
    assert.deepEqual(complaints, []);
    const { level, msg, err } = lines.at(-1) ?? assert.fail();
    assert.deepEqual([level, msg, err?.message], ['fatal', 'the start failed', 'a bug']);
    const unread = (cause: unknown): Promise<Ran> =>
      run([], {
        read: () => {
          throw cause;
        },
      });
    assert.deepEqual(await unread(bug), { exitCode: EXIT.fatal, printed: '', complaints: [bug.stack] });
    assert.deepEqual((await unread('a text')).complaints, ['a text']);
    assert.deepEqual((await unread(Object.assign(new Error('bare'), { stack: undefined }))).complaints, ['bare']);
  });

  it('logs an uncaught error and exits with 1', async (t) => {
    const lines = logged(t);
    const codes: number[] = [];
    const before = new Set(process.listeners('uncaughtException'));
    const start = (): Promise<void> => {
      const own = process.listeners('uncaughtException').find((listener) => !before.has(listener));
      own?.(new Error('nobody'), 'uncaughtException');
      return Promise.resolve();
    };
    await run([], { read: talkative, run: start }, undefined, (code) => codes.push(code));
    assert.deepEqual(codes, [EXIT.fatal]);
    const { level, msg, err } = lines.at(-1) ?? assert.fail();
    assert.deepEqual([level, msg, err?.message], ['fatal', 'uncaught error', 'nobody']);
  });
});

async function stopping(
  t: TestContext,
  clock: VirtualClock,
  stop: Stop['stop'],
  how: Partial<Daemon<typeof GOOD>> = {},
) {
  const before = new Set(process.listeners('SIGTERM'));
  const codes: number[] = [];
  const start = (_: unknown, __: unknown, onStop: OnStop): Promise<void> =>
    Promise.resolve(onStop({ deadlineMs: 5_000, cutOff: 'closing what is left', stop }));
  await run([], { ...how, run: start }, clock, (code) => codes.push(code));
  const own = process.listeners('SIGTERM').find((listener) => !before.has(listener));
  assert.ok(own !== undefined);
  t.after(() => {
    process.off('SIGTERM', own);
    process.off('SIGINT', own);
  });
  return { codes, signal: (name: 'SIGTERM' | 'SIGINT') => (own as (name: string) => void)(name) };
}

describe('a daemon that is stopped', () => {
  it('exits with 0 when its stop has finished', async (t) => {
    const clock = new VirtualClock();
    const { codes, signal } = await stopping(t, clock, () => clock.sleep(1_000));
    signal('SIGTERM');
    await clock.advance(900);
    assert.deepEqual(codes, []);
    await clock.advance(200);
    assert.deepEqual(codes, [0]);
    assert.equal(clock.pending, 0);
  });

  it('exits with 0 at its deadline, even if the stop has not finished', async (t) => {
    const clock = new VirtualClock();
    const { codes, signal } = await stopping(t, clock, () => new Promise(() => undefined));
    signal('SIGINT');
    await clock.advance(4_999);
    assert.deepEqual(codes, []);
    await clock.advance(1);
    assert.deepEqual(codes, [0]);
  });

  it('exits with 1 if the stop fails', async (t) => {
    const clock = new VirtualClock();
    const { codes, signal } = await stopping(t, clock, () => Promise.reject(new Error('a bug')));
    signal('SIGTERM');
    await clock.settle();
    assert.deepEqual(codes, [1]);
  });

  it('logs the course of the stop', async (t) => {
    const lines = logged(t);
    const told = async (stop: Stop['stop'], ...signals: ('SIGTERM' | 'SIGINT')[]): Promise<unknown[]> => {
      const clock = new VirtualClock();
      const { signal } = await stopping(t, clock, stop, { read: talkative });
      const from = lines.length;
      for (const name of signals) signal(name);
      await clock.advance(5_000);
      return lines
        .slice(from)
        .map((line) => [line.level, line.msg, ...[line.signal ?? [], line.err?.message ?? []].flat()]);
    };
    assert.deepEqual(await told(() => Promise.resolve(), 'SIGTERM'), [
      ['info', 'stopping', 'SIGTERM'],
      ['info', 'stopped'],
    ]);
    const never = (): Promise<void> => new Promise(() => undefined);
    assert.deepEqual(await told(never, 'SIGINT'), [
      ['info', 'stopping', 'SIGINT'],
      ['warn', 'the drain time-out is over: closing what is left'],
    ]);
    assert.deepEqual((await told(never, 'SIGTERM', 'SIGINT'))[1], [
      ...['warn', 'second signal: ending immediately', 'SIGINT'],
    ]);
    // In this test, exiting only records the code, so the daemon keeps running and also logs that the deadline has
    // passed.
    assert.deepEqual((await told(() => Promise.reject(new Error('a bug')), 'SIGTERM')).slice(0, 2), [
      ['info', 'stopping', 'SIGTERM'],
      ['fatal', 'stopping failed', 'a bug'],
    ]);
  });

  for (const [name, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)
    it(`exits with ${code} at a second signal, ${name}, without another stop`, async (t) => {
      const clock = new VirtualClock();
      let stops = 0;
      const { codes, signal } = await stopping(t, clock, () => {
        stops += 1;
        return new Promise(() => undefined);
      });
      signal('SIGTERM');
      signal(name);
      assert.deepEqual(codes, [code]);
      assert.equal(stops, 1);
    });
});

describe('an address of a daemon', () => {
  it('is the address of its listener; if it cannot be bound, the failure names key, address and remedy', async () => {
    const wanted = { host: '::1', port: 1 };
    const listen = (address: BindAddress): Promise<AddressInfo> =>
      Promise.resolve({ address: address.host, port: 4321, family: 'IPv6' });
    assert.equal(await bound('INGEST_ADMIN_ADDR', wanted, listen), '[::1]:4321');
    const taken = (): Promise<AddressInfo> => Promise.reject(Object.assign(new Error('no'), { code: 'EADDRINUSE' }));
    const failure: unknown = await bound('INGEST_ADMIN_ADDR', wanted, taken).catch((cause: unknown) => cause);
    assert.ok(failure instanceof StartFailure);
    assert.equal(failure.exitCode, EXIT.bind);
    assert.equal(
      failure.message,
      'INGEST_ADMIN_ADDR=[::1]:1: cannot be bound (EADDRINUSE); see who owns the port, or choose another address',
    );
  });
});

it('the listeners of a stop replace the early ones, which exit with the code of a shell and ignore SIGHUP', (t) => {
  const names = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;
  const before = new Map(names.map((name) => [name, new Set(process.listeners(name))]));
  const own = (name: (typeof names)[number]) => process.listeners(name).filter((each) => !before.get(name)?.has(each));
  t.after(() => {
    for (const name of names) for (const each of own(name)) process.off(name, each);
  });
  const codes: number[] = [];
  onEarlySignals((code) => codes.push(code));
  own('SIGTERM')[0]?.('SIGTERM');
  own('SIGINT')[0]?.('SIGINT');
  assert.deepEqual(codes, [143, 130]);
  assert.equal(own('SIGHUP').length, 1);
  onStopSignals(() => undefined);
  assert.equal(own('SIGTERM').length, 1);
  assert.equal(own('SIGINT').length, 1);
  own('SIGTERM')[0]?.('SIGTERM');
  assert.deepEqual(codes, [143, 130]);
});
