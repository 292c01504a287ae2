// The overlay of RFC 014: a good overlay, which makes a good API file of the one there is, and changes the 202 of POST
// /events alone.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, it } from 'node:test';
import { createConfig, lint } from '@redocly/openapi-core';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { openapiOverlay } from 'openapi-format';
import { parse, stringify } from 'yaml';
import { temporaryFolder } from '../support/scope.ts';

const FOLDER = new URL('../../openapi/', import.meta.url).pathname;
const OVERLAY = join(FOLDER, 'events.rfc014.overlay.yaml');

type Json = Readonly<Record<string, unknown>>;

const read = (path: string): Json => parse(readFileSync(path, 'utf8')) as Json;

/** The value at a path of names. */
const at = (document: Json, ...path: readonly string[]): Json =>
  path.reduce<Json>((value, name) => value[name] as Json, document);

const RESPONSE = ['components', 'responses', 'Accepted'];

async function faults(path: string): Promise<string[]> {
  // As for the API file itself: references from extensions are not seen.
  const config = await createConfig({ extends: ['recommended'], rules: { 'no-unused-components': 'off' } });
  const found = await lint({ ref: path, config });
  return found.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`);
}

describe('the overlay of RFC 014', () => {
  const base = read(join(FOLDER, 'events.yaml'));
  let applied: Json;
  before(async () => {
    const outcome = (await openapiOverlay(structuredClone(base), { overlaySet: read(OVERLAY) as never })) as {
      readonly data: Json;
      readonly resultData: { readonly unusedActions: unknown };
    };
    applied = outcome.data;
    assert.deepEqual(outcome.resultData.unusedActions, [], 'every action has a target');
  });

  it('has no problem by the recommended rules of a linter, and extends the API file', async () => {
    assert.deepEqual(await faults(OVERLAY), []);
    assert.equal(read(OVERLAY)['extends'], './events.yaml');
  });

  it('makes an API file of it that has no problem either', async () => {
    const path = join(temporaryFolder(), 'applied.yaml');
    writeFileSync(path, stringify(applied));
    assert.deepEqual(await faults(path), []);
  });

  it('changes the 202 of POST /events, and nothing else', () => {
    const rest = structuredClone(applied) as { components: { schemas: Record<string, unknown> } };
    delete rest.components.schemas['Shed'];
    const post = at(rest, 'paths', '/events', 'post') as Record<string, unknown>;
    delete post['x-proposal'];
    const responses = at(rest, 'components', 'responses') as Record<string, unknown>;
    responses['Accepted'] = at(base, ...RESPONSE);
    assert.deepEqual(rest, base);
  });

  it('takes what the gateway answers with and without it, and no mixture', () => {
    const ajv = new Ajv2020({ strict: false, formats: { 'date-time': true } });
    const check = ajv.compile({
      ...at(applied, ...RESPONSE, 'content', 'application/json', 'schema'),
      components: at(applied, 'components'),
    });
    const shed = { id: 'a', status: 'shed', code: 'INGEST_SHED', retryable: true };
    for (const good of [{ id: 'a', status: 'accepted' }, { id: 'a', status: 'accepted', duplicate: true }, shed])
      assert.ok(check(good), JSON.stringify(check.errors));
    for (const bad of [
      { id: 'a', status: 'shed' },
      { ...shed, retryable: false },
      { ...shed, code: 'OTHER' },
    ])
      assert.ok(!check(bad), JSON.stringify(bad));
    const examples = at(applied, ...RESPONSE, 'content', 'application/json', 'examples');
    assert.deepEqual(Object.keys(examples), ['accepted', 'duplicate', 'differing', 'shed']);
    for (const [name, { value }] of Object.entries(examples as Record<string, { value: unknown }>))
      assert.ok(check(value), name);
  });
});
