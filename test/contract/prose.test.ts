import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';

const ROOT = new URL('../../', import.meta.url).pathname;
const PLACES = ['README.md', 'CHANGELOG.md', '.github', 'bin', 'deploy', 'lib', 'openapi'];
const READ = /\.(?:ts|lua|md|ya?ml|service|env)$/;

const PHRASES: readonly (readonly [phrase: RegExp, instead: string])[] = [
  [/\banew\b/i, 'again'],
  [/\bbeside\b/i, 'next to'],
  [/\bwhoever\b/i, 'anyone who'],
  [/\btaken in hand\b/i, 'processed'],
  [/\baccepts on\b/i, 'keeps accepting'],
  [/\b(?:is|are) wanted here\b/i, 'expected'],
  [/\bthis is no proxy\b/i, 'CONNECT is not supported'],
  [/\bmake no id\b/i, 'do not form a valid id'],
  [/\bcould be asked\b/i, 'could be queried'],
];

const files = PLACES.flatMap((place) =>
  READ.test(place)
    ? [place]
    : readdirSync(join(ROOT, place), { recursive: true, encoding: 'utf8' })
        .filter((name) => READ.test(name))
        .map((name) => join(place, name)),
);

const COLUMNS_MAX = 120;

describe('the prose', () => {
  it(`has at most ${COLUMNS_MAX} characters in a line of lib and bin`, () => {
    const wide = files
      .filter((file) => /^(?:lib|bin)\/.*\.(?:ts|lua)$/.test(file))
      .flatMap((file) =>
        readFileSync(join(ROOT, file), 'utf8')
          .split('\n')
          .flatMap((line, at) => (line.length > COLUMNS_MAX ? [`${file}:${at + 1}`] : [])),
      );
    assert.deepEqual(wide, []);
  });

  it('is read in more than 250 files', () => assert.ok(files.length > 250, `${files.length}`));

  for (const [phrase, instead] of PHRASES)
    it(`has "${instead}" instead of ${phrase.source}`, () => {
      const found = files.flatMap((file) =>
        readFileSync(join(ROOT, file), 'utf8')
          .split('\n')
          .flatMap((line, at) => (phrase.test(line) ? [`${file}:${at + 1}: ${line.trim()}`] : [])),
      );
      assert.deepEqual(found, []);
    });
});
