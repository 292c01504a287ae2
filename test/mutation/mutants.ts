// Mutants of a source file: small wrong changes that a test should notice. For TypeScript, Stryker's instrumenter
// puts all mutants into one text, and an environment variable selects one. For Lua, each mutant is a separate text in
// which a comparison, a constant or a connective is changed, or a statement is deleted.
import { type Logger } from '@stryker-mutator/api/logging';
import { Instrumenter } from '@stryker-mutator/instrumenter';
import luaparse from 'luaparse';

export interface Mutant {
  readonly id: string;
  readonly file: string;
  readonly line: number;
  readonly change: string;
  /** The whole mutated file. Absent if an environment variable selects the mutant. */
  readonly text?: string;
}

export interface Mutated {
  /** The instrumented TypeScript, or the unchanged Lua. */
  readonly text: string;
  readonly mutants: readonly Mutant[];
}

const SHOWN_CHARACTERS = 60;

const shown = (text: string): string => {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > SHOWN_CHARACTERS ? `${line.slice(0, SHOWN_CHARACTERS)}…` : line;
};

const silent = { info: () => undefined, debug: () => undefined, isDebugEnabled: () => false, warn: () => undefined };

export async function typescriptMutants(file: string, text: string, firstId: number): Promise<Mutated> {
  const instrumenter = new Instrumenter(silent as unknown as Logger);
  const options = { plugins: null, excludedMutations: [], ignorers: [] };
  const instrumented = await instrumenter.instrument([{ name: file, content: text, mutate: true }], options);
  const lines = text.split('\n');
  // The instrumenter numbers mutants from 0 in each call.
  const renumbered = (instrumented.files[0]?.content ?? text).replace(
    /\b(stryMutAct_9fa48|stryCov_9fa48)\(((?:"\d+"(?:, )?)+)\)/g,
    (_, name: string, ids: string) => `${name}(${ids.replace(/\d+/g, (id) => String(Number(id) + firstId))})`,
  );
  const mutants = instrumented.mutants
    .filter(({ status }) => status !== 'Ignored')
    .map(({ id, location: { start, end }, mutatorName, replacement }) => {
      const [first = ''] = lines.slice(start.line, start.line + 1);
      const original = start.line === end.line ? first.slice(start.column, end.column) : first.slice(start.column);
      const change = `${mutatorName}: ${shown(original)} → ${shown(replacement)}`;
      return { id: String(Number(id) + firstId), file, line: start.line + 1, change };
    });
  return { text: renumbered, mutants };
}

const OTHER_OPERATOR: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '==': '~=',
  '~=': '==',
  and: 'or',
  or: 'and',
  '+': '-',
  '-': '+',
};

interface Edit {
  readonly from: number;
  readonly to: number;
  readonly by: string;
}

type Node = luaparse.Node & { range: [number, number] };

/**
 * Returns the edits that make mutants of a node. luaparse does not report the position of an operator, so the
 * operator is searched for between its operands.
 */
function editsOf(node: Node, text: string): readonly Edit[] {
  const [from, to] = node.range;
  switch (node.type) {
    case 'BinaryExpression':
    case 'LogicalExpression': {
      const by = OTHER_OPERATOR[node.operator];
      if (by === undefined) return [];
      const [, begin] = (node.left as Node).range;
      const [end] = (node.right as Node).range;
      const at = text.slice(begin, end).indexOf(node.operator);
      return at < 0 ? [] : [{ from: begin + at, to: begin + at + node.operator.length, by }];
    }
    case 'UnaryExpression':
      return node.operator === 'not' ? [{ from, to: from + 'not'.length, by: '' }] : [];
    case 'NumericLiteral':
      return [{ from, to, by: String(node.value + 1) }];
    case 'BooleanLiteral':
      return [{ from, to, by: String(!node.value) }];
    case 'StringLiteral':
      return [{ from, to, by: text.slice(from, to) === "''" ? "'mutant'" : "''" }];
    case 'CallStatement':
    case 'AssignmentStatement':
      return [{ from, to, by: '' }];
    default:
      return [];
  }
}

/** Redis runs Lua 5.1 and interprets the first line (`#!lua …`) itself. */
function parsed(text: string): luaparse.Chunk {
  return luaparse.parse(
    text.replace(/^#!.*/, (line) => ' '.repeat(line.length)),
    { luaVersion: '5.1', ranges: true },
  );
}

export function luaMutants(file: string, text: string, firstId: number): Mutated {
  const edits: Edit[] = [];
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) return node.forEach(visit);
    if (typeof node !== 'object' || node === null) return;
    if ('type' in node && 'range' in node) edits.push(...editsOf(node as Node, text));
    for (const [name, child] of Object.entries(node)) if (name !== 'range' && name !== 'comments') visit(child);
  };
  visit(parsed(text).body);
  const mutants = edits
    .map(({ from, to, by }) => ({ from, to, by, text: text.slice(0, from) + by + text.slice(to) }))
    .filter((edit) => edit.text !== text && parses(edit.text))
    .map(({ from, to, by, text: changed }, at) => ({
      id: String(firstId + at),
      file,
      line: text.slice(0, from).split('\n').length,
      change: `${shown(text.slice(from, to))} → ${by === '' ? '(nothing)' : shown(by)}`,
      text: changed,
    }));
  return { text, mutants };
}

function parses(text: string): boolean {
  try {
    parsed(text);
    return true;
  } catch {
    return false;
  }
}
