// Alerts, and the metrics that alerts and board ask for, held against promtool and the real processes.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { dispatcherMetrics } from '../../lib/dispatcher/metrics.ts';
import { TestGateway } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { Scrape } from '../support/scrape.ts';
import { SYSTEM } from '../support/system.ts';
import { alertRules, boardQueries, DEPLOY, deployFile, ran, tool } from './deploy-files.ts';

const promtool = tool('promtool', 'prometheus');

describe('the alerts', () => {
  it('are rules that Prometheus takes', () => {
    const { status, text } = ran(promtool, ['check', 'rules', '--lint-fatal', 'alerts.yml']);
    assert.equal(status, 0, text);
  });

  it('are loaded by the Prometheus of compose.yaml', () => {
    const { configs } = parse(deployFile('compose.yaml')) as { configs: { prometheus: { content: string } } };
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'prometheus.yml'), configs.prometheus.content);
    writeFileSync(join(folder, 'alerts.yml'), deployFile('alerts.yml'));
    const { status, text } = ran(promtool, ['check', 'config', 'prometheus.yml'], folder);
    assert.equal(status, 0, text);
    assert.match(text, new RegExp(`${alertRules().length} rules found`));
  });
});

describe('the metrics of alerts and board', () => {
  it('are all exposed by the running gateway and consumer, and promtool has nothing to say of them', async () => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const crl = pki.write('crl.pem', await pki.authority.revocationList([]));
    const gateway = await TestGateway.start(redis, pki, { INGEST_TLS_CLIENT_CRL: crl });
    const consumer = new Program('ingest-consumer', {
      env: {
        INGEST_QUEUE_URI: redis.uri,
        INGEST_CONSUMER_ADDR: '127.0.0.1:0',
        INGEST_WAREHOUSE_URI: `sqlite:${join(temporaryFolder(), 'warehouse.db')}`,
      },
    });
    const url = await consumer.listening();
    assert.equal((await gateway.client().ask({ path: '/health/live' })).status, 200);
    const scrapes = await eventually('the consumer has looked at the queue', async () => {
      const text = await (await fetch(`${url}/metrics`)).text();
      return /^ingest_queue_memory_bytes \d/m.test(text)
        ? [await Scrape.of(gateway.client()), new Scrape(text)]
        : undefined;
    });
    const dispatcher = new Scrape(await dispatcherMetrics(SYSTEM.clock).registry.metrics());
    const exposed = new Map(
      [...scrapes, dispatcher].flatMap(({ samples }) => samples.map(({ name, labels }) => [name, labels] as const)),
    );
    const recorded = alertRules().flatMap(({ record }) => record ?? []);
    for (const query of [...boardQueries(), ...alertRules().map(({ expr }) => expr)]) {
      for (const [name] of query
        .replaceAll(/"[^"]*"/g, '')
        .matchAll(/\b(?:ingest|process|nodejs)[a-z0-9_:]*\b(?!\s*\()/g)) {
        if (recorded.includes(name)) continue;
        assert.ok(exposed.has(name), `${name}, in ${query}`);
      }
    }
    for (const { text } of scrapes) {
      const file = join(temporaryFolder(), 'metrics.txt');
      writeFileSync(file, text);
      const checked = ran('sh', ['-c', `'${promtool}' check metrics < '${file}'`], DEPLOY);
      assert.deepEqual(checked, { status: 0, text: '' });
    }
  });
});
