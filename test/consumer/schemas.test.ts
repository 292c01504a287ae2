import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { checkSchemas, readSchema, WatchedSchemas } from '../../lib/consumer/schemas.ts';
import { erasedBody } from '../../lib/ingest/erased.ts';
import type { Log } from '../../lib/process/log.ts';
import { StartFailure } from '../../lib/process/program.ts';
import { WITHIN_MS } from '../support/deadline.ts';
import { atEnd, eventually, temporaryFolder } from '../support/scope.ts';
import { SYSTEM } from '../support/system.ts';

const PAID = { type: 'object', properties: { cents: { type: 'integer' } }, required: ['cents'] };

function folderOf(files: Readonly<Record<string, unknown>>): string {
  const folder = temporaryFolder();
  for (const [name, content] of Object.entries(files))
    writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  return folder;
}

interface Opened {
  readonly schemas: WatchedSchemas;
  readonly logged: string[];
  readonly outcomes: boolean[];
}

async function open(folder: string): Promise<Opened> {
  const logged: string[] = [];
  const outcomes: boolean[] = [];
  const line = (fields: Readonly<Record<string, unknown>>, text: string): void =>
    void logged.push(`${text} ${JSON.stringify(fields)}`);
  const schemas = await WatchedSchemas.open(folder);
  assert.ok(schemas !== undefined);
  const log = { info: line, error: line } as unknown as Log;
  schemas.watch({ clock: SYSTEM.clock, log, onOutcome: (current) => void outcomes.push(current) });
  atEnd(() => schemas.stop());
  return { schemas, logged, outcomes };
}

const problems = async (schema: object, event: unknown): Promise<readonly string[] | undefined> => {
  const { schemas } = await open(folderOf({ 't.json': schema }));
  return schemas.problemsOf('t', Buffer.from(typeof event === 'string' ? event : JSON.stringify(event)));
};

describe('the schema of an event type', () => {
  it('applies to events of its type only', async () => {
    const { schemas } = await open(folderOf({ 'order.paid.json': PAID, 'README.md': 'no schema' }));
    const check = (type: string, event: object) => schemas.problemsOf(type, Buffer.from(JSON.stringify(event)));
    assert.deepEqual(check('order.paid', { cents: 1 }), []);
    assert.deepEqual(check('order.paid', { cents: 'é' }), ['/cents must be integer']);
    assert.deepEqual(check('order.paid', {}), ["must have required property 'cents'"]);
    assert.equal(check('order', {}), undefined);
  });

  it('does not apply to erased events', async () => {
    const { schemas } = await open(folderOf({ 'order.paid.json': PAID }));
    assert.equal(schemas.problemsOf('order.paid', Buffer.from(erasedBody('one', 'order.paid'))), undefined);
  });

  it('may refer to other files by their names', async () => {
    const line = { $defs: { cents: { type: 'integer' } } };
    const placed = { properties: { cents: { $ref: 'order.line.json#/$defs/cents' } } };
    const folder = folderOf({ 'order.line.json': line, 'order.placed.json': placed, 'broken.json': '{' });
    const { schemas } = await open(folder);
    const tried = await readSchema(join(folder, 'order.placed.json'));
    for (const check of [tried, (body: Buffer) => schemas.problemsOf('order.placed', body)])
      assert.deepEqual(check(Buffer.from('{"cents":"1"}')), ['/cents must be integer']);
  });

  it('may have an id and anchors', async () => {
    const cents = { $anchor: 'cents', type: 'integer' };
    const paid = { $id: 'https://example.com/paid', $defs: { cents }, properties: { cents: { $ref: '#cents' } } };
    assert.deepEqual(await problems(paid, { cents: '1' }), ['/cents must be integer']);
  });

  it('does not confuse members with properties that every object inherits', async () => {
    assert.deepEqual(await problems({ required: ['toString'] }, {}), ["must have required property 'toString'"]);
    assert.deepEqual(await problems({ properties: { constructor: { type: 'string' } } }, {}), []);
    assert.deepEqual(await problems({ required: ['__proto__'] }, '{"__proto__":1}'), []);
  });

  it('checks a string in linear time, whatever the pattern', async () => {
    const name = `${'a'.repeat(200_000)}!`;
    for (const pattern of ['^(a|a)*$', '^(a+)+$', '^(.*,){0,20}x$', 'a+b']) {
      const started = performance.now();
      assert.equal((await problems({ properties: { name: { pattern } } }, { name }))?.length, 1, pattern);
      assert.ok(performance.now() - started < WITHIN_MS, pattern);
    }
  });

  it('reports a few short problems without control characters', async () => {
    const branches = Array.from({ length: 20 }, (_, at) => ({ const: at }));
    assert.equal((await problems({ anyOf: branches }, {}))?.length, 3);
    const [problem = ''] =
      (await problems({ additionalProperties: false }, { [`\0${'x'.repeat(1_000)}\ud800`]: 1 })) ?? [];
    assert.match(problem, /^must NOT have additional properties \(\\u0000x+$/);
    assert.ok(problem.length < 220 && problem.isWellFormed(), problem);
  });
});

describe('a folder of schemas', () => {
  it('with unusable files fails --check, which names each file and its fault', async () => {
    const folder = folderOf({
      'broken.json': '{',
      'list.json': '1',
      'a b.json': {},
      'typo.json': { propertys: {} },
      'wrong.json': { type: 'text' },
      'elsewhere.json': { $ref: 'https://example.com/schema' },
      'look.json': { properties: { name: { pattern: '^(?=a)' } } },
      'back.json': { patternProperties: { '(a)\\1': {} } },
      'good.json': PAID,
    });
    mkdirSync(join(folder, 'folder.json'));
    await assert.rejects(checkSchemas(folder), (cause) => {
      assert.ok(cause instanceof StartFailure);
      assert.equal(cause.exitCode, 2);
      assert.ok(cause.message.startsWith(`INGEST_SCHEMAS_DIR=${JSON.stringify(folder)}: `));
      for (const fault of [
        /broken\.json: not JSON \(/,
        /list\.json: expected a JSON object/,
        /a b\.json: expected <type>\.json/,
        /typo\.json: strict mode: unknown keyword: "propertys"/,
        /wrong\.json: schema is invalid/,
        /elsewhere\.json: can't resolve reference/,
        /look\.json: pattern \^\(\?=a\): not of RE2/,
        /back\.json: pattern \(a\)\\1: not of RE2/,
        /folder\.json: expected a readable file \(EISDIR\)/,
      ])
        assert.match(cause.message, fault);
      assert.doesNotMatch(cause.message, /good\.json/);
      return true;
    });
    await assert.rejects(open(join(folder, 'nowhere')), /expected a readable folder \(ENOENT\)/);
  });

  it('is logged as a sorted list of types', async () => {
    const names = ['m', 'c', 'x', 'a', 'q', 'f', 'z', 'b'];
    const { logged } = await open(folderOf(Object.fromEntries(names.map((name) => [`${name}.json`, {}]))));
    assert.match(logged[0] ?? '', /\{"types":\["a","b","c","f","m","q","x","z"\]\}$/);
  });

  it('is reloaded when it changes, and a type with a broken file keeps its last good schema', async () => {
    const folder = folderOf({ 'order.paid.json': PAID });
    const { schemas, logged, outcomes } = await open(folder);
    assert.deepEqual(logged, ['events of these types are checked against their schemas {"types":["order.paid"]}']);
    const check = (type: string): readonly string[] | undefined => schemas.problemsOf(type, Buffer.from('{}'));
    writeFileSync(join(folder, 'order.paid.json'), '{');
    writeFileSync(join(folder, 'order.placed.json'), JSON.stringify(PAID));
    await eventually('the broken file is named', () => logged.some((line) => /unusable.*order\.paid\.json/.test(line)));
    await eventually('the metric says so', () => outcomes.at(-1) === false);
    assert.deepEqual(
      [check('order.paid'), check('order.placed')].map((found) => found?.length),
      [1, 1],
    );
    assert.deepEqual(schemas.problemsOf('order.paid', Buffer.from('{"cents":1}')), []);
    writeFileSync(join(folder, 'order.paid.json'), '{}');
    await eventually('the mended file is in use', () => check('order.paid')?.length === 0);
    await eventually('the metric says so', () => outcomes.at(-1) === true);
  });

  it('with a broken file still checks other types, and refuses events of that type', async () => {
    const cyclic = { properties: { child: { $ref: '#' } } };
    const { schemas, logged, outcomes } = await open(folderOf({ 'a.json': cyclic, 'b.json': '{', 'c.json': PAID }));
    for (const type of ['a', 'b']) assert.deepEqual(schemas.problemsOf(type, Buffer.from('{}')), ['no usable schema']);
    assert.deepEqual(schemas.problemsOf('c', Buffer.from('{"cents":1}')), []);
    assert.match(logged[1] ?? '', /unusable.*"b\.json: not JSON.*"a\.json: #/);
    assert.deepEqual(outcomes, [false]);
  });
});

describe('a schema whose check could take long', () => {
  const cpuMs = (work: () => unknown): number => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };
  const faults = async (files: Readonly<Record<string, unknown>>): Promise<string> => {
    const refused = await checkSchemas(folderOf(files)).catch((cause: unknown) => cause);
    return refused instanceof StartFailure ? refused.message.replace(/^[^:]*: /, '') : '';
  };
  const item = { type: 'object', properties: { sku: { type: 'string' } } };

  it('is refused with its file and place', async () => {
    const doubled = Object.fromEntries(
      Array.from({ length: 30 }, (_, at) => [`d${at}`, { allOf: [1, 2].map(() => ({ $ref: `#/$defs/d${at + 1}` })) }]),
    );
    const deep = Array.from({ length: 150 }).reduce<object>((d) => ({ $defs: { d } }), { $ref: '#' });
    for (const [schema, fault] of [
      [{ $ref: '#' }, /t\.json: #\/\$ref: its references form a cycle$/],
      [{ properties: { a: { items: { $ref: '#/properties/a' } } } }, /t\.json: #.*references form a cycle/],
      [{ $defs: { unused: { not: { $ref: '#/$defs/unused' } } } }, /t\.json: #\/\$defs\/unused.*form a cycle/],
      [{ $defs: { unused: { $async: true } } }, /t\.json: #\/\$defs\/unused\/\$async: /],
      [{ definitions: { unused: { uniqueItems: true } } }, /t\.json: #\/definitions\/unused\/uniqueItems: /],
      [{ $id: 'https://x/t', $defs: { n: { $anchor: 'n', items: { $ref: 't#n' } } }, $ref: '#n' }, /cycle/],
      [{ ...deep, items: { $ref: `#${'/$defs/d'.repeat(150)}` } }, /t\.json: #.*nested deeper than 100/],
      [{ enum: [{ items: { $ref: '#/enum/0' } }], $ref: '#/enum/0' }, /t\.json: #.*cycle/],
      [{ $defs: { n: { $dynamicAnchor: 'n', items: { $ref: '#n' } } }, $ref: '#n' }, /t\.json: #.*cycle/],
      [{ items: { $ref: 'https://json-schema.org/draft/2020-12/schema' } }, /resolve reference .* from #\/items$/],
      [{ oneOf: [{ type: 'integer' }, { properties: { a: { $ref: '#' } } }] }, /t\.json: #.*cycle/],
      [{ $async: true }, /t\.json: #\/\$async: \$async is not supported/],
      [{ properties: { a: { $dynamicRef: '#x' } } }, /t\.json: #\/properties\/a\/\$dynamicRef: .*not supported/],
      [{ properties: { 'a/b': { uniqueItems: true } } }, /t\.json: #\/properties\/a~1b\/uniqueItems: needs items/],
      [{ uniqueItems: true, items: item }, /#\/uniqueItems/],
      [{ uniqueItems: true, items: item, maxItems: 1_001 }, /#\/uniqueItems/],
      [{ $defs: { ...doubled, d30: {} }, $ref: '#/$defs/d0' }, /expands to more than 20000 subschemas/],
      [
        { items: { anyOf: Array.from({ length: 20 }, (_, at) => ({ const: at })) } },
        /#\/items: too many checks.*maxItems/,
      ],
    ] as const)
      assert.match(await faults({ 't.json': schema }), fault, JSON.stringify(schema).slice(0, 200));
    const [a, b] = [{ properties: { x: { $ref: 'b.json' } } }, { items: { $ref: 'a.json' } }];
    assert.match(await faults({ 'a.json': a, 'b.json': b, 'c.json': {} }), /a\.json: #.*; b\.json: #.*form a cycle$/);
  });

  it('is used if it is bounded', async () => {
    for (const schema of [
      { properties: { $async: { type: 'boolean' }, $ref: { type: 'string' } } },
      { const: { $async: true, uniqueItems: true }, default: { $ref: '#' } },
      { uniqueItems: true, items: { type: ['string', 'null'] } },
      { uniqueItems: true, items: item, maxItems: 1_000 },
      { uniqueItems: false },
      { $defs: { any: true }, items: { $ref: '#/$defs/any' } },
      { $defs: { line: item }, properties: { a: { $ref: '#/$defs/line' }, b: { items: { $ref: '#/$defs/line' } } } },
      { items: { anyOf: Array.from({ length: 20 }, (_, at) => ({ const: at })) }, maxItems: 1_000 },
    ])
      assert.equal(await faults({ 't.json': schema }), '', JSON.stringify(schema));
  });

  it('finds repeated items, whatever the order of their members', async () => {
    const unique = { type: 'array', uniqueItems: true, maxItems: 10 };
    assert.deepEqual(await problems(unique, '[{"a":1,"b":[2]},{"b":[2],"a":1.0}]'), ['must NOT have duplicate items']);
    assert.deepEqual(await problems(unique, '[1,"1",[1],{"a":1},{"a":2},null,1e400,-1e400,"null"]'), []);
    assert.equal((await problems(unique, '[0,-0]'))?.length, 1);
  });

  it('refuses an event whose pattern would take too long, with the reason', async () => {
    const schema = { items: { pattern: '^(a|b|c|d)*(e|f)?$' } };
    const [problem] = (await problems(schema, ['a'.repeat(250_000)])) ?? [];
    assert.match(problem ?? '', /^the event could not be checked: the pattern .* takes too long for this event$/);
  });

  it(
    'takes at most 100 ms of CPU for an event, in a generated corpus',
    { timeout: 300_000, tags: ['long'] },
    async () => {
      const scalar = fc.constantFrom(
        { type: 'integer' },
        { type: 'string', pattern: '^[a-z]{1,20}$' },
        { enum: [0, 'a', {}] },
      );
      const { schema } = fc.letrec<{ schema: object }>((tie) => ({
        schema: fc.oneof(
          { maxDepth: 4, withCrossShrink: true },
          scalar,
          fc.record({ items: tie('schema') }),
          fc.record({ items: tie('schema'), uniqueItems: fc.constant(true), maxItems: fc.constantFrom(900, 1_000) }),
          fc.record({ additionalProperties: tie('schema') }),
          fc.record({ properties: fc.dictionary(fc.constantFrom('a', 'b', 'c'), tie('schema')) }),
          fc.record({ oneOf: fc.array(tie('schema'), { minLength: 1, maxLength: 12 }) }),
          fc.record({ anyOf: fc.array(tie('schema'), { minLength: 1, maxLength: 12 }) }),
          fc.record({ not: tie('schema') }),
        ),
      }));
      const filled = (one: string): string => `[${`${one},`.repeat(Math.floor(262_000 / (one.length + 1)))}${one}]`;
      const events = ['0', '{}', '"a"', '[]', '{"a":{"b":0}}', '[[[0]]]', '{"a":[0,{}]}'].map(filled);
      const members = Array.from({ length: 25_000 }, (_, at) => `"k${at}":0`).join(',');
      const objects = Array.from(
        { length: 1_000 },
        (_, at) => `{"z":${at}${',"y":[{}]'.repeat(1)},"x":"${'x'.repeat(200)}"}`,
      );
      const bodies = [...events, `{${members}}`, `[${objects.join(',')}]`, `["${'a'.repeat(262_000)}"]`].map((text) =>
        Buffer.from(text),
      );
      const schemas = fc.sample(schema, { numRuns: 60, seed: 7 });
      let used = 0;
      for (const one of schemas) {
        const check = await readSchema(join(folderOf({ 't.json': one }), 't.json')).catch(() => undefined);
        if (check === undefined) continue;
        used += 1;
        for (const body of bodies) {
          // Other processes may slow down one of the runs, so the shorter one counts.
          const ms = Math.min(...[1, 2].map(() => cpuMs(() => check(body)) - cpuMs(() => JSON.parse(body.toString()))));
          assert.ok(ms < 100, `${ms} ms for ${JSON.stringify(one)} and ${body.subarray(0, 60).toString()}`);
        }
      }
      assert.ok(used > 20, `${used} schemas`);
    },
  );
});

describe('no folder of schemas', () => {
  it('needs no watching', async () => {
    assert.equal(await WatchedSchemas.open(undefined), undefined);
  });
});

describe('one schema to try', () => {
  it('is read from a file of any name', async () => {
    const path = join(folderOf({ 'x y': PAID, broken: '{' }), 'x y');
    assert.deepEqual((await readSchema(path))(Buffer.from('{"cents":1}')), []);
    await assert.rejects(readSchema(path.replace('x y', 'broken')), /broken: not JSON/);
  });
});
