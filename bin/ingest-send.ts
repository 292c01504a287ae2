#!/usr/bin/env node
// ingest-send: sends events from a file or standard input to the gateway.
import { messageOf } from '../lib/process/message-of.ts';
import { versionLine } from '../lib/process/program.ts';
import { HELP, readSettings, type SendSettings } from '../lib/send/command-line.ts';
import { GatewayClient } from '../lib/send/gateway-client.ts';
import { openInput, sampleInput, type Input, type InputEvent } from '../lib/send/input.ts';
import { Position } from '../lib/send/position.ts';
import { ProgressLine } from '../lib/send/progress.ts';
import { RefusedFile } from '../lib/send/refused-file.ts';
import { sendAll, SendingStopped } from '../lib/send/sender.ts';
import { Summary } from '../lib/send/summary.ts';
import { complainer, print } from './output.ts';
import { SYSTEM } from '../lib/process/clock.ts';
import { endWritten, onOutputFailure, stopSignal } from './process-end.ts';

const EXIT = { allAccepted: 0, notAll: 1, usage: 2, interrupted: 130 } as const;

const NO_CA =
  '--cert without --ca: the gateway needs a certificate of an authority that Node trusts; ' +
  'name its own authority with --ca';

const complain = complainer('ingest-send');

async function main(): Promise<number> {
  let settings: SendSettings | 'help' | 'version';
  let input: Input;
  let position: Position | undefined;
  try {
    settings = readSettings(process.argv.slice(2), process.env['INGEST_STATE_DIR'] ?? '.ingest');
    if (settings === 'help' || settings === 'version') {
      print(settings === 'help' ? HELP : versionLine('ingest-send'));
      return EXIT.allAccepted;
    }
    const { file, url, resend, sample } = settings;
    position = file === undefined ? undefined : new Position(file, url.href, SYSTEM.clock);
    input = sample === undefined ? await openInput(file, resend, position) : sampleInput(sample, SYSTEM);
  } catch (cause) {
    complain(`${messageOf(cause)}; see --help`);
    return EXIT.usage;
  }
  return run(settings, input, position);
}

async function run(settings: SendSettings, input: Input, position: Position | undefined): Promise<number> {
  if (position !== undefined && position.line > 0 && !settings.quiet)
    complain(`continuing after line ${position.line}, which ${position.path} holds`);
  const isTrustDefault = settings.identity.ca === undefined;
  if (isTrustDefault && !settings.quiet) complain(NO_CA);
  const client = new GatewayClient({ ...SYSTEM, ...settings, ...settings.flow });
  const progress = settings.quiet ? undefined : new ProgressLine(input, process.stderr, SYSTEM.clock);
  const refused = new RefusedFile(settings.refusedFile);
  // After the first signal, the program waits for the answers to the events in flight.
  const interrupted = stopSignal(EXIT.interrupted);
  const summary = new Summary(SYSTEM.clock);
  let failure: unknown;
  try {
    const results = sendAll(begun(input.events, position), {
      ...SYSTEM,
      send: ({ bytes }) => client.send(bytes),
      concurrency: settings.flow.concurrency,
      ratePerS: settings.ratePerS,
      triesMax: settings.triesMax,
      signal: interrupted,
      onRetry: (retry) => progress?.retry(retry),
    });
    for await (const result of results) {
      summary.add(result);
      if (result.kind === 'interrupted') continue;
      if (result.kind === 'refused') await refused.add(result);
      progress?.settle();
      result.event.settled();
    }
  } catch (cause) {
    failure = cause;
  }
  progress?.stop();
  input.close();
  client.close();
  try {
    await refused.close();
    if (failure === undefined && !interrupted.aborted) position?.remove();
    else position?.write();
  } catch (cause) {
    failure ??= cause;
  }
  if (settings.json) print(summary.json(refused.written ? refused.path : undefined));
  else print(summary.table());
  if (refused.written && !settings.json) print(`the refused events and their answers are in ${refused.path}\n`);
  return exitCode(failure, interrupted.aborted, summary.missing);
}

interface BegunEvent extends InputEvent {
  readonly settled: () => void;
}

async function* begun(events: AsyncIterable<InputEvent>, position: Position | undefined): AsyncGenerator<BegunEvent> {
  for await (const event of events) yield { ...event, settled: position?.begin(event) ?? (() => undefined) };
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
onOutputFailure('ingest-send', () => undefined, EXIT.notAll);
await endWritten(await main());
