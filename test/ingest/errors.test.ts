import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { CATALOGUE, problemType } from '../../lib/ingest/errors.ts';
import { at, deref, isObject, pointer, type JsonObject } from '../support/api-file.ts';

const HEADING = '| status | code | retryable | when |';
const entries = Object.values(CATALOGUE);

function tableIn(text: string, lastColumn: string): string[] {
  const lines = text.split('\n');
  const from = lines.indexOf(HEADING + lastColumn);
  assert.notEqual(from, -1, `no table headed ${HEADING}${lastColumn}`);
  const after = lines.slice(from + 2);
  const end = after.findIndex((line) => !line.startsWith('|'));
  return end === -1 ? after : after.slice(0, end);
}

const CONSTANTS = ['status', 'code', 'retryable', 'title', 'type'];

function documentedProblems(): object[] {
  const problems: object[] = [];
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
      const constants = CONSTANTS.map((member) => [member, at(`${from}/properties/${member}/const`)]);
      problems.push({ ...(Object.fromEntries(constants) as object), retryAfter });
    }
  }
  return problems;
}

const byText = (list: readonly object[]): string[] => [...new Set(list.map((one) => JSON.stringify(one)))].sort();

describe('the error catalogue', () => {
  it("equals the table in the API file, and that of the producers' page, which says what to do about each error", () => {
    const api = tableIn((at('/info') as { description: string }).description, '');
    assert.deepEqual(
      api.map((line) => line.split(' | ').slice(0, 3).join(' | ')),
      entries.map(({ status, code, retryable }) => `| ${status} | \`${code}\` | ${retryable}`),
    );
    const page = readFileSync(new URL('../../openapi/PRODUCERS.md', import.meta.url), 'utf8');
    const advised = tableIn(page, ' do this |');
    assert.equal(advised.length, api.length);
    for (const [row, line] of api.entries()) {
      const [same, advice] = [advised[row]?.slice(0, line.length), advised[row]?.slice(line.length) ?? ''];
      assert.equal(same, line);
      assert.match(advice, /^ [A-Z].*\. \|$|^ [A-Z].*[a-z}`] \|$/, line);
    }
  });

  it('equals the problems in the responses of the API file', () => {
    const catalogued = entries.map(({ status, code, retryable, title }) => ({
      ...{ status, code, retryable, title, type: problemType(code) },
      retryAfter: status === 503 || status === 429,
    }));
    assert.deepEqual(byText(documentedProblems()), byText(catalogued));
    assert.equal(new Set(entries.map(({ title }) => title)).size, entries.length, 'each has a title of its own');
  });
});
