// node-test-reporter without its spinner, followed by a line with totals and by all failures. Fact:
// node-test-reporter does not name files that fail as a whole, and other output may follow its report. Choice: this
// reporter repeats each failure at the end and writes it to FAILURES_FILE, which `make ingest-test` prints last.
// Effect: a log ends with the names of everything that failed.
import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { TestEvent } from 'node:test/reporters';
import { inspect } from 'node:util';
import reporter from 'node-test-reporter';

const CLEAR_LINE = '\r\x1b[K';
const SPINNER = /Started \d+ tests\./;
const FAILURES_MAX = 50;
/** The most lines shown of an error, and of the standard error of its file. */
const LINES_MAX = 20;

interface Found {
  passed: number;
  failed: number;
  skipped: number;
  readonly failures: string[];
  readonly written: Map<string, string>;
}

type Failure = Extract<TestEvent, { type: 'test:fail' }>['data'];

interface TestError extends Error {
  readonly failureType?: string;
  readonly exitCode?: number | null;
  readonly signal?: string | null;
}

function failureText({ name, file = '', line = 0, details }: Failure, written: string | undefined): string {
  const { cause, message, exitCode, signal } = details.error as TestError;
  const text = cause instanceof Error ? (cause.stack ?? cause.message) : inspect(cause ?? message);
  const head = text.split('\n').filter((one) => !/\(?node:internal\//.test(one));
  // If a file fails as a whole, the runner reports only its exit code or signal.
  const ended = exitCode !== undefined || signal !== undefined;
  const end = ended ? [`exit code ${exitCode}, signal ${signal}`, ...(written ?? '').trimEnd().split('\n')] : [];
  return [
    `${relative(process.cwd(), file)}:${line}: ${name}`,
    ...[...head.slice(0, LINES_MAX), ...end].map((one) => `  ${one}`),
  ].join('\n');
}

async function* counted(source: AsyncIterable<TestEvent>, found: Found): AsyncGenerator<TestEvent> {
  for await (const event of source) {
    if (event.type === 'test:stderr') {
      const { file, message } = event.data;
      const lines = `${found.written.get(file) ?? ''}${message}`.trimEnd().split('\n');
      found.written.set(file, `${lines.slice(-LINES_MAX).join('\n')}\n`);
    }
    if (event.type === 'test:pass' || event.type === 'test:fail') {
      const { details, skip, todo } = event.data;
      const isSuite = details.type === 'suite';
      if (!isSuite && (skip !== undefined || todo !== undefined)) found.skipped += 1;
      else if (event.type === 'test:pass') found.passed += isSuite ? 0 : 1;
      else if (!isSuite || failureType(event.data) !== 'subtestsFailed') {
        found.failed += 1;
        found.failures.push(failureText(event.data, found.written.get(event.data.file ?? '')));
      }
    }
    yield event;
  }
}

/** The reason for a failure. A suite fails because of a hook, or because of tests that are reported separately. */
const failureType = ({ details }: Failure): unknown => (details.error as TestError).failureType;

export default async function* report(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const found: Found = { passed: 0, failed: 0, skipped: 0, failures: [], written: new Map() };
  const watched = process.stdout.isTTY;
  for await (const text of reporter(counted(source, found))) {
    if (watched) yield text;
    else if (!(text.startsWith(CLEAR_LINE) && (SPINNER.test(text) || text === CLEAR_LINE)))
      yield text.replace(CLEAR_LINE, '');
  }
  const skipped = found.skipped > 0 ? `, ${found.skipped} skipped` : '';
  yield `\n${found.passed} passed, ${found.failed} failed${skipped}\n`;
  if (found.failures.length === 0) return;
  const more = found.failures.length - FAILURES_MAX;
  const told = found.failures.slice(0, FAILURES_MAX);
  const text = ['Failed:', ...told, ...(more > 0 ? [`and ${more} more`] : [])].join('\n');
  yield `\n${text}\n`;
  const kept = process.env['FAILURES_FILE'];
  if (kept !== undefined) appendFileSync(kept, `${text}\n`);
}
