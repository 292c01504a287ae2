// The description of a gate: what is taken, what is refused, and the sentence for each refusal.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ReportFailure } from '../../../lib/toollint/document/failure.ts';
import { BUILT_IN_GATES, chosenGate, type GateConfig, parseGates } from '../../../lib/toollint/gate/gate-config.ts';

const good = { metric: 'errors', op: '>', threshold: 0, level: 'fail' };
const own = (conditions: unknown = [good]) => ({ name: 'own', conditions });
const parsed = (value: unknown) => parseGates(JSON.stringify(value), 'gate.json');
const refuses = (work: () => unknown, message: string) =>
  assert.throws(work, (error) => {
    assert.ok(error instanceof ReportFailure);
    assert.deepEqual([error.code, error.message], ['gate', message]);
    return true;
  });
const limit = (metric: string, threshold: number, level = 'fail') => ({ metric, op: '>', threshold, level });

describe('the file with gates', () => {
  it('holds one gate, a list of gates, or an object with the list', () => {
    const expected: GateConfig[] = [
      { name: 'own', conditions: [{ metric: 'errors', op: '>', threshold: 0, level: 'fail' }] },
    ];
    assert.deepEqual(parsed(own()), expected);
    assert.deepEqual(parsed([own()]), expected);
    assert.deepEqual(parsed({ gates: [own()] }), expected);
    assert.deepEqual(
      parsed([own([]), { name: 'two', conditions: [] }]).map(({ name }) => name),
      ['own', 'two'],
    );
  });

  it('takes every metric, operator and level, and the largest threshold', () => {
    for (const metric of ['errors', 'warnings', 'infos', 'issues', 'newIssues', 'newErrors', 'fixed', 'parseErrors'])
      assert.equal(parsed(own([{ ...good, metric }]))[0]?.conditions[0]?.metric, metric);
    for (const metric of ['ruleErrors', 'files', 'rule:a', 'rule:\n', 'category:x:y'])
      assert.equal(parsed(own([{ ...good, metric }]))[0]?.conditions[0]?.metric, metric);
    for (const op of ['>', '>=', '<', '<=', '==', '!='])
      assert.equal(parsed(own([{ ...good, op }]))[0]?.conditions[0]?.op, op);
    for (const level of ['fail', 'warn'])
      assert.equal(parsed(own([{ ...good, level }]))[0]?.conditions[0]?.level, level);
    for (const threshold of [0, 1, Number.MAX_SAFE_INTEGER])
      assert.equal(parsed(own([{ ...good, threshold }]))[0]?.conditions[0]?.threshold, threshold);
  });

  it('is refused with the place and the reason', () => {
    const condition = (change: object) => own([{ ...good, ...change }]);
    const at = "gate.json: gate 'own'";
    const cases: [unknown, string][] = [
      [[], 'gate.json has no gate'],
      [{ gates: [] }, 'gate.json has no gate'],
      ['x', 'gate.json: a gate is an object with name and conditions'],
      [null, 'gate.json: a gate is an object with name and conditions'],
      [[[]], 'gate.json: a gate is an object with name and conditions'],
      [{ gates: 1 }, "gate.json: a gate has no member 'gates'"],
      [{ ...own(), more: 1 }, "gate.json: a gate has no member 'more'"],
      [{ name: 'own' }, "gate.json: the gate 'own' needs a list of conditions"],
      [{ conditions: [] }, 'gate.json: a gate needs a name'],
      [{ name: ' ', conditions: [] }, 'gate.json: a gate needs a name'],
      [{ name: 7, conditions: [] }, 'gate.json: a gate needs a name'],
      [[own(), own()], "gate.json: the gate name 'own' is taken"],
      [{ name: 'strict', conditions: [] }, "gate.json: the gate name 'strict' is taken"],
      [own([1]), `${at}: a condition is an object`],
      [own([null]), `${at}: a condition is an object`],
      [own([[]]), `${at}: a condition is an object`],
      [condition({ treshold: 1 }), `${at}: a condition has no member 'treshold'`],
      [condition({ metric: 'bugs' }), `${at}: unknown metric "bugs"`],
      [condition({ metric: 'errorss' }), `${at}: unknown metric "errorss"`],
      [condition({ metric: 'rule:' }), `${at}: unknown metric "rule:"`],
      [condition({ metric: 'a rule:x' }), `${at}: unknown metric "a rule:x"`],
      [condition({ metric: 7 }), `${at}: unknown metric 7`],
      [condition({ metric: ['rule:x'] }), `${at}: unknown metric ["rule:x"]`],
      [condition({ op: '~' }), `${at}: unknown op "~": known are > >= < <= == !=`],
      [condition({ op: undefined }), `${at}: unknown op (missing): known are > >= < <= == !=`],
      [condition({ level: 'error' }), `${at}: unknown level "error": known are fail warn`],
      [condition({ threshold: -1 }), `${at}: the threshold of errors must be an integer of 0 or more`],
      [condition({ threshold: 1.5 }), `${at}: the threshold of errors must be an integer of 0 or more`],
      [condition({ threshold: '1' }), `${at}: the threshold of errors must be an integer of 0 or more`],
      [condition({ threshold: 2 ** 53 }), `${at}: the threshold of errors must be an integer of 0 or more`],
    ];
    for (const [value, message] of cases) refuses(() => parsed(value), message);
    refuses(() => parseGates('{', 'gate.json'), 'gate.json is not JSON');
  });
});

describe('the gate that is chosen', () => {
  const config = (...names: string[]) => ({
    text: JSON.stringify(names.map((name) => ({ name, conditions: [good] }))),
    file: 'gate.json',
  });

  it('is none when none was asked for', () => {
    assert.equal(chosenGate({}), undefined);
    assert.equal(chosenGate({ limits: {} }), undefined);
  });

  it('is one of the built-in gates by its name', () => {
    assert.deepEqual(
      BUILT_IN_GATES.map(({ name }) => [name, chosenGate({ name })]),
      [
        ['default', { name: 'default', conditions: [limit('errors', 0), limit('warnings', 0, 'warn')] }],
        [
          'strict',
          {
            name: 'strict',
            conditions: ['errors', 'warnings', 'infos', 'ruleErrors'].map((metric) => limit(metric, 0)),
          },
        ],
        ['new-code', { name: 'new-code', conditions: [limit('newIssues', 0)] }],
      ],
    );
  });

  it('is the only one of the file, or the named one', () => {
    assert.equal(chosenGate({ config: config('a') })?.name, 'a');
    assert.equal(chosenGate({ config: config('a', 'b'), name: 'b' })?.name, 'b');
    assert.equal(chosenGate({ config: config('a'), name: 'strict' })?.name, 'strict');
    refuses(() => chosenGate({ config: config('a', 'b') }), 'gate.json has 2 gates: choose one with --gate');
    refuses(
      () => chosenGate({ config: config('a'), name: 'c' }),
      "unknown gate 'c': known are default, strict, new-code, a",
    );
    refuses(() => chosenGate({ name: '' }), "unknown gate '': known are default, strict, new-code");
  });

  it('has the limits of the command line after its own conditions', () => {
    const limits = { warnings: 3, newIssues: 0 };
    const conditions = [limit('warnings', 3), limit('newIssues', 0)];
    assert.deepEqual(chosenGate({ limits }), { name: 'cli', conditions });
    assert.deepEqual(chosenGate({ limits, config: config('a') }), { name: 'a', conditions: [good, ...conditions] });
    refuses(() => chosenGate({ limits: { errors: -1 } }), 'the limit of errors must be an integer of 0 or more');
  });
});
