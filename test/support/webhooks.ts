// Real payloads as event bodies: all examples in the package @octokit/webhooks-examples.
import { globSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

interface WebhookExample {
  readonly name: string;
  readonly examples: readonly { readonly action?: string }[];
}

/** Returns `{id, type: "github.<name>[.<action>]", data}` for each of the 726 payloads in version 7.6.1. */
export function webhookEvents(): { readonly id: string; readonly body: string }[] {
  const folder = dirname(createRequire(import.meta.url).resolve('@octokit/webhooks-examples/package.json'));
  const events: { id: string; body: string }[] = [];
  for (const path of globSync('*/index.json', { cwd: folder })) {
    const hooks = JSON.parse(readFileSync(join(folder, path), 'utf8')) as WebhookExample[];
    for (const { name, examples } of hooks) {
      for (const [at, data] of examples.entries()) {
        const id = `${dirname(path)}/${name}/${at}`;
        const type = `github.${name}${data.action === undefined ? '' : `.${data.action}`}`;
        events.push({ id, body: JSON.stringify({ id, type, data }) });
      }
    }
  }
  return events;
}
