// Real input: every webhook payload of @octokit/webhooks-examples as an event, one line of NDJSON each.
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

export interface GithubEvent {
  readonly id: string;
  readonly body: Buffer;
}

interface Hook {
  readonly name: string;
  readonly examples: readonly { readonly action?: string }[];
}

/** The same events, in the same order, at each call. */
export function githubEvents(): readonly GithubEvent[] {
  const root = join(dirname(createRequire(import.meta.url).resolve('@octokit/webhooks-examples')), '..');
  const versions = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return versions.flatMap(({ name: version }) => {
    const hooks = JSON.parse(readFileSync(join(root, version, 'index.json'), 'utf8')) as readonly Hook[];
    return hooks.flatMap(({ name, examples }) =>
      examples.map((data, at) => {
        const id = `${version}/${name}/${at}`;
        const type = data.action === undefined ? `github.${name}` : `github.${name}.${data.action}`;
        return { id, body: Buffer.from(JSON.stringify({ id, type, data })) };
      }),
    );
  });
}

export const ndjson = (events: readonly GithubEvent[]): Buffer =>
  Buffer.concat(events.flatMap(({ body }) => [body, Buffer.from('\n')]));
