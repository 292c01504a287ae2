import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { ENDS } from '../../bench/gate-verdict.ts';
import { temporaryFolder } from '../support/scope.ts';

const SCRIPT = new URL('../../.ci/run', import.meta.url).pathname;

/** Runs .ci/run in a project whose phases end immediately, the gate with `code`. */
function run(code: number): { readonly status: number | null; readonly last: string } {
  const folder = temporaryFolder();
  mkdirSync(join(folder, '.ci'));
  mkdirSync(join(folder, 'bin'));
  cpSync(SCRIPT, join(folder, '.ci/run'));
  writeFileSync(join(folder, '.ci/base'), 'none\n');
  writeFileSync(join(folder, 'Makefile'), 'ingest-test browser-test checks:\n\t@:\n');
  writeFileSync(join(folder, 'bin/node'), `#!/bin/sh\nexit ${code}\n`, { mode: 0o755 });
  const { status, stdout, stderr } = spawnSync('sh', ['-c', 'exec .ci/run 2>&1'], { cwd: folder, encoding: 'utf8' });
  return { status, last: `${stdout}${stderr}`.trim().split('\n').at(-1) ?? '' };
}

it('.ci/run ends as the gate did, and a gate without a verdict is its last line, in capitals', () => {
  assert.equal(run(ENDS.pass.code).status, 0);
  assert.equal(run(ENDS.worse.code).status, 1);
  assert.equal(run(2).status, 1);
  const { status, last } = run(ENDS['no verdict'].code);
  assert.equal(status, 0);
  assert.match(last, /THE GATE HAS NO VERDICT/);
});
