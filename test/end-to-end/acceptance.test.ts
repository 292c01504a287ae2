// The main job, on the real process, a real Redis and real mutual TLS.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { event, PATIENT, TestGateway } from '../support/gateway.ts';
import { Pki, type ClientCertificate } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';
import { webhookEvents } from '../../bench/load/webhooks.ts';

let redis: TestRedis;
let pki: Pki;
let gateway: TestGateway;
let producer: ClientCertificate;

before(async () => {
  [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
  [gateway, producer] = await Promise.all([TestGateway.start(redis, pki, PATIENT), pki.producer('one')]);
});

describe('accepting events', () => {
  it('puts every GitHub webhook example on the stream, byte for byte', async () => {
    const events = webhookEvents();
    assert.equal(events.length, 726);
    const bodies = events.map(({ body }) => body);
    const client = gateway.client(producer);
    const before = await redis.length();
    const queue = [...bodies];
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        for (let body = queue.pop(); body !== undefined; body = queue.pop()) {
          const reply = await client.post(body);
          assert.equal(reply.status, 202, reply.body);
          assert.deepEqual(reply.json, { id: (JSON.parse(body) as { id: string }).id, status: 'accepted' });
        }
      }),
    );
    const entries = (await redis.entries()).slice(before);
    assert.deepEqual(entries.map(({ fields }) => fields['body']).sort(), [...bodies].sort());
    for (const { fields } of entries) assert.equal(fields['producer'], 'urn:test:producer:one');
  });

  it('keeps white space, key order, duplicate keys and escapes as they were sent', async () => {
    const body =
      ' {\t"type" : "a.b",\r\n "id":"as\\u002dsent", "n":1.0e+2, "n": 2, "s":"\\ud83d\\ude00 \u{1F600} \\u0000 \\ud800" }\n';
    assert.equal((await gateway.client(producer).post(body)).status, 202);
    const entry = (await redis.entries()).at(-1);
    assert.equal(entry?.fields['body'], body);
    const reply = await gateway.client(producer).find('as-sent');
    assert.equal(reply.status, 200);
    assert.ok(reply.body.endsWith(`,"event":${body}}`), reply.body);
  });

  it('adds one entry for 50 concurrent posts of one id, and all but one say duplicate', async () => {
    const before = await redis.length();
    const client = gateway.client(producer);
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, at) => client.post(event('concurrent', { sentAt: at }))),
    );
    assert.deepEqual(new Set(replies.map(({ status }) => status)), new Set([202]));
    assert.equal(replies.filter(({ json }) => json?.['duplicate'] === undefined).length, 1);
    assert.equal(replies.filter(({ json }) => json?.['duplicate'] === true).length, 49);
    assert.equal(await redis.length(), before + 1);
  });

  it('decides one id among two producers for the first: 409 on POST and 404 on GET for the other', async () => {
    const other = await pki.producer('two');
    const [mine, theirs] = [gateway.client(producer), gateway.client(other)];
    const race = await Promise.all(
      Array.from({ length: 40 }, (_, at) => (at % 2 === 0 ? mine : theirs).post(event('contested', { at }))),
    );
    const winner = race.findIndex(({ json }) => json?.['status'] === 'accepted' && json['duplicate'] === undefined) % 2;
    for (const [at, reply] of race.entries()) assert.equal(reply.status, at % 2 === winner ? 202 : 409, reply.body);
    const [won, lost] = winner === 0 ? [mine, theirs] : [theirs, mine];
    assert.equal((await won.find('contested')).status, 200);
    const hidden = await lost.find('contested');
    assert.equal(hidden.status, 404);
    assert.equal(hidden.json?.['code'], 'EVENT_NOT_FOUND');
    assert.equal((await redis.entries()).filter(({ fields }) => fields['body']?.includes('"contested"')).length, 1);
  });

  it('keeps the first accepted body when the id comes again, and says that the second one differs', async () => {
    const client = gateway.client(producer);
    await client.post(event('first', { n: 1 }));
    const again = await client.post(event('first', { n: 2 }));
    assert.deepEqual(again.json, { id: 'first', status: 'accepted', duplicate: true, differs: true });
    assert.deepEqual((await client.find('first')).json?.['event'], { id: 'first', type: 'test.event', n: 1 });
  });

  it('calls an id a duplicate for 24 hours, even if its entry was deleted by hand', async () => {
    const client = gateway.client(producer);
    await client.post(event('deleted-by-hand'));
    const entry = (await redis.entries()).at(-1);
    await redis.command('XDEL', 'ingest', entry?.entry ?? '');
    const again = await client.post(event('deleted-by-hand'));
    assert.deepEqual(again.json, { id: 'deleted-by-hand', status: 'accepted', duplicate: true });
  });

  it('takes ids of every length the envelope allows, and keeps apart ids that differ in one character past 64 bytes', async () => {
    const client = gateway.client(producer);
    for (const id of [
      'x',
      'y'.repeat(64),
      'y'.repeat(65),
      `${'y'.repeat(255)}a`,
      `${'y'.repeat(255)}b`,
      '\u{1F600}'.repeat(256),
      'a/b?c#d%2F e',
      '__proto__',
    ]) {
      assert.deepEqual((await client.post(event(id))).json, { id, status: 'accepted' });
      const reply = await client.find(id);
      assert.equal(reply.json?.['id'], id);
      assert.equal(reply.json['status'], 'accepted');
      assert.match(String(reply.json['acceptedAt']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    }
  });
});
