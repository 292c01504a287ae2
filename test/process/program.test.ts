// What every program has in common: modes, versions, exit codes, and messages.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { messageOf } from '../../lib/process/message-of.ts';
import {
  configurationFailure,
  EXIT,
  modeOf,
  revision,
  StartFailure,
  version,
  versionLine,
} from '../../lib/process/program.ts';

describe('the arguments of a program', () => {
  it('name its mode, in the long form and in the short one; without arguments it runs', () => {
    for (const [args, mode] of [
      [[], 'run'],
      [['--check'], 'check'],
      [['--check=connect'], 'connect'],
      [['--help'], 'help'],
      [['-h'], 'help'],
      [['--version'], 'version'],
      [['-V'], 'version'],
    ] as const)
      assert.equal(modeOf(args), mode);
  });

  it('name the first of several modes, unless one of them is help', () => {
    assert.equal(modeOf(['--check', '--version']), 'check');
    assert.equal(modeOf(['--version', '--help', '--check']), 'help');
  });

  it('that are not known are refused with 2, by name', () => {
    for (const args of [['--hlep'], ['--check', 'x']])
      assert.throws(
        () => modeOf(args),
        (cause: unknown) =>
          cause instanceof StartFailure &&
          cause.name === 'StartFailure' &&
          cause.exitCode === 2 &&
          cause.message === `unknown argument ${args.at(-1)}; --help lists what there is`,
      );
  });
});

describe('a program', () => {
  it('has the exit codes that its operators know', () => {
    assert.deepEqual(EXIT, { clean: 0, fatal: 1, configuration: 2, bind: 3, queue: 4, replicas: 5, warehouse: 5 });
  });

  it('tells the version of the package and the revision of the source', () => {
    const manifest = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
    assert.equal(version(), (JSON.parse(manifest) as { version: string }).version);
    assert.equal(versionLine('ingest-send'), `ingest-send ${version()} (${revision()})\n`);
    assert.match(revision(), /^(?:[0-9a-f]{12}|unreleased)$/);
  });

  it('that is configured wrongly ends with 2 and all problems, a line each', () => {
    const { exitCode, message } = configurationFailure({ problems: ['A: a', 'B: b'] });
    assert.equal(exitCode, 2);
    assert.equal(message, 'A: a\nB: b');
  });
});

it('a failure is described by its message, without one by its code, else by its name', () => {
  assert.equal(messageOf(Object.assign(new Error('lost'), { code: 'ECONNRESET' })), 'lost');
  assert.equal(messageOf(Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })), 'ECONNREFUSED');
  assert.equal(messageOf(new RangeError('')), 'RangeError');
  assert.equal(messageOf('lost'), 'unknown error');
});
