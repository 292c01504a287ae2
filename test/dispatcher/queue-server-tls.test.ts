// The dispatcher's port over mutual TLS: who is admitted, and what others may cost.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { ConnectionOptions, TLSSocket } from 'node:tls';
import type { QueueServer } from '../../lib/dispatcher/queue-server.ts';
import { WITHIN_MS } from '../support/deadline.ts';
import { Pki } from '../support/pki.ts';
import { MemoryQueue, MemoryQueueStore } from '../support/memory-queue.ts';
import { eventually } from '../support/scope.ts';
import { holdConnections } from '../support/strangers.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { accept, command, serve, Wire } from './queue-port.ts';

const CONNECTIONS_MAX = 40;

let pki: Pki;
/** An admitted gateway, another one, a client that is not admitted, and one without a certificate. */
let [gateway, other, stranger, nameless]: ConnectionOptions[] = [];

before(async () => {
  pki = await Pki.create();
  const ca = pki.authority.certificate;
  [gateway, other, stranger] = await Promise.all(
    ['gateway', 'other', 'stranger'].map(async (name) => ({ ca, ...(await pki.producer(name)) })),
  );
  nameless = { ca };
});

async function serveTls(more: Parameters<typeof serve>[1] = {}): Promise<{
  readonly server: QueueServer;
  readonly port: number;
  readonly store: MemoryQueueStore;
  readonly admitted: Set<string>;
}> {
  const store = new MemoryQueueStore();
  const admitted = new Set(['gateway', 'other']);
  const { server, port } = await serve(new MemoryQueue(store), {
    tls: {
      context: { cert: pki.server.certificate, key: pki.server.key, ca: pki.authority.certificate },
      refusal: (socket: TLSSocket) => {
        const name = socket.getPeerX509Certificate()?.toLegacyObject().subject?.CN;
        return typeof name === 'string' && admitted.has(name) ? undefined : 'not\nadmitted';
      },
    },
    connectionsMax: CONNECTIONS_MAX,
    clock: new VirtualClock(),
    ...more,
  });
  return { server, port, store, admitted };
}

const alive = async (port: number, as: ConnectionOptions | undefined, id: string): Promise<void> => {
  const wire = new Wire(port, as);
  wire.send(accept(id));
  await wire.answers('$1\r\n0\r\n');
  wire.socket.destroy();
};

/** As a gateway that connects again: on a busy machine its handshake may be taken for that of a silent stranger. */
const aliveAgain = (port: number, as: ConnectionOptions | undefined, id: string): Promise<true> => {
  let tries = 0;
  return eventually(`${id} is taken`, () => alive(port, as, `${id}-${(tries += 1)}`).then(() => true as const));
};

describe("the dispatcher's port over TLS", () => {
  it('tells clients that are not admitted so and closes, before they have sent anything', async () => {
    const { port, server, store } = await serveTls();
    for (const as of [nameless, stranger]) {
      const wire = new Wire(port, as);
      await wire.ended();
      assert.equal(wire.received, '-NOPERM not admitted\r\n');
    }
    assert.equal(store.entries.length, 0);
    assert.equal(server.connections, 0);
  });

  it('reads no command of theirs: not one that is whole, nor one that never ends', async () => {
    const { port, store } = await serveTls();
    const [whole, endless] = [new Wire(port, stranger), new Wire(port, nameless)];
    whole.send(accept('whole') + command('AUTH', 'good') + accept('more'));
    endless.send('*1');
    const piece = '0'.repeat(1_460);
    let sent = 0;
    while (!endless.closed && sent < 100 << 20) {
      endless.send(piece);
      sent += piece.length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.ok(endless.closed, `${sent} bytes`);
    for (const wire of [whole, endless]) {
      await wire.ended();
      assert.ok('-NOPERM not admitted\r\n'.startsWith(wire.received), wire.received);
    }
    assert.equal(store.entries.length, 0);
    await alive(port, gateway, 'after');
  });

  for (const kind of ['silent', 'stalled', 'nameless'] as const) {
    it(`takes every admitted gateway among ${kind} strangers that hold all connections and come again`, async () => {
      const { port } = await serveTls();
      const known = new Wire(port, gateway);
      known.send(command('PING'));
      await known.answers('+PONG\r\n');
      const strangers = holdConnections(port, 2 * CONNECTIONS_MAX, kind);
      for (let at = 0; at < 20; at += 1) await aliveAgain(port, at % 2 === 0 ? gateway : other, `${kind}-${at}`);
      known.send(command('PING'));
      await known.answers('+PONG\r\n+PONG\r\n');
      await strangers.end();
    });
  }

  it('closes a silent connection for each one that comes when all are taken', async () => {
    const { port } = await serveTls({ handshakeTimeoutMs: 60_000 });
    const silent = Array.from({ length: CONNECTIONS_MAX + 3 }, () => new Wire(port));
    await eventually('three are closed', () => silent.filter(({ closed }) => closed).length === 3);
    await alive(port, gateway, 'among silent ones');
    assert.equal(silent.filter(({ closed }) => closed).length, 4);
  });

  it('ends a handshake that takes too long', async () => {
    const { port } = await serveTls({ handshakeTimeoutMs: 50 });
    const wire = new Wire(port);
    await wire.ended();
    assert.equal(wire.received, '');
  });

  it('closes the connection that holds most of the client that holds most, however small its pieces are', async () => {
    const { port, store } = await serveTls({ receivedBytesMax: 1 << 20 });
    const begin = '*4\r\n$13\r\nINGEST.ACCEPT\r\n$1\r\na\r\n$1\r\np\r\n$9999999\r\n';
    const holders = Array.from({ length: 8 }, () => {
      const wire = new Wire(port, other);
      wire.send(begin + 'x'.repeat(100_000));
      return wire;
    });
    await eventually('all is written', () => holders.every(({ socket }) => socket.writableLength === 0));
    // Server and clients share one event loop: what was written is read in a few of its turns.
    for (let turn = 0; turn < 100; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    const good = new Wire(port, gateway);
    const body = JSON.stringify({ id: 'large', type: 'a', pad: 'x'.repeat(500_000) });
    good.send(command('INGEST.ACCEPT', 'large', 'p', body));
    await good.answers('$1\r\n0\r\n');
    assert.equal(store.entries[0]?.body, body);
    await eventually('one is closed', () => holders.some(({ closed }) => closed));
    assert.ok(holders.some(({ closed }) => !closed));
  });

  it('closes clients that are not admitted any more when the trust changes, and no others', async () => {
    const { port, server, admitted } = await serveTls();
    const [one, two] = [new Wire(port, gateway), new Wire(port, other)];
    for (const wire of [one, two]) {
      wire.send(command('PING'));
      await wire.answers('+PONG\r\n');
    }
    const context = { cert: pki.server.certificate, key: pki.server.key, ca: pki.authority.certificate };
    assert.equal(server.replaceTls(context), 0);
    admitted.delete('other');
    assert.equal(server.replaceTls(context), 1);
    await two.ended();
    one.send(command('PING'));
    await one.answers('+PONG\r\n+PONG\r\n');
  });

  it('offers what the producers’ port offers, before and after a change of the material', async () => {
    const { port, server } = await serveTls();
    const v12 = { ...gateway, minVersion: 'TLSv1.2', maxVersion: 'TLSv1.2' } as const;
    const suites = ['AES128-GCM-SHA256', 'ECDHE-ECDSA-AES128-SHA256', 'ECDHE-ECDSA-AES128-GCM-SHA256'];
    const taken = async (ciphers: string): Promise<boolean> => {
      const wire = new Wire(port, { ...v12, ciphers });
      await eventually('it is decided', () => wire.closed || (wire.socket as TLSSocket).authorized);
      return !wire.closed;
    };
    for (let turn = 0; turn < 2; turn += 1) {
      assert.deepEqual(await Promise.all(suites.map(taken)), [false, false, true]);
      server.replaceTls({ cert: pki.server.certificate, key: pki.server.key, ca: pki.authority.certificate });
    }
  });

  it('resumes no session', async () => {
    const { port } = await serveTls();
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      const first = new Wire(port, { ...gateway, minVersion: version, maxVersion: version });
      let session: Buffer | undefined;
      first.socket.on('session', (given: Buffer) => (session = given));
      first.send(command('PING'));
      await first.answers('+PONG\r\n');
      const again = new Wire(port, { ...gateway, minVersion: version, maxVersion: version, session });
      again.send(command('PING'));
      await again.answers('+PONG\r\n');
      assert.equal((again.socket as TLSSocket).isSessionReused(), false);
    }
  });

  it('ends at once when it is drained, whatever hangs in a handshake', async () => {
    const { port, server } = await serveTls({ handshakeTimeoutMs: 120_000 });
    const [bare, idle] = [new Wire(port), new Wire(port, gateway)];
    idle.send(command('PING'));
    await idle.answers('+PONG\r\n');
    const sinceMs = performance.now();
    await server.drain();
    assert.ok(performance.now() - sinceMs < WITHIN_MS, 'it waited for the handshake');
    await bare.ended();
    await idle.ended();
  });
});
