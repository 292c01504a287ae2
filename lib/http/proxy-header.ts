// The header of the PROXY protocol, version 2, in which a balancer reports the client's address (haproxy.org,
// doc/proxy-protocol.txt, section 2.2). Version 1 and UDP are rejected. TLVs, including the checksum, are skipped.
import { SocketAddress, type Socket } from 'node:net';

/** `address` is `undefined` for a connection of the balancer itself (LOCAL) or a client without an IP. */
export interface ProxyHeader {
  readonly bytes: number;
  readonly address: string | undefined;
}

export const PROXY_HEADER_BYTES_MAX = 4_096;

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n');
const FIXED_BYTES = 16;
const [LOCAL, PROXY] = [0x20, 0x21];
/** The minimum length of the addresses of each family: TCP over IPv4 or IPv6, unknown, UNIX stream. */
const ADDRESS_BYTES: Readonly<Record<number, number>> = { 0x11: 12, 0x21: 36, 0x00: 0, 0x31: 0 };

export function proxyHeaderIn(bytes: Buffer): ProxyHeader | 'unfinished' | 'invalid' {
  if (!SIGNATURE.subarray(0, bytes.length).equals(bytes.subarray(0, SIGNATURE.length))) return 'invalid';
  if (bytes.length < FIXED_BYTES) return 'unfinished';
  const [command, family = 0] = bytes.subarray(SIGNATURE.length);
  const end = FIXED_BYTES + bytes.readUInt16BE(FIXED_BYTES - 2);
  if ((command !== LOCAL && command !== PROXY) || end > PROXY_HEADER_BYTES_MAX) return 'invalid';
  if (bytes.length < end) return 'unfinished';
  const addressBytes = command === LOCAL ? 0 : ADDRESS_BYTES[family];
  if (addressBytes === undefined || end < FIXED_BYTES + addressBytes) return 'invalid';
  return { bytes: end, address: addressBytes === 0 ? undefined : addressIn(bytes.subarray(FIXED_BYTES), addressBytes) };
}

function addressIn(bytes: Buffer, addressBytes: number): string {
  if (addressBytes === 12) return bytes.subarray(0, 4).join('.');
  const groups = Array.from({ length: 8 }, (_, at) => bytes.readUInt16BE(2 * at).toString(16));
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address;
}

/** Leaves the bytes after the header unread. Does not call `done` if the connection closes first. */
export function takeProxyHeader(socket: Socket, done: (header: ProxyHeader | 'invalid') => void): void {
  let begun: Buffer = Buffer.alloc(0);
  const onReadable = (): void => {
    const more = socket.read() as Buffer | null;
    if (more === null) return;
    begun = Buffer.concat([begun, more]);
    const header = proxyHeaderIn(begun);
    if (header === 'unfinished') return;
    socket.off('readable', onReadable);
    if (header !== 'invalid') socket.unshift(begun.subarray(header.bytes));
    done(header);
  };
  socket.on('readable', onReadable);
}
