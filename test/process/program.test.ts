import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { messageOf } from '../../lib/process/message-of.ts';
import { allStarted, modeOf, StartFailure } from '../../lib/process/program.ts';
import { temporaryFolder } from '../support/scope.ts';

describe('the arguments of a program', () => {
  it('select its mode, help or else the first one; without arguments it runs', () => {
    for (const [args, mode] of [
      [[], 'run'],
      [['--check'], 'check'],
      [['--check=connect'], 'connect'],
      [['--help'], 'help'],
      [['--check', '--help=all'], 'help=all'],
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

it('several parts that do not start are one failure, unless one has a bug', async () => {
  const wrong = ['A', 'B'].map((key) => Promise.reject(new StartFailure(2, `${key}: wrong`)));
  await assert.rejects(allStarted(wrong), { exitCode: 2, message: 'A: wrong\nB: wrong' });
  await assert.rejects(allStarted([...wrong, Promise.reject(new TypeError('a bug'))]), TypeError);
});

it('a failure is described by its message, without one by its code, else by its name', () => {
  assert.equal(messageOf(Object.assign(new Error('lost'), { code: 'ECONNRESET' })), 'lost');
  const handshake = { library: 'SSL routines', reason: 'tlsv13 alert certificate required' };
  assert.equal(messageOf(Object.assign(new Error('40:error:0A\n'), handshake)), handshake.reason);
  assert.equal(messageOf(Object.assign(new AggregateError([], ''), { code: 'ECONNREFUSED' })), 'ECONNREFUSED');
  assert.equal(messageOf(new RangeError('')), 'RangeError');
  assert.equal(messageOf('lost'), 'unknown error');
});

describe('the version of a program', () => {
  const around = temporaryFolder();
  const root = join(around, 'checkout');
  const git = (cwd: string, ...args: readonly string[]): string =>
    execFileSync('git', ['-C', cwd, '-c', 'user.name=t', '-c', 'user.email=t@t', ...args], {
      encoding: 'utf8',
      env: { ...process.env, GIT_COMMITTER_DATE: '2026-03-31T23:30:00-0800' },
    }).trim();
  const script = "import { BUILD } from './lib/process/program.ts'; console.log(`${BUILD.version} ${BUILD.revision}`)";
  const shown = (env: NodeJS.ProcessEnv = {}): string =>
    execFileSync(process.execPath, ['--input-type=module', '--eval', script], {
      ...{ cwd: root, encoding: 'utf8', env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] },
    }).trim();
  const commit = (cwd: string): string => {
    git(cwd, 'init', '--quiet');
    git(cwd, 'commit', '--quiet', '--allow-empty', '-m', 'first');
    return git(cwd, 'rev-parse', '--short=12', 'HEAD');
  };

  it('is that of the package, or of the commit of its own checkout, and a tag makes it a release', () => {
    for (const name of ['program.ts', 'message-of.ts'])
      cpSync(new URL(`../../lib/process/${name}`, import.meta.url), join(root, 'lib/process', name));
    writeFileSync(join(root, 'package.json'), '{"version":"1.2.3","type":"module"}');
    assert.equal(shown(), '1.2.3+unknown unknown');
    commit(around);
    assert.equal(shown(), '1.2.3+unknown unknown', 'the commit of another repository says nothing');
    const revision = commit(root);
    assert.equal(shown({ GIT_DIR: join(around, '.git') }), `1.2.3+git20260401.${revision} ${revision}`);
    git(root, 'tag', 'v1.2.30');
    assert.equal(shown(), `1.2.3+git20260401.${revision} ${revision}`);
    git(root, 'tag', 'v1.2.3');
    assert.equal(shown(), `1.2.3 ${revision}`);
    assert.equal(shown({ PATH: '' }), '1.2.3+unknown unknown', 'without git');
    writeFileSync(join(root, 'package.json'), '{"version":"1.2.3+git1.a","revision":"a","type":"module"}');
    assert.equal(shown(), '1.2.3+git1.a a');
  });
});
