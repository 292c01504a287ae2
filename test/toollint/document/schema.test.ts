import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { memorySource, isReport, schema, validate } from '../../../lib/toollint/toollint.ts';
import { fullReport } from '../support/samples.ts';
import { toollint } from '../support/verbs.ts';

/** The members of the specification by their kind: '?' marks an optional one, '|' one that may be null. */
const KINDS = {
  string: `/tool/name /tool/version /execution/status /execution/diagnostics/0/kind /execution/diagnostics/0/message
    /execution/diagnostics/0/ruleId? /execution/diagnostics/0/relativePath? /scan/target/kind /scan/target/path
    /scan/timestamp /scan/profile| /gate/status /gate/name? /gate/message? /findings/0/ruleId /findings/0/severity
    /findings/0/message /findings/0/fingerprint /findings/0/fingerprintVersion /findings/0/location/scope
    /findings/0/location/path? /findings/0/suggestion? /findings/0/codeSnippet? /findings/0/category?
    /findings/0/issueType? /findings/0/docsUrl?`,
  number: '/schemaVersion /scan/durationMs',
  count: `/selection/baseline/newIssues /selection/baseline/unchanged /selection/baseline/fixed /summary/totalFiles
    /summary/totalIssues /summary/parseErrors /summary/ruleErrors /summary/bySeverity/error /summary/bySeverity/warning
    /summary/bySeverity/info`,
  boolean: '/scan/scopeKnown /selection/quiet',
  strings: '/scan/enabledRuleIds /scan/include /scan/exclude /findings/0/standardIds',
  object: `/tool /execution /scan /selection /gate /summary /scan/target| /selection/baseline? /summary/bySeverity
    /findings/0/location`,
  array: '/findings /execution/diagnostics',
  ordinal: '/findings/0/occurrence /findings/0/location/line? /findings/0/location/column?',
};
type Kind = keyof typeof KINDS;

/** More values of single members. */
const WRONG_VALUES: Record<string, unknown[]> = {
  '/schemaVersion': ['1', true, 2, 1.5, 0],
  '/execution/status': ['Complete', 'done', ''],
  '/execution/diagnostics/0/kind': ['warning', ''],
  '/scan/target/kind': ['dir', 'folder'],
  '/scan/durationMs': [-1, -0.001],
  '/gate/status': ['ok', 'PASSED'],
  '/findings/0/severity': ['fatal', 'Error'],
  '/findings/0/fingerprintVersion': ['toolLint/v2', 'muleLint/v1', ''],
  '/findings/0/location/scope': ['folder', 'Project'],
};
const VALUES: Record<string, unknown[]> = { '/scan/timestamp': ['', 'yesterday'], '/scan/durationMs': [0, -0, 0.25] };

const MEMBERS = (Object.entries(KINDS) as [Kind, string][]).flatMap(([kind, list]) =>
  list.split(/\s+/u).map((text) => {
    const pointer = text.replace(/[?|]$/u, '');
    const [wrong = [], values = []] = [WRONG_VALUES[pointer], VALUES[pointer]];
    return { pointer, kind, optional: text.endsWith('?'), nullable: text.endsWith('|'), wrong, values };
  }),
);

const WRONG: Record<Kind, unknown[]> = {
  string: [1, true, {}, []],
  number: ['1', true, {}, []],
  count: ['1', true, {}, []],
  boolean: [0, 'true', {}, []],
  strings: ['x', {}, [1], [null]],
  object: ['x', 1, true, [], [{}]],
  array: ['x', 1, {}, { length: 0 }],
  ordinal: ['5', true, {}, [], 0, -1, 1.5, 9007199254740992],
};

type Holder = Record<string, unknown>;

function changed(pointer: string, change: (holder: Holder, name: string) => void): Record<string, unknown> {
  const report = structuredClone(fullReport()) as unknown as Holder;
  const names = pointer.split('/').slice(1);
  const name = names.pop() ?? '';
  change(
    names.reduce<Holder>((holder, key) => holder[key] as Holder, report),
    name,
  );
  return report;
}

const without = (pointer: string) => changed(pointer, (holder, name) => delete holder[name]);
const having = (pointer: string, value: unknown) => changed(pointer, (holder, name) => (holder[name] = value));

function schemaPointers(report: unknown): string[] {
  const { schema, problems } = validate(memorySource(JSON.stringify(report), 'sample'));
  const found = problems.filter(({ level }) => level === 'schema');
  assert.equal(schema, found.length === 0 ? 'valid' : 'invalid');
  return found.map(({ pointer }) => pointer);
}

const isAt = (found: string[], pointer: string) =>
  found.length > 0 && found.every((other) => other === pointer || other.startsWith(`${pointer}/`));

describe('the schema of a report', () => {
  for (const { pointer, kind, optional, nullable, values, wrong } of MEMBERS) {
    it(`${optional ? 'allows' : 'names'} ${pointer} when it is missing`, () => {
      const found = schemaPointers(without(pointer));
      assert.deepEqual(found, optional ? [] : [pointer]);
    });

    it(`${nullable ? 'allows' : 'names'} ${pointer} when it is null`, () => {
      const found = schemaPointers(having(pointer, null));
      assert.deepEqual(found, nullable ? [] : [pointer]);
    });

    it(`names ${pointer} for every value that is none`, () => {
      for (const value of [...WRONG[kind], ...wrong]) {
        const report = having(pointer, value);
        const found = schemaPointers(report);
        assert.ok(isAt(found, pointer), `${JSON.stringify(value)} gave ${JSON.stringify(found)}`);
        assert.equal(isReport(report), false);
      }
      for (const value of values) assert.deepEqual(schemaPointers(having(pointer, value)), [], String(value));
    });
  }

  it('allows members that it does not name, everywhere', () => {
    for (const { pointer, kind } of MEMBERS) {
      if (kind !== 'object') continue;
      assert.deepEqual(schemaPointers(having(`${pointer}/added`, { deep: [1, 'x', null] })), [], pointer);
    }
    assert.deepEqual(schemaPointers(having('/added', [])), []);
    assert.deepEqual(schemaPointers(having('/findings/0/added', 1)), []);
    assert.deepEqual(schemaPointers(having('/execution/diagnostics/0/added', 1)), []);
  });

  it('does not accept a report inside another value', () => {
    for (const value of [[fullReport()], { report: fullReport() }, 'x', 1, null, true]) {
      assert.notEqual(schemaPointers(value).length, 0);
      assert.equal(isReport(value), false);
    }
  });
});

describe('the published JSON Schema', () => {
  it('is the committed file', async () => {
    const file = new URL('../../../openapi/code-analysis-report.schema.json', import.meta.url);
    assert.equal(await readFile(file, 'utf8'), (await toollint(['schema'])).stdout);
  });

  it('accepts and refuses the same documents as the validator', () => {
    const check = new Ajv2020({ strict: true, allErrors: true }).compile(schema());
    assert.equal(check(fullReport()), true);
    for (const { pointer, kind, wrong, values } of MEMBERS) {
      for (const report of [
        without(pointer),
        ...[null, ...WRONG[kind], ...wrong, ...values].map((value) => having(pointer, value)),
      ]) {
        assert.equal(
          check(report),
          schemaPointers(report).length === 0,
          `${pointer}: ${JSON.stringify(report).slice(0, 80)}`,
        );
      }
    }
  });
});
