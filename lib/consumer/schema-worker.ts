// The thread that compiles schemas and checks events. Node interrupts a step that takes too long (node:vm); if the
// thread needs too much memory, it ends. schema-checker.ts learns the current step from the shared number `step`.
//
// `format` is an annotation, as in JSON Schema 2020-12. Only the first problem of an event is reported, with the
// problems of its alternatives.
import { createContext, Script } from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';
import { Ajv2020, type AnySchema, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { SYSTEM } from '../process/clock.ts';
import { messageOf } from '../process/message-of.ts';
import { strictJson, textOf } from '../process/operator-file.ts';
import { printable } from '../process/printable.ts';
import {
  EVENT_MS,
  NO_USABLE_SCHEMA,
  type CheckRequest,
  type Checked,
  type Problems,
  type ThreadData,
} from './schema-checker.ts';

const COMPILE_MS = 5_000;
/** The thread answers after this long, so that a type with slow checks does not delay the others. */
const TURN_MS = 1_000;
/** On a busy machine, a check that had no turn of the CPU is given up after an attempt of more than this. */
const STARVED_MS = 5 * EVENT_MS;
const PROBLEMS_MAX = 3;
const PROBLEM_CHARACTERS_MAX = 200;

const { clock } = SYSTEM;
const { files, skipped, step } = workerData as ThreadData;
const checks = new Map<string, ValidateFunction>();
const faults = new Map<string, string>();

let current = (): void => undefined;
const context = createContext({ run: () => current() });
const script = new Script('run()');

/** Returns false if `work` was interrupted after `ms`. */
function limited(work: () => void, ms: number): boolean {
  current = work;
  try {
    script.runInContext(context, { timeout: ms });
    return true;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return false;
    throw cause;
  }
}

compile();
parentPort?.postMessage([...faults]);

parentPort?.on('message', ({ names, texts }: CheckRequest) => {
  const problems: Problems[] = [];
  const endMs = clock.ms() + TURN_MS;
  const work = (): void => {
    while (problems.length < names.length && clock.ms() < endMs) {
      const at = (step[0] = problems.length);
      problems.push(problemsOf(checks.get(names[at] ?? ''), texts[at] ?? ''));
    }
  };
  let slow: number | undefined;
  for (let ms = EVENT_MS; slow === undefined;) {
    const [first, cpu] = [problems.length, process.threadCpuUsage()];
    if (limited(work, ms)) break;
    const { user, system } = process.threadCpuUsage(cpu);
    // An event gets all of the time, if others had a part of it, and more, if others had the CPU.
    if (problems.length > first) ms = EVENT_MS;
    else if (ms > STARVED_MS || user + system > 0.8 * EVENT_MS * 1_000) slow = first;
    else ms *= 2;
  }
  parentPort?.postMessage({ problems, slow } satisfies Checked);
});

function compile(): void {
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
  const names = [...files.keys()];
  const compiling = (name: string, work: () => void): void => {
    if (skipped.has(name)) return;
    step[0] = names.indexOf(name) + 1;
    let isInterrupted = false;
    try {
      isInterrupted = !limited(work, COMPILE_MS);
    } catch (cause) {
      faults.set(name, faultOf(cause));
    }
    // Ajv cannot go on after that, so the thread ends.
    if (isInterrupted) throw new Error(`${name} takes too long`);
  };
  // Schemas may refer to each other, so all are added before the first is compiled.
  for (const [name, text] of files)
    compiling(name, () => {
      const schema = strictJson(textOf(text));
      if (typeof schema !== 'object' || schema === null || Array.isArray(schema))
        throw new Error('expected a JSON object');
      ajv.addSchema(schema, name);
      schemas.set(name, schema);
    });
  for (const [name, schema] of schemas)
    compiling(name, () => {
      const check = ajv.compile(schema);
      if ('$async' in check) throw new Error('$async is not supported');
      checks.set(name, check);
    });
}

function faultOf(cause: unknown): string {
  if (cause instanceof SyntaxError) return `not JSON (${messageOf(cause)})`;
  return cause instanceof TypeError && 'code' in cause ? 'expected UTF-8' : messageOf(cause);
}

function problemsOf(check: ValidateFunction | undefined, text: string): Problems {
  if (check === undefined) return [NO_USABLE_SCHEMA];
  try {
    return check(JSON.parse(text)) ? [] : (check.errors ?? []).slice(0, PROBLEMS_MAX).map(problem);
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
