// How a daemon's process begins and ends: flags, exit codes, and signals, without a process of its own.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { describe, it, type TestContext } from 'node:test';
import { runDaemon, type Daemon, type OnStop, type Stop } from '../../lib/process/daemon.ts';
import type { Environment } from '../../lib/process/env.ts';
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

/** Runs a daemon that does nothing but what `how` says. */
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
    check: () => Promise.resolve(),
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
    if (!before.has(listener)) process.off('uncaughtException', listener); // A failure here is the test's.
  return { exitCode, printed, complaints };
}

const wrong: Daemon<typeof GOOD>['read'] = () => ({
  config: undefined,
  report: { problems: ['A: expected a number', 'B: expected a URI'], warnings: [] },
  log: LOGGING,
});

describe('a daemon that is asked something', () => {
  it('prints its help and ends with 0, whatever its configuration', async () => {
    const { exitCode, printed } = await run(['--help'], { read: wrong });
    assert.equal(exitCode, EXIT.clean);
    assert.equal(printed, 'the help\n');
  });

  it('prints its name and version', async () =>
    assert.match((await run(['--version'])).printed, /^ingest-gateway \d+\.\d+\.\d+ \(.+\)\n$/));

  it('refuses an argument that it does not know with 2', async () => {
    const { exitCode, complaints } = await run(['--hlep']);
    assert.equal(exitCode, EXIT.configuration);
    assert.deepEqual(complaints, ['unknown argument --hlep; --help lists what there is']);
  });

  it('says that its configuration is good, with the warnings, and connects to nothing', async () => {
    const connected: string[] = [];
    const connect = (): Promise<void> => Promise.resolve(void connected.push('connected'));
    const { exitCode, printed, complaints } = await run(['--check'], { connect });
    assert.equal(exitCode, EXIT.clean);
    assert.equal(printed, 'the configuration is good\n');
    assert.deepEqual(complaints, ['warning: one thing is odd']);
    assert.deepEqual(connected, []);
  });

  it('prints what it found where it connects, a line each', async () => {
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

  it('ends a check with the code of what it found wrong', async () => {
    const connect = (): Promise<void> => Promise.reject(new StartFailure(EXIT.queue, 'the queue is away'));
    const { exitCode, complaints } = await run(['--check=connect'], { connect });
    assert.equal(exitCode, EXIT.queue);
    assert.equal(complaints.at(-1), 'the queue is away');
  });
});

describe('a daemon that starts', () => {
  it('refuses a wrong configuration with 2 and every problem', async () => {
    const { exitCode, complaints } = await run([], { read: wrong });
    assert.equal(exitCode, EXIT.configuration);
    assert.deepEqual(complaints, ['A: expected a number\nB: expected a URI']);
  });

  it('ends with the code of a failed start, and with 1 where the start itself is broken', async () => {
    const failing = (cause: Error): Promise<Ran> => run([], { run: () => Promise.reject(cause) });
    const { exitCode, complaints } = await failing(new StartFailure(EXIT.bind, 'the port is taken'));
    assert.equal(exitCode, EXIT.bind);
    assert.deepEqual(complaints, ['the port is taken']);
    assert.equal((await failing(new Error('a bug'))).exitCode, EXIT.fatal);
  });

  it('says in its log how it was set, and that it cannot start, a line for each problem', async (t) => {
    const lines: { readonly msg: string; readonly exitCode?: number; readonly settings?: unknown }[] = [];
    t.mock.method(fs, 'writeSync', (_fd: number, text: string) => {
      lines.push(
        ...text
          .trim()
          .split('\n')
          .map((line) => JSON.parse(line) as (typeof lines)[number]),
      );
      return Buffer.byteLength(text);
    });
    const refuse = (): Promise<void> => Promise.reject(new StartFailure(EXIT.queue, 'the first\nthe second'));
    const read: Daemon<typeof GOOD>['read'] = () => ({
      config: GOOD,
      report: { problems: [], warnings: ['one thing is odd'] },
      log: { level: 'info', format: 'json' },
    });
    const { exitCode, complaints } = await run([], { read, run: refuse }, undefined, undefined, {
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

  it('has no exit code while it runs', async () => assert.equal((await run([])).exitCode, undefined));
});

/** A daemon that runs and stops so; gives the codes that it ended with, and sends it a signal. */
async function stopping(t: TestContext, clock: VirtualClock, stop: Stop['stop']) {
  const before = new Set(process.listeners('SIGTERM'));
  const codes: number[] = [];
  const start = (_: unknown, __: unknown, onStop: OnStop): Promise<void> =>
    Promise.resolve(onStop({ deadlineMs: 5_000, cutOff: 'closing what is left', stop }));
  await run([], { run: start }, clock, (code) => codes.push(code));
  const own = process.listeners('SIGTERM').find((listener) => !before.has(listener));
  assert.ok(own !== undefined);
  t.after(() => {
    process.off('SIGTERM', own);
    process.off('SIGINT', own);
  });
  return { codes, signal: (name: 'SIGTERM' | 'SIGINT') => (own as (name: string) => void)(name) };
}

describe('a daemon that is stopped', () => {
  it('ends with 0 once it has stopped, and not before', async (t) => {
    const clock = new VirtualClock();
    const { codes, signal } = await stopping(t, clock, () => clock.sleep(1_000));
    signal('SIGTERM');
    await clock.advance(900);
    assert.deepEqual(codes, []);
    await clock.advance(200);
    assert.deepEqual(codes, [0]);
    assert.equal(clock.pending, 0);
  });

  it('ends with 0 when its time is over, whatever is left', async (t) => {
    const clock = new VirtualClock();
    const { codes, signal } = await stopping(t, clock, () => new Promise(() => undefined));
    signal('SIGINT');
    await clock.advance(4_999);
    assert.deepEqual(codes, []);
    await clock.advance(1);
    assert.deepEqual(codes, [0]);
  });

  it('ends with 1 where the stop fails', async (t) => {
    const clock = new VirtualClock();
    const { codes, signal } = await stopping(t, clock, () => Promise.reject(new Error('a bug')));
    signal('SIGTERM');
    await clock.settle();
    assert.deepEqual(codes, [1]);
  });

  for (const [name, code] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)
    it(`ends with ${code} at a second signal, ${name}, and does not begin to stop again`, async (t) => {
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

it('the listeners of a stop take the place of the early ones, which ignore SIGHUP and end with the code of a shell', (t) => {
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
  const stop = (): Promise<void> => Promise.resolve();
  onStopSignals({ clock: new VirtualClock(), deadlineMs: 1, stop, exit: () => undefined, onFailure: () => undefined });
  assert.equal(own('SIGTERM').length, 1);
  assert.equal(own('SIGINT').length, 1);
  own('SIGTERM')[0]?.('SIGTERM');
  assert.deepEqual(codes, [143, 130]);
});
