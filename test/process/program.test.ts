// What every program has in common: modes, versions, exit codes, and the pauses between its tries.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { pauseMs } from '../../lib/process/backoff.ts';
import { freePort } from '../../lib/process/free-port.ts';
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

describe('the pause between tries', () => {
  it('doubles from the first one up to the longest, and half of it is left to chance', () => {
    const bounds = (failures: number): readonly number[] =>
      [0, 0.5, 1].map((part) => pauseMs(failures, 100, 1_000, part));
    assert.deepEqual(bounds(1), [50, 75, 100]);
    assert.deepEqual(bounds(2), [100, 150, 200]);
    assert.deepEqual(bounds(4), [400, 600, 800]);
    assert.deepEqual(bounds(5), [500, 750, 1_000]);
    assert.deepEqual(bounds(5_000), [500, 750, 1_000]);
  });
});

it('a free port is one that a server can be told', async () => {
  const port = await freePort();
  assert.ok(port > 0 && port <= 65_535, String(port));
});
