// What every TLS server of the product offers (protocol versions, cipher suites, no renegotiation), and how it knows
// its connections.
import { constants } from 'node:crypto';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';

/**
 * To be part of each TLS context, the first and each later one: `setSecureContext` forgets what it is not given.
 * Renegotiation (TLS 1.2; 1.3 has none) is off, because it would let a client change its certificate in the middle of a
 * connection. Of TLS 1.2 only suites with forward secrecy and authenticated encryption are offered (RFC 9325, section
 * 4.2).
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
 * The TCP connection below a TLS connection. Addresses and ports do not identify it: a listener on several addresses
 * has several from one remote port, and a closed one's are used again. Node documents no way to it (checked on node
 * 26.10); throws where there is none, so that no connection is taken by mistake.
 */
export function socketBelow(socket: TLSSocket): Socket {
  const below = (socket as { readonly _parent?: Socket })._parent;
  if (below === undefined) throw new Error('a TLS connection without a TCP connection below it');
  return below;
}
