import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HANDSHAKE_FREE_MS, overLimit, victimOf, type Place } from '../../lib/http/eviction.ts';

type Named = Place & { readonly name: string };

/**
 * A room in which connections have names. A name that ends with `+` has sent a ClientHello, and one that ends with `!`
 * is busy.
 */
class Room {
  readonly places: Named[] = [];
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  /** Returns the name of the connection that was closed. */
  enter(name: string, address: string, nowMs: number): string | undefined {
    const [hasClientHello, isIdle] = [name.endsWith('+'), !name.endsWith('!')];
    const state = { isOpen: false, hasOneAnswer: false, producer: undefined };
    const newcomer: Named = { name, address, sinceMs: nowMs, hasClientHello, isIdle, ...state };
    this.places.push(newcomer);
    if (this.places.length <= this.#max) return undefined;
    return this.leave(victimOf(this.places, newcomer, this.#max).name);
  }

  leave(name: string): string {
    this.places.splice(
      this.places.findIndex((place) => place.name === name),
      1,
    );
    return name;
  }

  handshakeDone(name: string, isAuthenticated: boolean, producer?: string): void {
    const place = this.places.find((one) => one.name === name);
    if (place !== undefined) Object.assign(place, { isOpen: true, hasOneAnswer: !isAuthenticated, producer });
  }

  over(addressMax: number): string[] {
    return overLimit(this.places, addressMax, HANDSHAKE_FREE_MS).map(({ name }) => this.leave(name));
  }

  /** Admits connections of a producer, which send a request. Returns the connections that were closed. */
  admit(producer: string, ...names: string[]): string[] {
    return names.flatMap((name) => {
      const closed = this.enter(name, '1', 0);
      this.handshakeDone(name, true, producer);
      return closed ?? [];
    });
  }

  /** Closes all connections one after the other, and returns their order. */
  order(...addresses: string[]): (string | undefined)[] {
    return addresses.map((address, at) => this.enter(`new-${at}+`, address, HANDSHAKE_FREE_MS));
  }
}

describe('a full room', () => {
  it('closes strangers by rank: unauthenticated, silent, in the handshake, authenticated', () => {
    const full = new Room(6);
    full.enter('authenticated', '1', 0);
    full.handshakeDone('authenticated', true);
    full.enter('slow+', '1', 0);
    full.enter('silent and slow', '1', 0);
    full.enter('young+', '1', 1);
    full.enter('silent', '1', 1);
    full.enter('unauthenticated', '1', 1);
    full.handshakeDone('unauthenticated', false);
    assert.deepEqual(full.order('1', '1', '1', '1', '1'), [
      'unauthenticated',
      'silent and slow',
      'silent',
      'slow+',
      'young+',
    ]);
  });

  it('closes no known connection for a stranger', () => {
    const full = new Room(2);
    full.admit('p', 'a');
    assert.equal(full.enter('b', '2', 0), undefined);
    assert.equal(full.enter('c', '2', 0), 'b');
    full.leave('a');
    assert.equal(full.enter('d', '2', 0), undefined);
    assert.equal(full.enter('e', '2', 0), 'c');
  });

  it('makes the handshakes of the address with most of them replace each other, and none of another address', () => {
    const full = new Room(4);
    full.enter('producer', '2', 0);
    for (const name of ['a', 'b', 'c']) full.enter(name, '1', 0);
    assert.equal(full.enter('d', '1', 0), 'a');
    assert.equal(full.enter('e', '1', 0), 'b');
  });
});

describe('a room with too many known connections', () => {
  it('closes an idle connection of the producer with most connections, or else its oldest', () => {
    const full = new Room(6);
    full.admit('few', 'd!');
    assert.deepEqual(full.admit('most', 'a!', 'b', 'c!', 'e!', 'f!', 'g!', 'h!'), ['b', 'a!']);
    const one = new Room(1);
    assert.deepEqual(one.admit('p', 'a'), []);
    assert.equal(one.enter('b', '2', 0), 'a');
  });
});

describe('the limit of one address', () => {
  it('closes its strangers by rank, and counts neither known connections nor fast handshakes', () => {
    const wide = new Room(100);
    wide.admit('p', 'known-1', 'known-2', 'known-3');
    for (const name of ['fast-1', 'fast-2+']) wide.enter(name, '1', HANDSHAKE_FREE_MS);
    for (const name of ['authenticated', 'a', 'b', 'slow+']) wide.enter(name, '1', 0);
    wide.handshakeDone('authenticated', true);
    for (const name of ['a', 'b']) wide.handshakeDone(name, false);
    wide.enter('other', '2', 0);
    wide.handshakeDone('other', false);
    assert.deepEqual(wide.over(2), ['a', 'b']);
    assert.deepEqual(wide.over(2), []);
    assert.deepEqual(wide.over(0), []);
  });
});
