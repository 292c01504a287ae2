import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, it } from 'node:test';
import { distances } from './imports.ts';

it('the distance of an import is its shortest path, also through workers and dynamic imports, without types', () => {
  const root = mkdtempSync(join(tmpdir(), 'imports-'));
  after(() => rmSync(root, { recursive: true, force: true }));
  for (const folder of ['lib', 'test']) mkdirSync(join(root, folder));
  const files = {
    'test/a.test.ts':
      "import { b } from '../lib/b.ts';\nimport type {\n  D,\n} from '../lib/d.ts';\nimport 'node:fs';\n",
    'lib/b.ts':
      "import './a.ts';\nconst c = await import('./c.ts');\nnew URL('./w.ts', import.meta.url);\n'./gone.ts';\n" +
      'new URL(`./v${extname(import.meta.filename)}`, import.meta.url);\n',
    'lib/a.ts': "export { b } from './b.ts';\n",
    'lib/c.ts': "import './e.ts';\nimport './a.ts';\n",
    'lib/d.ts': '',
    'lib/e.ts': '',
    'lib/v.ts': '',
    'lib/w.ts': '',
  };
  for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text);
  assert.deepEqual(Object.fromEntries(distances('test/a.test.ts', root)), {
    'test/a.test.ts': 0,
    'lib/b.ts': 1,
    'lib/a.ts': 2,
    'lib/c.ts': 2,
    'lib/v.ts': 2,
    'lib/w.ts': 2,
    'lib/e.ts': 3,
  });
});
