import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { CATALOGUE, ERROR_CODES, problemType } from '../../lib/ingest/errors.ts';
import { at, deref, isObject, pointer, type JsonObject } from '../support/api-file.ts';

const HEADING = '| status | code | retryable | when |';
const entries = Object.values(CATALOGUE);
const rows = entries.map(({ status, code, retryable, when }) => `| ${status} | \`${code}\` | ${retryable} | ${when} |`);

function tableIn(text: string): string[] {
  const lines = text.split('\n');
  const from = lines.indexOf(HEADING);
  assert.notEqual(from, -1, `no table headed ${HEADING}`);
  assert.equal(lines[from + 1], '|---|---|---|---|');
  const after = lines.slice(from + 2);
  const end = after.findIndex((line) => !line.startsWith('|'));
  return end === -1 ? after : after.slice(0, end);
}

interface DocumentedProblem {
  readonly status: number;
  readonly code: string;
  readonly retryable: boolean;
  readonly title: string;
  readonly type: string;
  readonly retryAfter: boolean;
}

function documentedProblems(): DocumentedProblem[] {
  const problems: DocumentedProblem[] = [];
  const responses = ['/components/responses', '/x-responses'].flatMap((from) =>
    Object.keys(at(from) as JsonObject).map((name) => from + pointer(name)),
  );
  for (const response of responses) {
    const media = response + pointer('content', 'application/problem+json');
    if (!isObject(at(media))) continue;
    const schema = deref(`${media}/schema`);
    const alternatives = at(`${schema}/oneOf`);
    const schemas = Array.isArray(alternatives)
      ? alternatives.map((_, index) => deref(`${schema}/oneOf/${index}`))
      : [schema];
    const retryAfter = isObject(at(response + pointer('headers', 'Retry-After')));
    for (const from of schemas) {
      const constant = (member: string): unknown => at(`${from}/properties/${member}/const`);
      problems.push({
        status: constant('status') as number,
        code: constant('code') as string,
        retryable: constant('retryable') as boolean,
        title: constant('title') as string,
        type: constant('type') as string,
        retryAfter,
      });
    }
  }
  return problems;
}

const byText = (list: readonly object[]): string[] => [...new Set(list.map((one) => JSON.stringify(one)))].sort();

describe('the error catalogue', () => {
  it('equals the table in the API file', () => {
    assert.deepEqual(tableIn((at('/info') as { description: string }).description), rows);
  });

  it("equals the table of the producers' page, which says what to do about each error", () => {
    const text = readFileSync(new URL('../../openapi/PRODUCERS.md', import.meta.url), 'utf8');
    const from = text.indexOf('| status | code | retryable | when | do this |');
    const table = text
      .slice(from)
      .split('\n')
      .slice(2, 2 + rows.length + 1);
    assert.equal(table.pop(), '', 'no row more');
    for (const [at, row] of rows.entries())
      assert.match(table[at]?.slice(row.length) ?? '', /^ [A-Z].*\. \|$|^ [A-Z].*[a-z}`] \|$/, row);
    assert.deepEqual(
      table.map((row, at) => row.slice(0, rows[at]?.length)),
      rows,
    );
  });

  it('equals the problems in the responses of the API file', () => {
    const catalogued = entries.map(({ status, code, retryable, title, retryAfterS }) => ({
      status,
      code,
      retryable,
      title,
      type: problemType(code),
      retryAfter: retryAfterS !== undefined,
    }));
    assert.deepEqual(byText(documentedProblems()), byText(catalogued));
  });

  it('lists the code of every row once', () => {
    assert.equal(new Set(ERROR_CODES).size, ERROR_CODES.length);
    assert.deepEqual(new Set(ERROR_CODES), new Set(entries.map(({ code }) => code)));
  });

  it('has a Retry-After for every 503 and 429', () => {
    for (const { status, retryAfterS } of entries)
      assert.equal(retryAfterS !== undefined, status === 503 || status === 429, String(status));
  });

  it('has one title for each status and code', () => {
    assert.equal(new Set(entries.map(({ status, code }) => `${status} ${code}`)).size, entries.length);
    assert.equal(new Set(entries.map(({ title }) => title)).size, entries.length);
  });
});
