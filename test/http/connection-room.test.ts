import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ConnectionRoom } from '../../lib/http/connection-room.ts';

function room(connectionsMax: number, connectionsPerAddressMax = 0): ConnectionRoom<string> {
  return new ConnectionRoom<string>({ connectionsMax, connectionsPerAddressMax });
}

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
  it('only so many strangers stay, however much room there is; others are not touched', () => {
    const wide = room(100, 2);
    wide.enter('other', '2');
    wide.enter('a', '1');
    wide.enter('b', '1');
    assert.equal(wide.enter('c', '1'), 'a');
    assert.equal(wide.enter('other2', '2'), undefined);
  });

  it('known ones do not count', () => {
    const wide = room(100, 2);
    for (const name of ['a', 'b', 'c', 'd']) {
      assert.equal(wide.enter(name, '1'), undefined);
      wide.know(name);
    }
  });

  it('one with a good certificate goes after those without', () => {
    const wide = room(100, 2);
    wide.enter('a', '1');
    wide.shakeHands('a', true);
    wide.enter('b', '1');
    assert.equal(wide.enter('c', '1'), 'b');
    wide.shakeHands('c', true);
    assert.equal(wide.enter('d', '1'), 'a');
  });
});
