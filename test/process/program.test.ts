import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { messageOf } from '../../lib/process/message-of.ts';
import { modeOf, StartFailure } from '../../lib/process/program.ts';

describe('the arguments of a program', () => {
  it('select its mode, help or else the first one; without arguments it runs', () => {
    for (const [args, mode] of [
      [[], 'run'],
      [['--check'], 'check'],
      [['--check=connect'], 'connect'],
      [['--help'], 'help'],
      [['-h'], 'help'],
      [['--version'], 'version'],
      [['-V'], 'version'],
      [['--check', '--version'], 'check'],
      [['--version', '--help', '--check'], 'help'],
    ] as const)
      assert.equal(modeOf(args), mode);
  });

  it('are refused with exit code 2 if one is unknown', () => {
    for (const args of [['--hlep'], ['--check', 'x']])
      assert.throws(
        () => modeOf(args),
        (cause: unknown) =>
          cause instanceof StartFailure &&
          cause.exitCode === 2 &&
          cause.message === `unknown argument ${args.at(-1)}; see --help`,
      );
  });
});

it('a failure is described by its message, without one by its code, else by its name', () => {
  assert.equal(messageOf(Object.assign(new Error('lost'), { code: 'ECONNRESET' })), 'lost');
  const handshake = { library: 'SSL routines', reason: 'tlsv13 alert certificate required' };
  assert.equal(messageOf(Object.assign(new Error('40:error:0A\n'), handshake)), handshake.reason);
  assert.equal(messageOf(Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })), 'ECONNREFUSED');
  assert.equal(messageOf(new RangeError('')), 'RangeError');
  assert.equal(messageOf('lost'), 'unknown error');
});
