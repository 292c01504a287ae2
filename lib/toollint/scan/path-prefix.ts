// The paths of a scan of a part of a larger repository, below a prefix.
import { usageFailure } from '../document/failure.ts';
import { literalGlob } from '../document/file-pattern.ts';
import { pathFault } from '../document/report-path.ts';

/** Puts a prefix before paths; '' changes nothing. */
export class PathPrefix {
  readonly #prefix: string;

  /** Throws ReportFailure ('usage') for a prefix that cannot begin a path of a report. */
  constructor(prefix: string) {
    this.#prefix = prefix.replace(/^\.\/|\/+$/gu, '').replace(/^\.$/u, '');
    const fault = this.#prefix === '' ? undefined : pathFault(this.#prefix);
    if (fault !== undefined) throw usageFailure(`--path-prefix '${prefix}': ${fault}`);
  }

  /** The path as the report writes it; '.' is the root. */
  of(path: string): string {
    if (this.#prefix === '') return path;
    return path === '.' ? this.#prefix : `${this.#prefix}/${path}`;
  }

  /** The pattern as the report writes it. */
  ofGlob(pattern: string): string {
    return this.#prefix === '' ? pattern : `${literalGlob(this.#prefix)}/${pattern}`;
  }

  /** The path below the root; undefined if it does not begin with the prefix. */
  strip(path: string): string | undefined {
    if (this.#prefix === '') return path;
    return path.startsWith(`${this.#prefix}/`) ? path.slice(this.#prefix.length + 1) : undefined;
  }
}
