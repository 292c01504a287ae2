import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { discriminatorOf, flaggedTexts, sourceLines } from '../../../lib/toollint/document/fingerprint.ts';
import { fingerprintOf } from '../support/samples.ts';

describe('the fingerprint', () => {
  it('equals the published vectors', () => {
    const texts = { discriminator: 'unexpected', lineText: 'console.log(x);', flaggedText: 'console.log' };
    assert.equal(
      fingerprintOf({ scope: 'file', ruleId: 'no-console', path: 'src/app.ts', ...texts }),
      '5b35ca5f34e97c169aa3b87735004d7782e048af5523bfb337c15a8dd7c0d8fa',
    );
    const readme = { discriminator: 'Missing README with # sections', lineText: '', flaggedText: '' };
    assert.equal(
      fingerprintOf({ scope: 'project', ruleId: 'TL-README', path: '', ...readme }),
      '103652d3bbf50c29c33627f7a4d8c62fa51cf4962982c7f1657c121765195df6',
    );
  });

  it('separates parts with line breaks and halves of surrogate pairs', () => {
    const of = (ruleId: string, discriminator: string) =>
      fingerprintOf({ scope: 'file', ruleId, discriminator, path: 'a', lineText: '', flaggedText: '' });
    assert.notEqual(of('a\nb', 'c'), of('a', 'b\nc'));
    assert.notEqual(of('a', '\ud800'), of('a', '\ud801'));
    assert.match(of('a', '\ud800'), /^[0-9a-f]{64}$/u);
  });

  it('prefers the message id to the message', () => {
    assert.equal(discriminatorOf('tooMany', 'has 21 lines'), 'tooMany');
    assert.equal(discriminatorOf(undefined, 'has  21\n lines of src/a.js:7 '), 'has # lines of src/a.js:#');
    assert.equal(discriminatorOf('', 'x 1'), 'x #');
  });

  it('splits lines where ECMAScript does, without the byte order mark', () => {
    assert.deepEqual(sourceLines('\ufeffa\r\nb\rc\nd\u2028e\u2029f'), ['a', 'b', 'c', 'd', 'e', 'f']);
  });

  it('uses the flagged text of one line only', () => {
    const lines = sourceLines('  const  a =\t1;\nnext();');
    const texts = (range: object) => Object.values(flaggedTexts(lines, range));
    assert.deepEqual(texts({ line: 1, column: 3, endLine: 1, endColumn: 8 }), ['const a = 1;', 'const']);
    assert.deepEqual(texts({ line: 1, column: 3, endLine: 2, endColumn: 8 }), ['const a = 1;', 'const a = 1;']);
    assert.deepEqual(texts({ line: 1, column: 10 }), ['const a = 1;', 'a = 1;']);
    assert.deepEqual(texts({ line: 1 }), ['const a = 1;', '']);
    assert.deepEqual(texts({ line: 0 }), ['', '']);
    assert.deepEqual(texts({ line: 9999, column: 1 }), ['', '']);
    assert.deepEqual(texts({}), ['', '']);
  });

  it('uses a window of a long line', () => {
    const raw = 'x'.repeat(2000).replace(/^(.{1000})./u, '$1A');
    const { lineText, flaggedText } = flaggedTexts([raw], { line: 1, column: 1001 });
    assert.deepEqual(
      [lineText.length, flaggedText.length, lineText.indexOf('A'), flaggedText[0]],
      [256, 128, 128, 'A'],
    );
    const far = flaggedTexts([`${raw}changed far away`], { line: 1, column: 1001 });
    assert.deepEqual([far.lineText, far.flaggedText], [lineText, flaggedText]);
    const digits = Array.from({ length: 1_025 }, (_, index) => String(index % 10)).join('');
    assert.deepEqual(flaggedTexts([digits], { line: 1 }), { lineText: digits.slice(0, 128), flaggedText: '' });
    assert.deepEqual(flaggedTexts([digits.slice(1)], { line: 1 }), { lineText: digits.slice(1), flaggedText: '' });
  });
});
