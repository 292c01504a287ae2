// Who may import whom, as one table, and the habits that a linter can hold.
//
// The layers come from the table LAYERS: a folder of lib may import what its row names and nothing else, so an
// import across a layer is a lint error and not a matter of review. bin may import everything; nothing imports
// bin, test or bench. Within a folder, too, no file imports itself through others.
import { readFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import eslint from '@eslint/js';
import tseslint from 'typescript-eslint';

/** Folder of lib -> the folders (or files) and packages it may import. `types` allows `import type` only. */
const LAYERS = {
  ingest: { folders: [], types: [], packages: ['@sinclair/typebox', 'node:crypto', 'node:buffer', 'node:zlib'] },
  http: { folders: [], types: ['process/clock.ts'], packages: ['node:'] },
  process: { folders: [], types: [], packages: ['node:', 'pino'] },
  telemetry: { folders: ['process'], types: [], packages: ['node:', 'prom-client', '@opentelemetry'] },
  identity: {
    folders: ['process'],
    types: ['http'],
    packages: ['node:', 'jose'],
  },
  gateway: {
    folders: ['ingest', 'http', 'identity', 'process', 'telemetry'],
    types: [],
    packages: ['node:', '@sinclair/typebox'],
  },
  consumer: {
    folders: ['ingest', 'process', 'telemetry', 'http'],
    types: [],
    packages: ['node:', 'ajv'],
  },
  admin: { folders: ['ingest', 'process', 'telemetry'], types: [], packages: ['node:'] },
  // ingest-client has no dependencies: of other folders send imports only what has none either.
  send: { folders: ['ingest', 'process'], types: [], packages: ['node:'] },
  redis: { folders: ['ingest', 'process'], types: [], packages: ['node:'] },
  // Six rooms: accept, read and admin do not know each other.
  'redis/wire': { folders: ['ingest', 'process'], types: [], packages: ['node:', 'redis'] },
  'redis/server': { folders: ['wire', 'ingest', 'process'], types: [], packages: ['node:'] },
  'redis/stream': { folders: ['wire', 'server', 'ingest', 'process'], types: [], packages: ['node:'] },
  'redis/accept': { folders: ['wire', 'server', 'stream', 'ingest', 'process'], types: [], packages: ['node:'] },
  'redis/read': { folders: ['wire', 'server', 'stream', 'ingest', 'process'], types: [], packages: ['node:'] },
  'redis/admin': { folders: ['wire', 'server', 'stream', 'ingest', 'process'], types: [], packages: ['node:'] },
  sqlite: { folders: ['ingest', 'process'], types: [], packages: ['node:'] },
  postgres: { folders: ['ingest', 'process'], types: [], packages: ['node:', 'pg'] },
  // toollint imports nothing outside its folder, and within it only downwards.
  toollint: { folders: [], types: [], packages: ['node:'] },
  'toollint/command': { folders: ['convert', 'scan', 'compare', 'gate', 'document'], types: [], packages: ['node:'] },
  'toollint/convert': { folders: ['document'], types: [], packages: ['node:', 'sarif', '@sinclair/typebox'] },
  'toollint/scan': { folders: ['document'], types: [], packages: ['node:'] },
  'toollint/compare': { folders: ['document'], types: [], packages: ['node:'] },
  'toollint/gate': { folders: ['document'], types: [], packages: ['node:'] },
  'toollint/document': { folders: [], types: [], packages: ['node:', '@sinclair/typebox', 'minimatch'] },
};

/** The file of toollint that may name the linter it drives. */
const LINT_ENGINE = ['lib/toollint/scan/eslint-engine.ts'];

/** How the names begin of what fails in a test when something does not hold: assertions, and helpers that make them. */
const ASSERTING = [
  ...[
    'assert',
    'eventually',
    'agree',
    'alive',
    'answers',
    'campaign',
    'failOver',
    'goesOn',
    'granted',
    'landEvents',
    'outage',
    'outlives',
  ],
  ...['provoke', 'refuse', 'sends', 'trusts', 'twice', 'unanswered'],
];

const escaped = (name) => name.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');

function layerRule(folder, { folders, types, packages }, extra = []) {
  const allowedPackages = [...packages, ...extra].map((name) => (name.endsWith(':') ? name : `${escaped(name)}(/|$)`));
  const patterns = [
    {
      regex: `^(\\.\\./)+(?!\\.\\./|(${[folder, ...folders, ...types].map(escaped).join('|')})(/|$))`,
      message: `lib/${folder} may not import this folder: see the table in eslint.config.js.`,
    },
    {
      regex: `^(?!\\.|${allowedPackages.join('|')})`,
      message: `lib/${folder} may not import this package: see the table in eslint.config.js.`,
    },
  ];
  if (types.length > 0) {
    patterns.push({
      regex: `^\\.\\./(${types.map(escaped).join('|')})(/|$)`,
      allowTypeImports: true,
      message: `lib/${folder} may import only types from here.`,
    });
  }
  return { '@typescript-eslint/no-restricted-imports': ['error', { patterns }] };
}

/** For each file of lib, bin and bench: the files that it imports, also for their types only. */
const imports = new Map();
function importsOf(file) {
  if (!imports.has(file)) {
    const names = readFileSync(file, 'utf8').matchAll(/^(?:import|export|\} from|.*\bimport\().*'(\.[^']+\.[jt]s)'/gm);
    imports.set(
      file,
      Array.from(names, ([, name]) => resolve(dirname(file), name)),
    );
  }
  return imports.get(file);
}

/** Reports a file that imports itself through others, with the files on the way. */
const noCircle = {
  create: (context) => ({
    Program(node) {
      const ways = new Map([[context.filename, [context.filename]]]);
      for (const [file, way] of ways)
        for (const next of importsOf(file)) {
          const circle = [...way, next].map((one) => relative(import.meta.dirname, one)).join(' -> ');
          if (next === context.filename) return context.report({ node, message: `A circle of imports: ${circle}.` });
          if (!ways.has(next)) ways.set(next, [...way, next]);
        }
    },
  }),
};

const PROCESS_RULE = {
  'no-restricted-properties': [
    'error',
    { object: 'process', property: 'env', message: 'Only bin reads the environment.' },
    { object: 'process', property: 'exit', message: 'Only bin/terminal.ts ends the process.' },
  ],
};

/** Where in lib time and chance are not handed in (lib/process/clock.ts). */
const TIMED = ['lib/process/clock.ts', 'lib/toollint/**'];

const HANDED_IN = 'Take a Clock or a Random as an argument: see lib/process/clock.ts.';
const handedIn = (object, properties) => properties.map((property) => ({ object, property, message: HANDED_IN }));

const TIMELESS_PROPERTIES = [
  ...handedIn('Date', ['now']),
  ...handedIn('Math', ['random']),
  ...handedIn('AbortSignal', ['timeout']),
  ...handedIn('process', ['hrtime', 'uptime']),
  ...['crypto', 'globalThis'].map((object) => ({ object, message: HANDED_IN })),
];

const TIMELESS_RULE = {
  'no-restricted-globals': [
    'error',
    ...['setTimeout', 'setInterval', 'setImmediate', 'performance'].map((name) => ({ name, message: HANDED_IN })),
  ],
  'no-restricted-properties': [...PROCESS_RULE['no-restricted-properties'], ...TIMELESS_PROPERTIES],
  'no-restricted-syntax': [
    'error',
    { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: HANDED_IN },
    { selector: "CallExpression[callee.name='Date']", message: HANDED_IN },
  ],
  'no-restricted-imports': [
    'error',
    {
      paths: [
        ...['node:timers', 'node:timers/promises'].map((name) => ({ name, message: HANDED_IN })),
        { name: 'node:perf_hooks', importNames: ['performance'], message: HANDED_IN },
        { name: 'node:crypto', importNames: ['randomBytes', 'randomInt', 'randomUUID'], message: HANDED_IN },
      ],
    },
  ],
};

export default tseslint.config(
  {
    ignores: ['node_modules/', 'coverage/', '.ingest/', 'package/', 'bench/results/', 'test/**/fixtures/'],
  },
  eslint.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      eqeqeq: ['error', 'always'],
      'no-console': 'error',
      'prefer-const': 'error',
    },
  },
  {
    // A file is a concept, and a function fits a screen.
    files: ['lib/**/*.ts', 'bin/**/*.ts', 'bench/**/*.ts'],
    plugins: { imports: { rules: { 'no-circle': noCircle } } },
    rules: {
      'imports/no-circle': 'error',
      'max-lines': ['error', { max: 400 }],
      'max-lines-per-function': ['error', { max: 70 }],
    },
  },
  { files: ['lib/**/*.ts'], rules: PROCESS_RULE },
  {
    files: ['lib/**/*.ts'],
    ignores: TIMED,
    rules: TIMELESS_RULE,
  },
  {
    files: ['bin/**/*.ts'],
    ignores: ['bin/terminal.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector: 'MemberExpression[property.name="write"][object.object.name="process"]',
          message: 'Use print or complainer of bin/terminal.ts: control characters never reach a terminal.',
        },
      ],
      'no-restricted-properties': [
        'error',
        { object: 'process', property: 'exit', message: 'Use endWritten or endNow of bin/terminal.ts.' },
      ],
    },
  },
  ...Object.entries(LAYERS).map(([folder, row]) => ({
    files: [`lib/${folder}/**/*.ts`],
    rules: layerRule(folder, row),
  })),
  {
    files: LINT_ENGINE,
    rules: layerRule('toollint/scan', LAYERS['toollint/scan'], ['eslint']),
  },
  ...[
    ['bin', '(?:test|bench)/'],
    ['bench', 'test/(?!support/)'],
  ].map(([folder, never]) => ({
    files: [`${folder}/**/*.ts`],
    rules: {
      '@typescript-eslint/no-restricted-imports': [
        'error',
        {
          patterns: [
            {
              regex: `^(?:\\.\\./)+${never}`,
              message: `${folder}/ may not import this: see the table in eslint.config.js.`,
            },
          ],
        },
      ],
    },
  })),
  {
    // node:test's describe and it return promises that nobody needs to await.
    files: ['test/**/*.ts', 'bench/**/*.ts'],
    rules: { '@typescript-eslint/no-floating-promises': 'off', '@typescript-eslint/require-await': 'off' },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        {
          selector:
            'CallExpression[callee.name=/^(it|test)$/] > ' +
            `:function:not(:has(Identifier[name=/^(${ASSERTING.join('|')})/]))`,
          message: 'This test asserts nothing: a helper that asserts has a name of ASSERTING in eslint.config.js.',
        },
      ],
    },
  },
  {
    files: ['**/*.{js,mjs}'],
    languageOptions: { globals: { AbortController: 'readonly', console: 'readonly', process: 'readonly' } },
  },
);
