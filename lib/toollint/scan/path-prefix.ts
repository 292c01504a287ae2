// Adds a prefix to the paths of a scan that covers part of a larger repository.
import { usageFailure } from '../document/failure.ts';
import { literalGlob } from '../document/file-pattern.ts';
import { pathFault } from '../document/report-path.ts';

export class PathPrefix {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix.replace(/^\.\/|\/+$/gu, '').replace(/^\.$/u, '');
    const fault = this.#prefix === '' ? undefined : pathFault(this.#prefix);
    if (fault !== undefined) throw usageFailure(`--path-prefix '${prefix}': ${fault}`);
  }

  of(path: string): string {
    if (this.#prefix === '') return path;
    return path === '.' ? this.#prefix : `${this.#prefix}/${path}`;
  }

  ofGlob(pattern: string): string {
    return this.#prefix === '' ? pattern : `${literalGlob(this.#prefix)}/${pattern}`;
  }

  strip(path: string): string | undefined {
    if (this.#prefix === '') return path;
    return path.startsWith(`${this.#prefix}/`) ? path.slice(this.#prefix.length + 1) : undefined;
  }
}
