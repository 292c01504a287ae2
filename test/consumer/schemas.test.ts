import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import type { Worker } from 'node:worker_threads';
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

async function open(folder: string, clock = SYSTEM.clock): Promise<Opened> {
  const logged: string[] = [];
  const outcomes: boolean[] = [];
  const line = (fields: Readonly<Record<string, unknown>>, text: string): void =>
    void logged.push(`${text} ${JSON.stringify(fields)}`);
  const schemas = await watchedSchemas(folder, clock);
  assert.ok(schemas !== undefined);
  const log = { info: line, warn: line, error: line } as unknown as Log;
  schemas.watch({ log, onOutcome: (current) => void outcomes.push(current) });
  atEnd(() => schemas.stop());
  return { schemas, logged, outcomes };
}

type Found = readonly string[] | undefined;

/** Returns the problems of one event; `undefined` if its type has no schema. */
async function problemsOf(schemas: WatchedSchemas, type: string, event: unknown, producer = 'shop'): Promise<Found> {
  const body = Buffer.from(typeof event === 'string' ? event : JSON.stringify(event));
  return schemas.has({ type, body }) ? (await schemas.check(type, [{ producer, body }]))[0] : undefined;
}

it('the schema of a type applies to its events that are not erased, and may refer to other files', async () => {
  const folder = folderOf({
    'order.paid.json': PAID,
    'README.md': 'no schema',
    'line.json': { type: 'object', required: ['sku'], properties: { lines: { items: { $ref: '#' } } } },
    'order.json': { properties: { lines: { items: { $ref: 'line.json' } } } },
    'named.json': {
      $id: 'https://x/named',
      $defs: { n: { $anchor: 'n', type: 'integer' } },
      properties: { n: { $ref: '#n' } },
    },
    // Every object inherits these members.
    'inherited.json': { required: ['toString'], dependentRequired: { valueOf: ['x'] } },
    'alternatives.json': { anyOf: Array.from({ length: 9 }, (_, at) => ({ const: at })) },
    'extra.json': { additionalProperties: false },
  });
  const { schemas } = await open(folder);
  const found = (type: string, event: unknown): Promise<Found> => problemsOf(schemas, type, event);
  assert.deepEqual(await found('order.paid', { cents: 1 }), []);
  assert.deepEqual(await found('order.paid', { cents: 'é' }), ['/cents must be integer']);
  assert.deepEqual(await found('order.paid', {}), ["must have required property 'cents'"]);
  assert.equal(await found('order.paid', erasedBody('one', 'order.paid')), undefined);
  assert.equal(await found('README', {}), undefined);
  assert.deepEqual(await found('order', { lines: [{ sku: 'a', lines: [{ sku: 'b' }] }] }), []);
  assert.equal((await found('order', { lines: [{ sku: 'a', lines: [{}] }] }))?.length, 1);
  assert.equal((await found('named', { n: 'x' }))?.length, 1);
  assert.equal((await found('inherited', {}))?.length, 1);
  assert.deepEqual(await found('inherited', { toString: 1 }), []);
  assert.equal((await found('alternatives', '"x"'))?.length, 3, 'a few problems');
  const [problem = ''] = (await found('extra', { [`\u0000\ud800${'x'.repeat(999)}`]: 1 })) ?? [];
  assert.ok(problem.length < 400 && problem.isWellFormed() && !problem.includes('\0'), problem);
});

/** Schemas of a member `v`, with texts of values that match and of values that do not. */
const STANDARD: readonly (readonly [name: string, v: string, valid: string[], invalid: string[]])[] = [
  [
    'multiples of a cent',
    '{"multipleOf":0.01}',
    ['19.99', '4.35', '143.48', '-0', '1070468.14', '1e308'],
    ['1.005', '0.001'],
  ],
  ['multiples of a tenth', '{"multipleOf":0.1}', ['0.3', '1.1', '-0.7'], ['0.35', '1e-7']],
  ['multiples of a small number', '{"multipleOf":1e-7}', ['3e-7', '1'], ['1.5e-7']],
  ['large numbers', '{"type":"number","maximum":100}', ['-1e400'], ['1e400']],
  ['any number', '{"type":"number"}', ['1e400'], ['"1"']],
  [
    'a member __proto__',
    '{"properties":{"__proto__":{"type":"number"}},"additionalProperties":false}',
    ['{"__proto__":1}', '{}'],
    ['{"__proto__":"x"}', '{"x":1}'],
  ],
  [
    'an id beside a reference',
    '{"$id":"in","$ref":"#/$defs/m","$defs":{"m":{"minimum":0}},"allOf":[{"maximum":9}]}',
    ['1'],
    ['-1', '10'],
  ],
  [
    'else without then',
    '{"if":{"required":["a"],"properties":{"a":true}},"else":{"properties":{"b":true}},"unevaluatedProperties":false}',
    ['{"a":1}', '{"b":1}'],
    ['{"a":1,"b":1}', '{"c":1}'],
  ],
  [
    'keywords as names and data',
    '{"properties":{"$dynamicRef":{"const":{"unevaluatedItems":1}}}}',
    ['{"$dynamicRef":{"unevaluatedItems":1}}'],
    ['{"$dynamicRef":1}'],
  ],
  ['an anchor that is dynamic', '{"$ref":"#a","$defs":{"a":{"$dynamicAnchor":"a","type":"string"}}}', ['"x"'], ['1']],
];

describe('JSON Schema 2020-12', () => {
  it('judges as the standard says', async () => {
    const texts = STANDARD.map(([, v], at) => [`t${at}.json`, `{"properties":{"v":${v}}}`]);
    const { schemas, logged } = await open(folderOf(Object.fromEntries(texts) as Record<string, string>));
    for (const [at, [name, , valid, invalid]] of STANDARD.entries()) {
      const found = (values: string[]) => Promise.all(values.map((v) => problemsOf(schemas, `t${at}`, `{"v":${v}}`)));
      assert.deepEqual(
        await found(valid),
        valid.map(() => []),
        `${name} ${logged.join()}`,
      );
      for (const [n, problems] of (await found(invalid)).entries())
        assert.notEqual(problems?.length, 0, `${name}: ${invalid[n]}`);
    }
  });

  it('is refused by --check, which names each file, if a keyword is not supported wherever it is, or a file is unusable', async () => {
    const inner = { $dynamicRef: '#a' };
    const one =
      'not if then else items contains propertyNames additionalProperties unevaluatedProperties contentSchema';
    const named = 'properties patternProperties dependentSchemas dependencies $defs definitions';
    const cases = [
      ...[
        inner,
        ...one.split(' ').map((keyword) => ({ [keyword]: inner })),
        ...['allOf', 'anyOf', 'oneOf', 'prefixItems'].map((keyword) => ({ [keyword]: [{}, inner] })),
        ...named.split(' ').map((keyword) => ({ [keyword]: { a: {}, b: inner } })),
      ].map((schema) => [schema, 'the keyword $dynamicRef is not supported'] as const),
      [{ unevaluatedItems: false }, 'the keyword unevaluatedItems is not supported'],
      [{ $vocabulary: {} }, 'the keyword $vocabulary is not supported'],
      ['{"dependentRequired":{"__proto__":["a"]}}', 'rules that depend on the member __proto__ are not supported'],
      [{ patternProperties: { '[': {} } }, 'Invalid regular expression: /[/u: Unterminated character class'],
      ['{', "not JSON (Expected property name or '}' in JSON at position 1 (line 1 column 2))"],
    ] as const;
    const folder = folderOf({
      ...Object.fromEntries(cases.map(([schema], at) => [`${at}.json`, schema])),
      'a b.json': {},
      'deep.json': `${'{"not":'.repeat(200_000)}{}${'}'.repeat(200_000)}`,
      'elsewhere.json': { $ref: 'https://example.com/schema' },
      'later.json': { $async: true },
      'list.json': '1',
      'twice.json': '{"type":"string","type":"object"}',
      'typo.json': { propertys: {} },
      'wrong.json': { type: 'text' },
      'good.json': PAID,
      'marked.json': `\ufeff${JSON.stringify(PAID)}`,
    });
    mkdirSync(join(folder, 'folder.json'));
    const cause: unknown = await checkSchemas(folder, SYSTEM.clock).catch((refused: unknown) => refused);
    assert.ok(cause instanceof StartFailure);
    assert.equal(cause.exitCode, 2);
    const faults = cause.message.replace(/^[^:]*: /, '').split('; ');
    assert.deepEqual(
      faults.filter((fault) => /^\d/.test(fault)).toSorted(),
      cases.map(([, fault], at) => `${at}.json: ${fault}`).toSorted(),
    );
    const others = faults.map((fault) => fault.split(/\.json: /)[0] ?? '').filter((name) => !/^\d/.test(name));
    assert.deepEqual(others.toSorted(), 'a b,deep,elsewhere,folder,later,list,twice,typo,wrong'.split(','));
    await assert.rejects(open(join(folder, 'nowhere')), /ENOENT/);
  });
});

/** The threads that have started from now on and run. */
function threadsOf(t: TestContext): ReadonlySet<Worker> {
  const threads = new Set<Worker>();
  const begun = (worker: Worker): void => void threads.add(worker.once('exit', () => threads.delete(worker)));
  process.on('worker', begun);
  t.after(() => process.off('worker', begun));
  return threads;
}

describe('a folder of schemas', () => {
  it('is reloaded when it changes, and a type with a broken file keeps its last good schema', async (t) => {
    const threads = threadsOf(t);
    const folder = folderOf({ 'order.paid.json': { $ref: 'shared.json' }, 'shared.json': PAID, 'b.json': '{' });
    const { schemas, logged, outcomes } = await open(folder);
    assert.deepEqual(await problemsOf(schemas, 'b', {}), ['no usable schema']);
    assert.deepEqual(await problemsOf(schemas, 'order.paid', { cents: 1 }), []);
    assert.match(logged[1] ?? '', /unusable.*b\.json/);
    assert.deepEqual([outcomes, schemas.unusable], [[false], 1]);
    writeFileSync(join(folder, 'b.json'), '{}');
    await eventually('the metric says so', () => outcomes.at(-1) === true);
    assert.deepEqual([await problemsOf(schemas, 'b', {}), schemas.unusable], [[], 0]);
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
    await eventually('the threads of earlier files have ended', () => threads.size === 1);
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

/** Schemas with an event whose check takes very long or needs very much memory. */
const SLOW: readonly (readonly [name: string, schema: object, event: unknown])[] = [
  ['a backtracking pattern', { properties: { v: { pattern: '^(a+)+$' } } }, { v: `${'a'.repeat(40)}!` }],
  ['$ref', twice({ $ref: '#' }), nested],
  ['uniqueItems', { allOf: many(300, () => ({ uniqueItems: true })) }, many(9_000, (n) => ({ n, m: [n] }))],
  [
    'unevaluatedProperties',
    { allOf: many(300, () => ({ additionalProperties: { not: { minProperties: 1 } } })), unevaluatedProperties: false },
    Object.fromEntries(many(9_000, (n) => [`k${n}`, {}])),
  ],
];

/** The CPU time of this thread, which does not grow while others have the processor. */
function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}

const STRUCK = ['not checked, because checks of events of this type and producer took too long'];

/** Each case takes seconds, and most differ in the schema only. */
const tags = (name: string): { tags: string[] } => ({ tags: name === SLOW[0]?.[0] ? [] : ['long'] });

describe('a schema whose check takes long', () => {
  for (const [name, schema, event] of SLOW)
    it(`does not hold the event loop, the other events or the other types: ${name}`, tags(name), async () => {
      const { schemas, logged, outcomes } = await open(folderOf({ 'slow.json': schema, 'c.json': PAID }));
      assert.equal(schemas.unusable, 0, logged.join('\n'));
      let longestMs = 0;
      let lastMs = threadMs();
      const ticks = setInterval(() => {
        longestMs = Math.max(longestMs, threadMs() - lastMs);
        lastMs = threadMs();
      }, 5).unref();
      const others = Array.from({ length: 20 }, (_, cents) => problemsOf(schemas, 'c', { cents }));
      const slow = await Promise.all([event, event, event, event].map((one) => problemsOf(schemas, 'slow', one)));
      assert.deepEqual(await problemsOf(schemas, 'slow', {}, 'another producer'), []);
      clearInterval(ticks);
      assert.deepEqual(
        await Promise.all(others),
        others.map(() => []),
      );
      // On a busy machine, an event may need several turns, and another one may be faster.
      const isStruck = (found: Found): boolean => found?.[0] === STRUCK[0];
      for (const found of slow) assert.ok(isStruck(found) || /longer than 100 ms/.test(found?.[0] ?? ''));
      assert.equal(slow.filter(isStruck).length, 1, 'after three of them within a minute');
      assert.deepEqual(await problemsOf(schemas, 'slow', {}), STRUCK);
      assert.deepEqual(await problemsOf(schemas, 'c', { cents: 'x' }), ['/cents must be integer']);
      assert.deepEqual([outcomes, schemas.unusable], [[], 0]);
      assert.equal(logged.filter((line) => line.includes('of this producer go to quarantine')).length, 1);
      assert.ok(longestMs < 500, `${longestMs} ms`);
    });

  it('is used again after a minute, or once its file changes, for the producer of slow events', async () => {
    const folder = folderOf({ 'slow.json': SLOW[0]?.[1], 'c.json': PAID });
    let nowMs = 0;
    const { schemas } = await open(folder, { ...SYSTEM.clock, ms: () => nowMs });
    const strike = () => problemsOf(schemas, 'slow', SLOW[0]?.[2]);
    const next = () => problemsOf(schemas, 'slow', {});
    await Promise.all([strike(), strike()]);
    nowMs = 50_000;
    await strike();
    assert.deepEqual(await next(), STRUCK);
    nowMs = 61_000;
    assert.deepEqual(await next(), [], 'two of the strikes have expired');
    await strike();
    assert.deepEqual(await next(), [], 'two strikes within a minute');
    await strike();
    assert.deepEqual(await next(), STRUCK);
    writeFileSync(join(folder, 'c.json'), '{}');
    await eventually('the other file is in use', async () => (await problemsOf(schemas, 'c', {}))?.length === 0);
    assert.deepEqual(await next(), STRUCK);
    writeFileSync(join(folder, 'slow.json'), '{"type":"object"}');
    await eventually('it is in use', async () => (await next())?.length === 0);
  });

  it('keeps its events in order, each with one answer, while other types take turns and a file changes', async (t) => {
    const threads = threadsOf(t);
    const folder = folderOf({ 'slow.json': { items: { pattern: '^(a+)+$' } }, 'c.json': PAID });
    const { schemas } = await open(folder);
    const body = Buffer.from(JSON.stringify([`${'a'.repeat(18)}!`]));
    const bodies = many(2_000, (at) => ({ producer: String(at), body }));
    let isDone = false;
    const slow = schemas.check('slow', bodies).finally(() => (isDone = true));
    assert.deepEqual(await problemsOf(schemas, 'c', { cents: 1 }), []);
    assert.equal(isDone, false);
    writeFileSync(join(folder, 'c.json'), '{}');
    await eventually('the other file is in use', async () => (await problemsOf(schemas, 'c', {}))?.length === 0);
    const found = (await slow).map(String);
    assert.deepEqual([found.length, ...new Set(found)], [bodies.length, '/0 must match pattern "^(a+)+$"']);
    await eventually('the thread of the earlier files has ended', () => threads.size === 1);
  });

  it('is not used if it takes long to compile', { timeout: 120_000 }, async () => {
    const $defs = Object.fromEntries(
      many(41, (at) => [`d${at}`, at === 40 ? {} : twice({ $ref: `#/$defs/d${at + 1}` })]),
    );
    const doubled = { $defs, $ref: '#/$defs/d0' };
    const { schemas } = await open(folderOf({ 'doubled.json': doubled, 'good.json': PAID }));
    assert.deepEqual(await problemsOf(schemas, 'good', { cents: 1 }), []);
  });
});

it('one schema to try is read from a file of any name, and has the same limits', async () => {
  const folder = folderOf({ 'x y': PAID, broken: '{', slow: SLOW[0]?.[1] });
  const check = await readSchema(join(folder, 'x y'), SYSTEM.clock);
  assert.deepEqual(await check([Buffer.from('{"cents":1}'), Buffer.from('{}')].slice(0, 1)), [[]]);
  await assert.rejects(readSchema(join(folder, 'broken'), SYSTEM.clock), /broken: not JSON/);
  const slow = await readSchema(join(folder, 'slow'), SYSTEM.clock);
  const [long, short] = [SLOW[0]?.[2], {}].map((event) => Buffer.from(JSON.stringify(event)));
  const bodies = [...many(4, () => long as Buffer), short as Buffer];
  const problems = (await slow(bodies)).map(([problem]) => problem?.includes('longer than 100 ms'));
  assert.deepEqual(problems, [true, true, true, true, undefined]);
});
