// What a reader of a report's text hears of it: the parts of the document, and what is wrong with the text.

/** Something wrong with the text. `pointer` is '' for the document itself. */
export interface TextProblem {
  readonly code: 'syntax' | 'encoding' | 'root' | 'too-deep' | 'too-long' | 'duplicate-member' | 'inexact-number';
  readonly pointer: string;
  readonly message: string;
}

/** Receives the document's parts, in the order of the text. */
export interface DocumentVisitor {
  /** A top-level member; for `findings` only when it is not an array. */
  member(name: string, value: unknown): void;
  /** `findings` is an array and begins here. */
  findingsBegin(): void;
  finding(value: unknown, index: number): void;
  problem(problem: TextProblem): void;
}
