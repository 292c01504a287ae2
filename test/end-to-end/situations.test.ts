// A table of situations, made with real programs: what the status page, `ingest-admin status`, `/health/ready` and the
// alerts say in each. The alerts are evaluated on two readings of the metrics, continued for half an hour.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { alertRules, DEPLOY, ran } from '../deploy/deploy-files.ts';
import { tool } from '../support/tool.ts';
import { LOCALHOST } from '../support/certificate-authority.ts';
import { openLink } from '../support/link.ts';
import { startPrivatePostgres } from '../support/postgres.ts';
import { TestRedis } from '../support/redis.ts';
import { eventually, temporaryFolder } from '../support/scope.ts';
import { Scrape } from '../support/scrape.ts';
import { pki, World, type ProgramName, type Reading } from '../support/world.ts';

interface Situation {
  readonly begin?: (world: World) => Promise<unknown>;
  readonly end?: (world: World) => Promise<unknown>;
  /** Keeps the situation up while the page is read. */
  readonly during?: (world: World) => Promise<unknown>;
  /** Word, level and first sentence of the programs' pages. */
  readonly pages: Readonly<Partial<Record<ProgramName, RegExp>>>;
  readonly ready: readonly [ProgramName, number, RegExp];
  /** Exit code and output of `ingest-admin status`. */
  readonly status?: readonly [exit: number, output: RegExp];
  readonly alerts: readonly string[];
  /** The alerts after 80 minutes, if they are others. */
  readonly laterAlerts?: readonly string[];
  /** True if others show the same. */
  readonly long?: true;
}

const evaluated: {
  readonly name: string;
  readonly series: readonly object[];
  readonly situation: Situation;
  readonly wasSlow: boolean;
}[] = [];

const RULES = alertRules.map(({ expr }) => expr).join('\n');

/** The series of two readings that the alerts use: counters grow as between both, and gauges stay. */
function seriesOf(first: Reading, second: Reading): object[] {
  const series: object[] = [];
  for (const job of ['gateway', 'consumer'] as const) {
    const labels = `job="ingest-${job}", instance="${job}"`;
    const [before, now] = [first[job], second[job]];
    series.push({ series: `up{${labels}}`, values: `${now === undefined ? 0 : 1}x100` });
    const keyOf = (one: Scrape['samples'][number]): string => one.name + JSON.stringify(one.labels);
    const earlier = new Map(new Scrape(before ?? '').samples.map((one) => [keyOf(one), one.value]));
    for (const one of new Scrape(now ?? '').samples) {
      if (!RULES.includes(one.name) || !Number.isFinite(one.value)) continue;
      const own = Object.entries(one.labels).map(([name, value]) => `, ${name}=${JSON.stringify(value)}`);
      const isCounter = /_(total|count|sum|bucket)$/.test(one.name);
      const grown = isCounter ? one.value - (earlier.get(keyOf(one)) ?? one.value) : 0;
      const perMinute = (grown * 60_000) / (second.atMs - first.atMs);
      series.push({
        series: `${one.name}{${labels}${own.join('')}}`,
        values: `${one.value.toFixed(6)}+${perMinute.toFixed(6)}x100`,
      });
    }
  }
  return series;
}

async function assertSaid(world: World, name: string, situation: Situation): Promise<void> {
  const { begin, end, during, pages, ready, status } = situation;
  await begin?.(world);
  try {
    const command = status && world.status();
    for (const [program, sentence] of Object.entries(pages) as [ProgramName, RegExp][]) {
      world.forget();
      let said = '';
      const isSaid = async (): Promise<boolean> => {
        await during?.(world);
        said = await world.said(program, sentence.source.includes('STANDS STILL'));
        return sentence.test(said);
      };
      await eventually(name, isSaid).catch(() => assert.match(said, sentence));
    }
    const answer = await world.ready(ready[0]);
    assert.equal(answer.status, ready[1], answer.body);
    assert.match(answer.body, ready[2]);
    if (status !== undefined) {
      // The first command may have been too early: a heartbeat and a replica expire after seconds.
      let result = (await command) ?? assert.fail();
      for (let tries = 0; result.exit !== status[0] && tries < 10; tries += 1) result = await world.status();
      assert.equal(result.exit, status[0], result.output);
      assert.match(result.output, status[1]);
    }
    const first = await world.read();
    await (during?.(world) ?? pause(1_000));
    const second = await world.read();
    evaluated.push({ name, series: seriesOf(first, second), situation, wasSlow: world.wasSlow });
  } finally {
    await end?.(world);
  }
}

const server = ([first]: readonly TestRedis[]): TestRedis => first ?? assert.fail();
const LIVE = /^LIVE good Everything works: [\d.,]+\/s accepted by this gateway, [\d.,]+\/s landed by all consumers\.$/;

const SITUATIONS: Readonly<Record<string, Situation>> = {
  'everything works': {
    pages: { gateway: LIVE },
    ready: ['gateway', 200, /"ready"/],
    status: [0, /heartbeat/],
    alerts: [],
    // Reconcile never runs in this test.
    laterAlerts: ['IngestReconcileStale'],
  },
  'the gateway stands still': {
    // The page is read after each pause.
    during: async ({ gateway }) => {
      gateway.signal('SIGSTOP');
      await pause(700);
      gateway.signal('SIGCONT');
      await pause(300);
    },
    pages: { gateway: /^STANDS STILL warn This process stood still for 0\.[67] s: / },
    ready: ['gateway', 200, /"ready"/],
    alerts: ['IngestLatencyHigh', 'IngestProcessStalls'],
  },
  'the only consumer stands still': {
    begin: async ({ consumer }) => consumer.signal('SIGSTOP'),
    end: async ({ consumer }) => consumer.signal('SIGCONT'),
    pages: { gateway: /^NOT LANDING bad No consumer has a heartbeat: .* \d+ events wait, the oldest for \d/ },
    ready: ['gateway', 200, /"ready"/],
    status: [6, /events? of ingest waits?, and no consumer has a heartbeat$/],
    alerts: ['IngestNoConsumer', 'IngestNothingLands', 'IngestTargetDown'],
  },
  'Redis stands still': {
    begin: ({ redis }) => server(redis).signal('SIGSTOP'),
    end: ({ redis }) => server(redis).signal('SIGCONT'),
    pages: {
      gateway: /^REFUSING bad Redis: no answer within \d+ ms\. (?!.*lost).*503/,
      consumer: /^NOT LANDING warn the queue is unavailable: (no answer within \d+ ms|.*does not answer\))\. /,
    },
    ready: ['gateway', 503, /no answer within/],
    status: [4, /unavailable/],
    alerts: ['IngestQueueUnavailable'],
  },
  'Redis is killed': {
    begin: ({ redis }) => server(redis).signal('SIGKILL'),
    end: ({ redis }) => server(redis).start(),
    pages: { gateway: /^REFUSING bad Redis: connection refused \(127\.0\.0\.1:\d+\)\. (?!.*lost).*503/ },
    ready: ['gateway', 503, /ECONNREFUSED/],
    status: [4, /unavailable/],
    alerts: ['IngestQueueUnavailable'],
    long: true,
  },
  'Redis is full': {
    begin: ({ redis }) => server(redis).command('CONFIG', 'SET', 'maxmemory', '1'),
    end: ({ redis }) => server(redis).command('CONFIG', 'SET', 'maxmemory', '0'),
    pages: { gateway: /^REFUSING bad .*maxmemory.*503/ },
    ready: ['gateway', 503, /maxmemory/],
    status: [4, /maxmemory/],
    alerts: ['IngestQueueMemoryFull', 'IngestQueueUnavailable'],
    long: true,
  },
  'Redis has restarted after a rewrite of its file': {
    begin: async ({ redis }) => {
      await server(redis).command('BGREWRITEAOF');
      await eventually('the file is rewritten', async () =>
        /rewrite_in_progress:0\r\naof_rewrite_scheduled:0/.test(
          String(await server(redis).command('INFO', 'persistence')),
        ),
      );
      await server(redis).signal('SIGTERM');
      await server(redis).start();
    },
    pages: { gateway: LIVE },
    ready: ['gateway', 200, /"ready"/],
    alerts: [],
    long: true,
  },
  'everything works again': {
    pages: { gateway: LIVE },
    ready: ['gateway', 200, /"ready"/],
    alerts: [],
  },
};

/** An outage uses up the error budget, one consumer runs instead of the wanted three, and the machine may be busy. */
function firing(time: string, alerts: readonly string[], wasSlow: boolean) {
  const unsure = ['IngestReplicasDiffer', ...(wasSlow ? ['IngestLatencyHigh', 'IngestProcessStalls'] : [])];
  const others = unsure.filter((one) => !alerts.includes(one)).join('|');
  return {
    expr: [
      'group by (alertname) (ALERTS{alertstate="firing"}',
      'ALERTS{alertname="IngestServerErrors", severity="warning"}',
      `ALERTS{alertname=~"${others}"})`,
    ].join(' unless '),
    eval_time: time,
    exp_samples: alerts.map((alertname) => ({ labels: `{alertname="${alertname}"}`, value: 1 })),
  };
}

describe('what is said while', () => {
  let world: World | undefined;
  for (const [name, situation] of Object.entries(SITUATIONS))
    it(name, situation.long ? { tags: ['long'] } : {}, async () =>
      assertSaid((world ??= await World.start([await TestRedis.start()])), name, situation),
    );

  it('a replica is connected and frozen', { tags: ['long'] }, async () => {
    const master = await TestRedis.start();
    const replica = await TestRedis.start(['--replicaof', '127.0.0.1', String(master.port)]);
    const linked = async (): Promise<boolean> =>
      String(await replica.command('INFO', 'replication')).includes('master_link_status:up');
    await eventually('the replica is linked', linked);
    const one = await World.start([master], { INGEST_QUEUE_REPLICAS: '1' });
    await assertSaid(one, 'a replica is connected and frozen', {
      begin: () => replica.signal('SIGSTOP'),
      end: () => replica.signal('SIGCONT'),
      pages: { gateway: /^REFUSING bad (?!.*lost).*503/ },
      ready: ['gateway', 503, /unavailable/],
      status: [6, /1 of 1 replica do not acknowledge, and 1 must: gateways refuse events/],
      alerts: ['IngestQueueUnavailable'],
    });
  });

  it('a clock is wrong', { tags: ['long'] }, async () => {
    const ahead = await TestRedis.startWithClock();
    await assertSaid(await World.start([ahead]), 'a clock is wrong', {
      begin: async () => ahead.setClock(2),
      pages: {
        gateway:
          /^CLOCK WRONG warn The clocks of this process and of the queue differ by 2 h\. One of them is wrong\.$/,
      },
      ready: ['gateway', 200, /"ready"/],
      alerts: ['IngestClockSkewed'],
    });
  });

  it('PostgreSQL is frozen, and read-only', { tags: ['long'] }, async (t) => {
    const postgres = await startPrivatePostgres({ durable: false });
    const signal = (name: NodeJS.Signals): void => postgres.processes().forEach((pid) => process.kill(pid, name));
    t.after(() => postgres.stop());
    const uri = await postgres.freshDatabase();
    const one = await World.start([await TestRedis.start()], {}, uri);
    const readOnly = async (value: string): Promise<void> => {
      await postgres.query(uri, `ALTER SYSTEM SET default_transaction_read_only = ${value}`);
      await postgres.query(uri, 'SELECT pg_reload_conf()');
    };
    const nothingLands =
      /^NOT LANDING bad No event has landed for \d+ seconds\. [\d,]+ events? waits?, the oldest for /;
    const unready = {
      ready: ['consumer', 503, /the warehouse is unavailable/],
      alerts: ['IngestConsumerNotReady', 'IngestNothingLands', 'IngestWarehouseUnavailable'],
    } as const;
    await assertSaid(one, 'PostgreSQL is read-only', {
      ...unready,
      begin: () => readOnly('on'),
      end: () => readOnly('off'),
      pages: {
        consumer: /^NOT LANDING warn the warehouse is unavailable: .*read-only.* events? waits?/,
        gateway: nothingLands,
      },
    });
    await assertSaid(one, 'PostgreSQL is frozen', {
      ...unready,
      begin: async () => signal('SIGSTOP'),
      end: async () => signal('SIGCONT'),
      pages: {
        consumer: /^NOT LANDING warn the warehouse is unavailable: it does not answer\. /,
        gateway: nothingLands,
      },
      status: [5, /heartbeat/],
    });
  });

  it('the warehouse is full', { tags: ['long'] }, async () => {
    const one = await World.start([await TestRedis.start()]);
    const limit = (bytes: string): unknown =>
      execFileSync('prlimit', ['--pid', String(one.consumer.child.pid), `--fsize=${bytes}:unlimited`]);
    await assertSaid(one, 'the warehouse is full', {
      // A file that may not grow stands for a full disk.
      begin: async () => limit('4096'),
      end: async () => limit('unlimited'),
      pages: {
        consumer: /^NOT LANDING warn the warehouse is unavailable: (disk I\/O error|database or disk is full)\. /,
        gateway: /^NOT LANDING bad No event has landed for \d+ seconds\. [\d,]+ events wait, the oldest for /,
      },
      ready: ['consumer', 503, /the warehouse is unavailable: d/],
      alerts: ['IngestConsumerNotReady', 'IngestNothingLands', 'IngestWarehouseUnavailable'],
    });
    await assertSaid(one, 'the warehouse has room again', {
      pages: { gateway: LIVE, consumer: /^LIVE good Everything works: [\d.,]+\/s landed by all consumers\.$/ },
      ready: ['consumer', 200, /"ready"/],
      alerts: [],
    });
  });

  it('a replica was promoted', { tags: ['long'] }, async (t) => {
    const master = await TestRedis.start();
    const replica = await TestRedis.start(['--replicaof', '127.0.0.1', String(master.port)]);
    const link = await openLink({ host: '127.0.0.1', port: master.port });
    t.after(() => link.close());
    const one = await World.start([master], {}, undefined, [link.port]);
    await eventually('the replica has events', async () => (await replica.length()) > 100);
    await assertSaid(one, 'a replica was promoted', {
      begin: async () => {
        await master.signal('SIGKILL');
        await replica.command('REPLICAOF', 'NO', 'ONE');
        link.cut();
        link.retarget({ host: '127.0.0.1', port: replica.port });
        link.mend();
      },
      pages: { gateway: LIVE },
      ready: ['gateway', 200, /"ready"/],
      alerts: [],
    });
  });

  it('the gateway is overloaded', { tags: ['long'] }, async () => {
    const one = await World.start([await TestRedis.start()], { INGEST_IN_FLIGHT_MAX: '1' });
    await assertSaid(one, 'the gateway is overloaded', {
      pages: {
        gateway:
          /^(?:REFUSING|ERRORS) bad [\d.]+ % of the requests (?:are refused|fail), most with QUEUE_OVERLOADED\.$/,
      },
      ready: ['gateway', 200, /"ready"/],
      alerts: ['IngestServerErrors'],
    });
  });

  it('the gateway drains', async () => {
    assert.ok(world);
    world.gateway.signal('SIGTERM');
    await assertSaid(world, 'the gateway drains', {
      pages: { gateway: /^(?!REFUSING)/ },
      ready: ['gateway', 503, /^\{"status":"draining"\}$/],
      alerts: [],
    });
  });

  it('one of two parts is away, and a certificate is near its end', { tags: ['long'] }, async () => {
    const cert = await pki.authority.issue({ ...LOCALHOST, notAfter: new Date(Date.now() + 2.5 * 86_400_000) });
    const tls = {
      INGEST_TLS_CERT: pki.write('short.pem', cert.certificate),
      INGEST_TLS_KEY: pki.write('short-key.pem', cert.key),
    };
    const redis = [await TestRedis.start(), await TestRedis.start()];
    const parts = await World.start(redis, { ...tls, INGEST_SHED_MS: '5000' });
    await assertSaid(parts, 'a certificate is near its end', {
      pages: { gateway: /^CERTIFICATE EXPIRES warn The TLS file cert expires in 2\.\d days\.$/ },
      ready: ['gateway', 200, /^\{"status":"ready"\}$/],
      alerts: ['IngestCertificateExpires'],
    });
    await assertSaid(parts, 'one of two parts is away', {
      begin: () => server(redis.slice(1)).signal('SIGKILL'),
      pages: {
        gateway:
          /^PARTLY DOWN bad Part 1 of .* unavailable: .*refused.* In \d+ seconds, \S+ were accepted, \S+ were shed\.$/,
      },
      ready: ['gateway', 200, /"ready","unavailable":\[1\]/],
      status: [4, /ingest-b/],
      alerts: ['IngestCertificateExpires', 'IngestPartitionUnavailable', 'IngestServerErrors'],
    });
  });

  it('these alerts fire, and no others', () => {
    const known = evaluated.map(({ name, series, wasSlow, situation: { alerts, laterAlerts } }) => ({
      name,
      interval: '1m',
      input_series: series,
      promql_expr_test: [firing('30m', alerts, wasSlow), ...(laterAlerts ? [firing('80m', laterAlerts, wasSlow)] : [])],
    }));
    const file = join(temporaryFolder(), 'situations.json');
    writeFileSync(
      file,
      JSON.stringify({ rule_files: [join(DEPLOY, 'alerts.yml')], evaluation_interval: '1m', tests: known }),
    );
    const { status, text: output } = ran(tool('promtool', 'prometheus'), ['test', 'rules', file]);
    assert.equal(status, 0, output);
  });
});
