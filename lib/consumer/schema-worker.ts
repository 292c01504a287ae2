// The thread that compiles schemas and checks events. It ends if a file takes too long to compile or if a step needs
// too much memory. Its parent (schema-checker.ts) reads the index of that file or event in the shared number `step`.
//
// Limits are CPU time, so that a busy machine refuses nothing. V8 measures real time: if others had the CPU, the step
// is repeated with twice the time.
//
// `format` is an annotation, as in JSON Schema 2020-12. Only the first problem of an event is reported, with the
// problems of its alternatives.
import { createContext, Script } from 'node:vm';
import { parentPort, workerData } from 'node:worker_threads';
import type { ErrorObject, ValidateFunction } from 'ajv/dist/2020.js';
import { SYSTEM } from '../process/clock.ts';
import { messageOf } from '../process/message-of.ts';
import { strictJson, textOf } from '../process/operator-file.ts';
import { printable } from '../process/printable.ts';
import { corrected, newAjv } from './json-schema.ts';
import {
  EVENT_MS,
  type CheckReply,
  type CheckRequest,
  type Faults,
  type Problems,
  type ThreadData,
} from './schema-checker.ts';

const COMPILE_MS = 5_000;
/** The thread answers after this long, so that a type with slow checks does not delay the others. */
const TURN_MS = 1_000;
const PROBLEMS_MAX = 3;
const PROBLEM_CHARACTERS_MAX = 200;

const { clock } = SYSTEM;
const { files, step } = workerData as ThreadData;
const checks = new Map<string, ValidateFunction>();

let current = (): void => undefined;
let before = process.threadCpuUsage();
const context = createContext({ run: () => current() });
const script = new Script('run()');

/** Interrupts `work` after `timeout` milliseconds. */
function run(work: () => void, timeout: number): void {
  current = work;
  before = process.threadCpuUsage();
  script.runInContext(context, { timeout });
}

/** True if the interrupted work has used its CPU time. */
function hasUsed(limitMs: number): boolean {
  const { user, system } = process.threadCpuUsage(before);
  return user + system > 0.8 * limitMs * 1_000;
}

const isInterruption = (cause: unknown): boolean =>
  (cause as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';

parentPort?.postMessage(compiled());
parentPort?.on('message', (request: CheckRequest) => parentPort?.postMessage(checked(request)));

function checked({ name, texts }: CheckRequest): CheckReply {
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
    const first = problems.length;
    try {
      run(work, ms);
      return { problems, isSlow: false };
    } catch (cause) {
      if (!isInterruption(cause)) throw cause;
      // An event gets all of the time if others had a part of it.
      if (problems.length > first) ms = EVENT_MS;
      else if (hasUsed(EVENT_MS)) return { problems, isSlow: true };
      else ms *= 2;
    }
  }
}

function compiled(): Faults {
  for (let ms = COMPILE_MS; ; ms *= 2)
    try {
      return compile(ms);
    } catch (cause) {
      if (!isInterruption(cause) || hasUsed(COMPILE_MS)) throw cause;
    }
}

/** Ajv cannot go on after an interruption. */
function compile(timeoutMs: number): Faults {
  const ajv = newAjv();
  const faults = new Map<string, string>();
  const forEach = (work: (name: string, content: Uint8Array) => void): void => {
    for (const [at, [name, content]] of [...files].entries()) {
      step[0] = at;
      try {
        run(() => work(name, content), timeoutMs);
      } catch (cause) {
        if (isInterruption(cause)) throw cause;
        faults.set(name, messageOf(cause));
      }
    }
  };
  // Schemas may refer to each other, so all are added before the first is compiled.
  forEach((name, content) => {
    ajv.addSchema(corrected(parsed(content)), name);
  });
  forEach((name) => {
    const check = faults.has(name) ? undefined : ajv.getSchema(name);
    if (check === undefined) return;
    if ('$async' in check) throw new Error('$async is not supported');
    checks.set(name, check);
  });
  return [...faults];
}

function parsed(content: Uint8Array): object {
  try {
    const schema = strictJson(textOf(content));
    if (typeof schema === 'object' && schema !== null && !Array.isArray(schema)) return schema;
  } catch (cause) {
    throw new Error(cause instanceof SyntaxError ? `not JSON (${messageOf(cause)})` : 'expected UTF-8', { cause });
  }
  throw new Error('expected a JSON object');
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
