// test/end-to-end/proxy-protocol.long.ts tests the header with a real balancer.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PROXY_HEADER_BYTES_MAX, proxyHeaderIn } from '../../lib/http/proxy-header.ts';
import { proxyHeader } from '../support/proxied.ts';

const IPV6 = Buffer.from('20010db8000000000000000000000001'.repeat(2) + '01bb01bb', 'hex');
const TLVS = Buffer.from([0x04, 0, 3, 0, 0, 0, 0x20, 0xff, 0xff]);
const after = Buffer.from([0x16, 0x03, 0x01]);

describe('proxyHeaderIn', () => {
  it('reads a header with its last byte', () => {
    for (const [what, header, address] of [
      ['TCP over IPv4', proxyHeader('203.0.113.7'), '203.0.113.7'],
      ['TLVs', proxyHeader('203.0.113.7', { more: TLVS }), '203.0.113.7'],
      ['TCP over IPv6', proxyHeader(IPV6, { family: 0x21 }), '2001:db8::1'],
      ['an unknown family', proxyHeader(IPV6, { family: 0x00 }), undefined],
      ['a UNIX socket', proxyHeader(Buffer.alloc(216), { family: 0x31 }), undefined],
      ['LOCAL', proxyHeader(Buffer.alloc(0), { command: 0x20, family: 0x00 }), undefined],
      ['LOCAL with an address', proxyHeader('203.0.113.7', { command: 0x20 }), undefined],
      ['the longest', proxyHeader('203.0.113.7', { more: Buffer.alloc(PROXY_HEADER_BYTES_MAX - 28) }), '203.0.113.7'],
    ] as const) {
      assert.deepEqual(proxyHeaderIn(Buffer.concat([header, after])), { bytes: header.length, address }, what);
      for (let cut = 0; cut < header.length; cut += 1)
        assert.equal(proxyHeaderIn(header.subarray(0, cut)), 'unfinished', `${what}, cut at ${cut}`);
    }
  });

  it('refuses everything else', () => {
    for (const [what, bytes] of [
      ['version 1', Buffer.from('PROXY TCP4 203.0.113.7 127.0.0.1 5000 8443\r\n')],
      ['a handshake without a header', Buffer.from([0x16])],
      ['a line end and something else', Buffer.from('\r\n\r\n\r\n')],
      ['another version', proxyHeader('203.0.113.7', { command: 0x11 })],
      ['an unknown command', proxyHeader('203.0.113.7', { command: 0x22 })],
      ['UDP', proxyHeader('203.0.113.7', { family: 0x12 })],
      ['an unknown family', proxyHeader('203.0.113.7', { family: 0x41 })],
      ['too few bytes for IPv4', proxyHeader(Buffer.alloc(11))],
      ['too few bytes for IPv6', proxyHeader(Buffer.alloc(35), { family: 0x21 })],
      ['one byte over the limit', proxyHeader(Buffer.alloc(PROXY_HEADER_BYTES_MAX - 15)).subarray(0, 16)],
    ] as const)
      assert.equal(proxyHeaderIn(bytes), 'invalid', what);
  });
});
