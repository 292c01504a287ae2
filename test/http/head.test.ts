import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HeadReader, PLAIN_HEAD_BYTES_MAX, type PlainHead } from '../../lib/http/plain/head.ts';

const readHead = (text: string): PlainHead | 'unfinished' | 'not plain' => new HeadReader().read(text);

const PLAIN = 'POST /events HTTP/1.1\r\nHost: g\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n';

describe('a plain head', () => {
  it('has its relevant fields, with names in any case and values without the space around them', () => {
    const text =
      'POST /events?a=b HTTP/1.1\r\nHOST: g\r\ncontent-TYPE:\t application/json \r\nContent-Length: 12\r\nX-Request-ID:abc\r\n' +
      'Authorization: Bearer a.b.c\r\nContent-Encoding: gzip\r\nX-Other:\r\nConnection: Keep-Alive\r\n\r\n';
    const head = plainHead(`${text}{"id":"..."}`);
    assert.deepEqual(
      { ...head },
      {
        method: 'POST',
        target: '/events?a=b',
        defect: undefined,
        fieldCount: 8,
        hasHost: true,
        bytes: text.length,
        contentLength: 12,
        contentType: 'application/json',
        contentEncoding: 'gzip',
        authorization: 'Bearer a.b.c',
        requestId: 'abc',
        cloudEventFields: undefined,
        traceparent: undefined,
        tracestate: undefined,
      },
    );
  });

  it('has all fields of a CloudEvent and no others', () => {
    const names = ['ce-id', 'CE-Type', 'ce-', 'ce-expect-this', 'ce', 'c', 'cement', 'ac-e', 'ce-id'];
    const head = plainHead(
      PLAIN.replace('Host: g', ['Host: g', ...names.map((name) => `${name}:\t"a b" `)].join('\r\n')),
    );
    assert.deepEqual(
      head.cloudEventFields,
      ['ce-id', 'ce-type', 'ce-', 'ce-expect-this', 'ce-id'].map((name) => [name, '"a b"']),
    );
    assert.equal(head.fieldCount, 3 + names.length);
  });

  it('has the trace context, with several fields as one list', () => {
    const fields = [
      'traceparent: a',
      'TRACEPARENT:b',
      'TraceState:\t c=1 ',
      'tracestate: d',
      'traceparents: x',
      'tracestat: y',
    ];
    const head = plainHead(PLAIN.replace('Host: g', ['Host: g', ...fields].join('\r\n')));
    assert.deepEqual([head.traceparent, head.tracestate], ['a, b', 'c=1, d']);
  });

  it('may have a name or an IPv4 address as its Host, with a port or without', () => {
    for (const host of ['g', 'gateway.example.com', 'a-b.c:1', 'G:8443', '127.0.0.1:65535', '127.0.0.1'])
      assert.equal(plainHead(PLAIN.replace('Host: g', `Host: ${host}`)).hasHost, true, host);
  });

  it('may have names in capitals', () => {
    const { contentType, contentLength, authorization } = plainHead(
      PLAIN.replace('Host: g', 'HOST: g\r\nAUTHORIZATION: Basic Zz').replace('Content-Length', 'CONTENT-LENGTH'),
    );
    assert.deepEqual([contentType, contentLength, authorization], ['application/json', 2, 'Basic Zz']);
  });

  it('may have no field but Host, and no body', () => {
    const head = plainHead('GET / HTTP/1.1\r\nHost: g\r\n\r\n');
    assert.deepEqual(
      [head.method, head.target, head.fieldCount, head.bytes, head.contentLength],
      ['GET', '/', 1, 27, undefined],
    );
  });
});

describe('a head is not plain', () => {
  const line = (field: string): string => PLAIN.replace('Host: g', field);
  const more = (field: string): string => line(`Host: g\r\n${field}`);
  const cases: Readonly<Record<string, string>> = {
    'an empty line before it': `\r\n${PLAIN}`,
    'another method': PLAIN.replace('POST', 'PUT'),
    'a method in lower case': PLAIN.replace('POST', 'post'),
    HEAD: 'HEAD / HTTP/1.1\r\n\r\n',
    'HTTP/1.0': PLAIN.replace('1.1', '1.0'),
    'HTTP/1.10': PLAIN.replace('1.1', '1.10'),
    'an absolute-form target': PLAIN.replace('/events', 'https://g/events'),
    'no target': PLAIN.replace('/events', ''),
    'two spaces before the target': PLAIN.replace(' /', '  /'),
    'a space in the target': PLAIN.replace('/events', '/ev ents'),
    'a byte above ASCII in the target': PLAIN.replace('/events', '/\u00e9'),
    'no Host': PLAIN.replace('Host: g\r\n', ''),
    'two Hosts': line('Host: g\r\nHost: g'),
    'a Host that is none': line('Host: a b'),
    'a Host with a user': line('Host: u@h'),
    'an empty Host': line('Host:'),
    'a Host with a port of six digits': line('Host: g:123456'),
    'a Host with a port that is none': line('Host: g:'),
    'a Host with something before it': line('Host: [g'),
    'an IPv6 address as Host': line('Host: [::1]'),
    'a bare line feed': PLAIN.replace('g\r\n', 'g\n'),
    'a bare carriage return in a value': more('X: a\rb'),
    'a NUL in place of a carriage return': PLAIN.replace('g\r\n', 'g\0\n'),
    'a NUL as the last that has come': 'GET / HTTP/1.1\r\nX: a\0',
    'a bare carriage return as an end': PLAIN.replace('g\r\n', 'g\r'),
    'a bare carriage return as the last end': PLAIN.replace('\r\n\r\n', '\r\n\rx'),
    'a space before the colon': more('X : g'),
    'no colon': more('X'),
    'no name': more(': g'),
    'a folded line': more(' b'),
    'a NUL in a value': more('X: a\0b'),
    'a DEL in a value': more('X: a\u007fb'),
    'a byte above ASCII in a value': more('X: \u00e9'),
    'a name that is no token': more('X(y: g'),
    'Transfer-Encoding': more('Transfer-Encoding: chunked'),
    'Transfer-Encoding in odd letters': more('tRANSFER-eNCODING: identity'),
    'two lengths': more('Content-Length: 2'),
    'a length with something before it': PLAIN.replace(': 2', ': x2'),
    'a length with something behind it': PLAIN.replace(': 2', ': 2x'),
    'a length with a sign': PLAIN.replace(': 2', ': +2'),
    'a list of lengths': PLAIN.replace(': 2', ': 2, 2'),
    'a length in hexadecimal': PLAIN.replace(': 2', ': 0x2'),
    'an empty length': PLAIN.replace(': 2', ':'),
    'a length that no number holds': PLAIN.replace(': 2', `: ${'9'.repeat(16)}`),
    'two media types': more('Content-Type: text/plain'),
    'two request ids': more('X-Request-Id: a\r\nX-Request-Id: b'),
    'two authorizations': more('Authorization: a\r\nAuthorization: b'),
    'two encodings': more('Content-Encoding: a\r\nContent-Encoding: b'),
    Expect: more('Expect: 100-continue'),
    'Proxy-Connection': more('Proxy-Connection: keep-alive'),
    Upgrade: more('Upgrade: h2c'),
    Trailer: more('Trailer: x'),
    'Connection: close': more('Connection: close'),
    'Connection with more in it': more('Connection: keep-alive, upgrade'),
  };
  for (const [name, text] of Object.entries(cases))
    it(name, () => {
      assert.equal(readHead(text), 'not plain');
      assert.equal(grown(text), 'not plain', 'byte by byte');
    });
});

it('every beginning of a plain head is unfinished', () => {
  for (let length = 0; length < PLAIN.length; length += 1) assert.equal(readHead(PLAIN.slice(0, length)), 'unfinished');
  assert.equal(plainHead(PLAIN).bytes, PLAIN.length);
  assert.ok(PLAIN.length < PLAIN_HEAD_BYTES_MAX);
});

it('a head in single bytes is read as a whole one, and so is the next one', () => {
  const other = 'GET /other?x HTTP/1.1\r\nX: a\tb\r\nHost:\tg:65535 \r\n\r\n';
  const reader = new HeadReader();
  for (const text of [PLAIN, other, 'PUT / HTTP/1.1\r\n', PLAIN.replace('g', 'a b'), other, PLAIN])
    assert.deepEqual(grown(text, reader), readHead(text), text);
});

it('fields with similar names are ignored', () => {
  const names = ['Hosx', 'Expecx', 'Upgradx', 'Trailex', 'Connectiox', 'Content-Typx', 'X-Request-Ix', 'Authorizatiox'];
  names.push('Content-Lengtx', 'Content-Encodinx', 'Proxy-Connectiox', 'Transfer-Encodinx', 'Traceparenx');
  names.push('Tracestatx', 'ce_id', 'xe-id', 'cx-id', 'H@st'.replace('@', '`'), 'x');
  const fields = names.map((name) => `${name}: 1`).join('\r\n');
  const head = plainHead(`GET / HTTP/1.1\r\n${fields}\r\nHost: g\r\n\r\n`);
  assert.deepEqual(
    { ...head, bytes: 0 },
    {
      method: 'GET',
      target: '/',
      defect: undefined,
      fieldCount: names.length + 1,
      hasHost: true,
      bytes: 0,
      contentLength: undefined,
      contentType: undefined,
      contentEncoding: undefined,
      authorization: undefined,
      requestId: undefined,
      cloudEventFields: undefined,
      traceparent: undefined,
      tracestate: undefined,
    },
  );
});

it('a plain head may have every valid character in names, values and targets', () => {
  const name = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const visible = Array.from({ length: 0x7f - 0x21 }, (_, at) => String.fromCharCode(0x21 + at)).join('');
  const head = plainHead(`GET /${visible} HTTP/1.1\r\n${name}: x\r\nAuthorization: ${visible} \t~\r\nHost: g\r\n\r\n`);
  assert.deepEqual([head.target, head.authorization, head.fieldCount], [`/${visible}`, `${visible} \t~`, 3]);
});

function grown(text: string, reader = new HeadReader()): PlainHead | 'unfinished' | 'not plain' {
  for (let length = 1; length < text.length; length += 1) {
    const outcome = reader.read(text.slice(0, length));
    if (outcome !== 'unfinished') return outcome;
  }
  return reader.read(text);
}

function plainHead(text: string): PlainHead {
  const head = readHead(text);
  if (typeof head === 'string') throw new Error(`${JSON.stringify(text)} is ${head}`);
  return head;
}
