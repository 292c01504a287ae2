// The Kubernetes objects as they are shipped. kubernetes.long.ts renders and validates them with kubectl.
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { basename, dirname } from 'node:path';
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

const envOf = (pod: unknown): Record<string, string> =>
  Object.fromEntries(listAt(pod, 'containers.0.env').map((one) => [String(at(one, 'name')), String(at(one, 'value'))]));

/** Asserts the values at paths. */
function assertHas(object: unknown, wanted: Readonly<Record<string, unknown>>): void {
  const found = Object.fromEntries(Object.keys(wanted).map((path) => [path, at(object, path)]));
  assert.deepEqual(found, wanted, String(at(object, 'metadata.name')));
}

const objects = globSync('kubernetes/{admin-job.yaml,base/*.yaml,components/**/*.yaml}', { cwd: DEPLOY }).flatMap(
  (path) => documents(deployFile(path)),
);
const of = (kind: string): readonly unknown[] => objects.filter((one) => one['kind'] === kind);
const labelsOf = (program: string) => ({
  ...{ 'app.kubernetes.io/name': `ingest-${program}`, 'app.kubernetes.io/part-of': 'ingest' },
});
const nameOf = (object: unknown): string => String(at(object, 'metadata.name'));

it('each object has the version of the API that its kind has', () => {
  const versions: Readonly<Record<string, string>> = {
    ...{ Deployment: 'apps/v1', Service: 'v1', Job: 'batch/v1', CronJob: 'batch/v1', PodDisruptionBudget: 'policy/v1' },
    ...{ NetworkPolicy: 'networking.k8s.io/v1', HorizontalPodAutoscaler: 'autoscaling/v2' },
    ...{ PodMonitor: 'monitoring.coreos.com/v1', PrometheusRule: 'monitoring.coreos.com/v1' },
    ...{ Kustomization: 'kustomize.config.k8s.io/v1beta1', Component: 'kustomize.config.k8s.io/v1alpha1' },
  };
  for (const path of globSync('kubernetes/**/*.yaml', { cwd: DEPLOY }))
    for (const { kind, apiVersion } of documents(deployFile(path)))
      assert.equal(apiVersion, versions[String(kind)] ?? 'another kind', path);
});

it('the pods get no variables of Services, which begin as our settings do, no token, and no rights', () => {
  const pods = objects
    .flatMap((one) => ['spec.jobTemplate.spec.template.spec', 'spec.template.spec'].map((path) => at(one, path)))
    // A patch of a pod names no image.
    .filter((pod) => at(pod, 'containers.0.image'));
  assert.equal(pods.length, 5);
  for (const pod of pods) {
    const isAdmin = at(pod, 'containers.0.args.0') === 'ingest-admin.js';
    assertHas(pod, {
      'containers.0.resources.requests': isAdmin ? { cpu: '100m', memory: '128Mi' } : { cpu: '500m', memory: '256Mi' },
      enableServiceLinks: false,
      automountServiceAccountToken: false,
      securityContext: {
        ...{ runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532 },
        seccompProfile: { type: 'RuntimeDefault' },
      },
      'containers.length': 1,
      'containers.0.image': 'ingest-gateway:VERSION',
      'containers.0.resources.limits': { memory: '512Mi' },
      'containers.0.securityContext': {
        ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true },
        capabilities: { drop: ['ALL'] },
      },
    });
    // The secrets are readable for the group.
    assert.deepEqual(new Set(namesAt(pod, 'volumes', 'secret.defaultMode')), new Set([0o440]));
    assert.deepEqual(namesAt(pod, 'containers.0.volumeMounts'), namesAt(pod, 'volumes'));
    assert.deepEqual(new Set(namesAt(pod, 'containers.0.volumeMounts', 'readOnly')), new Set([true]));
    for (const [name, value] of Object.entries(envOf(pod))) {
      if (/^INGEST_\w+_URI_FILE$/.test(name))
        assert.equal(value, `/etc/ingest/${name.slice('INGEST_'.length, -'_URI_FILE'.length).toLowerCase()}-uri`);
      if (value.startsWith('/'))
        assert.ok(namesAt(pod, 'containers.0.volumeMounts', 'mountPath').includes(dirname(value)), value);
    }
  }
});

it('the kustomizations name all their files, and a component removes what it replaces', () => {
  const remove = (name: string, ...paths: readonly string[]) => [
    {
      target: { kind: 'Deployment', name },
      patch: paths.map((path) => `- op: remove\n  path: ${path}`).join('\n'),
    },
  ];
  const annotations = ['scrape', 'port'].map((name) => `/spec/template/metadata/annotations/prometheus.io~1${name}`);
  const usual = ['components/disruption-budget', 'components/network-policy'];
  const wanted: Readonly<Record<string, object>> = {
    '.': { resources: ['base'], components: usual },
    base: { resources: ['gateway.yaml', 'consumer.yaml'] },
    example: {
      resources: ['../base'],
      components: [...usual, 'components/admin'].map((path) => `../${path}`),
      images: [{ name: 'ingest-gateway', newName: 'registry.example/ingest-gateway', newTag: 'VERSION' }],
      configMapGenerator: [
        { name: 'ingest-producers', files: ['producers.json'] },
        { name: 'ingest-schemas', files: ['order.placed.json'] },
      ],
      patches: [{ path: 'gateway.yaml' }, { path: 'consumer.yaml' }],
    },
    admin: { resources: ['prune.yaml', 'reconcile.yaml'] },
    autoscaling: { resources: ['gateway-autoscaler.yaml'], patches: remove('ingest-gateway', '/spec/replicas') },
    'load-balancer': { patches: [{ path: 'service.yaml' }, { path: 'proxy-protocol.yaml' }] },
    'pod-monitor': { resources: ['pod-monitor.yaml'], patches: remove('ingest-(gateway|consumer)', ...annotations) },
  };
  for (const path of globSync('kubernetes/**/kustomization.yaml', { cwd: DEPLOY })) {
    const [{ apiVersion: _, kind, ...one } = assert.fail()] = documents(deployFile(path));
    const folder = dirname(path).replace(/^kubernetes\/?/, '');
    const name = basename(folder);
    assert.deepEqual(one, wanted[folder === '' ? '.' : name] ?? { resources: [`${name}.yaml`] }, path);
    assert.equal(kind, folder.startsWith('components/') ? 'Component' : 'Kustomization', path);
  }
});

it('the example mounts the files that it names', () => {
  for (const [program, ...files] of [
    [
      'gateway',
      ['INGEST_PRODUCERS_FILE', '/etc/ingest-producers', '/producers.json', 'ingest-producers'],
      ['INGEST_TLS_CLIENT_CRL', '/etc/ingest-crl', '/crl.pem', 'ingest-gateway-crl'],
    ],
    ['consumer', ['INGEST_SCHEMAS_DIR', '/etc/ingest-schemas', '', 'ingest-schemas']],
  ] as const) {
    const [one] = documents(deployFile(`kubernetes/example/${program}.yaml`));
    const pod = at(one, 'spec.template.spec');
    assert.deepEqual(envOf(pod), Object.fromEntries(files.map(([key, folder, file]) => [key, folder + file])));
    const [mounts, volumes] = [listAt(pod, 'containers.0.volumeMounts'), listAt(pod, 'volumes')];
    const maps = mounts.map((mount, index) => {
      assert.equal(at(mount, 'name'), at(volumes[index], 'name'));
      return [at(mount, 'mountPath'), at(volumes[index], 'configMap.name')];
    });
    assert.deepEqual([nameOf(one), maps], [`ingest-${program}`, files.map(([, folder, , map]) => [folder, map])]);
  }
});

describe('the deployment of the', () => {
  for (const [program, secrets, surge, unavailable, readyS] of [
    ['gateway', ['ingest-gateway', 'ingest-gateway-tls'], 1, 0, 1],
    // Never one consumer more than wanted, which would refuse to start.
    ['consumer', ['ingest-consumer'], 0, 1, 2],
  ] as const)
    it(`${program} has settings that it understands, its probes, and time to drain`, () => {
      const both = of('Deployment').filter((one) => nameOf(one) === `ingest-${program}`);
      const one = both.find((object) => at(object, 'spec.strategy'));
      const pod = at(one, 'spec.template.spec');
      const container = at(pod, 'containers.0');
      const [live, ready] = ['live', 'ready'].map((name) => ({ path: `/health/${name}`, port: 'admin' }));
      const labels = labelsOf(program);
      const spread = { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' };
      assertHas(one, {
        'metadata.labels': labels,
        'spec.strategy.rollingUpdate': { maxSurge: surge, maxUnavailable: unavailable },
        'spec.selector.matchLabels': labels,
        'spec.template.metadata': {
          labels,
          annotations: { 'prometheus.io/scrape': 'true', 'prometheus.io/port': '9464' },
        },
        'spec.template.spec.topologySpreadConstraints': [{ ...spread, labelSelector: { matchLabels: labels } }],
      });
      assertHas(container, {
        args: [`ingest-${program}.js`],
        startupProbe: { httpGet: live, periodSeconds: 1, failureThreshold: 30 },
        livenessProbe: { httpGet: live, periodSeconds: 10, timeoutSeconds: 3 },
        readinessProbe: { httpGet: ready, periodSeconds: readyS, timeoutSeconds: 1, failureThreshold: 2 },
      });
      assert.deepEqual(namesAt(pod, 'volumes', 'secret.secretName'), secrets);
      const env = Object.fromEntries(
        Object.entries(envOf(pod)).map(([name, value]) => [name.replace(/_FILE$/, ''), value]),
      );
      const config = program === 'gateway' ? gatewayOf(env) : consumerOf(env);
      assert.ok(config.drainTimeoutMs < Number(at(pod, 'terminationGracePeriodSeconds')) * 1_000);
      const admin = at(
        listAt(container, 'ports').find((port) => at(port, 'name') === 'admin'),
        'containerPort',
      );
      const replicas = Number(at(one, 'spec.replicas'));
      if (!('adminAddress' in config)) {
        assert.deepEqual([config.address.port, config.address.host, admin], [9464, '0.0.0.0', 9464]);
        const wanted = alertRules.find(({ record }) => record === 'ingest:consumer_replicas:wanted')?.expr;
        assert.equal(wanted, `vector(${replicas})`);
        assert.ok(config.replicasMax >= replicas);
        return;
      }
      assert.equal(replicas, 2);
      assert.deepEqual([config.adminAddress?.port, config.adminOnly, config.address.port], [admin, true, 8443]);
      const pems = ['CERT', 'KEY', 'CLIENT_CA'].map((name) => basename(env[`INGEST_TLS_${name}`] ?? ''));
      assert.deepEqual(pems, ['tls.crt', 'tls.key', 'ca.crt'], 'as cert-manager writes them');
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
      const balancer = of('Service').find((other) => at(other, 'spec.type') === 'LoadBalancer');
      const prefix = 'service.beta.kubernetes.io/aws-load-balancer-';
      assert.deepEqual(at(balancer, 'metadata.annotations'), {
        ...{ [`${prefix}type`]: 'external', [`${prefix}nlb-target-type`]: 'ip', [`${prefix}scheme`]: 'internal' },
        [`${prefix}proxy-protocol`]: '*',
      });
    });
});

describe('the objects beside the pods', () => {
  it('select the pods of their name, and lead to the port of producers', () => {
    const [service] = of('Service').filter((one) => at(one, 'spec.selector'));
    assertHas(service, {
      'spec.selector': labelsOf('gateway'),
      'spec.ports': [{ name: 'producers', port: 443, targetPort: 'producers' }],
    });
    assert.deepEqual(
      of('PodDisruptionBudget').map((one) => [nameOf(one), at(one, 'spec')]),
      ['gateway', 'consumer'].map((name) => [
        `ingest-${name}`,
        { maxUnavailable: 1, selector: { matchLabels: labelsOf(name) } },
      ]),
    );
    const [scaler, ...others] = of('HorizontalPodAutoscaler');
    assert.equal(others.length, 0);
    assertHas(scaler, {
      'spec.scaleTargetRef': { apiVersion: 'apps/v1', kind: 'Deployment', name: 'ingest-gateway' },
      'spec.minReplicas': 2,
      'spec.maxReplicas': 10,
      'spec.metrics.0.resource': { name: 'cpu', target: { type: 'Utilization', averageUtilization: 70 } },
      'spec.behavior.scaleDown': {
        stabilizationWindowSeconds: 600,
        policies: [{ type: 'Pods', value: 1, periodSeconds: 120 }],
      },
    });
    assert.deepEqual(
      of('PodMonitor').map((one) => at(one, 'spec')),
      [
        {
          jobLabel: 'app.kubernetes.io/name',
          selector: { matchLabels: { 'app.kubernetes.io/part-of': 'ingest' } },
          podMetricsEndpoints: [{ port: 'admin', path: '/metrics', interval: '15s' }],
        },
      ],
    );
  });

  it('let producers and Prometheus in, and the programs out to Redis, Sentinel, PostgreSQL and a collector', () => {
    const inNamespace = (name: string) => [
      { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } } },
    ];
    const ports = (...all: readonly number[]) => all.map((port) => ({ port }));
    const dns = ['UDP', 'TCP'].map((protocol) => ({ port: 53, protocol }));
    const scraping = { from: inNamespace('monitoring'), ports: ports(9464) };
    assert.deepEqual(
      of('NetworkPolicy').map((one) => [nameOf(one), at(one, 'spec')]),
      ['gateway', 'consumer'].map((name) => [
        `ingest-${name}`,
        {
          podSelector: { matchLabels: { 'app.kubernetes.io/name': `ingest-${name}` } },
          policyTypes: ['Ingress', 'Egress'],
          ingress: name === 'gateway' ? [{ ports: ports(8443) }, scraping] : [scraping],
          egress: [{ ports: ports(6379, 26379, 5432, 4317, 4318) }, { to: inNamespace('kube-system'), ports: dns }],
        },
      ]),
    );
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
        // The alerts fire while a failed Job exists, so it is gone when the next one has run.
        'spec.jobTemplate.spec.ttlSecondsAfterFinished': hoursOf(one) * 3_600,
      });
      const [program, ...args] = argsOf(one);
      assert.equal(program, 'ingest-admin.js');
      assert.equal(typeof readCommandLine(args, 0), 'object', args.join(' '));
      // A hanging Job would stop the next one.
      assert.ok(Number(at(one, 'spec.jobTemplate.spec.activeDeadlineSeconds')) < hoursOf(one) * 3_600, nameOf(one));
    }
  });

  it('check and change nothing, or delete as little as the page says; a Job of one command is not repeated', () => {
    const [prune = [], check = []] = of('CronJob').map(argsOf);
    assert.deepEqual(check, ['ingest-admin.js', 'reconcile', '--json']);
    const [, days] = /landed more than (\d+) days ago/.exec(deployFile('kubernetes/components/admin/prune.yaml')) ?? [];
    assert.deepEqual(prune, ['ingest-admin.js', 'prune', '--older-than', `${days}d`, '--yes']);
    assert.deepEqual(of('CronJob').map(hoursOf), [24, 6]);
    const [job] = of('Job');
    assertHas(job, { 'spec.backoffLimit': 0, 'spec.template.spec.restartPolicy': 'Never' });
    assert.deepEqual(at(job, 'spec.template.spec.containers.0.args'), ['ingest-admin.js', 'status']);
  });
});
