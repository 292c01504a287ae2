import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { temporaryFolder } from '../support/scope.ts';
import { deployFile, ran } from './deploy-files.ts';
import { tool } from '../support/tool.ts';

const EXPOSURE_MAX = 2.5;
const BIN = new URL('../../bin/', import.meta.url).pathname;
const analyze = tool('systemd-analyze', 'systemd');

const UNITS = ['ingest-gateway@', 'ingest-consumer@', 'ingest-reconcile'];

/** Writes a copy of the unit that starts an existing program, because `verify` checks that the program exists. */
function unit(name: string): string {
  const folder = join(temporaryFolder(), 'units');
  mkdirSync(folder);
  const path = join(folder, `${name}.service`);
  writeFileSync(path, deployFile(`systemd/${name}.service`).replace('/usr/bin/ingest-', `${BIN}ingest-`));
  return path;
}

for (const name of UNITS) {
  it(`the unit ${name} passes systemd-analyze without a warning`, () => {
    const path = unit(name).replace('@.', '@9470.');
    assert.deepEqual(ran(analyze, ['verify', '--man=no', path]), { status: 0, text: '' });
  });

  it(`the unit ${name} exposes at most ${EXPOSURE_MAX} of 10`, () => {
    const { text } = ran(analyze, ['security', '--offline=yes', '--no-pager', unit(name)]);
    const level = Number(/Overall exposure level for \S+: ([\d.]+)/.exec(text)?.[1]);
    assert.ok(level <= EXPOSURE_MAX, text);
  });
}
