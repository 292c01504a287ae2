// A scan of a file that is one line of megabytes.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { project, scanned } from '../support/verbs.ts';

describe('a scan', () => {
  it('finishes a line of megabytes with 10,000 findings in seconds', async (t) => {
    const cwd = await project(t, {
      'big.js': `${'var a = "some text that stands here to fill the line up, and so on and on for a while more, and then a bit";'.repeat(10_000)}\n`,
    });
    const before = process.cpuUsage();
    const { report } = await scanned(cwd, ['big.js', '--no-snippets']);
    assert.equal(report.summary.totalIssues, 10_000);
    assert.ok(process.cpuUsage(before).user < 30_000_000);
  });
});
