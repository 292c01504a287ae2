import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ESLint } from 'eslint';
import { matchesGlob } from '../../../lib/toollint/document/file-pattern.ts';

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

  it('that is too long is refused with a message', () => {
    assert.throws(() => matchesGlob('a', 'a'.repeat(70_000)), /not a file pattern/u);
  });
});
