import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ESLint } from 'eslint';
import fc from 'fast-check';
import { isGlob, literalGlob, matchesGlob, normalGlob } from '../../../lib/toollint/document/file-pattern.ts';
import { pathFault } from '../../../lib/toollint/document/report-path.ts';

const PATTERNS = String.raw`
  *.js **/*.js src/** src/* src/**/*.js **/src/** a?.js [ab].js [!a].js {a,b}.js src/{a,b}/** @(a|b).js
  +(a).js *(a).js ?(a).js src/!(a)/*.js **/!(*.test).js .* .*/** **/.* * ** a.js src/a/a.js [[:alpha:]].js
  {1..3}.js src/**/a/*.js **/a/** a/**/b.js \[a].js a{,b}.js #a.js`
  .trim()
  .split(/\s+/u);
const PATHS = String.raw`
  a.js b.js ab.js aa.js A.js 2.js .a.js src/a.js src/.a.js src/a/a.js src/b/c/a.js .src/a.js src/a.test.js
  lib/src/a.js a/b.js a/x/y/b.js [a].js #a.js src/a/b.js`
  .trim()
  .split(/\s+/u);

describe('a file pattern', () => {
  it("matches the same files as in ESLint's ignores", async () => {
    for (const pattern of PATTERNS) {
      const eslint = new ESLint({ cwd: '/', overrideConfigFile: true, overrideConfig: [{ ignores: [pattern] }] });
      for (const path of PATHS) {
        // ESLint also ignores everything in an ignored folder, so the folder is checked separately.
        const folders = path
          .split('/')
          .slice(0, -1)
          .map((_, index, all) => `${all.slice(0, index + 1).join('/')}/`);
        const expected = await eslint.isPathIgnored(`/${path}`);
        const actual =
          matchesGlob(path, pattern) || folders.some((folder) => matchesGlob(folder.slice(0, -1), pattern));
        assert.equal(actual, expected, `${pattern} ${path}`);
      }
    }
  });

  it('can match exactly one path', () => {
    const character = fc.constantFrom(...'ab.*?[]{}()!+@#,|\\^$- /');
    const path = fc
      .array(character, { minLength: 1, maxLength: 8 })
      .map((all) => all.join(''))
      .filter((text) => text.split('/').every((segment) => segment !== '' && segment !== '.' && segment !== '..'));
    fc.assert(
      fc.property(path, path, (one, other) => {
        assert.ok(matchesGlob(one, literalGlob(one)), one);
        assert.equal(matchesGlob(other, literalGlob(one)), one === other, `${one} ${other}`);
      }),
      { numRuns: 2000 },
    );
  });

  it('is recognized by its characters and normalized', () => {
    for (const text of ['*', 'a?', '[a]', '{a,b}', '!(a)', '+(a)', '@(a)']) assert.ok(isGlob(text), text);
    for (const text of ['a.js', 'a(b).js', 'a+b', '@scope/a']) assert.ok(!isGlob(text), text);
    assert.deepEqual(['./a', '././a/', 'a/', 'a'].map(normalGlob), ['a', 'a/**', 'a/**', 'a']);
    assert.ok(!matchesGlob('b.js', '!a.js'));
  });

  it('that is too long is refused with a message', () => {
    assert.throws(() => matchesGlob('a', 'a'.repeat(70_000)), /not a file pattern/u);
  });
});

describe('a path of a report', () => {
  it('is relative, without a drive, a scheme or dot segments', () => {
    for (const path of ['a', 'a/b.c', '...', '..a/b..', 'ab:c/d', 'é']) assert.equal(pathFault(path), undefined, path);
    for (const [path, fault] of [
      ['/a', 'the path is absolute'],
      ['c:/d', 'the path begins with a drive'],
      ['http://x', 'the path has a scheme'],
      ['a1+b-c.d://x', 'the path has a scheme'],
      ['1a://x', "the path has the segment ''"],
      ['a/b://x', "the path has the segment ''"],
      ['a/./b', "the path has the segment '.'"],
      ['a/..', "the path has the segment '..'"],
      ['a/', "the path has the segment ''"],
      ['a\\b', "the path contains '\\'"],
      ['a\0', 'the path contains NUL'],
    ] as const)
      assert.equal(pathFault(path), fault, path);
  });
});
