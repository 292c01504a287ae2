// The Kubernetes objects as they are shipped. kubernetes.long.ts renders and validates them with kubectl.
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { describe, it } from 'node:test';
import { readCommandLine } from '../../lib/admin/command-line.ts';
import { DEPLOY, deployFile, documents } from './deploy-files.ts';

interface Pod {
  readonly restartPolicy?: string;
  readonly enableServiceLinks?: boolean;
  readonly automountServiceAccountToken?: boolean;
  readonly containers: readonly { readonly image: string; readonly args: readonly string[] }[];
}

interface Job {
  readonly backoffLimit?: number;
  readonly activeDeadlineSeconds?: number;
  readonly ttlSecondsAfterFinished?: number;
  readonly template: { readonly spec: Pod };
}

interface Spec extends Partial<Job> {
  readonly schedule?: string;
  readonly concurrencyPolicy?: string;
  readonly jobTemplate?: { readonly spec: Job };
}

interface KubernetesObject {
  readonly metadata?: { readonly name: string };
  readonly spec?: Spec;
}

const objects = globSync('kubernetes/{admin-job.yaml,base/*.yaml,components/**/*.yaml}', { cwd: DEPLOY })
  .flatMap((path) => documents(deployFile(path)) as readonly KubernetesObject[])
  .map(({ metadata, spec = {} }) => ({ name: metadata?.name ?? '', spec }));
const jobs = objects.flatMap(({ name, spec }) =>
  spec.jobTemplate ? [{ name, spec, job: spec.jobTemplate.spec }] : [],
);
const podOf = ({ jobTemplate, template }: Spec): Pod | undefined => (jobTemplate?.spec ?? { template }).template?.spec;

/** The hours between two runs. */
const hoursOf = (schedule = ''): number => Number(/^\d+ \*\/(\d+) \* \* \*$/.exec(schedule)?.[1] ?? 24);

describe('the pods', () => {
  it('get no variables of Services, which begin as our settings do, and no token', () => {
    // A patch of a pod names no image.
    const pods = objects.flatMap(({ spec }) => podOf(spec) ?? []).filter(({ containers: [one] }) => one?.image);
    assert.equal(pods.length, 5);
    for (const { enableServiceLinks, automountServiceAccountToken, containers } of pods) {
      assert.deepEqual([enableServiceLinks, automountServiceAccountToken], [false, false]);
      for (const { image } of containers) assert.equal(image, 'ingest-gateway:VERSION');
    }
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
