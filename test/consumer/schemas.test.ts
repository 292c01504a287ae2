import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { checkSchemas, readSchema, watchedSchemas, type WatchedSchemas } from '../../lib/consumer/schemas.ts';
import { erasedBody } from '../../lib/ingest/erased.ts';
import type { Log } from '../../lib/process/log.ts';
import { StartFailure } from '../../lib/process/program.ts';
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
  const schemas = await watchedSchemas(folder, SYSTEM.clock);
  assert.ok(schemas !== undefined);
  const log = { info: line, warn: line, error: line } as unknown as Log;
  schemas.watch({ log, onOutcome: (current) => void outcomes.push(current) });
  atEnd(() => schemas.stop());
  return { schemas, logged, outcomes };
}

type Found = readonly string[] | undefined;

/** Returns the problems of one event; `undefined` if its type has no schema. */
async function problemsOf(schemas: WatchedSchemas, type: string, event: unknown): Promise<Found> {
  const body = Buffer.from(typeof event === 'string' ? event : JSON.stringify(event));
  return schemas.has({ type, body }) ? (await schemas.check(type, [body]))[0] : undefined;
}

const problems = async (schema: object, event: unknown): Promise<Found> =>
  problemsOf((await open(folderOf({ 't.json': schema }))).schemas, 't', event);

const faults = async (files: Readonly<Record<string, unknown>>): Promise<string> => {
  const refused = await checkSchemas(folderOf(files), SYSTEM.clock).catch((cause: unknown) => cause);
  return refused instanceof StartFailure ? refused.message.replace(/^[^:]*: /, '') : '';
};

describe('the schema of an event type', () => {
  it('applies to events of its type only', async () => {
    const { schemas } = await open(folderOf({ 'order.paid.json': PAID, 'README.md': 'no schema' }));
    assert.deepEqual(await problemsOf(schemas, 'order.paid', { cents: 1 }), []);
    assert.deepEqual(await problemsOf(schemas, 'order.paid', { cents: 'é' }), ['/cents must be integer']);
    assert.deepEqual(await problemsOf(schemas, 'order.paid', {}), ["must have required property 'cents'"]);
    assert.equal(await problemsOf(schemas, 'order', {}), undefined);
  });

  it('does not apply to erased events', async () => {
    const { schemas } = await open(folderOf({ 'order.paid.json': PAID }));
    assert.equal(await problemsOf(schemas, 'order.paid', erasedBody('one', 'order.paid')), undefined);
  });

  it('may refer to other files by their names, have an id and anchors, and recur', async () => {
    const { schemas } = await open(
      folderOf({
        'line.json': { type: 'object', required: ['sku'], properties: { lines: { items: { $ref: '#' } } } },
        'order.json': { properties: { lines: { items: { $ref: 'line.json' } } } },
        'named.json': {
          $id: 'https://x/named',
          $defs: { n: { $anchor: 'n', type: 'integer' } },
          properties: { n: { $ref: '#n' } },
        },
      }),
    );
    assert.deepEqual(await problemsOf(schemas, 'order', { lines: [{ sku: 'a', lines: [{ sku: 'b' }] }] }), []);
    assert.equal((await problemsOf(schemas, 'order', { lines: [{ sku: 'a', lines: [{}] }] }))?.length, 1);
    assert.equal((await problemsOf(schemas, 'named', { n: 'x' }))?.length, 1);
  });

  it('does not confuse members with properties that every object inherits', async () => {
    const schema = { required: ['toString'], dependentRequired: { valueOf: ['x'] } };
    assert.equal((await problems(schema, {}))?.length, 1);
    assert.deepEqual(await problems(schema, { toString: 1 }), []);
  });

  it('reports a few short problems without control characters', async () => {
    const alternatives = { anyOf: Array.from({ length: 9 }, (_, at) => ({ const: at })) };
    assert.equal((await problems(alternatives, '"x"'))?.length, 3);
    const [problem = ''] =
      (await problems({ additionalProperties: false }, { [`\u0000\ud800${'x'.repeat(999)}`]: 1 })) ?? [];
    assert.ok(problem.length < 400 && problem.isWellFormed() && !problem.includes('\0'), problem);
  });
});

describe('a folder of schemas', () => {
  it('with unusable files fails --check, which names each file', async () => {
    const folder = folderOf({
      'broken.json': '{',
      'twice.json': '{"type":"string","type":"object"}',
      'list.json': '1',
      'a b.json': {},
      'typo.json': { propertys: {} },
      'wrong.json': { type: 'text' },
      'elsewhere.json': { $ref: 'https://example.com/schema' },
      'pattern.json': { properties: { name: { pattern: '(' } } },
      'later.json': { $async: true },
      'good.json': PAID,
      'marked.json': `\ufeff${JSON.stringify(PAID)}`,
    });
    mkdirSync(join(folder, 'folder.json'));
    const cause: unknown = await checkSchemas(folder, SYSTEM.clock).catch((refused: unknown) => refused);
    assert.ok(cause instanceof StartFailure);
    assert.equal(cause.exitCode, 2);
    assert.deepEqual(
      [...cause.message.matchAll(/[:;] ([\w ]+\.json): /g)].map(([, name]) => name).toSorted(),
      ['a b', 'broken', 'elsewhere', 'folder', 'later', 'list', 'pattern', 'twice', 'typo', 'wrong'].map(
        (n) => `${n}.json`,
      ),
    );
    await assert.rejects(open(join(folder, 'nowhere')), /ENOENT/);
  });

  it('is reloaded when it changes, and a type with a broken file keeps its last good schema', async () => {
    const folder = folderOf({ 'order.paid.json': { $ref: 'shared.json' }, 'shared.json': PAID });
    const { schemas, logged, outcomes } = await open(folder);
    writeFileSync(join(folder, 'order.paid.json'), '{');
    writeFileSync(join(folder, 'order.placed.json'), JSON.stringify(PAID));
    await eventually('the broken file is named', () => logged.some((line) => /unusable.*order\.paid\.json/.test(line)));
    await eventually('the metric says so', () => outcomes.at(-1) === false);
    for (const type of ['order.paid', 'order.placed']) {
      assert.equal((await problemsOf(schemas, type, {}))?.length, 1, type);
      assert.deepEqual(await problemsOf(schemas, type, { cents: 1 }), [], type);
    }
    writeFileSync(join(folder, 'order.paid.json'), '{}');
    await eventually(
      'the mended file is in use',
      async () => (await problemsOf(schemas, 'order.paid', {}))?.length === 0,
    );
    await eventually('the metric says so', () => outcomes.at(-1) === true);
  });

  it('with a broken file still checks other types, and refuses events of that type', async () => {
    const { schemas, logged, outcomes } = await open(folderOf({ 'b.json': '{', 'c.json': PAID }));
    assert.deepEqual(await problemsOf(schemas, 'b', {}), ['no usable schema']);
    assert.deepEqual(await problemsOf(schemas, 'c', { cents: 1 }), []);
    assert.match(logged[1] ?? '', /unusable.*b\.json/);
    assert.deepEqual([outcomes, schemas.unusable], [[false], 1]);
  });

  it('without files starts no thread, and no folder needs no watching', async () => {
    const { schemas } = await open(temporaryFolder());
    assert.equal(schemas.has({ type: 't', body: Buffer.from('{}') }), false);
    assert.equal(process.getActiveResourcesInfo().includes('MessagePort'), false);
    assert.equal(await watchedSchemas(undefined, SYSTEM.clock), undefined);
  });
});

const many = <T>(length: number, one: (at: number) => T): T[] => Array.from({ length }, (_, at) => one(at));
const twice = (ref: object): object => ({ allOf: many(2, () => ({ properties: { v: ref } })) });
const nested = many(24, (at) => at).reduce<object>((v) => ({ v }), {});
const long = 'a'.repeat(200_000);

/** Schemas with an event whose check takes very long or needs very much memory. */
const SLOW: readonly (readonly [name: string, schema: object, event: unknown])[] = [
  ['a backtracking pattern', { properties: { v: { pattern: '^(a+)+$' } } }, { v: `${'a'.repeat(40)}!` }],
  ['$ref', twice({ $ref: '#' }), nested],
  ['long strings', { items: { allOf: many(2_000, (at) => ({ minLength: at })) } }, [long, long, long]],
  ['uniqueItems', { allOf: many(300, () => ({ uniqueItems: true })) }, many(9_000, (n) => ({ n, m: [n] }))],
  [
    'unevaluatedProperties',
    { allOf: many(300, () => ({ additionalProperties: { not: { minProperties: 1 } } })), unevaluatedProperties: false },
    Object.fromEntries(many(9_000, (n) => [`k${n}`, {}])),
  ],
];

/** Each case takes seconds, and most differ in the schema only. */
const tags = (name: string): { tags: string[] } => ({ tags: name === SLOW[0]?.[0] ? [] : ['long'] });

describe('a schema whose check takes long', () => {
  for (const [name, schema, event] of SLOW)
    it(`does not hold the event loop, the other events or the other types: ${name}`, tags(name), async () => {
      const { schemas, logged, outcomes } = await open(folderOf({ 'slow.json': schema, 'c.json': PAID }));
      assert.equal(schemas.unusable, 0, logged.join('\n'));
      let longestMs = 0;
      let lastMs = performance.now();
      const ticks = setInterval(() => {
        longestMs = Math.max(longestMs, performance.now() - lastMs);
        lastMs = performance.now();
      }, 5);
      const others = Array.from({ length: 20 }, (_, cents) => problemsOf(schemas, 'c', { cents }));
      const slow = await Promise.all([event, event, event, event].map((one) => problemsOf(schemas, 'slow', one)));
      clearInterval(ticks);
      assert.deepEqual(
        await Promise.all(others),
        others.map(() => []),
      );
      for (const found of slow.slice(0, 3)) assert.match(found?.[0] ?? '', /longer than 100 ms/);
      assert.deepEqual(slow[3], ['no usable schema'], 'after three of them within a minute');
      assert.deepEqual(await problemsOf(schemas, 'slow', {}), ['no usable schema']);
      assert.deepEqual(await problemsOf(schemas, 'c', { cents: 'x' }), ['/cents must be integer']);
      assert.deepEqual([outcomes, schemas.unusable], [[false], 1]);
      assert.ok(longestMs < 500, `${longestMs} ms`);
    });

  it('is used again once its file changes, and not before', async () => {
    const folder = folderOf({ 'slow.json': SLOW[0]?.[1], 'c.json': PAID });
    const { schemas, outcomes } = await open(folder);
    await Promise.all([1, 2, 3].map(() => problemsOf(schemas, 'slow', SLOW[0]?.[2])));
    writeFileSync(join(folder, 'c.json'), '{}');
    await eventually('the other file is in use', async () => (await problemsOf(schemas, 'c', {}))?.length === 0);
    assert.deepEqual(await problemsOf(schemas, 'slow', {}), ['no usable schema']);
    assert.equal(outcomes.at(-1), false);
    writeFileSync(join(folder, 'slow.json'), '{"type":"object"}');
    await eventually('it is in use', async () => (await problemsOf(schemas, 'slow', {}))?.length === 0);
    await eventually('the metric says so', () => outcomes.at(-1) === true);
  });

  it('keeps its events in order, each with one answer, while other types take turns', async () => {
    const { schemas } = await open(folderOf({ 'slow.json': { items: { pattern: '^(a+)+$' } }, 'c.json': PAID }));
    const bodies = many(2_000, () => Buffer.from(JSON.stringify([`${'a'.repeat(18)}!`])));
    let isDone = false;
    const slow = schemas.check('slow', bodies).finally(() => (isDone = true));
    assert.deepEqual(await problemsOf(schemas, 'c', { cents: 1 }), []);
    assert.equal(isDone, false);
    const found = (await slow).map(String);
    assert.deepEqual([found.length, ...new Set(found)], [bodies.length, '/0 must match pattern "^(a+)+$"']);
  });

  it('is refused by --check if it takes long to compile', { timeout: 120_000 }, async () => {
    const $defs = Object.fromEntries(
      many(41, (at) => [`d${at}`, at === 40 ? {} : twice({ $ref: `#/$defs/d${at + 1}` })]),
    );
    const doubled = { $defs, $ref: '#/$defs/d0' };
    const deep = `${'{"not":'.repeat(200_000)}{}${'}'.repeat(200_000)}`;
    assert.match(await faults({ 'deep.json': deep, 'good.json': PAID }), /^deep\.json: [^;]*$/);
    const { schemas } = await open(folderOf({ 'doubled.json': doubled, 'good.json': PAID }));
    assert.deepEqual(await problemsOf(schemas, 'good', { cents: 1 }), []);
  });
});

describe('one schema to try', () => {
  it('is read from a file of any name, and has the same limits', async () => {
    const folder = folderOf({ 'x y': PAID, broken: '{', slow: SLOW[0]?.[1] });
    const check = await readSchema(join(folder, 'x y'), SYSTEM.clock);
    assert.deepEqual(await check([Buffer.from('{"cents":1}'), Buffer.from('{}')].slice(0, 1)), [[]]);
    await assert.rejects(readSchema(join(folder, 'broken'), SYSTEM.clock), /broken: not JSON/);
    const slow = await readSchema(join(folder, 'slow'), SYSTEM.clock);
    const bodies = [SLOW[0]?.[2], {}].map((event) => Buffer.from(JSON.stringify(event)));
    assert.deepEqual(
      (await slow(bodies)).map((found) => found.length),
      [1, 0],
    );
  });
});
