#!/usr/bin/env node
// ingest-send: sends events from a file or standard input to the gateway.
import { statSync } from 'node:fs';
import { messageOf } from '../lib/process/message-of.ts';
import { versionLine } from '../lib/process/program.ts';
import { sendEvents, SendingStopped, type Retry } from '../lib/send/client.ts';
import { HELP, readSettings, type SendSettings } from '../lib/send/command-line.ts';
import { openInput, sampleInput, type InputEvent } from '../lib/send/input.ts';
import { Position } from '../lib/send/position.ts';
import { RefusedFile } from '../lib/send/refused-file.ts';
import { reasonOf } from '../lib/send/sender.ts';
import { Summary } from '../lib/send/summary.ts';
import { SYSTEM } from '../lib/process/clock.ts';
import { complainer, endNow, endWritten, onOutputFailure, print, stopSignal } from './terminal.ts';

const EXIT = { allAccepted: 0, notAll: 1, usage: 2, interrupted: 130 } as const;

const REASON_INTERVAL_MS = 10_000;

const NO_CA =
  '--cert without --ca: the gateway needs a certificate of an authority that Node trusts; ' +
  'name its own authority with --ca';

const complain = complainer('ingest-send');

async function main(): Promise<number> {
  // After the first signal, the program waits for the answers to the events in flight.
  const interrupted = stopSignal(EXIT.interrupted);
  let sending: ReturnType<typeof begin>;
  try {
    const settings = readSettings(process.argv.slice(2), process.env['INGEST_STATE_DIR'] ?? '.ingest');
    if (settings === 'help' || settings === 'version') {
      print(settings === 'help' ? HELP : versionLine('ingest-send'));
      return EXIT.allAccepted;
    }
    sending = begin(settings, interrupted);
  } catch (cause) {
    complain(`${messageOf(cause)}; see --help`);
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
  const begun = new WeakMap<Buffer, InputEvent & { readonly settled: () => void }>();
  async function* bodies(): AsyncGenerator<Buffer> {
    for await (const event of input.events) {
      begun.set(event.bytes, { ...event, settled: position?.begin(event) ?? (() => undefined) });
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
    complain(`waiting ${(pauseMs / 1000).toFixed(1)} s to try again, ${code}: ${reasonOf(answer)}`);
  };
}

async function run(sending: ReturnType<typeof begin>, interrupted: AbortSignal): Promise<number> {
  const { settings, input, position, results, begun } = sending;
  if (position !== undefined && position.line > 0 && !settings.quiet)
    complain(`continuing after line ${position.line}, which ${position.path} holds`);
  if (settings.options.ca === undefined && !settings.quiet) complain(NO_CA);
  const refused = new RefusedFile(settings.refusedFile);
  const summary = new Summary(SYSTEM.clock);
  let failure: unknown;
  try {
    for await (const result of results) {
      summary.add(result);
      const event = begun.get(result.event);
      if (result.kind === 'interrupted' || event === undefined) continue;
      if (result.kind === 'refused') await refused.add({ ...result, event });
      event.settled();
    }
  } catch (cause) {
    failure = cause;
  }
  input.close();
  try {
    await refused.close();
    if (failure === undefined && !interrupted.aborted) position?.remove();
    else failure ??= position?.write();
  } catch (cause) {
    failure ??= cause;
  }
  if (settings.json) print(summary.json(refused.written ? refused.path : undefined));
  else print(summary.table());
  if (refused.written && !settings.json) print(`the refused events and their answers are in ${refused.path}\n`);
  return exitCode(failure, interrupted.aborted, summary.missing);
}

function exitCode(failure: unknown, interrupted: boolean, missing: number): number {
  if (failure !== undefined) {
    complain(`stopped: ${messageOf(failure)}; run again to send the rest`);
    return failure instanceof SendingStopped ? EXIT.notAll : EXIT.usage;
  }
  if (interrupted) {
    complain('interrupted; run again to send the rest');
    return EXIT.interrupted;
  }
  return missing === 0 ? EXIT.allAccepted : EXIT.notAll;
}

// The exit code reports whether the events were accepted, so a closed standard output does not change it.
onOutputFailure(
  'ingest-send',
  () => undefined,
  () => endNow(EXIT.notAll),
);
await endWritten(await main());
