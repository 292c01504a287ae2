// Copies the product with one wrong change, for tests of the campaign itself.
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryFolder } from '../support/scope.ts';
import { PRODUCT } from './campaign.ts';

export interface Change {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

/**
 * Returns the folder of the copy. Throws if the text does not occur exactly once, because then the change no longer
 * fits the code.
 */
export function brokenBuild({ file, from, to }: Change): string {
  const folder = temporaryFolder('ingest-broken-');
  for (const part of ['bin', 'lib', 'deploy', 'package.json'])
    cpSync(join(PRODUCT, part), join(folder, part), { recursive: true });
  symlinkSync(join(PRODUCT, 'node_modules'), join(folder, 'node_modules'));
  const path = join(folder, file);
  const parts = readFileSync(path, 'utf8').split(from);
  if (parts.length !== 2) throw new Error(`${file}: ${JSON.stringify(from)} stands there ${parts.length - 1} times`);
  writeFileSync(path, parts.join(to));
  return folder;
}

/** Changes that both the campaign and the simulation must find, by what the build does wrong. */
export const CHANGES = {
  'acknowledges before landing': {
    file: 'lib/consumer/consumer.ts',
    from: 'async #finish(batch: readonly Entered[]): Promise<void> {',
    to: `async #finish(batch: readonly Entered[]): Promise<void> {
        await this.#options.reader.acknowledge(batch).catch(() => 0);`,
  },
  'never claims': {
    file: 'lib/consumer/consumer.ts',
    from: 'CLAIM_IDLE_MS = 10_000',
    to: 'CLAIM_IDLE_MS = 3_600_000',
  },
  'answers 202 before Redis did': {
    file: 'lib/redis/accept/calls.ts',
    from: 'this.#calls.push(call);',
    to: "this.#calls.push(call); settleAll(call, 'accepted');",
  },
  'trims what has not landed': {
    file: 'lib/redis/stream/lua/trim.lua',
    from: 'local bound = earlier(past, unlanded)',
    to: 'local bound = past',
  },
  'accepts what the queue did not answer in time': {
    file: 'lib/redis/accept/calls.ts',
    from: "this.#onLate(now);\n      settleAll(call, 'unavailable');",
    to: "this.#onLate(now);\n      settleAll(call, 'accepted');",
  },
  'takes an outage of the warehouse for a landing': {
    file: 'lib/consumer/landing.ts',
    from: 'if (!(cause instanceof BatchRefused)) throw cause;',
    to: 'if (!(cause instanceof BatchRefused)) return [];',
  },
} as const satisfies Readonly<Record<string, Change>>;
