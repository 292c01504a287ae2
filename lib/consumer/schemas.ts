// The schemas of event types (INGEST_SCHEMAS_DIR): one file `<type>.json` for each type, in JSON Schema 2020-12. A
// file may refer to another one by its name ("$ref": "order.line.json"). schema-checker.ts checks events.
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isErased } from '../ingest/erased.ts';
import type { Clock } from '../process/clock.ts';
import { errno, readOperatorFile, type ReadFile } from '../process/operator-file.ts';
import { EXIT, StartFailure } from '../process/program.ts';
import { reloadable, type Reloading } from '../process/reloadable.ts';
import { SchemaChecker, type CheckedEvent, type Problems } from './schema-checker.ts';

const ENDING = '.json';
const NAME = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.json$/;

const folderFailure = (folder: string, why: string): StartFailure =>
  new StartFailure(EXIT.configuration, `INGEST_SCHEMAS_DIR=${JSON.stringify(folder)}: ${why}`);

async function namesIn(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch((cause: unknown) => {
    throw folderFailure(folder, `expected a readable folder (${errno(cause)})`);
  });
  return names.filter((name) => name.endsWith(ENDING)).sort();
}

interface Loading {
  readonly read?: ReadFile;
  readonly last?: SchemaChecker | undefined;
  /** A file that may have any name. */
  readonly tried?: string;
}

async function load(clock: Clock, folder: string, names: Iterable<string>, loading: Loading = {}) {
  const { read = readOperatorFile, last, tried } = loading;
  const files = new Map<string, Buffer>();
  const faults: [name: string, fault: string][] = [];
  for (const name of names)
    if (name !== tried && !NAME.test(name)) faults.push([name, 'expected <type>.json, e.g. order.placed.json']);
    else
      await read(join(folder, name)).then(
        (content) => files.set(name, content),
        (cause: unknown) => faults.push([name, `expected a readable file (${errno(cause)})`]),
      );
  return SchemaChecker.load(clock, files, faults, last);
}

const faultsOf = ({ faults }: SchemaChecker): readonly string[] =>
  Array.from(faults, ([name, fault]) => `${name}: ${fault}`);

const noSchemas = (folder: string): string =>
  `INGEST_SCHEMAS_DIR=${JSON.stringify(folder)}: the folder has no schemas (files named TYPE.json), ` +
  'so no event is checked';

/** Implements `--check`. Returns warnings. Rejects with a StartFailure that names every unusable file. */
export async function checkSchemas(folder: string | undefined, clock: Clock): Promise<readonly string[]> {
  if (folder === undefined) return [];
  const schemas = await load(clock, folder, await namesIn(folder));
  schemas.close();
  if (schemas.faults.size > 0) throw folderFailure(folder, faultsOf(schemas).join('; '));
  return schemas.names.length === 0 ? [noSchemas(folder)] : [];
}

/**
 * Reads one file for `schema try`, and the files in its folder, because it may refer to them. Returns the check of
 * events. Rejects with a StartFailure if the file is unusable.
 */
export async function readSchema(path: string, clock: Clock) {
  const [folder, name] = [dirname(path), basename(path)];
  const names = new Set([name, ...(await namesIn(folder).catch(() => []))]);
  const schemas = await load(clock, folder, names, { tried: name });
  const fault = schemas.faults.get(name);
  if (fault !== undefined) throw new StartFailure(EXIT.configuration, `${path}: ${fault}`);
  let events = 0;
  // Each event is checked, so each has a producer without strikes.
  return (bodies: readonly Buffer[]) =>
    schemas.check(
      name,
      bodies.map((body) => ({ producer: String((events += 1)), body })),
    );
}

export type WatchedSchemas = NonNullable<Awaited<ReturnType<typeof watchedSchemas>>>;

/**
 * Opens the schemas in use, the last good one of each type. Resolves with `undefined` if INGEST_SCHEMAS_DIR is not set.
 * Rejects with a StartFailure if it is unreadable.
 */
export async function watchedSchemas(folder: string | undefined, clock: Clock) {
  if (folder === undefined) return undefined;
  const schemas = await reloadable([folder], async (read, last?: SchemaChecker) =>
    load(clock, folder, await namesIn(folder), { read, last }),
  );
  return {
    /** `onOutcome` receives `false` while a type has no usable schema, or an older one. */
    watch({ log, onOutcome }: Pick<Reloading<unknown>, 'log' | 'onOutcome'>): void {
      const fields = ({ names }: SchemaChecker): object => ({
        types: names.map((name) => name.slice(0, -ENDING.length)),
      });
      const use = (next: SchemaChecker): void => {
        const faults = faultsOf(next);
        if (faults.length > 0)
          log.error({ faults }, 'unusable schemas: their types keep the last good schema, or go to quarantine');
        next.onStruck = (file, producer) =>
          log.error(
            { file, producer },
            'checks of a type take too long: its events of this producer go to quarantine for a minute',
          );
      };
      const first = schemas.value;
      log.info(fields(first), 'events of these types are checked against their schemas');
      use(first);
      if (first.names.length === 0) log.warn(noSchemas(folder));
      if (first.faults.size > 0) onOutcome(false);
      schemas.watch({
        ...{ kind: 'schemas', clock, log, fields },
        onChange: (next) => {
          schemas.value.close();
          use(next);
        },
        onOutcome: (isNew) => onOutcome(isNew && schemas.value.faults.size === 0 && schemas.value.unusable === 0),
      });
    },

    get unusable(): number {
      return schemas.value.unusable;
    },

    /** False if the type has no schema, or if the event is erased. */
    has: ({ type, body }: { readonly type: string; readonly body: Buffer }): boolean =>
      schemas.value.has(type + ENDING) && !isErased(body),

    check: (type: string, events: readonly CheckedEvent[]): Promise<readonly Problems[]> =>
      schemas.value.check(type + ENDING, events),

    stop(): void {
      schemas.stop();
      schemas.value.close();
    },
  };
}
