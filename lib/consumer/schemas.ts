// The schemas of event types (INGEST_SCHEMAS_DIR): `<type>.json`, JSON Schema 2020-12, one file for each type. A file
// may refer to another one by its name ("$ref": "order.line.json").
//
// Fact: a pattern that backtracks takes minutes for one string of an event, and no check of patterns finds all of them.
// Choice: RE2's engine, whose time is linear in the string; what it cannot run (back-references, look-around) is
// refused when the file is read.
//
// Limits: `format` is an annotation, as 2020-12 has it. `uniqueItems` compares objects pair by pair: put `maxItems`
// next to it. The first problem of an event is reported, with those of its alternatives.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js';
import { isErased } from '../ingest/erased.ts';
import { errno } from '../process/env.ts';
import { messageOf } from '../process/message-of.ts';
import { printable } from '../process/printable.ts';
import { EXIT, StartFailure } from '../process/program.ts';
import { reloadable, type Reloadable, type Reloading } from '../process/reloadable.ts';

const ENDING = '.json';
const TYPE = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;
const PROBLEMS_MAX = 3;
const PROBLEM_CHARACTERS_MAX = 200;

/** What a schema says of an event: its first problems, none where the event matches. */
export type SchemaCheck = (body: Buffer) => readonly string[];

/** The schemas of a folder, by type. Rejects with a StartFailure that names every file that cannot be used. */
async function schemasIn(folder: string): Promise<ReadonlyMap<string, SchemaCheck>> {
  const problems: string[] = [];
  const files = new Map<string, object>();
  for (const name of await schemaFiles(folder, problems)) {
    const read = await schemaIn(join(folder, name));
    if (!TYPE.test(typeOf(name))) problems.push(`${name}: expected <type>.json, e.g. order.placed.json`);
    else if (typeof read === 'string') problems.push(`${name}: ${read}`);
    else files.set(name, read);
  }
  const checks = new Map<string, SchemaCheck>();
  for (const [name, check] of await compile(files)) {
    if (typeof check === 'string') problems.push(`${name}: ${check}`);
    else checks.set(typeOf(name), check);
  }
  if (problems.length === 0) return checks;
  throw new StartFailure(EXIT.configuration, `INGEST_SCHEMAS_DIR=${JSON.stringify(folder)}: ${problems.join('; ')}`);
}

/** One file, for trying it. Rejects with a StartFailure. */
export async function readSchema(path: string): Promise<SchemaCheck> {
  const read = await schemaIn(path);
  const check = typeof read === 'string' ? read : (await compile(new Map([[path, read]]))).get(path);
  if (typeof check === 'function') return check;
  throw new StartFailure(EXIT.configuration, `${path}: ${check ?? 'no schema'}`);
}

/** The schemas in use: those that were read last, unless a file among them was broken. */
export class WatchedSchemas {
  readonly #schemas: Reloadable<ReadonlyMap<string, SchemaCheck>>;

  /** Those of INGEST_SCHEMAS_DIR; undefined if that is not set. Rejects with a StartFailure. */
  static async open(folder: string | undefined): Promise<WatchedSchemas | undefined> {
    if (folder === undefined) return undefined;
    return new WatchedSchemas(await reloadable([folder], () => schemasIn(folder)));
  }

  private constructor(schemas: Reloadable<ReadonlyMap<string, SchemaCheck>>) {
    this.#schemas = schemas;
  }

  /** Uses changed schemas from now on. */
  watch({ clock, log, onOutcome }: Pick<Reloading<unknown>, 'clock' | 'log' | 'onOutcome'>): void {
    const fields = (checks: ReadonlyMap<string, SchemaCheck>): object => ({ types: [...checks.keys()] });
    log.info(fields(this.#schemas.value), 'events of these types are held against their schemas');
    this.#schemas.watch({ kind: 'schemas', clock, log, onChange: () => undefined, onOutcome, fields });
  }

  /** Undefined where the type has no schema, or the event is erased. */
  problemsOf(type: string, body: Buffer): readonly string[] | undefined {
    const check = this.#schemas.value.get(type);
    return check === undefined || isErased(body) ? undefined : check(body);
  }

  stop(): void {
    this.#schemas.stop();
  }
}

const typeOf = (name: string): string => name.slice(0, -ENDING.length);

async function schemaFiles(folder: string, problems: string[]): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).filter((name) => name.endsWith(ENDING)).sort();
  } catch (cause) {
    problems.push(`expected a readable folder (${errno(cause)})`);
    return [];
  }
}

/** The schema, or what is wrong with the file. */
async function schemaIn(path: string): Promise<object | string> {
  try {
    const value: unknown = JSON.parse(await readFile(path, 'utf8'));
    return typeof value === 'object' && value !== null ? value : 'expected a JSON object';
  } catch (cause) {
    return cause instanceof SyntaxError ? `not JSON (${cause.message})` : `expected a readable file (${errno(cause)})`;
  }
}

/** By file: its check, or what is wrong with it. */
async function compile(files: ReadonlyMap<string, object>): Promise<ReadonlyMap<string, SchemaCheck | string>> {
  // Loaded here: only who has schemas needs the libraries.
  const { Ajv2020 } = await import('ajv/dist/2020.js');
  const ajv = new Ajv2020({
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    validateFormats: false,
    ownProperties: true,
    logger: false,
    code: { regExp: await linearPatterns() },
  });
  const compiled = new Map<string, SchemaCheck | string>();
  for (const [name, schema] of files) {
    try {
      ajv.addSchema(schema, name);
    } catch (cause) {
      compiled.set(name, messageOf(cause));
    }
  }
  for (const [name, schema] of files) {
    if (compiled.has(name)) continue;
    try {
      compiled.set(name, checkOf(ajv.compile(schema)));
    } catch (cause) {
      compiled.set(name, messageOf(cause));
    }
  }
  return compiled;
}

interface Pattern {
  test(text: string): boolean;
  toString(): string;
}

async function linearPatterns(): Promise<{ (pattern: string): Pattern; code: string }> {
  const { RE2JS } = await import('re2js');
  const linearPattern = (pattern: string): Pattern => {
    try {
      const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
      return { test: (text) => compiled.matcher(text).find(), toString: () => pattern };
    } catch (cause) {
      throw new Error(`pattern ${pattern}: not of RE2 (${messageOf(cause)})`, { cause });
    }
  };
  // Ajv names the engine by it in code that is written to a file, which is not done here.
  return Object.assign(linearPattern, { code: 'linearPattern' });
}

const checkOf =
  (validate: ValidateFunction): SchemaCheck =>
  (body) =>
    validate(JSON.parse(body.toString('utf8'))) === true
      ? []
      : (validate.errors ?? []).slice(0, PROBLEMS_MAX).map(problem);

/** Member names are the producer's: what a text column refuses is escaped. */
function problem({ instancePath, message, params }: ErrorObject): string {
  const { additionalProperty, unevaluatedProperty } = params as Readonly<Record<string, unknown>>;
  const extra = additionalProperty ?? unevaluatedProperty;
  const named = typeof extra === 'string' ? ` (${extra})` : '';
  const text = `${instancePath} ${message ?? 'is not allowed'}${named}`.trim();
  return printable(text.slice(0, PROBLEM_CHARACTERS_MAX)).toWellFormed();
}
