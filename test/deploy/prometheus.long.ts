// The tests of the alerts, by promtool.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { alertRules, deployFile, ran, tool } from './deploy-files.ts';

const promtool = tool('promtool', 'prometheus');

describe('the alerts', () => {
  it('fire on their series, and are silent on healthy ones', () => {
    const { status, text } = ran(promtool, ['test', 'rules', 'alerts.test.yml']);
    assert.equal(status, 0, text);
    const tests = parse(deployFile('alerts.test.yml')) as {
      tests: { name: string; alert_rule_test: { alertname: string; exp_alerts?: unknown[] }[] }[];
    };
    const names = alertRules().flatMap(({ alert }) => alert ?? []);
    const fired = tests.tests.flatMap(({ alert_rule_test }) =>
      alert_rule_test.filter(({ exp_alerts }) => (exp_alerts ?? []).length > 0),
    );
    assert.deepEqual(
      names.filter((name) => !fired.some(({ alertname }) => alertname === name)),
      [],
      'alerts that no test has seen firing',
    );
    const healthy = tests.tests.find(({ name }) => name === 'healthy')?.alert_rule_test ?? [];
    assert.deepEqual(healthy.map(({ alertname }) => alertname).sort(), [...names].sort());
  });
});
