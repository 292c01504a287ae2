// The schemas of event types: which folders are usable, what an event's problems are, and what a change does.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { readSchema, WatchedSchemas } from '../../lib/consumer/schemas.ts';
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

async function open(folder: string): Promise<{ schemas: WatchedSchemas; logged: string[] }> {
  const logged: string[] = [];
  const line = (fields: Readonly<Record<string, unknown>>, text: string): void =>
    void logged.push(`${text} ${JSON.stringify(fields)}`);
  const schemas = await WatchedSchemas.open(folder);
  assert.ok(schemas !== undefined);
  const log = { info: line, error: line } as unknown as Log;
  schemas.watch({ clock: SYSTEM.clock, log, onOutcome: () => undefined });
  atEnd(() => schemas.stop());
  return { schemas, logged };
}

const problems = async (schema: object, event: unknown): Promise<readonly string[] | undefined> => {
  const { schemas } = await open(folderOf({ 't.json': schema }));
  return schemas.problemsOf('t', Buffer.from(typeof event === 'string' ? event : JSON.stringify(event)));
};

describe('the schema of an event type', () => {
  it('holds for events of its type alone', async () => {
    const { schemas } = await open(folderOf({ 'order.paid.json': PAID, 'README.md': 'no schema' }));
    const check = (type: string, event: object) => schemas.problemsOf(type, Buffer.from(JSON.stringify(event)));
    assert.deepEqual(check('order.paid', { cents: 1 }), []);
    assert.deepEqual(check('order.paid', { cents: 'é' }), ['/cents must be integer']);
    assert.deepEqual(check('order.paid', {}), ["must have required property 'cents'"]);
    assert.equal(check('order', {}), undefined);
  });

  it('does not hold for what erasing left of an event', async () => {
    const { schemas } = await open(folderOf({ 'order.paid.json': PAID }));
    assert.equal(schemas.problemsOf('order.paid', Buffer.from(erasedBody('one', 'order.paid'))), undefined);
  });

  it('may refer to other files by their names', async () => {
    const line = { $defs: { cents: { type: 'integer' } } };
    const placed = { properties: { cents: { $ref: 'order.line.json#/$defs/cents' } } };
    const { schemas } = await open(folderOf({ 'order.line.json': line, 'order.placed.json': placed }));
    assert.deepEqual(schemas.problemsOf('order.placed', Buffer.from('{"cents":"1"}')), ['/cents must be integer']);
  });

  it('knows an own member from one that every object has', async () => {
    assert.deepEqual(await problems({ required: ['toString'] }, {}), ["must have required property 'toString'"]);
    assert.deepEqual(await problems({ properties: { constructor: { type: 'string' } } }, {}), []);
    assert.deepEqual(await problems({ required: ['__proto__'] }, '{"__proto__":1}'), []);
  });

  it('takes no longer for a string than its length allows, whatever the pattern', async () => {
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
  it('is refused as a whole, and every file that cannot be used is named with its fault', async () => {
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
    await assert.rejects(open(folder), (cause) => {
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

  it('is told by its types in the order of their names', async () => {
    const names = ['m', 'c', 'x', 'a', 'q', 'f', 'z', 'b'];
    const { logged } = await open(folderOf(Object.fromEntries(names.map((name) => [`${name}.json`, {}]))));
    assert.match(logged[0] ?? '', /\{"types":\["a","b","c","f","m","q","x","z"\]\}$/);
  });

  it('is taken into use when it changes, unless a file in it is broken', async () => {
    const folder = folderOf({ 'order.paid.json': PAID });
    const { schemas, logged } = await open(folder);
    assert.deepEqual(logged, ['events of these types are held against their schemas {"types":["order.paid"]}']);
    const isRefused = (): boolean => schemas.problemsOf('order.placed', Buffer.from('{}'))?.length === 1;
    writeFileSync(join(folder, 'order.placed.json'), '{');
    await eventually('the broken file is told', () => logged.some((line) => /refused.*order\.placed\.json/.test(line)));
    assert.equal(schemas.problemsOf('order.placed', Buffer.from('{}')), undefined);
    assert.equal(schemas.problemsOf('order.paid', Buffer.from('{}'))?.length, 1);
    writeFileSync(join(folder, 'order.placed.json'), JSON.stringify(PAID));
    await eventually('the mended file is in use', isRefused);
    assert.equal(logged.at(-1), 'files reloaded and in use {"kind":"schemas","types":["order.paid","order.placed"]}');
  });
});

describe('no folder of schemas', () => {
  it('is none to watch', async () => {
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
