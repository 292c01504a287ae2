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
      assert.match(
        await output(`ingest-${name}`, '--version'),
        /^ingest-\w+ \d+\.\d+\.\d+(?:\+git\d{8}\.\w+)? \(\w+\)$/,
      ));

    it(`ingest-${name} prints help of at most 250 words, and with --help=all its settings and no others`, async () => {
      const short = await output(`ingest-${name}`, '--help');
      assert.match(short, new RegExp(`^ingest-${name}: .*\\n`));
      if (name === 'send') return; // It reads one setting, which its help explains with the options.
      assert.ok(short.split(/\s+/).length <= 250, short);
      const keys = settingsOf(name).map(([key]) => key);
      for (const [, key = ''] of short.matchAll(/^ {2}(INGEST_\w+)/gm))
        assert.ok(
          keys.some((one) => one === key),
          key,
        );
      const help = await output(`ingest-${name}`, '--help=all');
      const named = [...help.matchAll(/^ {2}([A-Z_]+) \(/gm)].map(([, key]) => key);
      assert.deepEqual(named, keys);
      assert.match(help, /INGEST_QUEUE_PARTITIONS \(default 8; 1 to 256; .*\n +Partitions/);
    });
  }
});
