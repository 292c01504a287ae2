// Renders deploy/kubernetes with kubectl, and validates the objects against the compiled schemas and the types of
// kubernetes-models. The types reject unknown members.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { describe, it } from 'node:test';
import { temporaryFolder } from '../support/scope.ts';
import { DEPLOY, deployFile, documents, ran } from './deploy-files.ts';
import { tool } from '../support/tool.ts';

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
});

const modulePath = ({ apiVersion }: KubernetesObject): string =>
  `${apiVersion.startsWith('monitoring.') ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models'}/${apiVersion}`;
