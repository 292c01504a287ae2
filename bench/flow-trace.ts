// Preloaded into a program by flows.ts. Each function of lib and bin names its file when it is called. On SIGUSR2 and
// at the end, the number of files and of changes from one file to another is written. A return is not a change.
import { appendFileSync, readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isMainThread } from 'node:worker_threads';
import ts from 'typescript';

const ROOT = new URL('../', import.meta.url).href;
const files = new Set<string>();
/** The number of changes between two files, in both directions. */
const pairs = new Map<string, number>();
let latest = '';

function enter(file: string): void {
  if (file === latest) return;
  const pair = [latest, file].sort().join(' ~ ');
  pairs.set(pair, (pairs.get(pair) ?? 0) + 1);
  files.add(file);
  latest = file;
}

function withCalls(text: string, file: string): string {
  const call = `enterFile(${JSON.stringify(file)})`;
  const additions: [at: number, text: string][] = [];
  const visit = (node: ts.Node): void => {
    const { body } = node as Partial<ts.FunctionLikeDeclaration>;
    if (ts.isFunctionLike(node) && body !== undefined)
      if (ts.isBlock(body)) additions.push([body.getStart() + 1, `${call};`]);
      else additions.push([body.getStart(), `(${call}, `], [body.getEnd(), ')']);
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true));
  let result = text;
  for (const [at, addition] of additions.sort(([one], [other]) => other - one))
    result = result.slice(0, at) + addition + result.slice(at);
  return result;
}

registerHooks({
  load(url, context, next) {
    const file = url.startsWith(ROOT) ? url.slice(ROOT.length) : '';
    if (!/^(?:lib|bin)\/.*\.ts$/.test(file)) return next(url, context);
    const source = withCalls(readFileSync(fileURLToPath(url), 'utf8'), file);
    return { format: 'module-typescript', source, shortCircuit: true };
  },
});

Object.assign(globalThis, { enterFile: enter });
if (isMainThread) {
  const report = (): void => {
    const line = JSON.stringify({ files: files.size, pairs: [...pairs].sort(([, one], [, other]) => other - one) });
    appendFileSync(join(process.env['FLOWS_FOLDER'] ?? '', String(process.pid)), `${line}\n`);
    files.clear();
    pairs.clear();
    latest = '';
  };
  process.on('SIGUSR2', report).on('exit', report);
}
