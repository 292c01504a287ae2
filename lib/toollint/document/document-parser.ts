// Reads a report's text piece by piece and hands over each top-level member, and each element of `findings`, as soon
// as it is whole. The order of the members is free. What is wrong with the text (not with the values) is a problem
// with a JSON Pointer; the first that leaves no way to go on stops the reading.
//
// Memory: one value and one chunk. It knows nothing of the schema beyond the name `findings`.
import { ByteOrderMark } from './byte-order-mark.ts';
import type { DocumentVisitor, TextProblem } from './document-visitor.ts';
import { JsonWindow, MAX_DEPTH, MAX_VALUE_BYTES } from './json-window.ts';
import { countNames } from './name-count.ts';
import { jsonProblems, pointerToken } from './strict-json.ts';

type State =
  | 'root'
  | 'first-name'
  | 'name'
  | 'colon'
  | 'value'
  | 'after-value'
  | 'first-element'
  | 'element'
  | 'after-element'
  | 'end'
  | 'stopped';

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** Push parser for one document. */
export class DocumentParser {
  readonly #visitor: DocumentVisitor;
  readonly #window = new JsonWindow();
  readonly #names = new Set<string>();
  #state: State = 'root';
  #reading = false;
  #memberName = '';
  #findings = 0;
  readonly #mark = new ByteOrderMark();
  #ended = false;

  constructor(visitor: DocumentVisitor) {
    this.#visitor = visitor;
  }

  /** Whether the text began with a byte order mark. */
  get sawByteOrderMark(): boolean {
    return this.#mark.seen;
  }

  /** Whether more bytes can still change anything. */
  get stopped(): boolean {
    return this.#state === 'stopped';
  }

  push(chunk: Uint8Array): void {
    if (this.#state === 'stopped') return;
    const bytes = this.#mark.after(chunk);
    if (bytes !== undefined) this.#feed(bytes);
  }

  /** The text ends here. */
  end(): void {
    const held = this.#mark.held();
    if (held !== undefined) this.#feed(held);
    if (this.#state === 'stopped') return;
    this.#ended = true;
    if (!this.#window.finish()) {
      this.#stop('encoding', '', 'the text is not UTF-8');
      return;
    }
    this.#advance();
    if (this.#state === 'end' || this.stopped) return;
    this.#stop(
      'syntax',
      '',
      this.#state === 'root' ? 'not JSON: the document is empty' : 'not JSON: the document ends too early',
    );
  }

  #feed(bytes: Uint8Array): void {
    if (this.#window.push(bytes)) this.#advance();
    else this.#stop('encoding', '', 'the text is not UTF-8');
  }

  #stop(code: TextProblem['code'], pointer: string, message: string): void {
    this.#state = 'stopped';
    this.#visitor.problem({ code, pointer, message });
  }

  #unexpected(pointer: string, expected: string): void {
    this.#stop('syntax', pointer, `not JSON at byte ${this.#window.offset}: expected ${expected}`);
  }

  #advance(): void {
    while (!this.stopped) {
      if (this.#reading) {
        if (!this.#finishValue()) return;
        continue;
      }
      const byte = this.#window.peek();
      if (byte < 0) return;
      this.#step(byte);
    }
  }

  #step(byte: number): void {
    switch (this.#state) {
      case 'root':
        return this.#atRoot(byte);
      case 'first-name':
      case 'name':
        return this.#atName(byte);
      case 'colon':
        if (byte !== COLON) return this.#unexpected(pointerToken(this.#memberName), "':'");
        return this.#go('value');
      case 'value':
        if (this.#memberName === 'findings' && byte === OPEN_ARRAY) {
          this.#visitor.findingsBegin();
          return this.#go('first-element');
        }
        return this.#beginValue();
      case 'after-value':
        if (byte === COMMA) return this.#go('name');
        if (byte === CLOSE_OBJECT) return this.#go('end');
        return this.#unexpected('', "',' or '}'");
      case 'first-element':
        if (byte === CLOSE_ARRAY) return this.#go('after-value');
        return this.#beginElement();
      case 'element':
        return this.#beginElement();
      case 'after-element':
        if (byte === COMMA) return this.#go('element');
        if (byte === CLOSE_ARRAY) return this.#go('after-value');
        return this.#unexpected('/findings', "',' or ']'");
      case 'end':
        return this.#stop('syntax', '', `not one JSON value: more text at byte ${this.#window.offset}`);
      case 'stopped':
        return;
    }
  }

  #go(state: State): void {
    this.#window.take();
    this.#state = state;
  }

  #atRoot(byte: number): void {
    if (byte === OPEN_OBJECT) return this.#go('first-name');
    const otherValue =
      byte === OPEN_ARRAY ||
      byte === QUOTE ||
      (byte >= 0x30 && byte <= 0x39) ||
      '-tfn'.includes(String.fromCharCode(byte));
    if (otherValue) return this.#stop('root', '', 'a report is one JSON object');
    this.#unexpected('', 'a JSON object');
  }

  #atName(byte: number): void {
    if (byte === CLOSE_OBJECT && this.#state === 'first-name') return this.#go('end');
    if (byte !== QUOTE) return this.#unexpected('', 'a member name');
    this.#state = 'name';
    this.#beginValue();
  }

  #beginElement(): void {
    this.#state = 'element';
    this.#beginValue();
  }

  #beginValue(): void {
    this.#reading = true;
    this.#window.beginValue(this.#depth);
  }

  get #depth(): number {
    return this.#state === 'element' ? 2 : 1;
  }

  get #pointer(): string {
    if (this.#state === 'element') return `/findings/${this.#findings}`;
    return this.#state === 'value' ? pointerToken(this.#memberName) : '';
  }

  #finishValue(): boolean {
    const { offset } = this.#window;
    const text = this.#window.endValue(this.#depth, this.#ended);
    if (this.#window.failure !== undefined) {
      const tooDeep = this.#window.failure === 'too-deep';
      const message = tooDeep
        ? `nested deeper than ${MAX_DEPTH} levels`
        : `a value longer than ${MAX_VALUE_BYTES} bytes`;
      this.#stop(this.#window.failure, this.#pointer, message);
      return true;
    }
    if (text === undefined) return false;
    this.#reading = false;
    this.#accept(text, offset);
    return true;
  }

  #accept(text: string, offset: number): void {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      const found = jsonProblems(text, this.#pointer).at(-1);
      const where = found === undefined ? offset : offset + Buffer.byteLength(text.slice(0, found.offset));
      this.#stop(
        'syntax',
        found?.pointer ?? this.#pointer,
        `not JSON at byte ${where}: ${found?.message.replace('not JSON: ', '') ?? 'malformed value'}`,
      );
      return;
    }
    if (this.#state === 'name') return this.#acceptName(value as string);
    if (this.#window.doubtfulNumber || this.#window.names !== countNames(value)) {
      for (const { code, pointer, message } of jsonProblems(text, this.#pointer))
        this.#visitor.problem({ code, pointer, message });
    }
    if (this.#state === 'element') {
      this.#visitor.finding(value, this.#findings);
      this.#findings += 1;
      this.#state = 'after-element';
      return;
    }
    this.#visitor.member(this.#memberName, value);
    this.#state = 'after-value';
  }

  #acceptName(name: string): void {
    if (this.#names.has(name)) {
      this.#visitor.problem({
        code: 'duplicate-member',
        pointer: pointerToken(name),
        message: 'the member stands twice',
      });
    }
    this.#names.add(name);
    this.#memberName = name;
    this.#state = 'colon';
  }
}
