// TLS options of the server: protocol versions, cipher suites, no renegotiation.
import { constants } from 'node:crypto';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';

/**
 * Every TLS context needs these options, because `setSecureContext` forgets options that are not passed to it.
 * Renegotiation in TLS 1.2 would let a client change its certificate during a connection. All suites for TLS 1.2 have
 * forward secrecy and authenticated encryption (RFC 9325, section 4.2).
 */
export const TLS_OPTIONS = {
  minVersion: 'TLSv1.2',
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  ciphers: [
    'TLS_AES_256_GCM_SHA384',
    'TLS_CHACHA20_POLY1305_SHA256',
    'TLS_AES_128_GCM_SHA256',
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-GCM-SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-RSA-AES256-GCM-SHA384',
    'ECDHE-ECDSA-CHACHA20-POLY1305',
    'ECDHE-RSA-CHACHA20-POLY1305',
  ].join(':'),
} as const;

/**
 * Returns the TCP socket of a TLS socket. Node documents no way to find it (checked on node 26.10), and addresses and
 * ports do not identify it. Throws if there is none.
 */
export function socketBelow(socket: TLSSocket): Socket {
  const below = (socket as { readonly _parent?: Socket })._parent;
  if (below === undefined) throw new Error('a TLS connection without a TCP connection below it');
  return below;
}
