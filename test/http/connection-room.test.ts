import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ConnectionRoom, HANDSHAKE_FREE_MS } from '../../lib/http/connection-room.ts';

/** A room of connections that stand for themselves by their names; those whose name ends in `+` have sent something. */
class Room extends ConnectionRoom<string> {
  constructor(connectionsMax: number, connectionsPerAddressMax: number) {
    super({ connectionsMax, connectionsPerAddressMax }, (name) => name.endsWith('+'));
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

  it('one that is known never goes: the new one does not come in', () => {
    const full = room(2);
    for (const known of ['a', 'b']) {
      full.enter(known, '1');
      full.know(known);
    }
    assert.equal(full.enter('c', '2'), 'c');
    full.leave('a');
    assert.equal(full.enter('d', '2'), undefined);
    assert.equal(full.enter('e', '2'), 'd');
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
      wide.know(name);
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
    wide.shakeHands('a', true);
    for (const name of ['a', 'b']) wide.know(name);
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
