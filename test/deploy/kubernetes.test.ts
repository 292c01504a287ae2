// The objects of deploy/kubernetes, held against the Kubernetes API: the package kubernetes-models carries the API's
// OpenAPI schemas, as compiled validators (for values) and as types (which refuse members that the API does not know).
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { SETTINGS } from '../../lib/process/settings.ts';
import { temporaryFolder } from '../support/scope.ts';
import { yamlObjects } from './deploy-files.ts';

const FILES = ['gateway.yaml', 'consumer.yaml', 'network-policy.yaml'];
const ROOT = new URL('../../', import.meta.url).pathname;

interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
}

interface Deployment {
  readonly spec: {
    readonly strategy: { readonly rollingUpdate: { readonly maxSurge: number } };
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly containers: readonly { readonly env: readonly { readonly name: string; readonly value: string }[] }[];
      };
    };
  };
}

const objects = FILES.flatMap((file) => yamlObjects(`kubernetes/${file}`)) as unknown as readonly KubernetesObject[];
const deployments = objects.filter(({ kind }) => kind === 'Deployment') as unknown as readonly Deployment[];
const settings = ({ spec }: Deployment): Map<string, string> =>
  new Map(spec.template.spec.containers[0]?.env.map(({ name, value }) => [name, value]));

describe('the Kubernetes objects', () => {
  it('have values that the API takes', async () => {
    assert.deepEqual(
      objects.map(({ kind }) => kind),
      [
        'Deployment',
        'Service',
        'PodDisruptionBudget',
        'Deployment',
        'PodDisruptionBudget',
        'NetworkPolicy',
        'NetworkPolicy',
      ],
    );
    for (const object of objects) {
      const models = (await import(`kubernetes-models/${modulePath(object)}`)) as Record<
        string,
        new (data: unknown) => { validate(): void }
      >;
      const Model = models[object.kind];
      assert.ok(Model !== undefined, object.kind);
      new Model(object).validate();
    }
  });

  it('have no member that the API does not know', () => {
    // Below the repository, so that the compiler finds the models; not among its sources, which others read meanwhile.
    mkdirSync(join(ROOT, '.ingest'), { recursive: true });
    const file = join(temporaryFolder('objects-', join(ROOT, '.ingest')), 'objects.ts');
    const lines = objects.flatMap((object, at) => [
      `import type { I${object.kind} as Kind${at} } from 'kubernetes-models/${modulePath(object)}';`,
      `export const object${at}: Kind${at} = ${JSON.stringify(object)};`,
    ]);
    writeFileSync(file, lines.join('\n'));
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    const args = [
      '--ignoreConfig',
      '--noEmit',
      '--strict',
      '--skipLibCheck',
      '--module',
      'nodenext',
      '--target',
      'es2024',
      file,
    ];
    const { status, stdout } = spawnSync(process.execPath, [tsc, ...args], { cwd: ROOT, encoding: 'utf8' });
    assert.equal(status, 0, stdout);
  });

  it('set only keys that the programs know, and a drain that ends before the grace period', () => {
    for (const deployment of deployments) {
      const env = settings(deployment);
      for (const name of env.keys()) assert.ok(name.replace(/_URI_FILE$/, '_URI') in SETTINGS, name);
      const graceMs = deployment.spec.template.spec.terminationGracePeriodSeconds * 1000;
      const drainMs = Number(env.get('INGEST_DRAIN_TIMEOUT_MS'));
      assert.ok(Number(env.get('INGEST_DRAIN_DELAY_MS') ?? 0) < drainMs && drainMs < graceMs);
    }
  });

  it('never run one consumer more than wanted while they are updated', () => {
    assert.equal(deployments[1]?.spec.strategy.rollingUpdate.maxSurge, 0);
  });
});

/** `apps/v1`, `v1`, `networking.k8s.io/v1`: the group's module. */
const modulePath = ({ apiVersion }: KubernetesObject): string => apiVersion;
