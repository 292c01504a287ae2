import assert from 'node:assert/strict';
import { Readable, Writable } from 'node:stream';
import { describe, it } from 'node:test';
import { runToollint } from '../../../lib/toollint/command/command-line.ts';
import { type ProgramIo, streamSink } from '../../../lib/toollint/command/program-io.ts';

/** Returns a stream that records the written text or, with `code`, fails each write. */
function kept(code?: string, terminal: { isTTY?: boolean; columns?: number } = {}) {
  const texts: string[] = [];
  const stream = new Writable({
    write(chunk, _, done) {
      if (code === undefined) texts.push(String(chunk));
      done(code === undefined ? null : Object.assign(new Error('no'), { code }));
    },
  });
  stream.on('error', () => undefined);
  return Object.assign(stream, terminal, { texts });
}

function ioWith(change: Partial<ProgramIo> = {}) {
  const [stdout, stderr] = [kept(), kept()];
  const common = { env: {}, cwd: '/', stdin: Readable.from([]), signal: new AbortController().signal };
  const io: ProgramIo = { args: [], stdout, stderr, revision: () => '0123456789ab', ...common, ...change };
  return { io, told: () => stderr.texts.join(''), printed: () => stdout.texts.join('') };
}

const exitCode = async (change: Partial<ProgramIo>) => runToollint(ioWith(change).io);

describe('a document on standard output', () => {
  it('ends the program with 141 and no message if its reader closed it', async () => {
    for (const code of ['EPIPE', 'ERR_STREAM_DESTROYED']) {
      const { io, told } = ioWith({ args: ['schema'], stdout: kept(code) });
      assert.equal(await runToollint(io), 141, code);
      assert.equal(told(), '', code);
    }
  });

  it('has no control characters for a terminal', async () => {
    const stream = kept();
    await streamSink(stream, 'out')('a\u009bb\n');
    assert.equal(stream.texts.join(''), 'a\\u009bb\n');
  });
});

describe('the program', () => {
  it('ends with 130 and no message after an interrupt', async () => {
    const { io, told } = ioWith({ args: ['convert', '-', '--to', 'sarif'], signal: AbortSignal.abort() });
    assert.equal(await runToollint(io), 130);
    assert.equal(told(), '');
  });

  it('reports its own bugs as internal errors', async () => {
    const revision = () => {
      throw new Error('no revision');
    };
    const { io, told } = ioWith({ args: ['--version'], revision });
    assert.equal(await runToollint(io), 2);
    assert.equal(told(), 'toollint: internal error: no revision\n');
    assert.equal(await exitCode({ args: ['--version'], revision, signal: AbortSignal.abort() }), 130);
  });
});
