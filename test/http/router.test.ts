import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { decodeParameter, route, Router } from '../../lib/http/router.ts';
import { anyCharacter } from '../support/any-character.ts';

const router = new Router([
  route('/events', { POST: 'accept' }),
  route('/events/{id}', { GET: 'find' }),
  route('/health/live', { GET: 'live' }),
]);

const found = (target: string): string | undefined => {
  const match = router.find(target);
  return match === undefined ? undefined : `${match.route.name} ${match.parameter}`.trim();
};

describe('a router', () => {
  for (const [target, wanted] of [
    ['/events', '/events'],
    ['/events?x=/y', '/events'],
    ['/events?', '/events'],
    ['/events/a', '/events/{id} a'],
    ['/events/a?b', '/events/{id} a'],
    ['/events/a%2Fb%3F', '/events/{id} a%2Fb%3F'],
    ['/events/..', '/events/{id} ..'],
    ['/events/', undefined],
    ['/events/?a', undefined],
    ['/events/a/', undefined],
    ['/events/a/b', undefined],
    ['/eventsx', undefined],
    ['/EVENTS', undefined],
    ['/%65vents', undefined],
    ['//events', undefined],
    ['/health', undefined],
    ['/health/live/', undefined],
    ['/', undefined],
    ['*', undefined],
    ['', undefined],
    ['events', undefined],
    ['https://any.host:1/events', '/events'],
    ['HTTP://any.host/events/a?b', '/events/{id} a'],
    ['https://any.host', undefined],
    ['https://any.host?/events', undefined],
    ['ftp://any.host/events', undefined],
    ['/__proto__', undefined],
  ] as const) {
    it(`finds ${wanted ?? 'nothing'} for ${JSON.stringify(target)}`, () => {
      assert.equal(found(target), wanted);
    });
  }

  it('has the handler of GET for HEAD, and all methods in allow', () => {
    const { methods, allow } = route('/events/{id}', { GET: 'find' });
    assert.deepEqual(
      [...methods],
      [
        ['GET', 'find'],
        ['HEAD', 'find'],
      ],
    );
    assert.equal(allow, 'GET, HEAD');
    assert.equal(route('/events', { POST: 'accept' }).allow, 'POST');
  });

  it('returns every percent-encoded id, with any characters', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
        fc.constantFrom('', '?', '?a=/b'),
        (id, query) => {
          const match = router.find(`/events/${encodeURIComponent(id)}${query}`);
          assert.equal(match?.route.name, '/events/{id}');
          assert.equal(decodeParameter(match.parameter), id);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it('never throws for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), (text) => {
        const match = router.find(text);
        if (match !== undefined) assert.equal(match.parameter.includes('/'), false);
        decodeParameter(text);
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('decoding a parameter', () => {
  for (const [text, wanted] of [
    ['plain', 'plain'],
    ['a+b', 'a+b'],
    ['%41', 'A'],
    ['%F0%9F%98%80', '\u{1F600}'],
    ['%2f', '/'],
    ['%252F', '%2F'],
    ['%', undefined],
    ['%4', undefined],
    ['%zz', undefined],
    ['%FF', undefined],
    ['%ED%A0%80', undefined],
    ['%C0%AF', undefined],
  ] as const) {
    it(`turns ${text} into ${JSON.stringify(wanted)}`, () => {
      assert.equal(decodeParameter(text), wanted);
    });
  }
});
