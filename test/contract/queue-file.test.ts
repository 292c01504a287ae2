import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { createConfig, lint } from '@redocly/openapi-core';
import { Ajv } from 'ajv';
import { createClient } from 'redis';
import { parse } from 'yaml';
import { event, TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { TestRedis } from '../support/redis.ts';

const FILE = new URL('../../openapi/queue.asyncapi.yaml', import.meta.url).pathname;

interface QueueFile {
  readonly channels: Readonly<Record<string, { readonly address: string }>>;
  readonly components: { readonly schemas: { readonly entry: object } };
}

const file = parse(readFileSync(FILE, 'utf8')) as QueueFile;

describe("the queue's file", () => {
  it('has no problem by the recommended rules of an AsyncAPI linter', async () => {
    const problems = await lint({ ref: FILE, config: await createConfig({ extends: ['recommended'] }) });
    assert.deepEqual(
      problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} ${location[0]?.pointer}`),
      [],
    );
  });

  it('is enough to read every accepted event with another consumer group', async (t) => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const gateway = await TestGateway.start(redis, pki);
    const producer = gateway.client(await pki.producer('shop'));
    const bodies = Array.from({ length: 50 }, (_, at) => event(`e${at}`, { text: 'a "b" \u20ac', at }));
    for (const body of bodies) assert.equal((await producer.post(body)).status, 202);

    const [stream = ''] = Object.values(file.channels).map(({ address }) => address);
    const isEntry = new Ajv({ strict: false }).compile(file.components.schemas.entry);
    const client = createClient({ url: redis.uri });
    await client.connect();
    t.after(() => client.destroy());
    const rows = new Map<string, { readonly name: string; readonly acceptedMs: number; readonly body: string }>();
    await client.xGroupCreate(stream, 'copy', '0');
    for (;;) {
      const read = (await client.xReadGroup('copy', 'one', { key: stream, id: '>' }, { COUNT: 20 })) as
        { readonly messages: readonly { readonly id: string; readonly message: Record<string, string> }[] }[] | null;
      const messages = read?.[0]?.messages ?? [];
      if (messages.length === 0) break;
      for (const { id, message } of messages) {
        assert.ok(isEntry(message), JSON.stringify(isEntry.errors));
        const { producer: name = '', body = '', id: named = (JSON.parse(body) as { id: string }).id } = message;
        rows.set(named, { name, acceptedMs: Number(id.split('-')[0]), body });
        await client.xAck(stream, 'copy', id);
      }
    }

    assert.deepEqual(
      Array.from(rows.values(), ({ body }) => body),
      bodies,
    );
    for (const { name, acceptedMs } of rows.values()) {
      assert.equal(name, 'urn:test:producer:shop');
      assert.ok(Math.abs(acceptedMs - Date.now()) < 600_000);
    }
  });
});
