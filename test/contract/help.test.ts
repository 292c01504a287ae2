import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { settingsOf } from '../../lib/process/settings.ts';
import { Program } from '../support/program.ts';

async function output(name: string, flag: string): Promise<string> {
  const program = new Program(`ingest-${name}` as 'ingest-send', { args: [flag], env: {} });
  assert.equal(await program.ended, 0);
  return program.output;
}

describe('every program', () => {
  for (const name of ['gateway', 'consumer', 'admin', 'send'] as const)
    it(`ingest-${name} prints its version, help of at most 250 words, and all of its settings`, async () => {
      const version = await output(name, '--version');
      assert.match(version, new RegExp(`^ingest-${name} \\d+\\.\\d+\\.\\d+(?:\\+git\\d{8}\\.\\w+)? \\(\\w+\\)$`));
      const short = await output(name, '--help');
      assert.match(short, new RegExp(`^ingest-${name}: .*\\n`));
      if (name === 'send') return; // It reads one setting, which its help explains with the options.
      assert.ok(short.split(/\s+/).length <= 250, short);
      const keys = settingsOf(name).map(([key]) => key);
      const shown = [...short.matchAll(/^ {2}(INGEST_\w+)/gm)].map(([, key]) => key);
      assert.deepEqual(new Set([...keys, ...shown]), new Set(keys));
      const help = await output(name, '--help=all');
      assert.deepEqual(
        Array.from(help.matchAll(/^ {2}([A-Z_]+) \(/gm), ([, key]) => key),
        keys,
      );
      assert.match(help, /INGEST_QUEUE_PARTITIONS \(default 8; 1 to 256; .*\n +Partitions/);
    });
});
