import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HANDSHAKE_FREE_MS, overBudget, overLimit, victimOf, type Place } from '../../lib/http/eviction.ts';

type Named = Place & { readonly name: string };
type Given = Partial<Place>;

const HELLO: Given = { hasClientHello: true };
const AUTHENTICATED: Given = { isOpen: true };
const UNAUTHENTICATED: Given = { isOpen: true, hasOneAnswer: true };
const of = (producer: string, isIdle = true): Given => ({ isOpen: true, producer, isIdle });

const place = (name: string, given: Given = {}): Named => ({
  ...{ name, address: '1', sinceMs: 0, hasClientHello: false, isOpen: false, hasOneAnswer: false },
  ...{ producer: undefined, isIdle: true, ...given },
});

/** Lets strangers enter, who become known as `then` says. Returns the names of those that close. */
function entered(room: Named[], max: number, newcomers: readonly Named[], then: Given = {}): string[] {
  return newcomers.flatMap((newcomer) => {
    room.push(newcomer);
    const victim = room.length > max ? victimOf(room, newcomer, max) : undefined;
    if (victim !== undefined) room.splice(room.indexOf(victim), 1);
    Object.assign(newcomer, then);
    return victim?.name ?? [];
  });
}

const places = (names: string, given?: Given): Named[] => names.split(' ').map((name) => place(name, given));

describe('a full room', () => {
  it('closes strangers by rank: unauthenticated, silent, in the handshake, authenticated', () => {
    const room = [
      place('authenticated', AUTHENTICATED),
      ...[place('hello', HELLO), place('silent'), place('hello 2', HELLO), place('silent 2')],
      place('unauthenticated', UNAUTHENTICATED),
    ];
    const closed = entered(room, 6, places('a b c d e', HELLO));
    assert.deepEqual(closed, ['unauthenticated', 'silent', 'silent 2', 'hello', 'hello 2']);
  });

  it('closes no known connection for a stranger', () => {
    const room = [place('known', of('p'))];
    assert.deepEqual(entered(room, 2, places('b c', { address: '2' })), ['b']);
    room.shift();
    assert.deepEqual(entered(room, 2, places('d e', { address: '2' })), ['c']);
  });

  it('makes the handshakes of the address with most of them replace each other, and none of another address', () => {
    const room = [place('producer', { address: '2' }), ...places('a b c')];
    assert.deepEqual(entered(room, 4, places('d e')), ['a', 'b']);
  });

  it('of known connections closes an idle one of the producer with most, or else its oldest', () => {
    const room = [place('few', of('few', false)), place('a', of('most', false)), place('b', of('most'))];
    assert.deepEqual(entered(room, 6, places('c e f g h'), of('most', false)), ['b', 'a']);
    assert.deepEqual(entered([place('a', of('p'))], 1, places('b')), ['a']);
  });
});

it('the limit of an address closes its strangers by rank, and counts neither known ones nor fast handshakes', () => {
  const room = [
    ...places('known-1 known-2 known-3', of('p')),
    ...[place('fast', { sinceMs: 1 }), place('authenticated', AUTHENTICATED)],
    ...[...places('a b', UNAUTHENTICATED), place('slow', HELLO)],
    place('other', { ...UNAUTHENTICATED, address: '2' }),
  ];
  const over = (all: readonly Named[], max: number) => overLimit(all, max, HANDSHAKE_FREE_MS).map(({ name }) => name);
  assert.deepEqual(over(room, 2), ['a', 'b']);
  const rest = room.filter(({ name }) => !['a', 'b'].includes(name));
  assert.deepEqual([over(rest, 2), over(rest, 1), over(room, 0)], [[], ['slow'], []]);
});

describe('a budget of held bytes', () => {
  const holder = (name: string, kilobytes: number, isOpen = true) => ({
    ...{ name, isOpen, address: name.charAt(0), holder: name.charAt(0) },
    heldBytes: () => kilobytes << 10,
  });
  type Holder = ReturnType<typeof holder>;
  const closed = (all: readonly Holder[], producerMax: number, totalMax: number, inFlight = 0): string[] => {
    const [producerBytesMax, totalBytesMax] = [producerMax << 10, totalMax << 10];
    const held = { producerBytesMax, totalBytesMax, bytesInFlight: () => inFlight << 10 };
    return overBudget(all, held).map(({ name }) => name);
  };

  it('does not count what its own excess holds against others', () => {
    assert.deepEqual(closed([holder('a1', 90), holder('a2', 80), holder('b', 95)], 100, 180), ['a1']);
  });

  it('counts events in flight with what is held, and closes who holds the most', () => {
    assert.deepEqual(closed([holder('a', 90), holder('b', 20)], 100, 120), []);
    assert.deepEqual(closed([holder('a', 90), holder('b', 20)], 100, 120, 50), ['a']);
  });

  it('of handshakes is one for each address and one for all, and closes the largest', () => {
    const many = (address: string, count: number): Holder[] =>
      Array.from({ length: count }, (_, at) => holder(`${address}${at}`, 56, false));
    const other = holder('z', 42, false);
    const ofOne = closed([...many('a', 2_000), other, holder('b', 50)], 100, 100);
    assert.ok(ofOne.length > 200 && ofOne.every((name) => name.startsWith('a')), `${ofOne.length}`);
    const everywhere = closed([...'abcd'].flatMap((address) => many(address, 700)).concat(other), 100, 100);
    assert.ok(everywhere.length > 400 && !everywhere.includes('z'), `${everywhere.length}`);
  });
});
