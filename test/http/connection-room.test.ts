import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ConnectionRoom, HANDSHAKE_FREE_MS } from '../../lib/http/connection-room.ts';

/**
 * A room in which connections are names. A name that ends with `+` has sent a ClientHello, and one that ends with `!`
 * is busy.
 */
class Room extends ConnectionRoom<string> {
  readonly producers: Map<string, string>;

  constructor(connectionsMax: number, connectionsPerAddressMax: number) {
    const producers = new Map<string, string>();
    super(
      { connectionsMax, connectionsPerAddressMax },
      {
        hasClientHello: (name) => name.endsWith('+'),
        isIdle: (name) => !name.endsWith('!'),
        producerOf: (name) => producers.get(name),
      },
    );
    this.producers = producers;
  }

  /** Admits connections of a producer, which complete their handshakes. Returns the connections that were closed. */
  come(producer: string, ...names: string[]): string[] {
    return names.flatMap((name) => {
      const goes = [this.enter(name, '1'), this.handshakeDone(name, true)];
      this.producers.set(name, producer);
      return goes.filter((one) => one !== undefined);
    });
  }

  override enter(name: string, address: string, nowMs = 0): string | undefined {
    return super.enter(name, address, nowMs);
  }
}

const room = (connectionsMax: number, connectionsPerAddressMax = 0): Room =>
  new Room(connectionsMax, connectionsPerAddressMax);

describe('a full room', () => {
  it('closes the oldest stranger for a new connection', () => {
    const full = room(2);
    assert.equal(full.enter('a', '1'), undefined);
    assert.equal(full.enter('b', '1'), undefined);
    assert.equal(full.enter('c', '1'), 'a');
    assert.equal(full.enter('d', '1'), 'b');
  });

  it('closes a stranger with a good certificate after those without', () => {
    const full = room(2);
    full.enter('a', '1');
    full.handshakeDone('a', true);
    full.enter('b', '1');
    assert.equal(full.enter('c', '1'), 'b');
    full.handshakeDone('c', true);
    assert.equal(full.enter('d', '1'), 'a');
  });

  it('closes a stranger without a good certificate before one in the handshake', () => {
    const full = room(2);
    full.enter('a', '1');
    full.enter('b', '1');
    full.handshakeDone('b', false);
    assert.equal(full.enter('c', '1'), 'b');
    assert.equal(full.enter('d', '1'), 'a');
  });

  it('closes a silent stranger before an older one in the handshake', () => {
    const full = room(3);
    assert.equal(full.enter('a+', '1'), undefined);
    assert.equal(full.enter('b', '1'), undefined);
    assert.equal(full.enter('c', '1'), undefined);
    assert.equal(full.enter('d+', '1'), 'b');
    assert.equal(full.enter('e+', '1'), 'c');
    assert.equal(full.enter('f', '1'), 'a+');
    assert.equal(full.enter('g', '1'), 'f');
  });

  it('closes all silent strangers before one with a slow handshake', () => {
    const full = room(3);
    full.enter('a+', '1', 0);
    full.enter('b', '1', 0);
    assert.deepEqual(full.slowOnes(HANDSHAKE_FREE_MS), []);
    full.enter('c', '1', 1);
    assert.equal(full.enter('d', '1'), 'b');
    assert.equal(full.enter('e+', '1'), 'c');
    assert.equal(full.enter('f', '1'), 'd');
    assert.equal(full.enter('g', '1'), 'f');
    full.leave('g');
    full.enter('h+', '1');
    assert.equal(full.enter('i', '1'), 'a+');
  });

  it('closes no known connection for a stranger', () => {
    const full = room(2);
    full.come('p', 'a');
    assert.equal(full.enter('b', '2'), undefined);
    assert.equal(full.enter('c', '2'), 'b');
    full.leave('a');
    assert.equal(full.enter('d', '2'), undefined);
    assert.equal(full.enter('e', '2'), 'c');
  });
});

describe('a room that is full of known connections', () => {
  it('closes the oldest idle connection of the producer with most connections', () => {
    const full = room(6);
    assert.deepEqual(full.come('most', 'a!', 'b', 'c'), []);
    assert.deepEqual(full.come('few', 'd', 'e'), []);
    assert.deepEqual(full.come('new', 'f', 'g', 'h'), ['b', 'f']);
  });

  it('closes the oldest connection of that producer if none is idle', () => {
    const full = room(5);
    assert.deepEqual(full.come('most', 'a!', 'b!', 'c!', 'd!'), []);
    assert.deepEqual(full.come('new', 'e!', 'f!', 'g!', 'h!'), ['a!', 'b!', 'g!']);
  });

  it('closes an idle connection for another one of the same producer, or else the new one', () => {
    const full = room(4);
    assert.deepEqual(full.come('most', 'a!', 'b', 'c!', 'd!', 'e!', 'f!'), ['b', 'e!']);
    full.leave('a!');
    assert.deepEqual(full.come('most', 'g!', 'h!'), ['g!']);
  });

  it('ends with equal shares for producers that keep connecting, in any order', () => {
    let seed = 7;
    const chance = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
    for (let round = 0; round < 200; round += 1) {
      const full = room(24);
      const producers = 2 + chance(6);
      const open = new Set<string>();
      for (let at = 0; at < 300; at += 1) {
        const producer = String(chance(producers));
        const name = `${producer}:${at}${chance(3) > 0 ? '!' : ''}`;
        const went = full.come(producer, name);
        open.add(name);
        for (const one of went) assert.ok(open.delete(one), one);
      }
      assert.equal(open.size, 24);
      // The room identifies producers only before it closes a stranger, so it does not know the two latest ones yet.
      const known = [...open].slice(0, -2);
      const counts = Array.from(
        { length: producers },
        (_, producer) => known.filter((name) => name.startsWith(`${producer}:`)).length,
      );
      assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, counts.join());
    }
  });
});

describe('the limit of one address', () => {
  /** Admits connections from one address, which complete their handshakes. Returns the connections that were closed. */
  function come(wide: Room, address: string, certified: boolean, ...names: string[]): string[] {
    const went: string[] = [];
    for (const name of names) {
      assert.equal(wide.enter(name, address), undefined);
      const goes = wide.handshakeDone(name, certified);
      if (goes !== undefined) went.push(goes);
    }
    return went;
  }

  it('closes a stranger of that address only', () => {
    const wide = room(100, 2);
    assert.deepEqual(come(wide, '2', false, 'other'), []);
    assert.deepEqual(come(wide, '1', false, 'a', 'b', 'c', 'd'), ['a', 'b']);
    assert.deepEqual(come(wide, '2', false, 'other2'), []);
  });

  it('does not count known connections', () => {
    const wide = room(100, 2);
    for (const name of ['a', 'b', 'c', 'd']) {
      assert.deepEqual(come(wide, '1', true, name), []);
      wide.producers.set(name, 'p');
    }
  });

  it('closes a stranger with a good certificate after those without', () => {
    const wide = room(100, 2);
    assert.deepEqual(come(wide, '1', true, 'a'), []);
    assert.deepEqual(come(wide, '1', false, 'b', 'c'), ['b']);
    assert.deepEqual(come(wide, '1', true, 'd', 'e'), ['c', 'a']);
  });

  it('counts slow handshakes, begun or not, and closes none of another address', () => {
    for (const begun of ['', '+']) {
      const wide = room(100, 2);
      for (const name of ['a', 'b', 'c', 'd']) wide.enter(name + begun, '1', 0);
      for (const name of ['e', 'f']) wide.enter(name + begun, '2', 0);
      wide.enter(`young${begun}`, '1', 1);
      assert.deepEqual(wide.slowOnes(HANDSHAKE_FREE_MS - 1), []);
      assert.deepEqual(wide.slowOnes(HANDSHAKE_FREE_MS), [`a${begun}`, `b${begun}`]);
      assert.deepEqual(wide.slowOnes(HANDSHAKE_FREE_MS), []);
      assert.deepEqual(wide.slowOnes(HANDSHAKE_FREE_MS + 1), [`c${begun}`]);
    }
  });

  it('spares a connection with a slow handshake that has become known', () => {
    const wide = room(100, 1);
    for (const name of ['a', 'b', 'c']) wide.enter(name, '1', 0);
    for (const name of ['a', 'b']) {
      wide.producers.set(name, 'p');
      assert.equal(wide.handshakeDone(name, true), undefined);
    }
    assert.deepEqual(wide.slowOnes(HANDSHAKE_FREE_MS), []);
    assert.equal(wide.handshakeDone('c', true), undefined);
  });

  it('does not apply to fast handshakes while there is room', () => {
    const wide = room(200, 2);
    assert.equal(wide.enter('producer', '1'), undefined);
    for (let at = 0; at < 150; at += 1) assert.equal(wide.enter(`s${at}`, '1'), undefined);
    for (let at = 0; at < 150; at += 1) assert.notEqual(wide.handshakeDone(`s${at}`, false), 'producer');
    assert.notEqual(wide.handshakeDone('producer', true), 'producer');
  });

  it('makes handshakes replace each other, and none of another address, if the room is full', () => {
    const full = room(4, 2);
    full.enter('producer', '2');
    for (const name of ['a', 'b', 'c']) assert.equal(full.enter(name, '1'), undefined);
    assert.equal(full.enter('d', '1'), 'a');
    assert.equal(full.enter('e', '1'), 'b');
  });
});

describe('a handshake', () => {
  it('replaces another one of its address at that limit, else the oldest of all', () => {
    for (const [mine, goes] of [
      [2, 'mine-0+'],
      [1, 'other+'],
    ] as const) {
      const full = room(mine + 1, 2);
      full.enter('other+', '2');
      for (let at = 0; at < mine; at += 1) full.enter(`mine-${at}+`, '1');
      assert.equal(full.enter('new', '1'), goes);
    }
  });
});

describe('a handshake that begins late', () => {
  it('closes before an older one that began in time', () => {
    const begun = new Set(['early']);
    const limits = { connectionsMax: 3, connectionsPerAddressMax: 0 };
    const full = new ConnectionRoom<string>(limits, {
      hasClientHello: (name) => begun.has(name),
      isIdle: () => true,
      producerOf: () => undefined,
    });
    full.enter('early', '1', HANDSHAKE_FREE_MS / 2);
    full.enter('silent', '1', 0);
    full.enter('late', '1', 0);
    assert.equal(full.enter('next', '1', HANDSHAKE_FREE_MS / 2), 'silent');
    full.slowOnes(HANDSHAKE_FREE_MS);
    for (const name of ['late', 'next']) begun.add(name);
    assert.equal(full.enter('last', '1', HANDSHAKE_FREE_MS), 'late');
  });

  it('closes after a silent one', () => {
    const begun = new Set<string>();
    const limits = { connectionsMax: 2, connectionsPerAddressMax: 0 };
    const full = new ConnectionRoom<string>(limits, {
      hasClientHello: (name) => begun.has(name),
      isIdle: () => true,
      producerOf: () => undefined,
    });
    full.enter('late', '1', 0);
    full.enter('silent', '1', HANDSHAKE_FREE_MS);
    full.slowOnes(HANDSHAKE_FREE_MS);
    begun.add('late');
    assert.equal(full.enter('next', '1', HANDSHAKE_FREE_MS), 'silent');
  });
});
