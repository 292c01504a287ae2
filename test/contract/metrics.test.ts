import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { consumerMetrics } from '../../lib/consumer/metrics.ts';
import { gatewayMetrics } from '../../lib/gateway/metrics.ts';
import { SYSTEM } from '../support/system.ts';

const PAGE = readFileSync('deploy/operate.md', 'utf8');

const namesIn = (text: string): readonly string[] => [...new Set(text.match(/\bingest_[a-z_]+[a-z]\b/g))].sort();

const section = (heading: string): string => PAGE.split(`\n${heading}\n`)[1]?.split(/\n#+ /)[0] ?? '';

const served = async (registry: { metrics(): Promise<string> }): Promise<readonly string[]> =>
  [...(await registry.metrics()).matchAll(/^# HELP (ingest_\w+)/gm)].map(([, name = '']) => name).sort();

describe('deploy/operate.md', () => {
  for (const [program, { registry }] of Object.entries({
    gateway: gatewayMetrics(SYSTEM.clock),
    consumer: consumerMetrics(SYSTEM.clock),
  }))
    it(`lists the metrics of the ${program}`, async () =>
      assert.deepEqual(namesIn(section(`### Metrics of the ${program}`)), await served(registry)));
});
