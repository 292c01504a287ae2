// The thread that compiles schemas and checks events. It ends if a step takes too long or needs too much memory. Its
// parent (schema-checker.ts) reads the index of that file or event in the shared number `step`.
//
// `format` is an annotation, as in JSON Schema 2020-12. Only the first problem of an event is reported, with the
// problems of its alternatives.
import { createContext, Script } from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { SYSTEM } from '../process/clock.ts';
import { messageOf } from '../process/message-of.ts';
import { strictJson, textOf } from '../process/operator-file.ts';
import { printable } from '../process/printable.ts';
import { EVENT_MS, type CheckRequest, type Faults, type Problems, type ThreadData } from './schema-checker.ts';

const COMPILE_MS = 5_000;
/** The thread answers after this long, so that a type with slow checks does not delay the others. */
const TURN_MS = 1_000;
/** On a busy machine, a check that had no turn of the CPU is given up after an attempt of more than this. */
const STARVED_MS = 5 * EVENT_MS;
const PROBLEMS_MAX = 3;
const PROBLEM_CHARACTERS_MAX = 200;

const { clock } = SYSTEM;
const { files, step } = workerData as ThreadData;
const checks = new Map<string, ValidateFunction>();

let current = (): void => undefined;
const context = createContext({ run: () => current() });
const script = new Script('run()');

/** Interrupts `work` after `timeout` milliseconds. */
function run(work: () => void, timeout: number): void {
  current = work;
  script.runInContext(context, { timeout });
}

const isInterruption = (cause: unknown): boolean =>
  (cause as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';

parentPort?.postMessage(compile());
parentPort?.on('message', (request: CheckRequest) => parentPort?.postMessage(checked(request)));

/** Returns the problems of the first events. */
function checked({ name, texts }: CheckRequest): Problems[] {
  const check = checks.get(name) as ValidateFunction;
  const problems: Problems[] = [];
  const endMs = clock.ms() + TURN_MS;
  const work = (): void => {
    while (problems.length < texts.length && clock.ms() < endMs) {
      step[0] = problems.length;
      problems.push(problemsOf(check, texts[problems.length] ?? ''));
    }
  };
  for (let ms = EVENT_MS; ;) {
    const [first, cpu] = [problems.length, process.threadCpuUsage()];
    try {
      run(work, ms);
      return problems;
    } catch (cause) {
      if (!isInterruption(cause)) throw cause;
      const { user, system } = process.threadCpuUsage(cpu);
      // An event gets all of the time if others had a part of it, and more if others had the CPU.
      if (problems.length > first) ms = EVENT_MS;
      else if (ms > STARVED_MS || user + system > 0.8 * EVENT_MS * 1_000) throw cause;
      else ms *= 2;
    }
  }
}

function compile(): Faults {
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
  const faults = new Map<string, string>();
  const forEach = (work: (name: string, content: Uint8Array) => void): void => {
    for (const [at, [name, content]] of [...files].entries()) {
      step[0] = at;
      try {
        run(() => work(name, content), COMPILE_MS);
      } catch (cause) {
        // Ajv cannot go on after that.
        if (isInterruption(cause)) throw cause;
        faults.set(name, faultOf(cause));
      }
    }
  };
  // Schemas may refer to each other, so all are added before the first is compiled.
  forEach((name, content) => {
    const schema = strictJson(textOf(content));
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema))
      throw new Error('expected a JSON object');
    ajv.addSchema(schema, name);
  });
  forEach((name) => {
    const check = faults.has(name) ? undefined : ajv.getSchema(name);
    if (check === undefined) return;
    if ('$async' in check) throw new Error('$async is not supported');
    checks.set(name, check);
  });
  return [...faults];
}

function faultOf(cause: unknown): string {
  if (cause instanceof SyntaxError) return `not JSON (${messageOf(cause)})`;
  return cause instanceof TypeError && 'code' in cause ? 'expected UTF-8' : messageOf(cause);
}

function problemsOf(check: ValidateFunction, text: string): Problems {
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

const shownProblem = (text: string): string => printable(text.slice(0, PROBLEM_CHARACTERS_MAX)).toWellFormed();
