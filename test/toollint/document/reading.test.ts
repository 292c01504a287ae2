// How a document's text is read: strictly, in pieces, and with the place of what is wrong.
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { DocumentParser } from '../../../lib/toollint/document/document-parser.ts';
import type { TextProblem } from '../../../lib/toollint/document/document-visitor.ts';
import { isExactNumber } from '../../../lib/toollint/document/strict-json.ts';
import { memorySource, validate } from '../../../lib/toollint/toollint.ts';
import { fullReport, sampleFinding, sampleReport } from '../support/samples.ts';

const good = JSON.stringify(fullReport());
const lineOf = (literal: string) => good.replace('"line":3', `"line":${literal}`);

async function problemsOf(content: string | Uint8Array) {
  const { problems } = await validate(memorySource(content, 'sample'));
  return problems;
}

async function firstProblem(content: string | Uint8Array): Promise<[string, string]> {
  const [first] = await problemsOf(content);
  return [first?.code ?? 'none', first?.pointer ?? ''];
}

/** Reads text cut at the given offsets. */
function parsed(bytes: Uint8Array, cuts: readonly number[]) {
  const members: Record<string, unknown> = {};
  const findings: unknown[] = [];
  const problems: TextProblem[] = [];
  const parser = new DocumentParser({
    member: (name, value) =>
      Object.defineProperty(members, name, { value, enumerable: true, configurable: true, writable: true }),
    findingsBegin: () => undefined,
    finding: (value) => findings.push(value),
    problem: (problem) => problems.push(problem),
  });
  let from = 0;
  for (const cut of [...cuts, bytes.length].sort((a, b) => a - b)) {
    parser.push(bytes.subarray(from, cut));
    from = cut;
  }
  parser.end();
  return { members, findings, problems };
}

describe('reading a report', () => {
  it('takes a whole number in any notation and refuses one that is rounded', async () => {
    for (const literal of ['3.0', '3e0', '0.3e1', '30e-1', '9007199254740991', '9.007199254740991e15']) {
      assert.deepEqual(await problemsOf(lineOf(literal)), [], literal);
    }
    for (const literal of [
      '0',
      '-1',
      '1.5',
      '9007199254740992',
      '9007199254740993',
      '9007199254740991.4',
      '0.9999999999999999999',
      '1e400',
      '"5"',
      '1e-400',
    ]) {
      assert.equal((await firstProblem(lineOf(literal)))[1], '/findings/0/location/line', literal);
    }
  });

  it('does not call a number null that is too large to read', async () => {
    const problems = await problemsOf(good.replace('"durationMs":12.5', '"durationMs":1e400'));
    assert.deepEqual(
      problems.map(({ message }) => message),
      ['the number 1e400 cannot be read exactly', 'expected number (minimum 0), found Infinity'],
    );
  });

  it('takes a duration that no double is, and a negative zero', async () => {
    for (const literal of ['0.1', '-0', '0.10000000000000001', '1e-7', '123.456']) {
      assert.deepEqual(await problemsOf(good.replace('"durationMs":12.5', `"durationMs":${literal}`)), [], literal);
    }
    for (const literal of ['-1', '1e400', '-0.5']) {
      assert.equal(
        (await firstProblem(good.replace('"durationMs":12.5', `"durationMs":${literal}`)))[1],
        '/scan/durationMs',
        literal,
      );
    }
  });

  it('knows when a literal is exactly its double, as far as integers go', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }), (value) => {
        if (BigInt(Number(value)) === value) assert.equal(isExactNumber(String(value)), true);
      }),
    );
    for (const literal of ['9007199254740993', '9007199254740991.4', '-9007199254740993', '0.99999999999999999999']) {
      assert.equal(isExactNumber(literal), false, literal);
    }
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        assert.equal(isExactNumber(JSON.stringify(value)), true);
      }),
    );
  });

  it('names a member that stands twice, wherever it is', async () => {
    const twice = (part: string, name: string) => good.replace(part, `${part}${name}`);
    assert.deepEqual(await firstProblem(twice('"scope":"file",', '"scope":"file",')), [
      'duplicate-member',
      '/findings/0/location/scope',
    ]);
    assert.deepEqual(await firstProblem(twice('"tool":{', '"name":"x",')), ['duplicate-member', '/tool/name']);
    assert.deepEqual(await firstProblem(good.replace('{', '{"gate":{"status":"not-evaluated"},')), [
      'duplicate-member',
      '/gate',
    ]);
    assert.deepEqual(await firstProblem(good.replace('{', '{"a~/b":{"__proto__":1,"__proto__":2},')), [
      'duplicate-member',
      '/a~0~1b/__proto__',
    ]);
  });

  it('refuses what is not one JSON value', async () => {
    const texts = [
      '',
      ' ',
      '{',
      good.slice(0, -1),
      `${good}x`,
      `${good}${good}`,
      `${good},`,
      good.replace('1,', 'NaN,'),
      good.replaceAll('"', "'"),
      `// report\n${good}`,
      good.replace('"findings":[', '"findings":[,'),
      good.replace('}]', '},]'),
      good.replace('"tool":', '"tool"'),
      `<<<<<<< HEAD\n${good}`,
      good.replace('it threw', 'it \u0000 threw'),
      good.replace('it threw', 'it \\x threw'),
      good.replace('true', 'TRUE'),
      good.replace('it threw', 'line\nbreak'),
      good.replace('12.5', '012'),
      good.replace('12.5', '.5'),
      good.replace('12.5', '1.'),
    ];
    for (const text of texts) assert.equal((await firstProblem(text))[0], 'syntax', text.slice(0, 40));
  });

  it('refuses bytes that are not UTF-8', async () => {
    const wide = Buffer.from(good, 'utf16le');
    assert.notEqual((await problemsOf(Buffer.concat([Buffer.from([0xff, 0xfe]), wide]))).length, 0);
    assert.notEqual((await problemsOf(gzipSync(good))).length, 0);
    for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xe2, 0x82]]) {
      const at = good.indexOf('it threw');
      const broken = Buffer.concat([Buffer.from(good.slice(0, at)), Buffer.from(bytes), Buffer.from(good.slice(at))]);
      assert.equal((await firstProblem(broken))[0], 'encoding', String(bytes));
    }
  });

  it('accepts a byte order mark and says so', async () => {
    const { schema, sawByteOrderMark } = await validate(memorySource(`\ufeff${good}`, 'sample'));
    assert.deepEqual([schema, sawByteOrderMark], ['valid', true]);
  });

  it('accepts an escaped half of a surrogate pair, and advises against it', async () => {
    const text = good.replace('it threw', 'it \\ud800 threw');
    const { schema, problems } = await validate(memorySource(text, 'sample'), { advice: true });
    assert.equal(schema, 'valid');
    assert.ok(
      problems.some(({ code, pointer }) => code === 'unicode' && pointer === '/execution/diagnostics/0/message'),
    );
  });

  it('stops at 65 levels and takes 64', async () => {
    const nested = (levels: number) => good.replace('{', `{"deep":${'['.repeat(levels)}${']'.repeat(levels)},`);
    assert.deepEqual(await problemsOf(nested(63)), []);
    assert.deepEqual(await firstProblem(nested(64)), ['too-deep', '/deep']);
    assert.deepEqual(await firstProblem(nested(100_000)), ['too-deep', '/deep']);
    assert.deepEqual(await firstProblem(good.replace('"line":3', `"line":${'['.repeat(100_000)}`)), [
      'too-deep',
      '/findings/0',
    ]);
  });

  it('reads a value of tens of megabytes', async () => {
    const report = sampleReport([{ ...sampleFinding(), codeSnippet: 'x\\"é'.repeat(8_000_000) }]);
    assert.deepEqual(await problemsOf(JSON.stringify(report)), []);
  });

  it('keeps names that JavaScript objects have of their own apart from them', async () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
      const report = sampleReport([
        sampleFinding({ ruleId: name, path: name }),
        sampleFinding({ ruleId: name, path: name }),
      ]);
      assert.deepEqual(await problemsOf(JSON.stringify(report)), [], name);
      assert.deepEqual(await problemsOf(JSON.stringify(report).replace('{', `{"${name}":{"${name}":1},`)), [], name);
    }
  });

  it('takes the members in any order', async () => {
    const reversed = Object.fromEntries(Object.entries(fullReport()).reverse());
    assert.deepEqual(await problemsOf(JSON.stringify(reversed)), []);
    const wrong = sampleReport(
      [sampleFinding({ path: 'other/a.ts' })],
      (report) => (report.scan.target = { kind: 'file', path: 'src/app.ts' }),
    );
    const [problem, ...others] = await problemsOf(JSON.stringify(Object.fromEntries(Object.entries(wrong).reverse())));
    assert.deepEqual([problem?.code, problem?.pointer, others], ['invariant-17', '/findings/0/location/path', []]);
  });

  it('gives the same values as JSON.parse, wherever the text is cut', () => {
    const value = fc.jsonValue({ maxDepth: 4 });
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), value),
        fc.array(value),
        fc.array(fc.nat({ max: 400 })),
        fc.boolean(),
        (members, findings, cuts, pretty) => {
          const document = { ...members, findings };
          const bytes = Buffer.from(JSON.stringify(document, null, pretty ? 2 : 0));
          const read = parsed(
            bytes,
            cuts.map((cut) => Math.min(cut, bytes.length)),
          );
          const { findings: list, ...rest } = JSON.parse(bytes.toString()) as { findings: unknown[] };
          assert.deepEqual(read.problems, []);
          assert.deepEqual(read.findings, list);
          assert.deepEqual(Object.entries(read.members), Object.entries(rest));
        },
      ),
    );
  });

  it('refuses a text that JSON.parse refuses, wherever a byte is changed', () => {
    fc.assert(
      fc.property(fc.nat({ max: good.length - 1 }), fc.constantFrom(...'{}[]",:\\ 0eE.-+xtn\n'), (at, character) => {
        const text = good.slice(0, at) + character + good.slice(at + 1);
        let isJson = true;
        try {
          JSON.parse(text);
        } catch {
          isJson = false;
        }
        const stopped = parsed(Buffer.from(text), []).problems.some(({ code }) => code === 'syntax' || code === 'root');
        assert.equal(stopped, !isJson, text.slice(Math.max(0, at - 20), at + 20));
      }),
      { numRuns: 400 },
    );
  });
});
