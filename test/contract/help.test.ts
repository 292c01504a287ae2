import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { settingsOf } from '../../lib/process/settings.ts';
import { Program } from '../support/program.ts';

const PROGRAMS = ['gateway', 'consumer', 'admin', 'send'] as const;

async function output(name: `ingest-${(typeof PROGRAMS)[number]}`, flag: string): Promise<string> {
  const program = new Program(name, { args: [flag], env: {} });
  assert.equal(await program.ended, 0);
  return program.output;
}

describe('every program', () => {
  for (const name of PROGRAMS) {
    it(`ingest-${name} prints its name and version`, async () =>
      assert.match(await output(`ingest-${name}`, '--version'), /^ingest-\w+ \d+\.\d+\.\d+ \(\w+\)$/));

    it(`ingest-${name} prints help, with its settings and no others`, async () => {
      const help = await output(`ingest-${name}`, '--help');
      assert.match(help, new RegExp(`ingest-${name}`));
      if (name === 'send') return; // It reads one setting, which its help explains with the options.
      const named = [...help.matchAll(/^ {2}([A-Z_]+) \(/gm)].map(([, key]) => key);
      assert.deepEqual(
        named,
        settingsOf(name).map(([key]) => key),
      );
      assert.match(help, /INGEST_QUEUE_PARTITIONS \(default 8; 1 to 256; .*\n +Partitions/);
    });
  }
});
