// The thread that compiles schemas and checks events. Nothing in it has a limit of its own: schema-thread.ts ends it if
// it takes too long, and node if it needs too much memory.
//
// `format` is an annotation, as in JSON Schema 2020-12. Only the first problem of an event is reported, with the
// problems of its alternatives.
import { parentPort, workerData } from 'node:worker_threads';
import { Ajv2020, type AnySchema, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { messageOf } from '../process/message-of.ts';
import { strictJson, textOf } from '../process/operator-file.ts';
import { printable } from '../process/printable.ts';
import { NO_USABLE_SCHEMA, type CheckRequest, type SchemaReply, type SchemaSets } from './schema-thread.ts';

const PROBLEMS_MAX = 3;
const PROBLEM_CHARACTERS_MAX = 200;

const { sets, skipped } = workerData as { readonly sets: SchemaSets; readonly skipped: readonly string[] };
const checks = new Map<string, ValidateFunction>();
const faults = new Map<string, string>();
for (const { files, names } of sets) compile(new Map(files), names);
reply({ faults: [...faults] });

parentPort?.on('message', ({ names, ends, bodies }: CheckRequest) => {
  const problems: [number, readonly string[]][] = [];
  for (const [at, name] of names.entries()) {
    const found = problemsOf(checks.get(name), bodies.subarray(ends[at - 1] ?? 0, ends[at]));
    if (found.length > 0) problems.push([at, found]);
  }
  reply({ problems });
});

/** The CPU time lets schema-thread.ts tell a slow check from a thread that had no turn on a busy machine. */
function reply(message: SchemaReply): void {
  const { user, system } = process.threadCpuUsage();
  parentPort?.postMessage({ ...message, cpuUs: user + system });
}

/** Compiles `names`, which may refer to all files. */
function compile(files: ReadonlyMap<string, Uint8Array>, names: readonly string[]): void {
  const ajv = new Ajv2020({
    strict: true,
    strictTypes: false,
    strictTuples: false,
    strictRequired: false,
    validateFormats: false,
    ownProperties: true,
    logger: false,
  });
  // Ajv resolves `$anchor`, but does not declare it, so strict mode would refuse it.
  ajv.addKeyword('$anchor');
  const schemas = new Map<string, AnySchema>();
  const step = (name: string, work: () => void): void => {
    if (skipped.includes(name)) return;
    reply({ loading: name });
    try {
      work();
    } catch (cause) {
      const why = messageOf(cause);
      faults.set(
        name,
        cause instanceof SyntaxError
          ? `not JSON (${why})`
          : cause instanceof TypeError && 'code' in cause
            ? 'expected UTF-8'
            : why,
      );
    }
  };
  // Schemas may refer to each other, so all are added before the first is compiled.
  for (const [name, text] of files)
    step(name, () => {
      const schema = strictJson(textOf(text));
      if (typeof schema !== 'object' || schema === null || Array.isArray(schema))
        throw new Error('expected a JSON object');
      ajv.addSchema(schema, name);
      schemas.set(name, schema);
    });
  for (const name of names) {
    const schema = schemas.get(name);
    if (schema === undefined) continue;
    step(name, () => {
      const check = ajv.compile(schema);
      if ('$async' in check) throw new Error('$async is not supported');
      checks.set(name, check);
    });
  }
}

function problemsOf(check: ValidateFunction | undefined, body: Uint8Array): readonly string[] {
  if (check === undefined) return [NO_USABLE_SCHEMA];
  try {
    const matches = check(JSON.parse(Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8')));
    return matches ? [] : (check.errors ?? []).slice(0, PROBLEMS_MAX).map(problem);
  } catch (cause) {
    return [shownProblem(`the event could not be checked: ${messageOf(cause)}`)];
  }
}

/** The producer chooses the names of members, so characters that a text column cannot store are escaped. */
function problem({ instancePath, message, params }: ErrorObject): string {
  const { additionalProperty, unevaluatedProperty } = params as Readonly<Record<string, unknown>>;
  const extra = additionalProperty ?? unevaluatedProperty;
  const named = typeof extra === 'string' ? ` (${extra})` : '';
  return shownProblem(`${instancePath} ${message ?? 'is not allowed'}${named}`.trim());
}

function shownProblem(text: string): string {
  return printable(text.slice(0, PROBLEM_CHARACTERS_MAX)).toWellFormed();
}
