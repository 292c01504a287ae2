// The Kubernetes objects as they are shipped. kubernetes.long.ts renders and validates them with kubectl.
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { readCommandLine } from '../../lib/admin/command-line.ts';
import { alertRules, consumerOf, DEPLOY, deployFile, documents, gatewayOf } from './deploy-files.ts';

/** Returns the value at a path of names and indices, with dots in between. */
const at = (from: unknown, path: string): unknown =>
  path.split('.').reduce((value, key) => (value as Readonly<Record<string, unknown>> | undefined)?.[key], from);
const listAt = (from: unknown, path: string): readonly unknown[] => (at(from, path) ?? []) as readonly unknown[];
const namesAt = (from: unknown, path: string, member = 'name'): readonly unknown[] =>
  listAt(from, path).map((one) => at(one, member));

/** Asserts the values at paths. */
function assertHas(object: unknown, wanted: Readonly<Record<string, unknown>>): void {
  const found = Object.fromEntries(Object.keys(wanted).map((path) => [path, at(object, path)]));
  assert.deepEqual(found, wanted, String(at(object, 'metadata.name')));
}

const objects = globSync('kubernetes/{admin-job.yaml,base/*.yaml,components/**/*.yaml}', { cwd: DEPLOY }).flatMap(
  (path) => documents(deployFile(path)),
);
const of = (kind: string): readonly unknown[] => objects.filter((one) => one['kind'] === kind);
const nameOf = (object: unknown): string => String(at(object, 'metadata.name'));

it('the pods get no variables of Services, which begin as our settings do, no token, and no rights', () => {
  const pods = objects
    .flatMap((one) => ['spec.jobTemplate.spec.template.spec', 'spec.template.spec'].map((path) => at(one, path)))
    // A patch of a pod names no image.
    .filter((pod) => at(pod, 'containers.0.image'));
  assert.equal(pods.length, 5);
  for (const pod of pods) {
    assertHas(pod, {
      enableServiceLinks: false,
      automountServiceAccountToken: false,
      'securityContext.runAsNonRoot': true,
      // The secrets are readable for the group.
      'securityContext.fsGroup': 65532,
      'containers.length': 1,
      'containers.0.image': 'ingest-gateway:VERSION',
      'containers.0.securityContext.readOnlyRootFilesystem': true,
    });
    assert.deepEqual(namesAt(pod, 'containers.0.volumeMounts'), namesAt(pod, 'volumes'));
  }
});

describe('the deployment of the', () => {
  for (const [program, secrets, surge, unavailable] of [
    ['gateway', ['ingest-gateway', 'ingest-gateway-tls'], 1, 0],
    // Never one consumer more than wanted, which would refuse to start.
    ['consumer', ['ingest-consumer'], 0, 1],
  ] as const)
    it(`${program} has settings that it understands, its probes, and time to drain`, () => {
      const both = of('Deployment').filter((one) => nameOf(one) === `ingest-${program}`);
      const one = both.find((object) => at(object, 'spec.strategy'));
      const pod = at(one, 'spec.template.spec');
      const container = at(pod, 'containers.0');
      const live = { path: '/health/live', port: 'admin' };
      assertHas(one, {
        'spec.strategy.rollingUpdate': { maxSurge: surge, maxUnavailable: unavailable },
        'spec.selector.matchLabels': at(one, 'spec.template.metadata.labels'),
      });
      assertHas(container, {
        args: [`ingest-${program}.js`],
        'startupProbe.httpGet': live,
        'livenessProbe.httpGet': live,
        'readinessProbe.httpGet': { path: '/health/ready', port: 'admin' },
      });
      assert.deepEqual(namesAt(pod, 'volumes', 'secret.secretName'), secrets);
      const env = Object.fromEntries(
        listAt(container, 'env').map((set) => [
          String(at(set, 'name')).replace(/_FILE$/, ''),
          String(at(set, 'value')),
        ]),
      );
      const config = program === 'gateway' ? gatewayOf(env) : consumerOf(env);
      assert.ok(config.drainTimeoutMs < Number(at(pod, 'terminationGracePeriodSeconds')) * 1_000);
      const admin = at(
        listAt(container, 'ports').find((port) => at(port, 'name') === 'admin'),
        'containerPort',
      );
      const replicas = Number(at(one, 'spec.replicas'));
      if (!('adminAddress' in config)) {
        assert.deepEqual([config.address.port, config.address.host], [admin, '0.0.0.0']);
        const wanted = alertRules.find(({ record }) => record === 'ingest:consumer_replicas:wanted')?.expr;
        assert.equal(wanted, `vector(${replicas})`);
        assert.ok(config.replicasMax >= replicas);
        return;
      }
      assert.ok(replicas >= 2);
      assert.deepEqual([config.adminAddress?.port, config.adminOnly], [admin, true]);
      assert.equal(config.queueDurability, 'require');
      // New requests still arrive until the readiness probe has failed.
      const [periodS, failures] = ['periodSeconds', 'failureThreshold'].map((name) =>
        Number(at(container, `readinessProbe.${name}`)),
      ) as [number, number];
      assert.ok(config.drainDelayMs > periodS * failures * 1_000);
      // An idle process needs 128 MiB. Bytes in flight and unread answers may need 64 MiB each by default.
      const [, megabytes] = /^(\d+)Mi$/.exec(String(at(container, 'resources.limits.memory'))) ?? [];
      assert.ok((128 + 64 + 64) * 2 ** 20 + config.connectionsMax * 80_000 <= Number(megabytes) * 2 ** 20);
      // The component of a load balancer adds a setting.
      const proxy = at(
        both.find((other) => other !== one),
        'spec.template.spec.containers.0.env.0',
      );
      assert.ok(gatewayOf({ ...env, [String(at(proxy, 'name'))]: String(at(proxy, 'value')) }).proxyFrom !== undefined);
    });
});

describe('the objects beside the pods', () => {
  it('select the pods of their name, and lead to the port of producers', () => {
    const [service] = of('Service').filter((one) => at(one, 'spec.selector'));
    assertHas(service, {
      'spec.selector': { 'app.kubernetes.io/name': 'ingest-gateway', 'app.kubernetes.io/part-of': 'ingest' },
      'spec.ports': [{ name: 'producers', port: 443, targetPort: 'producers' }],
    });
    for (const one of [...of('PodDisruptionBudget'), ...of('NetworkPolicy')]) {
      const { matchLabels } = (at(one, 'spec.selector') ?? at(one, 'spec.podSelector')) as { matchLabels: object };
      assert.equal(Object.values(matchLabels)[0], nameOf(one));
    }
    assert.deepEqual(
      of('PodDisruptionBudget').map((one) => at(one, 'spec.maxUnavailable')),
      [1, 1],
    );
    assert.deepEqual(
      of('HorizontalPodAutoscaler').map((one) => at(one, 'spec.minReplicas')),
      [2],
    );
  });

  it('let producers and Prometheus in, and the programs out to Redis, Sentinel, PostgreSQL and a collector', () => {
    const portsOf = (one: unknown, path: string): readonly unknown[] =>
      listAt(one, path).flatMap((rule) => namesAt(rule, 'ports', 'port'));
    assert.deepEqual(of('NetworkPolicy').map(nameOf).sort(), ['ingest-consumer', 'ingest-gateway']);
    for (const one of of('NetworkPolicy')) {
      assert.deepEqual(portsOf(one, 'spec.egress'), [6379, 26379, 5432, 4317, 4318, 53, 53], nameOf(one));
      assert.deepEqual(portsOf(one, 'spec.ingress'), nameOf(one) === 'ingest-gateway' ? [8443, 9464] : [9464]);
      for (const rule of listAt(one, 'spec.ingress'))
        assert.equal(at(rule, 'from') === undefined, at(rule, 'ports.0.port') === 8443);
    }
  });

  it('carry the alerts of deploy/alerts.yml, as `make prometheus-rule` writes them', () => {
    assert.deepEqual(
      of('PrometheusRule').map((one) => at(one, 'spec')),
      [parse(deployFile('alerts.yml'))],
    );
  });
});

describe('the scheduled jobs', () => {
  /** The hours between two runs. */
  const hoursOf = (job: unknown): number =>
    Number(/^\d+ \*\/(\d+) \* \* \*$/.exec(String(at(job, 'spec.schedule')))?.[1] ?? 24);
  const argsOf = (job: unknown) =>
    listAt(job, 'spec.jobTemplate.spec.template.spec.containers.0.args') as readonly string[];

  it('run a command of ingest-admin once, end before the next one, and are not retried until they succeed', () => {
    assert.deepEqual(of('CronJob').map(nameOf).sort(), ['ingest-prune', 'ingest-reconcile']);
    for (const one of of('CronJob')) {
      // A retry that succeeds would hide the failure.
      assertHas(one, {
        'spec.concurrencyPolicy': 'Forbid',
        'spec.jobTemplate.spec.backoffLimit': 0,
        'spec.jobTemplate.spec.template.spec.restartPolicy': 'Never',
      });
      const [program, ...args] = argsOf(one);
      assert.equal(program, 'ingest-admin.js');
      assert.equal(typeof readCommandLine(args, 0), 'object', args.join(' '));
      // A hanging Job would stop the next one.
      assert.ok(Number(at(one, 'spec.jobTemplate.spec.activeDeadlineSeconds')) < hoursOf(one) * 3_600, nameOf(one));
    }
  });

  it('check, change nothing, and leave a failed Job, for which an alert fires, until the next one has run', () => {
    const check = of('CronJob').find((one) => nameOf(one) === 'ingest-reconcile');
    assert.ok(check !== undefined && !argsOf(check).includes('--land'));
    assert.equal(at(check, 'spec.jobTemplate.spec.ttlSecondsAfterFinished'), hoursOf(check) * 3_600);
  });
});
