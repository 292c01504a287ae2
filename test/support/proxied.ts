// Connections that begin with a header of the PROXY protocol, version 2, before TLS.
import { connect as connectTcp, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { connect as connectTls } from 'node:tls';
import { RawConnection } from './client.ts';
import type { ClientCertificate, Pki } from './pki.ts';
import { atEnd } from './scope.ts';

const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');

export function proxyHeader(
  addresses: string | Buffer,
  { command = 0x21, family = 0x11, more = Buffer.alloc(0) } = {},
): Buffer {
  const block =
    typeof addresses === 'string'
      ? Buffer.from([...addresses.split('.').map(Number), 127, 0, 0, 1, 0x13, 0x88, 0x20, 0xfb])
      : addresses;
  const length = Buffer.alloc(2);
  length.writeUInt16BE(block.length + more.length);
  return Buffer.concat([SIGNATURE, Buffer.from([command, family]), length, block, more]);
}

interface Behind {
  readonly port: number;
  readonly pki: Pki;
}

function tcpTo(gateway: Pick<Behind, 'port'>, from = '127.0.0.1'): Socket {
  const socket = connectTcp({ port: gateway.port, host: '127.0.0.1', localAddress: from, noDelay: true });
  socket.on('error', () => undefined);
  atEnd(() => void socket.destroy());
  return socket;
}

/**
 * Connects through a balancer. The header and the first TLS bytes arrive together, or if `cut` is not 0, in two
 * pieces: the first `cut` bytes, and the rest.
 */
export async function passedOn(
  gateway: Behind,
  header: Buffer,
  certificate?: ClientCertificate,
  cut = 0,
): Promise<RawConnection> {
  const tcp = tcpTo(gateway);
  let begun = false;
  const through = new Duplex({
    read: () => undefined,
    write(chunk: Buffer, _encoding, done) {
      const bytes = begun ? chunk : Buffer.concat([header, chunk]);
      const first = begun ? 0 : cut;
      begun = true;
      if (first > 0) tcp.write(bytes.subarray(0, first));
      setTimeout(() => tcp.write(bytes.subarray(first), done), first > 0 ? 20 : 0);
    },
    final: (done) => void tcp.end(done),
  });
  tcp.on('data', (bytes: Buffer) => through.push(bytes)).on('close', () => through.destroy());
  const { cert, key } = certificate ?? {};
  const socket = connectTls({ socket: through, host: '127.0.0.1', ca: gateway.pki.authority.certificate, cert, key });
  const raw = new RawConnection(socket);
  await new Promise((resolve, reject) => {
    socket.once('secureConnect', resolve);
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('closed in the handshake')));
  });
  return raw;
}
