import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { settingsOf } from '../../lib/process/settings.ts';
import { settingsHelp } from '../../lib/process/settings-text.ts';
import { Program } from '../support/program.ts';

describe('the table of settings', () => {
  for (const program of ['gateway', 'consumer'] as const) {
    it(`is what ingest-${program} --help prints, with no key of another program`, async () => {
      const help = new Program(`ingest-${program}`, { args: ['--help'], env: {} });
      assert.equal(await help.ended, 0);
      assert.ok(help.output.includes(settingsHelp(program).trimEnd()), help.output);
      const named = new Set([...help.output.matchAll(/^ {2}([A-Z_]+) \(/gm)].map(([, key]) => key));
      assert.deepEqual(
        [...named],
        settingsOf(program).map(([key]) => key),
      );
    });
  }
});
