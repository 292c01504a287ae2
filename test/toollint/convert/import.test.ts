import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { importReports, Interrupted, memorySource, type Report, validate } from '../../../lib/toollint/toollint.ts';

const fixture = (name: string) => readFileSync(new URL(`fixtures/${name}`, import.meta.url), 'utf8');

const imported = async (text: string): Promise<Report> => {
  const options = { root: '/', timestamp: '2026-01-01T00:00:00Z' };
  const { report } = await importReports([memorySource(text, 'x')], options);
  assert.deepEqual(validate(memorySource(JSON.stringify(report), 'x')).problems, []);
  return report;
};
describe('the import of SARIF', () => {
  const sarif = (results: object[], driver: object = {}) =>
    JSON.stringify({
      version: '2.1.0',
      runs: [{ tool: { driver: { name: 'lint', version: '1', ...driver } }, results }],
    });
  const at = { physicalLocation: { artifactLocation: { uri: 'a.c' }, region: { startLine: 1 } } };
  const result = (change: object = {}) => ({ ruleId: 'r', message: { text: 'm' }, locations: [at], ...change });

  it('treats null as an absent member wherever it is optional', async () => {
    const whole = JSON.parse(fixture('ruff.sarif')) as { runs: { results: object[] }[] };
    Object.assign(whole.runs[0] ?? {}, {
      results: whole.runs[0]?.results.slice(0, 2),
      artifacts: [{ location: { uri: 'a.c' } }],
      invocations: [{ executionSuccessful: true, toolExecutionNotifications: [{ message: { text: 'x' } }] }],
      originalUriBaseIds: { B: { uri: 'b/' } },
    });
    const { length } = (await imported(JSON.stringify(whole))).findings;
    const REQUIRED = new Set(['version', 'tool', 'driver', 'name', 'id']);
    const check = async (owner: object) => {
      for (const [name, value] of Object.entries(owner) as [string, unknown][]) {
        if (typeof value === 'object' && value !== null) await check(value);
        if (REQUIRED.has(name) || Array.isArray(owner)) continue;
        Object.assign(owner, { [name]: null });
        const { findings } = await imported(JSON.stringify(whole));
        assert.equal(findings.length, name === 'results' || name === 'runs' ? 0 : length, name);
        Object.assign(owner, { [name]: value });
      }
    };
    await check(whole);
  });

  it('reads 20,000 results of 3,000 rules in a time that does not depend on their product', async () => {
    const rules = Array.from({ length: 3000 }, (_, index) => ({ id: `r${index}` }));
    const results = Array.from({ length: 20_000 }, (_, index) => result({ ruleId: `r${index % 3000}/part` }));
    const log = sarif(results, { rules });
    const before = process.cpuUsage();
    assert.equal((await imported(log)).findings.length, 20_000);
    const { user, system } = process.cpuUsage(before);
    assert.ok(user + system < 4_000_000, `${(user + system) / 1e6} s of CPU time`);
  });

  it('ends with its signal, at any time', async () => {
    const log = memorySource(sarif(Array.from({ length: 100_000 }, () => result())), 'x');
    for (const delayMs of [0, 1, 100]) {
      const interrupt = new AbortController();
      setTimeout(() => interrupt.abort(), delayMs);
      await assert.rejects(importReports([log], { root: '/', signal: interrupt.signal }), Interrupted);
    }
  });

  it('bounds a message that its arguments make long', async () => {
    const message = { text: '{0}'.repeat(200_000), arguments: ['x'.repeat(5000)] };
    const { findings } = await imported(sarif([result({ message })]));
    assert.ok((findings[0]?.message.length ?? 0) < 20_000);
  });
});
