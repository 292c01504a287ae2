import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createConfig, lint } from '@redocly/openapi-core';
import { TypeCompiler } from '@sinclair/typebox/compiler';
import fc from 'fast-check';
import { EventSchema, parseEvent } from '../../lib/ingest/event.ts';
import {
  API_FILE,
  at,
  deref,
  isObject,
  nodes,
  PATHS,
  pointer,
  schemaAt,
  type Json,
  type JsonObject,
} from '../support/api-file.ts';
import { anyCharacter } from '../support/any-character.ts';

describe('the API file', () => {
  it('has no problem by the recommended rules of an OpenAPI linter', async () => {
    const config = await createConfig({ extends: ['recommended'] });
    const problems = await lint({ ref: API_FILE, config });
    assert.deepEqual(
      problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`),
      [],
    );
  });

  it('documents every path of the service, with HEAD for each GET and the same answers', () => {
    assert.deepEqual(
      PATHS.map(({ path, methods }) => `${path} ${methods.join(' ')}`),
      ['/events POST', '/events/{id} GET HEAD', '/health/live GET HEAD', '/health/ready GET HEAD', '/metrics GET HEAD'],
    );
    for (const { path } of PATHS.slice(1)) {
      const [head, get] = ['head', 'get'].map((method) => at(pointer('paths', path, method, 'responses')));
      assert.deepEqual(head, get, path);
    }
  });

  it('requires X-Request-Id and a length on every response, and Retry-After on every 503 and 429 problem', () => {
    for (const [from, response] of [...nodes('/components/responses'), ...nodes('/x-responses')]) {
      if (!isObject(response['content'])) continue;
      const headers = (response['headers'] ?? {}) as JsonObject;
      for (const name of ['X-Request-Id', 'Content-Length']) {
        assert.ok(isObject(headers[name]), `${from}: ${name}`);
        assert.equal((at(deref(`${from}/headers/${name}`)) as JsonObject)['required'], true);
      }
      assert.equal('Retry-After' in headers, /\/(Queue|LookUpUnavailable|RateLimited)/.test(from), from);
    }
  });

  it('has an example for every body, and all of them fit their schema', () => {
    let examples = 0;
    for (const [from, node] of nodes()) {
      if (!isObject(node['content']) || from.endsWith('/examples')) continue;
      for (const mediaType of Object.keys(node['content'])) {
        const media = from + pointer('content', mediaType);
        const check = schemaAt(`${media}/schema`, false);
        const named = Object.entries(at(`${media}/examples`) as Record<string, JsonObject>);
        assert.ok(named.length > 0, media);
        for (const [name, { value }] of named) {
          assert.ok(check(value), `${media} ${name}: ${JSON.stringify(check.errors)}`);
          examples += 1;
        }
      }
    }
    assert.ok(examples > 25, `${examples} examples`);
    for (const [from, node] of nodes('/components')) {
      if (!('example' in node) || !isObject(node['schema'])) continue;
      const check = schemaAt(`${from}/schema`);
      assert.ok(check(node['example']), `${from}: ${JSON.stringify(check.errors)}`);
    }
  });
});

function bare(schema: Json): Json {
  if (Array.isArray(schema)) return schema.map(bare);
  if (!isObject(schema)) return schema;
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([key]) => key !== 'description')
      .map(([key, value]) => [key, bare(value)]),
  );
}

// Pieces at the limits of the rules for strings: surrogate pairs, control characters, and lone surrogates.
const piece = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('a', 'Z', '0', '_', '-', '.', '..', 'é', '\u{1F600}', '\u{10FFFF}') },
  {
    weight: 1,
    arbitrary: fc.constantFrom('\u0000', '\n', '\u001f', '\u007f', '\u0080', '\ud800', '\udfff', '\udc00\ud800', ' '),
  },
);
const name = fc.oneof(
  fc.array(piece, { maxLength: 6 }).map((parts) => parts.join('')),
  fc
    .tuple(fc.constantFrom('a', '\u{1F600}', 'a.', '\ud800'), fc.constantFrom(127, 128, 129, 255, 256, 257))
    .map(([one, times]) => one.repeat(times)),
  fc.string({ unit: anyCharacter, maxLength: 300 }),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
);
const member = fc.oneof({ weight: 6, arbitrary: name }, { weight: 1, arbitrary: fc.jsonValue() });
const candidate = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record(
      { id: member, type: fc.oneof(fc.constant('a.b'), member), more: fc.jsonValue() },
      { requiredKeys: [] },
    ),
  },
  { weight: 1, arbitrary: fc.jsonValue() },
);

describe('the event of the API file and the event of the code', () => {
  const compiled = TypeCompiler.Compile(EventSchema);
  const documented = schemaAt('/components/schemas/Event');

  it('are the same schema', () => {
    assert.deepEqual(bare(JSON.parse(JSON.stringify(EventSchema)) as Json), bare(at('/components/schemas/Event')));
  });

  it('have the id and type that the answers show', () => {
    for (const [component, property] of Object.entries({ EventId: 'id', EventType: 'type' })) {
      const inEvent = at(`/components/schemas/Event/properties/${property}`);
      assert.deepEqual(bare(at(`/components/schemas/${component}`)), bare(inEvent));
    }
  });

  it('accept the same values, and the same bodies as text', () => {
    let accepted = 0;
    fc.assert(
      fc.property(candidate, (value) => {
        assert.equal(compiled.Check(value), documented(value));
        if (documented(value)) accepted += 1;
        // JSON.stringify escapes lone surrogates, so the body is valid UTF-8.
        const body = JSON.stringify(value);
        assert.equal(parseEvent(Buffer.from(body)).valid, documented(JSON.parse(body)));
      }),
      { numRuns: 5_000 },
    );
    assert.ok(accepted > 500, `only ${accepted} of 5000 values were events`);
  });
});
