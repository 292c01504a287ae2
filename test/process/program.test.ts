import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { messageOf } from '../../lib/process/message-of.ts';
import { BUILD, modeOf, StartFailure, versionLine } from '../../lib/process/program.ts';

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

describe('a program', () => {
  it('reports the version of the package and the revision of the source', () => {
    const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
    assert.equal(BUILD.version, (JSON.parse(manifest) as { version: string }).version);
    assert.equal(versionLine('ingest-send'), `ingest-send ${BUILD.version} (${BUILD.revision})\n`);
    assert.match(BUILD.revision, /^(?:[0-9a-f]{12}|unreleased)$/);
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
