// The reporter of the test suite: node-test-reporter, without its spinner where no terminal watches, and with one
// closing line that says what ran in a form that programs read.
import type { TestEvent } from 'node:test/reporters';
import reporter from 'node-test-reporter';

const CLEAR_LINE = '\r\x1b[K';
const SPINNER = /Started \d+ tests\./;

interface Count {
  passed: number;
  failed: number;
  skipped: number;
}

async function* counted(source: AsyncIterable<TestEvent>, count: Count): AsyncGenerator<TestEvent> {
  for await (const event of source) {
    if ((event.type === 'test:pass' || event.type === 'test:fail') && event.data.details.type !== 'suite') {
      if (event.data.skip !== undefined || event.data.todo !== undefined) count.skipped += 1;
      else if (event.type === 'test:pass') count.passed += 1;
      else count.failed += 1;
    }
    yield event;
  }
}

export default async function* report(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const count: Count = { passed: 0, failed: 0, skipped: 0 };
  const watched = process.stdout.isTTY;
  for await (const text of reporter(counted(source, count))) {
    if (watched) yield text;
    else if (!(text.startsWith(CLEAR_LINE) && (SPINNER.test(text) || text === CLEAR_LINE)))
      yield text.replace(CLEAR_LINE, '');
  }
  yield `\n${count.passed} passed, ${count.failed} failed${count.skipped > 0 ? `, ${count.skipped} skipped` : ''}\n`;
}
