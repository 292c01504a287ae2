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
  it('finds a fixed path, or a prefix with one parameter, whatever the query and the host are', () => {
    for (const [target, wanted] of [
      ['/events', '/events'],
      ['/events?x=/y', '/events'],
      ['/events/a?b', '/events/{id} a'],
      ['/events/a%2Fb%3F', '/events/{id} a%2Fb%3F'],
      ['/events/..', '/events/{id} ..'],
      ['https://any.host:1/events', '/events'],
      ['HTTP://any.host/events/a?b', '/events/{id} a'],
    ] as const)
      assert.equal(found(target), wanted, target);
    const unknown = `/events/ /events/?a /events/a/ /events/a/b /eventsx /EVENTS /%65vents //events /health /health/live/
      / * events https://any.host https://any.host?/events ftp://any.host/events /__proto__`;
    for (const target of ['', ...unknown.split(/\s+/)]) assert.equal(found(target), undefined, target);
  });

  it('has the handler of GET for HEAD, and all methods in allow', () => {
    const { methods, allow } = route('/events/{id}', { GET: 'find' });
    assert.deepEqual(Object.fromEntries(methods), { GET: 'find', HEAD: 'find' });
    assert.equal(allow, 'GET, HEAD');
  });

  it('returns every percent-encoded id, with any characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter, minLength: 1 }), fc.constantFrom('', '?', '?a=/b'), (id, query) => {
        const match = router.find(`/events/${encodeURIComponent(id)}${query}`);
        assert.equal(match?.route.name, '/events/{id}');
        assert.equal(decodeParameter(match.parameter), id);
        const any = router.find(id);
        if (any !== undefined) assert.equal(any.parameter.includes('/'), false);
      }),
      { numRuns: 2_000 },
    );
  });

  it('decodes a parameter, unless it is not valid UTF-8', () => {
    for (const [text, wanted] of [
      ['a+b', 'a+b'],
      ['%41', 'A'],
      ['%F0%9F%98%80', '\u{1F600}'],
      ['%2f', '/'],
      ['%252F', '%2F'],
      ['%', undefined],
      ['%zz', undefined],
      ['%FF', undefined],
      ['%ED%A0%80', undefined],
      ['%C0%AF', undefined],
    ] as const)
      assert.equal(decodeParameter(text), wanted, text);
  });
});
