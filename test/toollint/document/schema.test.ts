import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { memorySource, isReport, validate } from '../../../lib/toollint/toollint.ts';
import { schemaText } from '../../../lib/toollint/command/documents.ts';
import { fullReport } from '../support/samples.ts';

type Kind = 'string' | 'number' | 'count' | 'boolean' | 'strings' | 'object' | 'array' | 'ordinal';
interface Member {
  pointer: string;
  kind: Kind;
  optional?: true;
  nullable?: true;
  values?: unknown[];
  wrong?: unknown[];
}

const MEMBERS: Member[] = [
  { pointer: '/schemaVersion', kind: 'number', wrong: ['1', true, 2, 1.5, 0] },
  { pointer: '/tool', kind: 'object' },
  { pointer: '/execution', kind: 'object' },
  { pointer: '/scan', kind: 'object' },
  { pointer: '/selection', kind: 'object' },
  { pointer: '/gate', kind: 'object' },
  { pointer: '/summary', kind: 'object' },
  { pointer: '/findings', kind: 'array' },
  { pointer: '/tool/name', kind: 'string' },
  { pointer: '/tool/version', kind: 'string' },
  { pointer: '/execution/status', kind: 'string', wrong: ['Complete', 'done', ''] },
  { pointer: '/execution/diagnostics', kind: 'array' },
  { pointer: '/execution/diagnostics/0/kind', kind: 'string', wrong: ['warning', ''] },
  { pointer: '/execution/diagnostics/0/message', kind: 'string' },
  { pointer: '/execution/diagnostics/0/ruleId', kind: 'string', optional: true },
  { pointer: '/execution/diagnostics/0/relativePath', kind: 'string', optional: true },
  { pointer: '/scan/scopeKnown', kind: 'boolean' },
  { pointer: '/scan/target', kind: 'object', nullable: true },
  { pointer: '/scan/target/kind', kind: 'string', wrong: ['dir', 'folder'] },
  { pointer: '/scan/target/path', kind: 'string' },
  { pointer: '/scan/timestamp', kind: 'string', values: ['', 'yesterday'] },
  { pointer: '/scan/durationMs', kind: 'number', values: [0, -0, 0.25], wrong: [-1, -0.001] },
  { pointer: '/scan/profile', kind: 'string', nullable: true },
  { pointer: '/scan/enabledRuleIds', kind: 'strings' },
  { pointer: '/scan/include', kind: 'strings' },
  { pointer: '/scan/exclude', kind: 'strings' },
  { pointer: '/selection/quiet', kind: 'boolean' },
  { pointer: '/selection/baseline', kind: 'object', optional: true },
  { pointer: '/selection/baseline/newIssues', kind: 'count' },
  { pointer: '/selection/baseline/unchanged', kind: 'count' },
  { pointer: '/selection/baseline/fixed', kind: 'count' },
  { pointer: '/gate/status', kind: 'string', wrong: ['ok', 'PASSED'] },
  { pointer: '/gate/name', kind: 'string', optional: true },
  { pointer: '/gate/message', kind: 'string', optional: true },
  { pointer: '/summary/totalFiles', kind: 'count' },
  { pointer: '/summary/totalIssues', kind: 'count' },
  { pointer: '/summary/parseErrors', kind: 'count' },
  { pointer: '/summary/ruleErrors', kind: 'count' },
  { pointer: '/summary/bySeverity', kind: 'object' },
  { pointer: '/summary/bySeverity/error', kind: 'count' },
  { pointer: '/summary/bySeverity/warning', kind: 'count' },
  { pointer: '/summary/bySeverity/info', kind: 'count' },
  { pointer: '/findings/0/ruleId', kind: 'string' },
  { pointer: '/findings/0/severity', kind: 'string', wrong: ['fatal', 'Error'] },
  { pointer: '/findings/0/message', kind: 'string' },
  { pointer: '/findings/0/fingerprint', kind: 'string' },
  { pointer: '/findings/0/fingerprintVersion', kind: 'string', wrong: ['toolLint/v2', 'muleLint/v1', ''] },
  { pointer: '/findings/0/occurrence', kind: 'ordinal' },
  { pointer: '/findings/0/location', kind: 'object' },
  { pointer: '/findings/0/location/scope', kind: 'string', wrong: ['folder', 'Project'] },
  { pointer: '/findings/0/location/path', kind: 'string', optional: true },
  { pointer: '/findings/0/location/line', kind: 'ordinal', optional: true },
  { pointer: '/findings/0/location/column', kind: 'ordinal', optional: true },
  { pointer: '/findings/0/suggestion', kind: 'string', optional: true },
  { pointer: '/findings/0/codeSnippet', kind: 'string', optional: true },
  { pointer: '/findings/0/category', kind: 'string', optional: true },
  { pointer: '/findings/0/issueType', kind: 'string', optional: true },
  { pointer: '/findings/0/standardIds', kind: 'strings' },
  { pointer: '/findings/0/docsUrl', kind: 'string', optional: true },
];

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
  for (const member of MEMBERS) {
    const { pointer, optional, nullable, values = [], wrong = [] } = member;

    it(`${optional === true ? 'allows' : 'names'} ${pointer} when it is missing`, () => {
      const found = schemaPointers(without(pointer));
      assert.deepEqual(found, optional === true ? [] : [pointer]);
    });

    it(`${nullable === true ? 'allows' : 'names'} ${pointer} when it is null`, () => {
      const found = schemaPointers(having(pointer, null));
      assert.deepEqual(found, nullable === true ? [] : [pointer]);
    });

    it(`names ${pointer} for every value that is none`, () => {
      for (const value of [...WRONG[member.kind], ...wrong]) {
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
    assert.equal(await readFile(file, 'utf8'), schemaText());
  });

  it('accepts and refuses the same documents as the validator', () => {
    const check = new Ajv2020({ strict: true, allErrors: true }).compile(JSON.parse(schemaText()) as object);
    assert.equal(check(fullReport()), true);
    for (const { pointer, kind, wrong = [], values = [] } of MEMBERS) {
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
