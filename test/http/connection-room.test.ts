import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ConnectionRoom, HANDSHAKE_FREE_MS } from '../../lib/http/connection-room.ts';

/**
 * A room of connections that stand for themselves by their names: a name that ends in `+` has sent something, and one
 * that ends in `!` is busy. A test says whose requests arrived.
 */
class Room extends ConnectionRoom<string> {
  readonly producers: Map<string, string>;

  constructor(connectionsMax: number, connectionsPerAddressMax: number) {
    const producers = new Map<string, string>();
    super(
      { connectionsMax, connectionsPerAddressMax },
      {
        hasBegun: (name) => name.endsWith('+'),
        isIdle: (name) => !name.endsWith('!'),
        producerOf: (name) => producers.get(name),
      },
    );
    this.producers = producers;
  }

  /** Takes them in through their handshakes, and this producer's requests arrive; returns those that were closed. */
  come(producer: string, ...names: string[]): string[] {
    return names.flatMap((name) => {
      const goes = [this.enter(name, '1'), this.shakeHands(name, true)];
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

describe('where there is no room for another connection', () => {
  it('a stranger goes, the oldest first', () => {
    const full = room(2);
    assert.equal(full.enter('a', '1'), undefined);
    assert.equal(full.enter('b', '1'), undefined);
    assert.equal(full.enter('c', '1'), 'a');
    assert.equal(full.enter('d', '1'), 'b');
  });

  it('one with a good certificate goes after those without', () => {
    const full = room(2);
    full.enter('a', '1');
    full.shakeHands('a', true);
    full.enter('b', '1');
    assert.equal(full.enter('c', '1'), 'b');
    full.shakeHands('c', true);
    assert.equal(full.enter('d', '1'), 'a');
  });

  it('one whose handshake is done and brought no good certificate goes before one that is in the handshake', () => {
    const full = room(2);
    full.enter('a', '1');
    full.enter('b', '1');
    full.shakeHands('b', false);
    assert.equal(full.enter('c', '1'), 'b');
    assert.equal(full.enter('d', '1'), 'a');
  });

  it('one that has sent nothing goes before one whose handshake has begun, however old that one is', () => {
    const full = room(3);
    assert.equal(full.enter('a+', '1'), undefined);
    assert.equal(full.enter('b', '1'), undefined);
    assert.equal(full.enter('c', '1'), undefined);
    assert.equal(full.enter('d+', '1'), 'b');
    assert.equal(full.enter('e+', '1'), 'c');
    assert.equal(full.enter('f', '1'), 'a+');
    assert.equal(full.enter('g', '1'), 'f');
  });

  it('one whose handshake has begun goes after those that have sent nothing, however long it takes', () => {
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

  it('one that is known never goes for a stranger', () => {
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
  it('has the producer that holds most give way: its oldest idle connection goes', () => {
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

  it('closes an idle connection of the producer that holds most for another one of its own, or else the new one', () => {
    const full = room(4);
    assert.deepEqual(full.come('most', 'a!', 'b', 'c!', 'd!', 'e!', 'f!'), ['b', 'e!']);
    full.leave('a!');
    assert.deepEqual(full.come('most', 'g!', 'h!'), ['g!']);
  });

  it('ends with equal shares for producers that keep coming, for any order of comings and goings', () => {
    let seed = 7;
    const chance = (below: number): number => (seed = (seed * 48_271) % 2_147_483_647) % below;
    for (let round = 0; round < 200; round += 1) {
      const full = room(24); // 22 known ones.
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
      // The room asks for a stranger's producer only before it closes it, so the two latest ones are not known yet.
      const known = [...open].slice(0, -2);
      const counts = Array.from(
        { length: producers },
        (_, producer) => known.filter((name) => name.startsWith(`${producer}:`)).length,
      );
      assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, counts.join());
    }
  });
});

describe('of one address', () => {
  /** Takes them in and through their handshakes; gives who went for the last one. */
  function come(wide: Room, address: string, certified: boolean, ...names: string[]): string[] {
    const went: string[] = [];
    for (const name of names) {
      assert.equal(wide.enter(name, address), undefined);
      const goes = wide.shakeHands(name, certified);
      if (goes !== undefined) went.push(goes);
    }
    return went;
  }

  it('only so many strangers stay, however much room there is; others are not touched', () => {
    const wide = room(100, 2);
    assert.deepEqual(come(wide, '2', false, 'other'), []);
    assert.deepEqual(come(wide, '1', false, 'a', 'b', 'c', 'd'), ['a', 'b']);
    assert.deepEqual(come(wide, '2', false, 'other2'), []);
  });

  it('known ones do not count', () => {
    const wide = room(100, 2);
    for (const name of ['a', 'b', 'c', 'd']) {
      assert.deepEqual(come(wide, '1', true, name), []);
      wide.producers.set(name, 'p');
    }
  });

  it('one with a good certificate goes after those without', () => {
    const wide = room(100, 2);
    assert.deepEqual(come(wide, '1', true, 'a'), []);
    assert.deepEqual(come(wide, '1', false, 'b', 'c'), ['b']);
    assert.deepEqual(come(wide, '1', true, 'd', 'e'), ['c', 'a']);
  });

  it('one counts in the handshake too when that takes long, whether it has begun or not; none of another address goes', () => {
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

  it('one whose handshake took long stays when it is known by then', () => {
    const wide = room(100, 1);
    for (const name of ['a', 'b', 'c']) wide.enter(name, '1', 0);
    for (const name of ['a', 'b']) {
      wide.producers.set(name, 'p');
      assert.equal(wide.shakeHands(name, true), undefined);
    }
    assert.deepEqual(wide.slowOnes(HANDSHAKE_FREE_MS), []);
    assert.equal(wide.shakeHands('c', true), undefined);
  });

  it('none goes that is in the handshake, however many come with it or behind it, while there is room', () => {
    const wide = room(200, 2);
    assert.equal(wide.enter('producer', '1'), undefined);
    for (let at = 0; at < 150; at += 1) assert.equal(wide.enter(`s${at}`, '1'), undefined);
    for (let at = 0; at < 150; at += 1) assert.notEqual(wide.shakeHands(`s${at}`, false), 'producer');
    assert.notEqual(wide.shakeHands('producer', true), 'producer');
  });

  it('so many in the handshake that there is no room cut each other, and nobody of another address', () => {
    const full = room(4, 2);
    full.enter('producer', '2');
    for (const name of ['a', 'b', 'c']) assert.equal(full.enter(name, '1'), undefined);
    assert.equal(full.enter('d', '1'), 'a');
    assert.equal(full.enter('e', '1'), 'b');
  });
});

describe('a handshake', () => {
  it('is cut for another one of its address where that holds all that one may, else the oldest of all', () => {
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
  it('goes before one that began in time, however old that one is', () => {
    const begun = new Set(['early']);
    const limits = { connectionsMax: 3, connectionsPerAddressMax: 0 };
    const full = new ConnectionRoom<string>(limits, {
      hasBegun: (name) => begun.has(name),
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

  it('goes after one that has sent nothing', () => {
    const begun = new Set<string>();
    const limits = { connectionsMax: 2, connectionsPerAddressMax: 0 };
    const full = new ConnectionRoom<string>(limits, {
      hasBegun: (name) => begun.has(name),
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
