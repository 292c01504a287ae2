#!/usr/bin/env node
// ingest-send: sends events from a file or standard input to the gateway.
import { statSync } from 'node:fs';
import { messageOf } from '../lib/process/message-of.ts';
import { versionLine } from '../lib/process/program.ts';
import { NO_ANSWER, sendEvents, SendingStopped, type Retry } from '../lib/send/client.ts';
import { HELP, inOptions, readSettings, type SendSettings } from '../lib/send/command-line.ts';
import { openInput, sampleInput, type InputEvent } from '../lib/send/input.ts';
import { Position } from '../lib/send/position.ts';
import { RefusedFile } from '../lib/send/refused-file.ts';
import { isForGood, reasonOf, type SendResult } from '../lib/send/sender.ts';
import { Summary } from '../lib/send/summary.ts';
import { SYSTEM } from '../lib/process/clock.ts';
import { readRunFile } from './state-folder.ts';
import { complainer, endNow, endWritten, onOutputFailure, print, showStep, stopSignal } from './terminal.ts';

const EXIT = { allAccepted: 0, notAll: 1, usage: 2, interrupted: 130 } as const;

const REASON_INTERVAL_MS = 10_000;
const PROGRESS_MS = { terminal: 1_000, elsewhere: 60_000 } as const;

/** If the first results are all without an answer, the program stops, because all events would take so long. */
const UNANSWERED_MAX = 10;

const NO_CA =
  '--cert without --ca: the gateway needs a certificate of an authority that Node trusts; ' +
  'name its own authority with --ca';

const complain = complainer('ingest-send');

async function main(): Promise<number> {
  // After the first signal, the program waits for the answers to the events in flight.
  const interrupted = stopSignal(EXIT.interrupted);
  let sending: ReturnType<typeof begin>;
  try {
    const stateFolder = process.env['INGEST_STATE_DIR'] ?? '.ingest';
    const settings = readSettings(process.argv.slice(2), stateFolder, () => {
      const { gatewayUrl } = readRunFile(process.env, complain);
      return typeof gatewayUrl === 'string' ? gatewayUrl : undefined;
    });
    if (settings === 'help' || settings === 'version') {
      print(settings === 'help' ? HELP : versionLine('ingest-send'));
      return EXIT.allAccepted;
    }
    sending = begin(settings, interrupted);
  } catch (cause) {
    complain(`${inOptions(messageOf(cause))}; see --help`);
    return EXIT.usage;
  }
  return run(sending, interrupted);
}

function begin(settings: SendSettings, signal: AbortSignal) {
  const { file, url, resend, sample, quiet, options } = settings;
  // A pipe cannot be read again from its beginning.
  const isFile = file !== undefined && statSync(file, { throwIfNoEntry: false })?.isFile() === true;
  const position = isFile ? new Position(file, url.href, SYSTEM.clock) : undefined;
  const input = sample === undefined ? openInput(file, resend, position) : sampleInput(sample, SYSTEM);
  /** The lines of the events that are being sent, and functions to call when they are settled. */
  const begun = new WeakMap<Buffer, InputEvent & { readonly done: (isSettled: boolean) => void }>();
  async function* bodies(): AsyncGenerator<Buffer> {
    for await (const event of input.events) {
      begun.set(event.bytes, { ...event, done: position?.begin(event) ?? (() => undefined) });
      yield event.bytes;
    }
  }
  const results = sendEvents(bodies(), { ...options, signal, onRetry: quiet ? () => undefined : reasonWriter() });
  return { settings, input, position, results, begun };
}

/** Returns a function that writes the reason for waiting, at most once every ten seconds. */
function reasonWriter(): (retry: Retry) => void {
  let nextMs = 0;
  return ({ code, answer, pauseMs }) => {
    if (SYSTEM.clock.ms() < nextMs) return;
    nextMs = SYSTEM.clock.ms() + REASON_INTERVAL_MS;
    complain(`waiting ${(pauseMs / 1000).toFixed(1)} s to try again, ${code}: ${inOptions(reasonOf(answer))}`);
  };
}

async function run(sending: ReturnType<typeof begin>, interrupted: AbortSignal): Promise<number> {
  const { settings, input, position, results, begun } = sending;
  if (position !== undefined && position.line > 0 && !settings.quiet)
    complain(`continuing after line ${position.line}, which ${position.path} holds`);
  if (settings.options.ca === undefined && !settings.quiet) complain(NO_CA);
  const refused = new RefusedFile(settings.refusedFile);
  const summary = new Summary(SYSTEM.clock);
  const progress = settings.quiet ? undefined : showProgress(() => summary.progress(input.size()));
  const assertReachable = unreachable();
  let failure: unknown;
  try {
    for await (const result of results) {
      const event = begun.get(result.event);
      summary.add(result, event?.size ?? 0);
      if (!('answerMs' in result) || event === undefined) continue;
      if (result.kind === 'refused') await refused.add({ ...result, event });
      event.done(isForGood(result));
      assertReachable(result);
    }
  } catch (cause) {
    failure = cause;
  }
  progress?.close();
  showStep('');
  input.close();
  try {
    await refused.close();
  } catch (cause) {
    failure ??= cause;
  }
  const isComplete = failure === undefined && !interrupted.aborted && position?.isComplete !== false;
  try {
    const unwritten = isComplete ? position?.remove() : position?.write();
    failure ??= unwritten;
  } catch (cause) {
    failure ??= cause;
  }
  if (settings.json) print(summary.json(refused.written ? refused.path : undefined));
  else print(summary.table());
  if (refused.written && !settings.json) print(`the refused events and their answers are in ${refused.path}\n`);
  const canContinue = position !== undefined && !isComplete;
  return exitCode(failure, interrupted.aborted, summary.missing, canContinue);
}

/** Shows progress every second in a terminal, and once a minute elsewhere. */
function showProgress(line: () => string): { close(): unknown } {
  if (process.stderr.isTTY) return SYSTEM.clock.every(PROGRESS_MS.terminal, () => showStep(line()));
  return SYSTEM.clock.every(PROGRESS_MS.elsewhere, () => complain(line()));
}

/** Returns a function that throws SendingStopped if no gateway has answered the first events. */
function unreachable(): (result: SendResult<unknown>) => void {
  let count = 0;
  return (result) => {
    if (result.kind !== 'refused' || result.code !== NO_ANSWER) count = Number.NaN;
    else if ((count += 1) === UNANSWERED_MAX) throw new SendingStopped(reasonOf(result.answer));
  };
}

function exitCode(failure: unknown, interrupted: boolean, missing: number, canContinue: boolean): number {
  const again = canContinue ? '; run again to send the rest' : '';
  if (failure !== undefined) {
    const isStopped = failure instanceof SendingStopped;
    complain(`stopped: ${inOptions(messageOf(failure))}${isStopped ? again : ''}`);
    return isStopped ? EXIT.notAll : EXIT.usage;
  }
  if (interrupted) {
    complain(`interrupted${again}`);
    return EXIT.interrupted;
  }
  if (canContinue) complain(`some events may be accepted later${again}`);
  return missing === 0 ? EXIT.allAccepted : EXIT.notAll;
}

// The exit code reports whether the events were accepted, so a closed standard output does not change it.
onOutputFailure(
  'ingest-send',
  () => undefined,
  () => endNow(EXIT.notAll),
);
await endWritten(await main());
