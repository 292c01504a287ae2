// Phrases that read as translated, and what to write instead. None is in the sources, the pages or the API files.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';

const ROOT = new URL('../../', import.meta.url).pathname;
const PLACES = ['README.md', 'CHANGELOG.md', '.github', 'bin', 'deploy', 'lib', 'openapi'];
const READ = /\.(?:ts|lua|md|ya?ml|service|env)$/;

const PHRASES: readonly (readonly [phrase: RegExp, instead: string])[] = [
  [/\bstands?\b(?! for\b|-alone\b)/i, 'is, or the verb that says what happens'],
  [/\b(?:is|are) told\b/i, 'learns, receives, is notified'],
  [/\bbeside\b/i, 'next to, with, in addition to'],
  [/\bwhoever\b/i, 'the noun: the caller, the client, a member'],
  [/\bnobody\b/i, 'the noun: no producer, no client, none'],
  [/\btaken in hand\b/i, 'processed'],
  [/\baccepts on\b/i, 'keeps accepting'],
  [/\bon (?:its|their) way\b(?! to a quarantine row)/i, 'in flight, being written'],
  [/\bwhat is over\b/i, 'the excess, the rest'],
  [/\b(?:is|are) wanted here\b/i, 'expected'],
  [/\bthis is no proxy\b/i, 'CONNECT is not supported'],
  [/\bmake no id\b/i, 'do not form a valid id'],
  [/\bof each chance\b/i, 'percent jitter'],
  [/\bno event more\b/i, 'adds no event'],
  [/\bcould be asked\b/i, 'could be queried'],
  [/\bmeets no closed door\b/i, 'does not hit a closed connection'],
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
    it(`says "${instead}" in place of ${phrase.source}`, () => {
      const found = files.flatMap((file) =>
        readFileSync(join(ROOT, file), 'utf8')
          .split('\n')
          .flatMap((line, at) => (phrase.test(line) ? [`${file}:${at + 1}: ${line.trim()}`] : [])),
      );
      assert.deepEqual(found, []);
    });
});
