// What the linter said of each file, kept from one scan to the next. An entry holds for one text of the file and one
// text of settings (LintEngine.settingsOf); it is never looked at for any other. Findings are made anew from it, so
// that a report made with the cache is, byte for byte, the one made without.
//
// Not kept: files in which a rule threw or is given up, and files whose settings cannot be told. The file is lines of
// JSON: the lists of rules that ran, then an entry for each file. One that cannot be read counts as empty. It is
// written whole or not at all.
import { hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { writeWhole } from '../document/output-file.ts';
import type { EngineMessage } from './lint-engine.ts';

const FORMAT = 'toollint-cache/1';

/** What is kept of a file: everything that a scan asks of the linter. */
interface KnownFile {
  readonly messages: readonly EngineMessage[];
  readonly suppressed: readonly EngineMessage[];
  readonly ran: readonly string[];
}

interface Entry {
  readonly key: string;
  /** Index of the list of rules that ran. */
  readonly ran: number;
  readonly messages: readonly EngineMessage[];
  readonly suppressed: readonly EngineMessage[];
}

/** The cache of one root. */
export class ResultCache {
  readonly #path: string;
  readonly #ruleLists: string[][] = [];
  readonly #listNumbers = new Map<string, number>();
  /** Entries as lines of the file, by path. */
  readonly #lines = new Map<string, string>();
  #changed = false;

  private constructor(path: string) {
    this.#path = path;
  }

  /** Opens the cache at an absolute path. */
  static async open(path: string): Promise<ResultCache> {
    const cache = new ResultCache(path);
    const text = await readFile(path, 'utf8').catch(() => '');
    try {
      const [head = '', ...lines] = text.split('\n');
      const { format, ruleLists } = JSON.parse(head) as { format: string; ruleLists: string[][] };
      if (format !== FORMAT) return cache;
      for (const list of ruleLists) cache.#numberOf(list);
      for (const line of lines) {
        const end = line.indexOf('\t');
        if (end > 0) cache.#lines.set(JSON.parse(line.slice(0, end)) as string, line.slice(end + 1));
      }
    } catch {
      return new ResultCache(path);
    }
    return cache;
  }

  /** What is known of a file with this text under these settings. */
  get(path: string, text: string, settings: string): KnownFile | undefined {
    const line = this.#lines.get(path);
    if (line === undefined) return undefined;
    try {
      const { key, ran, messages, suppressed } = JSON.parse(line) as Entry;
      const rules = this.#ruleLists[ran];
      return key === keyOf(text, settings) && rules !== undefined ? { messages, suppressed, ran: rules } : undefined;
    } catch {
      return undefined;
    }
  }

  /** Keeps what the linter has said. */
  put(path: string, text: string, settings: string, { messages, suppressed, ran }: KnownFile): void {
    const entry: Entry = { key: keyOf(text, settings), ran: this.#numberOf([...ran]), messages, suppressed };
    this.#lines.set(path, JSON.stringify(entry));
    this.#changed = true;
  }

  /** Writes the cache, when it has changed, without the files that are no longer below `root`. */
  async save(root: string): Promise<void> {
    if (!this.#changed) return;
    await writeWhole(this.#path, this.#path, async (sink) => {
      await sink(`${JSON.stringify({ format: FORMAT, ruleLists: this.#ruleLists })}\n`);
      for (const [path, line] of this.#lines) {
        if (existsSync(join(root, path))) await sink(`${JSON.stringify(path)}\t${line}\n`);
      }
    });
  }

  #numberOf(ran: string[]): number {
    const key = JSON.stringify(ran);
    let number = this.#listNumbers.get(key);
    if (number === undefined) {
      number = this.#ruleLists.push(ran) - 1;
      this.#listNumbers.set(key, number);
    }
    return number;
  }
}

function keyOf(text: string, settings: string): string {
  return hash('sha256', `${settings}\n${text}`, 'base64');
}
