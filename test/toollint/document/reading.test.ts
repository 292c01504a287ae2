import assert from 'node:assert/strict';
import { mkdtemp, open, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';
import {
  DOCUMENT_BYTES_MAX,
  fileSource,
  Interrupted,
  memorySource,
  streamSource,
  validate,
} from '../../../lib/toollint/toollint.ts';
import { fullReport, sampleFinding, sampleReport } from '../support/samples.ts';

const good = JSON.stringify(fullReport());
const lineOf = (literal: string) => good.replace('"line":3', `"line":${literal}`);

function problemsOf(content: string | Uint8Array) {
  const { problems } = validate(memorySource(content, 'sample'));
  return problems;
}

function firstProblem(content: string | Uint8Array): [string, string] {
  const [first] = problemsOf(content);
  return [first?.code ?? 'none', first?.pointer ?? ''];
}

describe('reading a report', () => {
  it('accepts an integer in any notation and refuses another number', () => {
    for (const literal of ['3.0', '3e0', '0.3e1', '30e-1', '9007199254740991', '9.007199254740991e15']) {
      assert.deepEqual(problemsOf(lineOf(literal)), [], literal);
    }
    for (const literal of '0 -1 1.5 9007199254740992 9007199254740993 1e400 "5" 1e-400'.split(' ')) {
      assert.equal(firstProblem(lineOf(literal))[1], '/findings/0/location/line', literal);
    }
  });

  it('names a member that appears twice, at any depth', () => {
    const twice = (part: string, name: string) => good.replace(part, `${part}${name}`);
    for (const [text, pointer] of [
      [twice('"scope":"file",', '"scope":"file",'), '/findings/0/location/scope'],
      [twice('"tool":{', '"name":"x",'), '/tool/name'],
      [twice('{', '"gate":{"status":"not-evaluated"},'), '/gate'],
      [twice('{', '"a~/b":{"__proto__":1,"__proto__":2},'), '/a~0~1b/__proto__'],
    ] as const)
      assert.deepEqual(firstProblem(text), ['duplicate-member', pointer]);
  });

  it('refuses a text that is not one JSON value', () => {
    const texts = ['', '{', `${good}x`, `${good}${good}`, `// report\n${good}`, `<<<<<<< HEAD\n${good}`];
    for (const text of texts) assert.equal(firstProblem(text)[0], 'syntax', text.slice(0, 40));
  });

  it('refuses bytes that are not UTF-8', () => {
    for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe2, 0x82]]) {
      const at = good.indexOf('it threw');
      const broken = Buffer.concat([Buffer.from(good.slice(0, at)), Buffer.from(bytes), Buffer.from(good.slice(at))]);
      assert.equal(firstProblem(broken)[0], 'encoding', String(bytes));
    }
  });

  it('accepts a byte order mark and reports it', () => {
    const { schema, sawByteOrderMark } = validate(memorySource(`\ufeff${good}`, 'sample'));
    assert.deepEqual([schema, sawByteOrderMark], ['valid', true]);
  });

  it('accepts 64 levels and refuses 65', () => {
    const nested = (levels: number) => good.replace('{', `{"deep":${'['.repeat(levels)}${']'.repeat(levels)},`);
    assert.deepEqual(problemsOf(nested(63)), []);
    for (const levels of [64, 100_000]) {
      const [code, pointer] = firstProblem(nested(levels));
      assert.equal(code, 'too-deep');
      assert.ok(pointer.startsWith('/deep/0/0'));
    }
  });

  it('reads a value of tens of megabytes', () => {
    const report = sampleReport([{ ...sampleFinding(), codeSnippet: 'x\\"é'.repeat(3_000_000) }]);
    assert.deepEqual(problemsOf(JSON.stringify(report)), []);
  });

  it("accepts members with the names of JavaScript's own properties", () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
      const report = sampleReport([
        sampleFinding({ ruleId: name, path: name }),
        sampleFinding({ ruleId: name, path: name }),
      ]);
      assert.deepEqual(problemsOf(JSON.stringify(report)), [], name);
      assert.deepEqual(problemsOf(JSON.stringify(report).replace('{', `{"${name}":{"${name}":1},`)), [], name);
    }
  });
});

describe('the bytes of a document', () => {
  it('are refused if the file is longer than the limit', async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'toollint-test-'));
    t.after(() => rm(folder, { recursive: true }));
    const path = join(folder, 'r.json');
    const file = await open(path, 'w');
    await file.truncate(DOCUMENT_BYTES_MAX + 1);
    await file.close();
    await assert.rejects(fileSource(path, 'r.json'), {
      message: `r.json is longer than the limit of ${DOCUMENT_BYTES_MAX} bytes`,
    });
    await truncate(path, 3);
    assert.equal((await fileSource(path, 'r.json')).bytes.length, 3);
  });

  it('end with the signal', async () => {
    const waiting = new PassThrough();
    const interrupt = new AbortController();
    const reading = streamSource(waiting, 'x', { signal: interrupt.signal });
    interrupt.abort();
    await assert.rejects(reading, Interrupted);
    await assert.rejects(streamSource(new PassThrough(), 'x', { signal: interrupt.signal }), Interrupted);
  });
});
