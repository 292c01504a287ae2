// Renders deploy/kubernetes with kubectl, and validates the objects against the compiled schemas and the types of
// kubernetes-models. The types reject unknown members.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { SETTINGS } from '../../lib/process/settings.ts';
import { temporaryFolder } from '../support/scope.ts';
import { DEPLOY, deployFile, documents, ran, tool } from './deploy-files.ts';

const COMPONENTS = 'admin autoscaling disruption-budget load-balancer network-policy pod-monitor prometheus-rule'.split(
  ' ',
);
const ROOT = new URL('../../', import.meta.url).pathname;

interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: unknown;
}

interface Deployment {
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly replicas?: number;
    readonly strategy: { readonly rollingUpdate: { readonly maxSurge: number } };
    readonly template: {
      readonly metadata: { readonly annotations?: Readonly<Record<string, string>> };
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly {
          readonly env: readonly { readonly name: string; readonly value: string }[];
          readonly resources: { readonly limits: { readonly memory: string } };
        }[];
        readonly volumes: readonly { readonly secret?: { readonly secretName: string } }[];
      };
    };
  };
}

const kubectl = tool('kubectl', 'kubernetes-client');

function rendered(folder: string): readonly KubernetesObject[] {
  const { status, text } = ran(kubectl, ['kustomize', folder], join(DEPLOY, 'kubernetes'));
  assert.equal(status, 0, text);
  return documents(text) as unknown as readonly KubernetesObject[];
}

function withComponents(): readonly KubernetesObject[] {
  const folder = temporaryFolder('overlay-');
  const from = (path: string): string => relative(folder, join(DEPLOY, 'kubernetes', path));
  const components = COMPONENTS.map((name) => from(`components/${name}`));
  const kustomization = { kind: 'Kustomization', resources: [from('base')], components };
  writeFileSync(join(folder, 'kustomization.yaml'), JSON.stringify(kustomization));
  return rendered(folder);
}

const objects = withComponents();
/** The overlay that people copy, and the Job that they create by hand. */
const example = [
  ...rendered('example'),
  ...(documents(deployFile('kubernetes/admin-job.yaml')) as unknown as readonly KubernetesObject[]),
];
const all = [...objects, ...example];
const named = (kind: string): readonly string[] =>
  objects.filter((object) => object.kind === kind).map(({ metadata }) => metadata.name);
const deployments = objects.filter(({ kind }) => kind === 'Deployment') as unknown as readonly Deployment[];
const deploymentOf = (name: string): Deployment =>
  deployments.find(({ metadata }) => metadata.name === `ingest-${name}`) ?? assert.fail(name);
const settings = ({ spec }: Deployment): Map<string, string> =>
  new Map(spec.template.spec.containers[0]?.env.map(({ name, value }) => [name, value]));

describe('the Kubernetes objects', () => {
  it('have values that the API accepts', async () => {
    for (const object of all) {
      const models = (await import(modulePath(object))) as Record<string, new (data: unknown) => { validate(): void }>;
      const Model = models[object.kind];
      assert.ok(Model !== undefined, object.kind);
      new Model(object).validate();
    }
  });

  it('have no member that the API does not know', () => {
    // The file must be inside the repository so that the compiler finds the models.
    mkdirSync(join(ROOT, '.ingest'), { recursive: true });
    const file = join(temporaryFolder('objects-', join(ROOT, '.ingest')), 'objects.ts');
    const lines = all.flatMap((object, at) => [
      `import type { I${object.kind} as Kind${at} } from '${modulePath(object)}';`,
      `export const object${at}: Kind${at} = ${JSON.stringify(object)};`,
    ]);
    writeFileSync(file, lines.join('\n'));
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    const args = '--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext --target es2024'.split(' ');
    const { status, stdout } = spawnSync(process.execPath, [tsc, ...args, file], { cwd: ROOT, encoding: 'utf8' });
    assert.equal(status, 0, stdout);
  });

  it('set only keys that the programs know, and a drain that ends before the grace period', () => {
    for (const [, key = ''] of JSON.stringify(all).matchAll(/"name":"(INGEST_\w+)"/g))
      assert.ok(key.replace(/_URI_FILE$/, '_URI') in SETTINGS, key);
    for (const deployment of deployments) {
      const env = settings(deployment);
      const graceMs = deployment.spec.template.spec.terminationGracePeriodSeconds * 1000;
      const drainMs = Number(env.get('INGEST_DRAIN_TIMEOUT_MS'));
      assert.ok(Number(env.get('INGEST_DRAIN_DELAY_MS') ?? 0) < drainMs && drainMs < graceMs);
    }
  });

  it('are those of both programs, with each component', () => {
    for (const kind of ['Deployment', 'PodDisruptionBudget', 'NetworkPolicy'])
      assert.deepEqual(named(kind).toSorted(), ['ingest-consumer', 'ingest-gateway'], kind);
    assert.deepEqual(named('Service'), ['ingest-gateway']);
    assert.deepEqual(named('HorizontalPodAutoscaler'), ['ingest-gateway']);
    assert.deepEqual(named('PodMonitor'), ['ingest']);
    assert.deepEqual(named('PrometheusRule'), ['ingest']);
  });

  it('name one image, which the example replaces in every pod', () => {
    const images = (of: readonly KubernetesObject[]): readonly string[] => [
      ...new Set([...JSON.stringify(of).matchAll(/"image":"([^"]+)"/g)].map(([, image = '']) => image)),
    ];
    const [named = '', ...others] = images(objects);
    assert.deepEqual(others, []);
    assert.deepEqual(images(rendered('example')), [`registry.example/${named}`]);
    for (const page of ['scale.md', 'compose.yaml', 'Containerfile', 'kubernetes/admin-job.yaml'])
      assert.ok(deployFile(page).includes(named), page);
  });

  it('of the example mount each ConfigMap that they name', () => {
    const text = JSON.stringify(example);
    for (const { kind, metadata } of example)
      if (kind === 'ConfigMap') assert.ok(text.includes(`"configMap":{"name":"${metadata.name}"}`), metadata.name);
  });

  it('have their pods scraped once: by the pod monitor, or by annotations', () => {
    const scraped = ({ spec }: Deployment): string | undefined =>
      spec.template.metadata.annotations?.['prometheus.io/scrape'];
    assert.deepEqual(deployments.map(scraped), [undefined, undefined]);
    const plain = rendered('.').filter(({ kind }) => kind === 'Deployment') as unknown as readonly Deployment[];
    assert.deepEqual(plain.map(scraped), ['true', 'true']);
  });

  it('carry the alerts of deploy/alerts.yml, as `make prometheus-rule` writes them', () => {
    const rule = objects.find(({ kind }) => kind === 'PrometheusRule');
    assert.deepEqual(rule?.spec, parse(deployFile('alerts.yml')));
  });

  it('limit connections to what the memory limit of a gateway holds', () => {
    const gateway = deploymentOf('gateway');
    const { memory } = gateway.spec.template.spec.containers[0]?.resources.limits ?? {};
    const megabytes = Number(/^(\d+)Mi$/.exec(memory ?? '')?.[1]);
    const connections = Number(settings(gateway).get('INGEST_CONNECTIONS_MAX'));
    // An idle process needs 128 MiB. Bytes in flight and unread answers may need 64 MiB each by default.
    const resting = 128 + 64 + 64;
    assert.ok(resting * 2 ** 20 + connections * 80_000 <= megabytes * 2 ** 20);
  });

  it('are those of the commands of the pages, which kubectl understands up to the connection to a cluster', () => {
    const cwd = temporaryFolder();
    writeFileSync(join(cwd, 'crl.pem'), '');
    const pages = globSync(['*.md', 'kubernetes/**/*.yaml'], { cwd: DEPLOY }).map(deployFile).join('\n');
    const texts = Array.from(pages.matchAll(/kubectl (?:[a-z]+ )+[^`\n]*/g), ([text]) => text.replace(/ {2,}#.*/, ''));
    assert.ok(texts.length > 10);
    for (const text of new Set(texts)) {
      const [, kind = '', name = ''] = /\b(deploy|cronjob)(?:ment)?[/ ](ingest-\w+)/.exec(text) ?? [];
      const isKnown = all.some((one) => one.metadata.name === name && one.kind.toLowerCase().startsWith(kind));
      assert.ok(name === '' || isKnown, text);
      const typed = text.replace(/(package\/)?deploy\/kubernetes/, join(DEPLOY, 'kubernetes'));
      const nowhere = `kubectl() { ${kubectl} --server=http://127.0.0.1:9 "$@"; }`;
      const { text: printed } = ran('sh', ['-c', `${nowhere}\n${typed}`], cwd);
      assert.match(printed, /connection refused|was refused/, text);
    }
  });

  it('have the numbers, budgets, secrets and ports that the pages promise', () => {
    const [gateway, consumer] = [deploymentOf('gateway'), deploymentOf('consumer')];
    assert.deepEqual([gateway.spec.replicas, consumer.spec.replicas], [undefined, 3]);
    assert.equal(consumer.spec.strategy.rollingUpdate.maxSurge, 0, 'never one consumer more than wanted');
    const secretsOf = ({ spec }: Deployment): string[] =>
      spec.template.spec.volumes.flatMap(({ secret }) => secret?.secretName ?? []);
    assert.deepEqual(secretsOf(consumer), ['ingest-consumer']);
    assert.deepEqual(secretsOf(gateway), ['ingest-gateway', 'ingest-gateway-tls']);
    for (const { kind, spec } of objects as readonly { kind: string; spec: Record<string, unknown> }[]) {
      if (kind === 'PodDisruptionBudget') assert.equal(spec['maxUnavailable'], 1);
      if (kind !== 'NetworkPolicy') continue;
      const ports = (spec['egress'] as { ports: { port: number }[] }[]).flatMap((rule) => rule.ports);
      for (const wanted of [6379, 26379, 5432, 4317, 4318])
        assert.ok(ports.map(({ port }) => port).includes(wanted), String(wanted));
    }
  });
});

const modulePath = ({ apiVersion }: KubernetesObject): string =>
  `${apiVersion.startsWith('monitoring.') ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models'}/${apiVersion}`;
