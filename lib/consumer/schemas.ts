// The schemas of event types (INGEST_SCHEMAS_DIR): one file `<type>.json` for each type, in JSON Schema 2020-12. A
// file may refer to another one by its name ("$ref": "order.line.json").
//
// Fact: a backtracking pattern can take minutes for one string, and no check finds all such patterns. Choice: RE2's
// engine, which takes time proportional to the length of the string. A pattern that RE2 does not support
// (backreferences, lookaround) is refused when the file is read.
//
// Limits: `format` is an annotation, as in 2020-12. Only the first problem of an event is reported, with the problems
// of its alternatives. schema-limits.ts refuses schemas whose checks may take too long.
import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js';
import { isErased } from '../ingest/erased.ts';
import { errno } from '../process/env.ts';
import { messageOf } from '../process/message-of.ts';
import { strictJson, textOf } from '../process/operator-file.ts';
import { printable } from '../process/printable.ts';
import { EXIT, StartFailure } from '../process/program.ts';
import { reloadable, type Reloadable, type Reloading } from '../process/reloadable.ts';
import { canonicalJson, schemaFaults } from './schema-limits.ts';

const ENDING = '.json';
const TYPE = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;
const PROBLEMS_MAX = 3;
const PROBLEM_CHARACTERS_MAX = 200;
/** Limit on pattern matching for one event. The unit is one character × one RE2 instruction, about 40 ns. */
const PATTERN_WORK_MAX = 1_000_000;
/** Fixed cost of one call, in the same unit. */
const PATTERN_CALL = 25;

/** Returns the first problems of an event; an empty array if it matches. */
export type SchemaCheck = (body: Buffer) => readonly string[];

interface Schemas {
  /** Checks by type. The check of a type without a usable schema refuses every event. */
  readonly checks: ReadonlyMap<string, SchemaCheck>;
  /** Each has the form `<file>: <fault>`. */
  readonly faults: readonly string[];
}

/**
 * Reads the schemas in a folder. If a file is unusable, its type keeps the check in `lastGood`. Rejects with a
 * StartFailure if the folder is unreadable.
 */
async function schemasIn(folder: string, lastGood?: Schemas): Promise<Schemas> {
  const faults = new Map<string, string>();
  const files = new Map<string, Readonly<Record<string, unknown>>>();
  for (const name of await schemaFiles(folder)) {
    const read = await schemaIn(join(folder, name));
    if (!TYPE.test(typeOf(name))) faults.set(name, 'expected <type>.json, e.g. order.placed.json');
    else if (typeof read === 'string') faults.set(name, read);
    else files.set(name, read);
  }
  const checks = new Map<string, SchemaCheck>();
  for (const [name, check] of await compile(files)) {
    if (typeof check === 'string') faults.set(name, check);
    else checks.set(typeOf(name), check);
  }
  for (const name of faults.keys())
    checks.set(typeOf(name), lastGood?.checks.get(typeOf(name)) ?? (() => ['no usable schema']));
  return {
    checks: new Map([...checks].toSorted(([one], [other]) => (one < other ? -1 : 1))),
    faults: [...faults].map(([name, fault]) => `${name}: ${fault}`),
  };
}

/** Implements `--check`. Returns warnings. Rejects with a StartFailure that names every unusable file. */
export async function checkSchemas(folder: string | undefined): Promise<readonly string[]> {
  if (folder === undefined) return [];
  const { checks, faults } = await schemasIn(folder);
  if (faults.length > 0) throw folderFailure(folder, faults.join('; '));
  return checks.size === 0 ? [noSchemas(folder)] : [];
}

const noSchemas = (folder: string): string =>
  `INGEST_SCHEMAS_DIR=${JSON.stringify(folder)}: the folder has no schemas (files named TYPE.json), ` +
  'so no event is checked';

const folderFailure = (folder: string, why: string): StartFailure =>
  new StartFailure(EXIT.configuration, `INGEST_SCHEMAS_DIR=${JSON.stringify(folder)}: ${why}`);

/**
 * Reads one file for `schema try`, and the files in its folder, because it may refer to them. Rejects with a
 * StartFailure if the file is unusable.
 */
export async function readSchema(path: string): Promise<SchemaCheck> {
  const [folder, name] = [dirname(path), basename(path)];
  const files = new Map<string, Readonly<Record<string, unknown>>>();
  for (const one of new Set([name, ...(await schemaFiles(folder).catch(() => []))])) {
    const read = await schemaIn(join(folder, one));
    if (typeof read !== 'string') files.set(one, read);
    else if (one === name) throw new StartFailure(EXIT.configuration, `${path}: ${read}`);
  }
  const check = (await compile(files)).get(name);
  if (typeof check === 'function') return check;
  throw new StartFailure(EXIT.configuration, `${path}: ${check ?? 'no schema'}`);
}

/** The schemas in use: the last good one of each type. */
export class WatchedSchemas {
  readonly #folder: string;
  readonly #schemas: Reloadable<Schemas>;

  /** Resolves with `undefined` if INGEST_SCHEMAS_DIR is not set. Rejects with a StartFailure if it is unreadable. */
  static async open(folder: string | undefined): Promise<WatchedSchemas | undefined> {
    if (folder === undefined) return undefined;
    return new WatchedSchemas(folder, await reloadable<Schemas>([folder], (lastGood) => schemasIn(folder, lastGood)));
  }

  private constructor(folder: string, schemas: Reloadable<Schemas>) {
    this.#folder = folder;
    this.#schemas = schemas;
  }

  /** Starts to watch the files. `onOutcome` receives `false` while a file is unusable. */
  watch({ clock, log, onOutcome }: Pick<Reloading<unknown>, 'clock' | 'log' | 'onOutcome'>): void {
    let { faults } = this.#schemas.value;
    const fields = ({ checks }: Schemas): object => ({ types: [...checks.keys()] });
    const tell = (): void => {
      if (faults.length > 0)
        log.error({ faults }, 'unusable schemas: their types keep the last good schema, or go to quarantine');
    };
    log.info(fields(this.#schemas.value), 'events of these types are checked against their schemas');
    tell();
    if (this.#schemas.value.checks.size === 0) log.warn(noSchemas(this.#folder));
    if (faults.length > 0) onOutcome(false);
    this.#schemas.watch({
      ...{ kind: 'schemas', clock, log, fields },
      onChange: (schemas) => {
        faults = schemas.faults;
        tell();
      },
      onOutcome: (current) => onOutcome(current && faults.length === 0),
    });
  }

  /** Returns `undefined` if the type has no schema or the event is erased. */
  problemsOf(type: string, body: Buffer): readonly string[] | undefined {
    const check = this.#schemas.value.checks.get(type);
    return check === undefined || isErased(body) ? undefined : check(body);
  }

  stop(): void {
    this.#schemas.stop();
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

/** Returns the schema, or the fault of the file. */
async function schemaIn(path: string): Promise<Readonly<Record<string, unknown>> | string> {
  try {
    const value = strictJson(textOf(await readFile(path)));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Readonly<Record<string, unknown>>)
      : 'expected a JSON object';
  } catch (cause) {
    return cause instanceof SyntaxError ? `not JSON (${cause.message})` : `expected a readable file (${errno(cause)})`;
  }
}

/** Returns the check or the fault of each file. */
async function compile(
  files: ReadonlyMap<string, Readonly<Record<string, unknown>>>,
): Promise<ReadonlyMap<string, SchemaCheck | string>> {
  // Only consumers with schemas load these libraries.
  const { Ajv2020 } = await import('ajv/dist/2020.js');
  // Ajv also runs patterns to check the schemas themselves. That work, before the first event, has no limit.
  const work: PatternWork = { left: Number.POSITIVE_INFINITY };
  const ajv = new Ajv2020({
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    validateFormats: false,
    ownProperties: true,
    logger: false,
    code: { regExp: await linearPatterns(work) },
  });
  // Ajv resolves `$anchor`, but does not declare it, so strict mode would refuse it.
  ajv.addKeyword('$anchor');
  ajv.removeKeyword('uniqueItems');
  ajv.addKeyword({
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must NOT have duplicate items' },
    validate: (wanted: boolean, items: readonly unknown[]) =>
      !wanted || new Set(items.map((item) => canonicalJson(item))).size === items.length,
  });
  const compiled = new Map<string, SchemaCheck | string>(schemaFaults(files));
  const each = (step: (schema: object, name: string) => void): void => {
    for (const [name, schema] of files) {
      if (compiled.has(name)) continue;
      try {
        step(schema, name);
      } catch (cause) {
        compiled.set(name, messageOf(cause));
      }
    }
  };
  // Schemas may refer to each other, so all are added before the first is compiled.
  each((schema, name) => ajv.addSchema(schema, name));
  each((schema, name) => compiled.set(name, checkOf(ajv.compile(schema), work)));
  return compiled;
}

/** Remaining pattern work for the current event. */
interface PatternWork {
  left: number;
}

interface Pattern {
  test(text: string): boolean;
  toString(): string;
}

async function linearPatterns(work: PatternWork): Promise<{ (pattern: string): Pattern; code: string }> {
  const { RE2JS } = await import('re2js');
  const linearPattern = (pattern: string): Pattern => {
    try {
      const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern));
      const size = compiled.programSize();
      const test = (text: string): boolean => {
        work.left -= PATTERN_CALL + text.length * size;
        if (work.left < 0) throw new Error(`the pattern ${pattern} takes too long for this event`);
        return compiled.matcher(text).find();
      };
      return { test, toString: () => pattern };
    } catch (cause) {
      throw new Error(`pattern ${pattern}: not of RE2 (${messageOf(cause)})`, { cause });
    }
  };
  // Ajv requires `code` for generated files, which are not used here.
  return Object.assign(linearPattern, { code: 'linearPattern' });
}

const checkOf =
  (validate: ValidateFunction, work: PatternWork): SchemaCheck =>
  (body) => {
    work.left = PATTERN_WORK_MAX;
    try {
      const matches = validate(JSON.parse(body.toString('utf8'))) === true;
      return matches ? [] : (validate.errors ?? []).slice(0, PROBLEMS_MAX).map(problem);
    } catch (cause) {
      return [shownProblem(`the event could not be checked: ${messageOf(cause)}`)];
    }
  };

/** The producer chooses the names of members, so characters that a text column cannot store are escaped. */
function problem({ instancePath, message, params }: ErrorObject): string {
  const { additionalProperty, unevaluatedProperty } = params as Readonly<Record<string, unknown>>;
  const extra = additionalProperty ?? unevaluatedProperty;
  const named = typeof extra === 'string' ? ` (${extra})` : '';
  return shownProblem(`${instancePath} ${message ?? 'is not allowed'}${named}`.trim());
}

const shownProblem = (text: string): string => printable(text.slice(0, PROBLEM_CHARACTERS_MAX)).toWellFormed();
