import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { createConfig, lint } from '@redocly/openapi-core';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { openapiOverlay } from 'openapi-format';
import { parse, stringify } from 'yaml';
import { temporaryFolder } from '../support/scope.ts';

const FOLDER = new URL('../../openapi/', import.meta.url).pathname;

type Json = Readonly<Record<string, unknown>>;

const base = (): Json => read(join(FOLDER, 'events.yaml'));

const read = (path: string): Json => parse(readFileSync(path, 'utf8')) as Json;

const at = (document: Json, ...path: readonly string[]): Json =>
  path.reduce<Json>((value, name) => value[name] as Json, document);

const RESPONSE = ['components', 'responses', 'Accepted'];

async function faults(path: string): Promise<string[]> {
  // The linter does not follow references in extensions, so it would report components that are in use.
  const config = await createConfig({ extends: ['recommended'], rules: { 'no-unused-components': 'off' } });
  const found = await lint({ ref: path, config });
  return found.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`);
}

async function apply(overlay: string): Promise<Json> {
  const outcome = (await openapiOverlay(base(), { overlaySet: read(join(FOLDER, overlay)) as never })) as {
    readonly data: Json;
    readonly resultData: { readonly unusedActions: unknown };
  };
  assert.deepEqual(outcome.resultData.unusedActions, [], 'every action has a target');
  return outcome.data;
}

for (const overlay of ['events.rfc014.overlay.yaml', 'events.cloudevents.overlay.yaml'])
  it(`${overlay} has no problem by the rules of a linter, and makes an API file without one`, async () => {
    assert.deepEqual(await faults(join(FOLDER, overlay)), []);
    assert.equal(read(join(FOLDER, overlay))['extends'], './events.yaml');
    const path = join(temporaryFolder(), 'applied.yaml');
    writeFileSync(path, stringify(await apply(overlay)));
    assert.deepEqual(await faults(path), []);
  });

it('the overlay of CloudEvents adds the two modes to POST /events, which accepts only JSON without it', async () => {
  const modes = (document: Json): readonly unknown[] => {
    const post = at(document, 'paths', '/events', 'post');
    const names = (post['parameters'] as readonly Json[]).map(({ name }) => String(name));
    return [Object.keys(at(post, 'requestBody', 'content')), names.filter((name) => name.startsWith('ce-'))];
  };
  assert.deepEqual(modes(base()), [['application/json'], []]);
  assert.deepEqual(modes(await apply('events.cloudevents.overlay.yaml')), [
    ['application/json', 'application/cloudevents+json', '*/*'],
    ['ce-specversion', 'ce-id', 'ce-source', 'ce-type'],
  ]);
});

describe('the overlay of RFC 014', async () => {
  const applied = await apply('events.rfc014.overlay.yaml');

  it('changes the 202 of POST /events, and nothing else', () => {
    const rest = structuredClone(applied) as { components: { schemas: Record<string, unknown> } };
    delete rest.components.schemas['Shed'];
    const post = at(rest, 'paths', '/events', 'post') as Record<string, unknown>;
    delete post['x-proposal'];
    const responses = at(rest, 'components', 'responses') as Record<string, unknown>;
    responses['Accepted'] = at(base(), ...RESPONSE);
    assert.deepEqual(rest, base());
  });

  it('accepts the answers of either gateway, and no mixture', () => {
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
