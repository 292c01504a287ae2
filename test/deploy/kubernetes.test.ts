// The Kubernetes objects as they are shipped. kubernetes.long.ts renders and validates them with kubectl.
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { readCommandLine } from '../../lib/admin/command-line.ts';
import { alertRules, consumerOf, DEPLOY, deployFile, documents, gatewayOf } from './deploy-files.ts';

type Labels = Readonly<Record<string, string>>;

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly periodSeconds: number;
  readonly failureThreshold?: number;
}

interface Pod {
  readonly restartPolicy?: string;
  readonly terminationGracePeriodSeconds: number;
  readonly enableServiceLinks?: boolean;
  readonly automountServiceAccountToken?: boolean;
  readonly securityContext: { readonly runAsNonRoot: boolean; readonly fsGroup: number };
  readonly containers: readonly {
    readonly image: string;
    readonly args: readonly string[];
    readonly env: readonly { readonly name: string; readonly value: string }[];
    readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
    readonly startupProbe: Probe;
    readonly livenessProbe: Probe;
    readonly readinessProbe: Probe;
    readonly resources: { readonly limits: { readonly memory: string } };
    readonly securityContext: { readonly readOnlyRootFilesystem: boolean };
    readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  }[];
  readonly volumes: readonly { readonly name: string; readonly secret?: { readonly secretName: string } }[];
}

interface Job {
  readonly backoffLimit?: number;
  readonly activeDeadlineSeconds?: number;
  readonly ttlSecondsAfterFinished?: number;
  readonly template: { readonly spec: Pod; readonly metadata: { readonly labels: Labels } };
}

interface Spec extends Partial<Job> {
  readonly replicas?: number;
  readonly strategy?: { readonly rollingUpdate: Readonly<Record<string, number>> };
  readonly schedule?: string;
  readonly concurrencyPolicy?: string;
  readonly jobTemplate?: { readonly spec: Job };
  readonly selector?: Labels & { readonly matchLabels?: Labels };
  readonly podSelector?: { readonly matchLabels: Labels };
  readonly ports?: readonly { readonly port: number; readonly targetPort: string }[];
  readonly maxUnavailable?: number;
  readonly minReplicas?: number;
  readonly ingress?: readonly Rule[];
  readonly egress?: readonly Rule[];
}

type Rule = { readonly ports: readonly { readonly port: number }[]; readonly from?: unknown };

interface KubernetesObject {
  readonly kind: string;
  readonly metadata?: { readonly name: string };
  readonly spec?: Spec;
}

const objects = globSync('kubernetes/{admin-job.yaml,base/*.yaml,components/**/*.yaml}', { cwd: DEPLOY })
  .flatMap((path) => documents(deployFile(path)) as unknown as readonly KubernetesObject[])
  .map(({ kind, metadata, spec = {} }) => ({ kind, name: metadata?.name ?? '', spec }));
const jobs = objects.flatMap(({ name, spec }) =>
  spec.jobTemplate ? [{ name, spec, job: spec.jobTemplate.spec }] : [],
);
const podOf = ({ jobTemplate, template }: Spec): Pod | undefined => (jobTemplate?.spec ?? { template }).template?.spec;

/** The hours between two runs. */
const hoursOf = (schedule = ''): number => Number(/^\d+ \*\/(\d+) \* \* \*$/.exec(schedule)?.[1] ?? 24);

describe('the pods', () => {
  it('get no variables of Services, which begin as our settings do, no token, and no rights', () => {
    // A patch of a pod names no image.
    const pods = objects.flatMap(({ spec }) => podOf(spec) ?? []).filter(({ containers: [one] }) => one?.image);
    assert.equal(pods.length, 5);
    for (const { enableServiceLinks, automountServiceAccountToken, securityContext, containers, volumes } of pods) {
      assert.deepEqual([enableServiceLinks, automountServiceAccountToken], [false, false]);
      // The secrets are readable for the group.
      assert.deepEqual([securityContext.runAsNonRoot, securityContext.fsGroup], [true, 65532]);
      for (const { image, securityContext: own, volumeMounts } of containers) {
        assert.deepEqual([image, own.readOnlyRootFilesystem], ['ingest-gateway:VERSION', true]);
        assert.deepEqual(
          volumeMounts.map(({ name }) => name),
          volumes.map(({ name }) => name),
        );
      }
    }
  });
});

describe('the deployment of the', () => {
  for (const [program, secrets, changes] of [
    ['gateway', ['ingest-gateway', 'ingest-gateway-tls'], { maxSurge: 1, maxUnavailable: 0 }],
    // Never one consumer more than wanted, which would refuse to start.
    ['consumer', ['ingest-consumer'], { maxSurge: 0, maxUnavailable: 1 }],
  ] as const)
    it(`${program} has settings that it understands, its probes, and time to drain`, () => {
      const both = objects.filter(({ kind, name }) => kind === 'Deployment' && name === `ingest-${program}`);
      const one = both.find(({ spec }) => spec.strategy);
      const { replicas = 0, strategy, template = assert.fail(), selector } = one?.spec ?? {};
      const { spec: pod, metadata } = template;
      const [container = assert.fail()] = pod.containers;
      const env = Object.fromEntries(container.env.map(({ name, value }) => [name.replace(/_FILE$/, ''), value]));
      assert.deepEqual(container.args, [`ingest-${program}.js`]);
      assert.deepEqual(selector?.matchLabels, metadata.labels);
      assert.deepEqual(strategy?.rollingUpdate, changes);
      assert.deepEqual(
        pod.volumes.map(({ secret }) => secret?.secretName),
        secrets,
      );
      const config = program === 'gateway' ? gatewayOf(env) : consumerOf(env);
      const { drainTimeoutMs } = config;
      assert.ok(drainTimeoutMs < pod.terminationGracePeriodSeconds * 1_000);
      const { startupProbe, livenessProbe, readinessProbe, ports } = container;
      const admin = ports.find(({ name }) => name === 'admin')?.containerPort;
      for (const { path, port } of [startupProbe.httpGet, livenessProbe.httpGet])
        assert.deepEqual([path, port], ['/health/live', 'admin']);
      assert.deepEqual(readinessProbe.httpGet, { path: '/health/ready', port: 'admin' });
      const unreadyMs = readinessProbe.periodSeconds * (readinessProbe.failureThreshold ?? 3) * 1_000;
      if ('adminAddress' in config) {
        assert.ok(replicas >= 2);
        assert.deepEqual([config.adminAddress?.port, config.adminOnly], [admin, true]);
        assert.equal(config.queueDurability, 'require');
        // New requests still arrive until the readiness probe has failed.
        assert.ok(config.drainDelayMs > unreadyMs);
        // An idle process needs 128 MiB. Bytes in flight and unread answers may need 64 MiB each by default.
        const [, megabytes] = /^(\d+)Mi$/.exec(container.resources.limits.memory) ?? [];
        assert.ok((128 + 64 + 64) * 2 ** 20 + config.connectionsMax * 80_000 <= Number(megabytes) * 2 ** 20);
        // The component of a load balancer adds a setting.
        const [proxy] = both.find((other) => other !== one)?.spec.template?.spec.containers[0]?.env ?? [];
        assert.ok(gatewayOf({ ...env, [proxy?.name ?? '']: proxy?.value ?? '' }).proxyFrom !== undefined);
      } else {
        assert.deepEqual([config.address.port, config.address.host], [admin, '0.0.0.0']);
        const wanted = alertRules.find(({ record }) => record === 'ingest:consumer_replicas:wanted')?.expr;
        assert.equal(wanted, `vector(${replicas})`);
        assert.ok(config.replicasMax >= replicas);
      }
    });
});

describe('the objects beside the pods', () => {
  const of = (kind: string) => objects.filter((one) => one.kind === kind);
  const label = (name: string) => ({ 'app.kubernetes.io/name': name });

  it('select the pods of their name, and lead to the port of producers', () => {
    const [service] = of('Service').filter(({ spec }) => spec.selector);
    assert.deepEqual(service?.spec.selector, { ...label('ingest-gateway'), 'app.kubernetes.io/part-of': 'ingest' });
    assert.deepEqual(
      service.spec.ports?.map(({ port, targetPort }) => [port, targetPort]),
      [[443, 'producers']],
    );
    for (const { name, spec } of [...of('PodDisruptionBudget'), ...of('NetworkPolicy')])
      assert.equal((spec.selector ?? spec.podSelector)?.matchLabels?.['app.kubernetes.io/name'], name);
    assert.deepEqual(
      of('PodDisruptionBudget').map(({ spec }) => spec.maxUnavailable),
      [1, 1],
    );
    assert.deepEqual(
      of('HorizontalPodAutoscaler').map(({ spec }) => spec.minReplicas),
      [2],
    );
  });

  it('let producers and Prometheus in, and the programs out to Redis, Sentinel, PostgreSQL and a collector', () => {
    const portsOf = (rules: readonly Rule[] = []): readonly number[] =>
      rules.flatMap(({ ports }) => ports.map(({ port }) => port));
    assert.deepEqual(
      of('NetworkPolicy')
        .map(({ name }) => name)
        .sort(),
      ['ingest-consumer', 'ingest-gateway'],
    );
    for (const { name, spec } of of('NetworkPolicy')) {
      assert.deepEqual(portsOf(spec.egress), [6379, 26379, 5432, 4317, 4318, 53, 53], name);
      assert.deepEqual(portsOf(spec.ingress), name === 'ingest-gateway' ? [8443, 9464] : [9464]);
      for (const { ports, from } of spec.ingress ?? []) assert.equal(from === undefined, ports[0]?.port === 8443);
    }
  });

  it('carry the alerts of deploy/alerts.yml, as `make prometheus-rule` writes them', () => {
    assert.deepEqual(
      of('PrometheusRule').map(({ spec }) => spec),
      [parse(deployFile('alerts.yml'))],
    );
  });
});

describe('the scheduled jobs', () => {
  it('run a command of ingest-admin once, end before the next one, and are not retried until they succeed', () => {
    assert.deepEqual(jobs.map(({ name }) => name).sort(), ['ingest-prune', 'ingest-reconcile']);
    for (const { name, spec, job } of jobs) {
      assert.equal(spec.concurrencyPolicy, 'Forbid', name);
      assert.equal(job.backoffLimit, 0, `${name}: a retry that succeeds would hide the failure`);
      assert.equal(job.template.spec.restartPolicy, 'Never', name);
      const [program, ...args] = job.template.spec.containers[0]?.args ?? [];
      assert.equal(program, 'ingest-admin.js');
      assert.equal(typeof readCommandLine(args, 0), 'object', args.join(' '));
      const { activeDeadlineSeconds = Infinity } = job;
      assert.ok(
        activeDeadlineSeconds < hoursOf(spec.schedule) * 3_600,
        `${name}: a hanging Job would stop the next one`,
      );
    }
  });

  it('check, change nothing, and leave a failed Job, for which an alert fires, until the next one has run', () => {
    const check = jobs.find(({ name }) => name === 'ingest-reconcile');
    assert.ok(check !== undefined && !(check.job.template.spec.containers[0]?.args ?? []).includes('--land'));
    assert.equal(check.job.ttlSecondsAfterFinished, hoursOf(check.spec.schedule) * 3_600);
  });
});
