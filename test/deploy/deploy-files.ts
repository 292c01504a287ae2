// The files in deploy/.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { parse, parseAllDocuments } from 'yaml';
import { readConsumerConfig } from '../../lib/consumer/config.ts';
import { readGatewayConfig } from '../../lib/gateway/config.ts';

export const DEPLOY = new URL('../../deploy/', import.meta.url).pathname;

export const deployFile = (path: string): string => readFileSync(join(DEPLOY, path), 'utf8');

/** The command of the image, to which the arguments of a container are added. */
export const ENTRYPOINT = JSON.parse(/^ENTRYPOINT (.+)$/m.exec(deployFile('Containerfile'))?.[1] ?? '[]') as string[];

export function ran(command: string, args: readonly string[], cwd = DEPLOY) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  return { status, text: stdout + stderr };
}

export interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly expr: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

const { groups } = parse(deployFile('alerts.yml')) as {
  readonly groups: readonly { readonly rules: readonly Rule[] }[];
};
export const alertRules = groups.flatMap(({ rules }) => rules);

interface Defaults {
  readonly unit?: string;
  readonly thresholds?: { readonly steps: readonly { readonly color: string; readonly value: number | null }[] };
}

export interface Panel {
  readonly type: string;
  readonly title: string;
  readonly links?: readonly { readonly url: string }[];
  readonly datasource?: { readonly uid: string };
  readonly fieldConfig?: { readonly defaults: Defaults };
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

const { panels } = JSON.parse(deployFile('grafana/ingest.json')) as { panels: readonly Panel[] };
export const boardPanels = panels.filter(({ type }) => type !== 'row');
export const boardQueries = boardPanels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

export const withoutBlocks = (page: string): string => page.replaceAll(/^ *```[^]*?^ *```$/gm, '');

/** Returns the anchors of a page: those of its chapters, and others with an id. */
export const anchorsOf = (page: string): readonly string[] =>
  [...withoutBlocks(page).matchAll(/^#+ (.+)$|<a id="([^"]+)">/gm)].map(
    ([, title = '', id]) =>
      id ??
      title
        .toLowerCase()
        .replaceAll(/[^a-z0-9 -]/g, '')
        .replaceAll(' ', '-'),
  );

/** Parses the documents in a YAML text as YAML 1.1, which Kubernetes reads. */
export function documents(text: string): readonly Readonly<Record<string, unknown>>[] {
  return parseAllDocuments(text, { version: '1.1' }).map((document) => {
    const [fault] = 'errors' in document ? document.errors : [];
    if (fault instanceof Error) throw fault;
    return (document as { toJS(): Record<string, unknown> }).toJS();
  });
}

type Environment = Readonly<Record<string, string>>;

/** The URIs are in secrets. */
const URIS = {
  INGEST_QUEUE_URI: 'rediss://queue',
  INGEST_WAREHOUSE_URI: 'postgres://warehouse/ingest?sslmode=verify-full',
};

/** Returns the configuration of a gateway with these settings, which are all known, right, and fit together. */
export function gatewayOf(env: Environment) {
  const { config, report } = readGatewayConfig({ ...env, ...URIS });
  assert.deepEqual([report.problems, report.warnings], [[], []]);
  return config ?? assert.fail();
}

export function consumerOf(env: Environment) {
  const { config, report } = readConsumerConfig({ ...env, ...URIS });
  assert.deepEqual([report.problems, report.warnings], [[], []]);
  return config ?? assert.fail();
}
