// For each limit of the server: one client is over it, and another one keeps its answers.
import assert from 'node:assert/strict';
import { BlockList } from 'node:net';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';
import { connect } from 'node:tls';
import type { Connection } from '../../lib/http/connection.ts';
import { overBudget } from '../../lib/http/eviction.ts';
import { Handshakes } from '../../lib/http/handshakes.ts';
import { CertificateAuthority } from '../support/certificate-authority.ts';
import { startServer } from '../support/https-server.ts';
import { Pki } from '../support/pki.ts';
import { proxyHeader } from '../support/proxied.ts';
import { eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { postText, repliesIn, requestText } from '../support/wire.ts';

const pki = await Pki.create();
const certificate = await pki.producer('shop');

interface Holder {
  readonly name: string;
  readonly address: string;
  readonly holder: string;
  readonly isOpen: boolean;
  heldBytes(): number;
}

describe('a budget of held bytes', () => {
  const holder = (name: string, kilobytes: number, isOpen = true): Holder => ({
    ...{ name, isOpen, address: name.charAt(0), holder: name.charAt(0) },
    heldBytes: () => kilobytes << 10,
  });
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
    const of = (address: string, count: number, kilobytes: number): Holder[] =>
      Array.from({ length: count }, (_, at) => holder(`${address}${at}`, kilobytes, false));
    const other = holder('z', 42, false);
    const many = closed([...of('a', 2_000, 56), other, holder('b', 50)], 100, 100);
    assert.ok(many.length > 200 && many.every((name) => name.startsWith('a')), `${many.length}`);
    const everywhere = closed([...'abcd'].flatMap((address) => of(address, 700, 56)).concat(other), 100, 100);
    assert.ok(everywhere.length > 400 && !everywhere.includes('z'), `${everywhere.length}`);
  });
});

describe('a handshake', () => {
  const withChain = async (count: number): Promise<string> => {
    const authorities = Array.from({ length: count }, (_, at) => new CertificateAuthority(`authority ${at}`));
    return certificate.cert + authorities.map((one) => one.certificate).join('');
  };

  it('with over 16 KB of certificates closes its connection, and a chain of 6 KB does not', async () => {
    const { open, told, requests, answer, port } = await startServer(pki, {}, { certificate });
    const other = await open();
    const long = connect({
      ...{ port, host: '127.0.0.1', ca: pki.authority.certificate, key: certificate.key },
      cert: await withChain(45),
    });
    long.on('error', () => undefined);
    await eventually('it is closed', () => told.includes('handshake_size'));
    const chained = await open({ cert: await withChain(12) });
    for (const client of [other, chained]) {
      const before = requests.length;
      client.write(requestText('GET /'));
      await eventually('its request is there', () => requests.length > before);
      answer(requests.at(-1));
      await client.until(/ok$/);
    }
  });

  it('may wait for its turn for any time, and one begins when the turn has come', async () => {
    const clock = new VirtualClock();
    const phases: string[] = [];
    const tcp = Object.assign(new PassThrough(), { bytesRead: 1 });
    const begun = new Promise<void>((resolve) => {
      const client = { tcp, socket: tcp, address: '1', enter: (phase: string) => phases.push(phase) };
      new Handshakes(clock, 1_000).add(client as unknown as Connection<unknown>, resolve);
    });
    tcp.write('\x16');
    await begun;
    assert.deepEqual(phases, ['turn', 'handshake']);
  });

  it('with a long chain makes the next ones of its address wait, and no others', async () => {
    const clock = new VirtualClock();
    const handshakes = new Handshakes(clock, 30_000);
    const begun = async (address: string) => {
      const tcp = Object.assign(new PassThrough(), { bytesRead: 1 });
      const enter = (phase: string): void => void (client.phase = phase);
      const client = { tcp, socket: tcp, address, phase: '', helloBytes: 0, certificateBytes: 0, enter };
      handshakes.add(client as never, () => undefined);
      tcp.write('\x16');
      await eventually('it begins or waits', () => !['', 'turn'].includes(client.phase));
      return client;
    };
    for (const [bytesRead, phase] of [
      [6_144, 'handshake'],
      [12_288, 'hello'],
    ] as const) {
      const chained = await begun('1');
      Object.assign(chained, { phase: 'open' }).tcp.bytesRead = bytesRead;
      await new Promise((resolve) => setImmediate(resolve));
      const [next, other] = [await begun('1'), await begun('2')];
      assert.deepEqual([next.phase, other.phase], [phase, 'handshake'], String(bytesRead));
      await clock.advance(1_100);
      handshakes.check(clock.ms());
      assert.equal(next.phase, 'handshake');
    }
  });

  it('has its own time limit after the header of a balancer', async () => {
    const clock = new VirtualClock();
    await clock.advance(10_000);
    const proxyFrom = new BlockList();
    proxyFrom.addAddress('127.0.0.1');
    const { told, tcp } = await startServer(pki, { proxyFrom }, { clock });
    const client = tcp();
    client.write(proxyHeader('203.0.113.7'));
    await new Promise((resolve) => client.once('connect', resolve));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await clock.advance(10_000);
    assert.deepEqual(told, []);
    await clock.advance(10_500);
    await eventually('it is told of', () => told.length > 0);
    assert.deepEqual(told, ['timeout']);
  });
});

it('a stop answers the request behind one that is being handled', async () => {
  let isDraining = false;
  const { open, requests, answer } = await startServer(pki, {}, { certificate, draining: () => isDraining });
  const client = await open();
  client.write(postText('first') + requestText('GET /behind'));
  await eventually('the first is there', () => requests.length === 1);
  isDraining = true;
  answer(requests[0]);
  await eventually('the one behind is there', () => requests.length === 2);
  answer(requests[1]);
  await client.untilClosed();
  assert.deepEqual(
    repliesIn(client.received).map(({ headers }) => headers['connection']),
    ['keep-alive', 'close'],
  );
});
