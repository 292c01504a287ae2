// The schemas of event types (INGEST_SCHEMAS_DIR): one file `<type>.json` for each type, in JSON Schema 2020-12. A
// file may refer to another one by its name ("$ref": "order.line.json"). schema-checker.ts checks events.
import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { isErased } from '../ingest/erased.ts';
import type { Clock } from '../process/clock.ts';
import { errno } from '../process/env.ts';
import { EXIT, StartFailure } from '../process/program.ts';
import { reloadable, type Reloadable, type Reloading } from '../process/reloadable.ts';
import { SchemaChecker, type Problems } from './schema-checker.ts';

const ENDING = '.json';
const TYPE = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

/** An event, as far as its schema concerns it. */
interface TypedBody {
  readonly type: string;
  readonly body: Buffer;
}

/** Reads the schemas in a folder. Rejects with a StartFailure if the folder is unreadable. */
async function schemasIn(folder: string, clock: Clock, last?: SchemaChecker): Promise<SchemaChecker> {
  const { files, unreadable } = await contents(folder, await schemaFiles(folder));
  for (const name of files.keys())
    if (!TYPE.test(typeOf(name))) {
      files.delete(name);
      unreadable.set(name, 'expected <type>.json, e.g. order.placed.json');
    }
  return SchemaChecker.load({ clock, files, unreadable, last });
}

const faultsOf = ({ faults }: SchemaChecker): readonly string[] =>
  Array.from(faults, ([name, fault]) => `${name}: ${fault}`);

/** Implements `--check`. Returns warnings. Rejects with a StartFailure that names every unusable file. */
export async function checkSchemas(folder: string | undefined, clock: Clock): Promise<readonly string[]> {
  if (folder === undefined) return [];
  const schemas = await schemasIn(folder, clock);
  schemas.close();
  if (schemas.faults.size > 0) throw folderFailure(folder, faultsOf(schemas).join('; '));
  return schemas.names.length === 0 ? [noSchemas(folder)] : [];
}

const noSchemas = (folder: string): string =>
  `INGEST_SCHEMAS_DIR=${JSON.stringify(folder)}: the folder has no schemas (files named TYPE.json), ` +
  'so no event is checked';

const folderFailure = (folder: string, why: string): StartFailure =>
  new StartFailure(EXIT.configuration, `INGEST_SCHEMAS_DIR=${JSON.stringify(folder)}: ${why}`);

/** Returns the problems of each event, none if it matches. */
export type SchemaCheck = (bodies: readonly Buffer[]) => Promise<readonly Problems[]>;

/**
 * Reads one file for `schema try`, and the files in its folder, because it may refer to them. Rejects with a
 * StartFailure if the file is unusable.
 */
export async function readSchema(path: string, clock: Clock): Promise<SchemaCheck> {
  const [folder, name] = [dirname(path), basename(path)];
  const names = new Set([name, ...(await schemaFiles(folder).catch(() => []))]);
  const schemas = await SchemaChecker.load({ clock, ...(await contents(folder, names)) });
  const fault = schemas.faults.get(name);
  if (fault !== undefined) throw new StartFailure(EXIT.configuration, `${path}: ${fault}`);
  return (bodies) => schemas.check(bodies.map((body) => ({ name, body })));
}

/** The schemas in use: the last good one of each type. */
export class WatchedSchemas {
  readonly #folder: string;
  readonly #schemas: Reloadable<SchemaChecker>;

  /** Resolves with `undefined` if INGEST_SCHEMAS_DIR is not set. Rejects with a StartFailure if it is unreadable. */
  static async open(folder: string | undefined, clock: Clock): Promise<WatchedSchemas | undefined> {
    if (folder === undefined) return undefined;
    return new WatchedSchemas(folder, await reloadable([folder], (last) => schemasIn(folder, clock, last)));
  }

  private constructor(folder: string, schemas: Reloadable<SchemaChecker>) {
    this.#folder = folder;
    this.#schemas = schemas;
  }

  /** Starts to watch the files. `onOutcome` receives `false` while a type has no usable schema, or an older one. */
  watch({ clock, log, onOutcome }: Pick<Reloading<unknown>, 'clock' | 'log' | 'onOutcome'>): void {
    let current = this.#schemas.value;
    const fields = ({ names }: SchemaChecker): object => ({ types: names.map(typeOf) });
    const tell = (): void => {
      if (current.faults.size > 0)
        log.error(
          { faults: faultsOf(current) },
          'unusable schemas: their types keep the last good schema, or go to quarantine',
        );
      current.onStruck = (name) => {
        onOutcome(false);
        log.error(
          { file: name },
          'the schema of a type takes too long: its events go to quarantine until its file changes',
        );
      };
    };
    const isGood = (): boolean => current.faults.size === 0 && current.unusable === 0;
    log.info(fields(current), 'events of these types are checked against their schemas');
    tell();
    if (current.names.length === 0) log.warn(noSchemas(this.#folder));
    if (!isGood()) onOutcome(false);
    this.#schemas.watch({
      ...{ kind: 'schemas', clock, log, fields },
      onChange: (schemas) => {
        current.close();
        current = schemas;
        tell();
      },
      onOutcome: (isNew) => onOutcome(isNew && isGood()),
    });
  }

  /** Types without a usable schema. */
  get unusable(): number {
    return this.#schemas.value.unusable;
  }

  /** False if the type has no schema, or if the event is erased. */
  has({ type, body }: TypedBody): boolean {
    return this.#schemas.value.has(type + ENDING) && !isErased(body);
  }

  /** Resolves with the problems of each event, none if it matches. Never rejects. */
  check(events: readonly TypedBody[]): Promise<readonly Problems[]> {
    return this.#schemas.value.check(events.map(({ type, body }) => ({ name: type + ENDING, body })));
  }

  stop(): void {
    this.#schemas.stop();
    this.#schemas.value.close();
  }
}

const typeOf = (name: string): string => name.slice(0, -ENDING.length);

async function schemaFiles(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).filter((name) => name.endsWith(ENDING)).sort();
  } catch (cause) {
    throw folderFailure(folder, `expected a readable folder (${errno(cause)})`);
  }
}

/** Returns the contents and the faults of files. */
async function contents(folder: string, names: Iterable<string>) {
  const files = new Map<string, Uint8Array>();
  const unreadable = new Map<string, string>();
  for (const name of names)
    await readFile(join(folder, name)).then(
      (content) => files.set(name, content),
      (cause: unknown) => unreadable.set(name, `expected a readable file (${errno(cause)})`),
    );
  return { files, unreadable };
}
