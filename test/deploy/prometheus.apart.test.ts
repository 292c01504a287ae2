import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { TestGateway, event } from '../support/gateway.ts';
import { Pki } from '../support/pki.ts';
import { Program } from '../support/program.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { Scrape } from '../support/scrape.ts';
import { alertRules, boardQueries, DEPLOY, deployFile, ran } from './deploy-files.ts';
import { tool } from '../support/tool.ts';
import { freePort } from '../support/free-port.ts';
import { RunningPrometheus } from './running-prometheus.ts';

const promtool = tool('promtool', 'prometheus');

const TESTS = ['alerts.test.yml', 'queue-memory.test.yml', 'slo.test.yml'];

interface RuleTests {
  readonly tests: readonly {
    readonly name: string;
    readonly alert_rule_test?: readonly { readonly alertname: string; readonly exp_alerts?: readonly unknown[] }[];
  }[];
}

describe('the alerts', () => {
  it('are valid, and are loaded by the Prometheus of compose.yaml and of install.md', () => {
    const rules = ran(promtool, ['check', 'rules', '--lint-fatal', 'alerts.yml']);
    assert.equal(rules.status, 0, rules.text);
    const { configs } = parse(deployFile('compose.yaml')) as { configs: { prometheus: { content: string } } };
    const [page = ''] = /^rule_files:[^]*?(?=^```)/m.exec(deployFile('install.md')) ?? [];
    for (const config of [
      configs.prometheus.content,
      page.replace('/etc/prometheus/ingest-alerts.yml', 'alerts.yml'),
    ]) {
      const folder = temporaryFolder();
      writeFileSync(join(folder, 'prometheus.yml'), config);
      writeFileSync(join(folder, 'alerts.yml'), deployFile('alerts.yml'));
      const { status, text } = ran(promtool, ['check', 'config', 'prometheus.yml'], folder);
      assert.equal(status, 0, text);
      assert.match(text, new RegExp(`${alertRules.length} rules found`));
    }
  });

  it('fire on their series, and are silent on healthy ones', () => {
    // All tests together take ten times as long as those that end within half an hour of their series.
    const isShort = (test: string): boolean =>
      [...test.matchAll(/eval_time: (\d+)(\w)/g)].every(([, count, unit]) => unit === 'm' && Number(count) <= 30);
    const [head = '', healthy = '', ...others] = deployFile('alerts.test.yml').split(/^(?= {2}- name: )/m);
    const tests = [head.replace('alerts.yml', join(DEPLOY, 'alerts.yml')), healthy.replaceAll(': 8h', ': 30m')];
    const file = join(temporaryFolder(), 'alerts.test.yml');
    writeFileSync(file, [...tests, ...others.filter(isShort)].join(''));
    const { status, text } = ran(promtool, ['test', 'rules', file]);
    assert.equal(status, 0, text);
  });

  it('all have a test that fires, and one that does not', { tags: ['long'] }, () => {
    const { status, text } = ran(promtool, ['test', 'rules', ...TESTS]);
    assert.equal(status, 0, text);
    const tests = TESTS.flatMap((file) => (parse(deployFile(file)) as RuleTests).tests);
    const names = [...new Set(alertRules.flatMap(({ alert }) => alert ?? []))].sort();
    const fired = tests.flatMap(({ alert_rule_test = [] }) =>
      alert_rule_test.flatMap(({ alertname, exp_alerts = [] }) => (exp_alerts.length > 0 ? alertname : [])),
    );
    assert.deepEqual([...new Set(fired)].sort(), names);
    const healthy = tests.find(({ name }) => name === 'healthy')?.alert_rule_test ?? [];
    assert.deepEqual(healthy.map(({ alertname }) => alertname).sort(), names);
  });
});

describe('the metrics of alerts and board', () => {
  it('are all exposed by the running gateway and consumer or written by reconcile, and pass promtool', async () => {
    const [redis, pki] = await Promise.all([TestRedis.start(), Pki.create()]);
    const crl = pki.write('crl.pem', await pki.authority.revocationList([]));
    const gateway = await TestGateway.start(redis, pki, { INGEST_TLS_CLIENT_CRL: crl });
    const env = {
      INGEST_QUEUE_URI: redis.uri,
      INGEST_WAREHOUSE_URI: `sqlite:${join(temporaryFolder(), 'warehouse.db')}`,
    };
    const consumer = new Program('ingest-consumer', { env: { ...env, INGEST_CONSUMER_ADDR: '127.0.0.1:0' } });
    const url = await consumer.listening();
    assert.equal((await gateway.client().ask({ path: '/health/live' })).status, 200);
    const written = join(temporaryFolder(), 'ingest_reconcile.prom');
    assert.equal(await new Program('ingest-admin', { args: ['reconcile', '--metrics', written], env }).ended, 0);
    const scrapes = await eventually('the consumer has looked at the queue', async () => {
      const text = await (await fetch(`${url}/metrics`)).text();
      return /^ingest_queue_memory_bytes \d/m.test(text)
        ? [await Scrape.of(gateway.client()), new Scrape(text), new Scrape(readFileSync(written, 'utf8'))]
        : undefined;
    });
    const exposed = new Set(scrapes.flatMap(({ samples }) => samples.map(({ name }) => name)));
    const recorded = alertRules.flatMap(({ record }) => record ?? []);
    for (const query of [...boardQueries, ...alertRules.map(({ expr }) => expr)]) {
      const names = query.replaceAll(/"[^"]*"/g, '').matchAll(/\b(?:ingest|process|nodejs)[a-z0-9_:]*\b(?!\s*\()/g);
      for (const [name] of names) {
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

describe('the alerts of a running Prometheus', { tags: ['long'] }, () => {
  it('fire on their real causes, and killing the consumers silences none of them', async () => {
    const [redis, pki] = await Promise.all([TestRedis.start(['--appendonly', 'no']), Pki.create()]);
    const producersFile = pki.write('producers.json', '{"producers":{}}');
    const [admin, consumerPort] = [await freePort(), await freePort()];
    const gateway = await TestGateway.start(redis, pki, {
      INGEST_ADMIN_ADDR: `127.0.0.1:${admin}`,
      INGEST_PRODUCERS_FILE: producersFile,
    });
    const env = {
      INGEST_QUEUE_URI: redis.uri,
      INGEST_CONSUMER_ADDR: `127.0.0.1:${consumerPort}`,
      INGEST_WAREHOUSE_URI: 'postgres://nobody@127.0.0.1:1/nowhere',
    };
    const consumer = new Program('ingest-consumer', { env });
    await consumer.listening();
    const prometheus = await RunningPrometheus.start({
      'ingest-gateway': `127.0.0.1:${admin}`,
      'ingest-consumer': `127.0.0.1:${consumerPort}`,
    });
    const assertFiring = async (what: string, names: readonly string[]): Promise<void> => {
      let missing = names;
      const fire = async (): Promise<boolean> => {
        const found = await prometheus.firing();
        return (missing = names.filter((name) => !found.has(name))).length === 0;
      };
      await eventually(what, fire, 60_000).catch((cause) => assert.fail(`${missing.join(', ')}: ${cause}`));
    };
    const client = gateway.client(await pki.producer('one'));
    const samples = (): Promise<unknown> => Promise.all([client.post('no json'), client.post(event('same'))]);
    await samples();
    // Prometheus must have scraped the counters before they grow, or it sees no increase.
    await assertFiring('the warehouse was never reached', ['IngestConsumerNotReady', 'IngestWarehouseUnavailable']);

    // One event has waited longer than the alert's limit, and one has not.
    for (const hours of [200, 150])
      await redis.command('XADD', 'ingest-old', String(Date.now() - hours * 3_600_000), 'producer', 'p', 'body', '{}');
    await redis.command('RENAME', 'ingest-old', 'ingest');
    writeFileSync(producersFile, 'no json');
    pki.write('server.pem', 'no certificate');
    const used = Number(/used_memory:(\d+)/.exec(String(await redis.command('INFO', 'memory')))?.[1]);
    await redis.command('CONFIG', 'SET', 'maxmemory', String(Math.round(used * 1.08)));
    for (let at = 0; at < 15; at += 1) {
      await client.post('no json');
      await client.post(JSON.stringify({ id: 'same', type: 't', at }));
    }
    const silent = ['IngestLandingBehind', 'IngestNothingLands'];
    await assertFiring('what stands in the way of landing', [
      ...silent,
      'IngestReplicasDiffer',
      'IngestReloadFailed',
      'IngestProducerErrors',
      'IngestDuplicatesDiffer',
      'IngestQueueMemoryFull',
    ]);

    await consumer.kill();
    await assertFiring('no consumer runs', ['IngestTargetDown', 'IngestNoConsumer', ...silent]);
    await redis.signal('SIGKILL');
    await client.post(event('refused'));
    await assertFiring('the queue is unavailable', ['IngestQueueUnavailable']);
  });
});
