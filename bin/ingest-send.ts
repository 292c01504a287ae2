// ingest-send: sends events from a file or standard input to the gateway, as a producer should.
import { version } from '../lib/process/program.ts';
import { HELP, readSettings, type Settings } from '../lib/send/command-line.ts';
import { GatewayClient } from '../lib/send/gateway-client.ts';
import { InputError, openInput, type Input } from '../lib/send/input.ts';
import { showProgress, type Progress } from '../lib/send/progress.ts';
import { RefusedFile } from '../lib/send/refused-file.ts';
import { sampleInput } from '../lib/send/sample.ts';
import { sendAll, SendingStopped } from '../lib/send/sender.ts';
import { Summary } from '../lib/send/summary.ts';
import { complainer, print } from './output.ts';
import { endNow, endWritten, onOutputFailure } from './process-end.ts';

const EXIT = { allAccepted: 0, notAll: 1, usage: 2, interrupted: 130 } as const;
const SILENT: Progress = { retry: () => undefined, stop: () => undefined };

const complain = complainer('ingest-send');

async function main(): Promise<number> {
  let settings: Settings | 'help' | 'version';
  let input: Input;
  try {
    settings = readSettings(process.argv.slice(2));
    if (settings === 'help' || settings === 'version') {
      print(settings === 'help' ? HELP : `ingest-send ${version()}\n`);
      return EXIT.allAccepted;
    }
    input =
      settings.sample === undefined ? await openInput(settings.file, settings.resend) : sampleInput(settings.sample);
  } catch (cause) {
    complain(`${messageOf(cause)}; see --help`);
    return EXIT.usage;
  }
  return run(settings, input);
}

async function run(settings: Settings, input: Input): Promise<number> {
  const client = new GatewayClient({ ...settings, connectionsMax: settings.concurrency });
  const progress = settings.quiet ? SILENT : showProgress(input, process.stderr);
  const refused = new RefusedFile(settings.refusedFile);
  const interrupted = stopSignal();
  const summary = new Summary();
  let failure: unknown;
  try {
    const results = sendAll(input.events, {
      send: (body) => client.send(body),
      bodyOf: ({ bytes }) => bytes,
      concurrency: settings.concurrency,
      ratePerS: settings.ratePerS,
      triesMax: settings.triesMax,
      signal: interrupted,
      onRetry: (retry) => progress.retry(retry),
    });
    for await (const result of results) {
      summary.add(result);
      if (result.kind === 'refused') await refused.add(result);
    }
  } catch (cause) {
    failure = cause;
  }
  progress.stop();
  input.close();
  client.close();
  await refused.close().catch((cause: unknown) => (failure ??= cause));
  print(summary.table());
  if (refused.written) print(`the refused events and their answers are in ${refused.path}\n`);
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

function messageOf(cause: unknown): string {
  if (cause instanceof InputError || cause instanceof SendingStopped) return cause.message;
  return cause instanceof Error ? cause.message : String(cause);
}

/** Aborts at the first signal: what is in flight is waited for. The second one ends at once. */
function stopSignal(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => (stop.signal.aborted ? endNow(EXIT.interrupted) : stop.abort()));
  }
  return stop.signal;
}

// The exit code says what became of the events, whether or not the summary is read.
onOutputFailure('ingest-send', () => undefined, EXIT.notAll);
await endWritten(await main());
