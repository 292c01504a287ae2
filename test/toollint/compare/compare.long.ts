// Comparing two reports of many findings.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sampleFinding, sampleReport } from '../support/samples.ts';
import { compared } from './compare.ts';

describe('comparing reports', () => {
  it('stays linear with 100,000 equal findings', async () => {
    const many = (count: number, shift: number) =>
      sampleReport(Array.from({ length: count }, (_, index) => sampleFinding({ line: index + 1 + shift })));
    const costOf = async (count: number) => {
      const before = process.cpuUsage();
      assert.deepEqual((await compared(many(count, 0), many(count + 1, count / 2))).counts, [1, count, 0]);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    await costOf(1000);
    // Ten times the findings: about ten times the work, where pairing each with each would be a hundred times.
    const [small, large] = [await costOf(10_000), await costOf(100_000)];
    assert.ok(large < small * 30, `${small} ${large}`);
  });
});
