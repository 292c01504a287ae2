declare module 'node-test-reporter' {
  import type { TestEvent } from 'node:test/reporters';
  export default function reporter(source: AsyncIterable<TestEvent>): AsyncIterable<string>;
}
