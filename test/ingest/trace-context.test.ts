import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isSampled, traceContext } from '../../lib/ingest/trace-context.ts';

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

describe('a trace context', () => {
  it('is kept unchanged, of version 00 and of later ones with additions', () => {
    for (const traceparent of [
      TRACEPARENT,
      TRACEPARENT.replace('00', 'cc'),
      `cc${TRACEPARENT.slice(2)}-what.else`,
      TRACEPARENT.replace('4bf9', '0000'),
    ])
      assert.deepEqual(traceContext(traceparent, undefined), { traceparent });
    assert.deepEqual(traceContext(TRACEPARENT, 'a=1, b=2'), { traceparent: TRACEPARENT, tracestate: 'a=1, b=2' });
  });

  it('is ignored if traceparent is malformed', () => {
    for (const traceparent of [
      ...[undefined, '', `${TRACEPARENT}-more`, `x${TRACEPARENT}`, `cc${TRACEPARENT.slice(2)}.more`],
      TRACEPARENT.replace('00', 'ff'),
      TRACEPARENT.replace('4bf92f3577b34da6a3ce929d0e0e4736', '0'.repeat(32)),
      TRACEPARENT.replace('00f067aa0ba902b7', '0'.repeat(16)),
      TRACEPARENT.toUpperCase(),
      TRACEPARENT.replaceAll('-', ' '),
      `${TRACEPARENT}, ${TRACEPARENT}`,
    ])
      assert.equal(traceContext(traceparent, 'a=1'), undefined, String(traceparent));
  });

  it('is kept without a malformed tracestate', () => {
    const many = (count: number): string => Array.from({ length: count }, (_, at) => `k${at}=1`).join();
    const malformed = [
      ...['', ' ', ',', 'a', 'a=', '=1', 'a=1=2', 'A=1', 'a b=1', 'a.b=1', 'a=1,b', 'a=1;b=2=3', 'a=1,a=2', '1a=1'],
      ...[
        '@a=1',
        'a@=1',
        'a@@b=1',
        'a@b@c=1',
        `a@${'b'.repeat(15)}=1`,
        `${'a'.repeat(242)}@b=1`,
        `${'a'.repeat(257)}=1`,
      ],
      ...[
        `a=${'1'.repeat(257)}`,
        `a=1,${'b'.repeat(255)}=${'1'.repeat(253)}`,
        'a=\u00e9',
        'a=1\nb=2',
        'a=\u00a01',
        many(33),
      ],
    ];
    for (const tracestate of malformed)
      assert.deepEqual(traceContext(TRACEPARENT, tracestate), { traceparent: TRACEPARENT }, tracestate);
    const valid = [
      ...['a=1', 'a=1, ,b=2,', 'a = 1'.replaceAll(' ', ''), 'a= 1', 'a0_-*/=~!', '0tenant@system=x;y:z', many(32)],
      ...[`${'a'.repeat(241)}@${'b'.repeat(14)}=1`, `${'a'.repeat(256)}=1`, `a=${'1'.repeat(256)}`],
      `a=1,${'b'.repeat(255)}=${'1'.repeat(252)}`,
    ];
    for (const tracestate of valid)
      assert.deepEqual(traceContext(TRACEPARENT, tracestate), { traceparent: TRACEPARENT, tracestate }, tracestate);
  });

  it('is sampled if one bit of its flags is set', () => {
    const flags = ['00', '01', '02', '03', 'fe', 'ff'];
    assert.deepEqual(
      flags.map((flag) => isSampled({ traceparent: TRACEPARENT.replace(/01$/, flag) })),
      [false, true, false, true, false, true],
    );
  });
});
