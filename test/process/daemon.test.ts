import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TestProcess } from '../support/gateway.ts';

const DAEMON = new URL('faulty-daemon.ts', import.meta.url).pathname;

interface Line {
  readonly level: string;
  readonly msg: string;
  readonly settings?: unknown;
  readonly err?: { readonly message: string };
}

const start = (fault: string): TestProcess =>
  new TestProcess(process.execPath, [DAEMON], { FAULT: fault, INGEST_CONSUMER_ADDR: '127.0.0.1:1' });
const logged = (line: string): Line => JSON.parse(line) as Line;

describe('a daemon with a bug', () => {
  for (const [part, message] of [
    ['run', 'startup failed'],
    ['timer', 'uncaught error'],
    ['stop', 'stopping failed'],
  ] as const)
    it(`in its ${part} logs it and exits with 1`, async () => {
      const daemon = start(part);
      if (part === 'stop') {
        await daemon.line(/one thing is odd/);
        daemon.signal('SIGTERM');
      }
      assert.deepEqual(await daemon.exited(), { code: 1, signal: null });
      const { level, msg, err } = logged(daemon.lines.at(-1) ?? '');
      assert.deepEqual([level, msg, err?.message], ['fatal', message, 'a bug']);
      const [first, second] = daemon.lines.map(logged);
      assert.deepEqual([first?.msg, first?.settings], ['starting', { INGEST_CONSUMER_ADDR: '127.0.0.1:1' }]);
      assert.equal(second?.msg, 'one thing is odd');
    });

  it('that keeps it from stopping ends at its deadline with the code and the text of what is cut off', async () => {
    const daemon = start('deadline');
    await daemon.line(/one thing is odd/);
    daemon.signal('SIGTERM');
    assert.deepEqual(await daemon.exited(), { code: 7, signal: null });
    assert.match(logged(daemon.lines.at(-1) ?? '').msg, /: two calls were cut off$/);
  });

  it('of its operator logs each wrong setting in a line and exits with 2', async () => {
    const daemon = start('settings');
    assert.deepEqual(await daemon.exited(), { code: 2, signal: null });
    const [, ...wrong] = daemon.lines.map(logged).map(({ level, msg }) => `${level} ${msg}`);
    assert.deepEqual(wrong, ['fatal ONE=x: wrong', 'fatal OTHER=y: wrong']);
  });

  it('in the code that reads its settings reports it on standard error and exits with 1', async () => {
    const daemon = start('read');
    assert.deepEqual(await daemon.exited(), { code: 1, signal: null });
    assert.match(daemon.output, /^ingest-consumer: Error: a bug\ningest-consumer: {5}at /m);
  });
});
