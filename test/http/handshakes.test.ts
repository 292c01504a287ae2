// What handshakes cost is paid by their address: another one keeps its answers.
import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { connect } from 'node:tls';
import { handshakeReason } from '../../lib/http/connection-failure.ts';
import { Handshakes } from '../../lib/http/handshakes.ts';
import { startServer } from '../support/https-server.ts';
import { Pki } from '../support/pki.ts';
import { eventually } from '../support/scope.ts';
import { VirtualClock } from '../support/virtual-clock.ts';
import { requestText } from '../support/wire.ts';

const pki = await Pki.create();
const certificate = await pki.producer('shop');

it('a handshake that failed is counted under the reason of its error', () => {
  const codes = {
    timeout: 'ERR_TLS_HANDSHAKE_TIMEOUT',
    reset: 'ECONNRESET EPIPE',
    not_tls: 'ERR_SSL_HTTP_REQUEST ERR_SSL_WRONG_VERSION_NUMBER',
    protocol: 'ERR_SSL_UNSUPPORTED_PROTOCOL ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION',
    cipher: 'ERR_SSL_NO_SHARED_CIPHER',
    certificate: 'ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED ERR_SSL_TLSV1_ALERT_UNKNOWN_CA',
    other: 'ERR_SSL_BAD_RECORD_TYPE ',
  };
  for (const [reason, list] of Object.entries(codes))
    for (const code of list.split(' ')) assert.equal(handshakeReason(Object.assign(new Error('x'), { code })), reason);
});

it('a handshake with over 16 KB of certificates closes its connection, and a chain of 6 KB does not', async () => {
  const { open, told, requests, answer, port } = await startServer(pki, {}, { certificate });
  const chain = (count: number) => ({
    ...certificate,
    cert: certificate.cert + pki.authority.certificate.repeat(count),
  });
  const other = await open();
  const long = connect({ port, host: '127.0.0.1', ca: pki.authority.certificate, ...chain(45) });
  long.on('error', () => undefined);
  await eventually('it is closed', () => told.includes('handshake_size'));
  const chained = await open(chain(12));
  for (const client of [other, chained]) {
    const before = requests.length;
    client.write(requestText('GET /'));
    await eventually('its request is there', () => requests.length > before);
    answer(requests.at(-1));
    await client.until(/ok$/);
  }
});

describe('the handshakes of an address', () => {
  function started() {
    const clock = new VirtualClock();
    const handshakes = new Handshakes(clock, 30_000);
    const begun = async (address: string) => {
      const phases: string[] = [];
      const tcp = Object.assign(new PassThrough(), { bytesRead: 1 });
      const client = {
        ...{ tcp, socket: tcp, address, phases, phase: '', helloBytes: 0, certificateBytes: 0, failure: '' },
        enter: (phase: string): void => void phases.push((client.phase = phase)),
        fail: (reason: string): void => void (client.failure = reason),
      };
      handshakes.add(client as never, () => undefined);
      tcp.write('\x16');
      await eventually('it begins or waits', () => phases.length > 1);
      return client;
    };
    type Client = Awaited<ReturnType<typeof begun>>;
    const done = async (bytesRead: number, ...clients: readonly Client[]): Promise<void> => {
      for (const client of clients) Object.assign(client, { phase: 'open' }).tcp.bytesRead = bytesRead;
      await turn();
    };
    const check = async (ms: number): Promise<void> => {
      await clock.advance(ms);
      handshakes.check(clock.ms());
    };
    return { handshakes, begun, done, check };
  }

  it('wait after a long chain, for a time by its length, and one after the other, and no others wait', async () => {
    const { begun, done, check } = started();
    await done(6_144, await begun('1'));
    const both = [await begun('1'), await begun('1')];
    assert.deepEqual(both[0]?.phases, ['turn', 'handshake'], 'the server may take any time for its turn');
    await done(12_288, ...both);
    const [next, gone, last, other] = [await begun('1'), await begun('1'), await begun('1'), await begun('2')];
    const phases = (): string[] => [next, last, other].map(({ phase }) => phase);
    assert.deepEqual(phases(), ['hello', 'hello', 'handshake']);
    gone.tcp.destroy();
    await check(2_000);
    assert.deepEqual(phases(), ['hello', 'hello', 'handshake'], 'the two chains add up');
    await check(100);
    assert.deepEqual(phases(), ['handshake', 'hello', 'handshake']);
    await check(0);
    assert.deepEqual(phases(), ['handshake', 'handshake', 'handshake'], 'one that is gone has no turn');
    await check(0);
    assert.equal((await begun('1')).phase, 'handshake', 'none waits any longer');
  });

  it('wait for a minute at most', async () => {
    const { begun, done, check } = started();
    await done(16_384, ...(await Promise.all(Array.from({ length: 40 }, () => begun('1')))));
    const [next, long] = [await begun('1'), await begun('1')];
    long.tcp.write(Buffer.alloc(16_384));
    await turn();
    assert.deepEqual([next.failure, long.failure], ['', 'handshake_size']);
    await check(59_999);
    assert.equal(next.phase, 'hello');
    await check(1);
    assert.equal(next.phase, 'handshake');
  });

  it('end with one whose certificates made a turn slow, and none of another address', async () => {
    const { handshakes, begun } = started();
    const [slow, same, other] = [await begun('1'), await begun('1'), await begun('2')];
    slow.tcp.bytesRead = 9_000;
    const usedMs = (): number => process.threadCpuUsage().user / 1_000;
    for (const untilMs = usedMs() + 60; usedMs() < untilMs;);
    assert.equal(handshakes.secured(slow as never), true);
    assert.deepEqual([same.failure, other.failure], ['limit', '']);
  });
});
