// `make api-page` combines openapi/events.yaml and Redoc's bundle (MIT, 1.1 MB) into one HTML page that loads nothing
// else. The first argument is the path of the page.
//
// Only the package of Redoc itself is downloaded, because its bundle contains its 96 dependencies. Redoc 3 is not
// used, because it sends usage data.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';

const REDOC = 'redoc@2.5.4';
const SHA512 = 'M6jWhG1qoBnH6TFmzJnstyCZ87HmOY/UzDm78mHiYihEdlV/YcS9ogOo1NlElnJMeLsyxHFe2yFc4sNjHTrABQ==';

const target = process.argv[2] ?? 'package/events.html';
const folder = mkdtempSync(join(tmpdir(), 'redoc-'));
try {
  const options = ['--prefer-offline', '--loglevel=error', '--pack-destination', folder];
  const name = execFileSync('npm', ['pack', REDOC, ...options], { encoding: 'utf8' }).trim();
  const tarball = readFileSync(join(folder, name));
  if (createHash('sha512').update(tarball).digest('base64') !== SHA512)
    throw new Error(`${REDOC} is not the package that this file knows`);
  execFileSync('tar', ['-xzf', join(folder, name), '-C', folder]);
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, page(join(folder, 'package')));
} finally {
  rmSync(folder, { recursive: true });
}

function page(redoc: string): string {
  const bundle = readFileSync(join(redoc, 'bundles/redoc.standalone.js'), 'utf8');
  const licenses = ['LICENSE', 'bundles/redoc.standalone.js.LICENSE.txt'].map((file) =>
    readFileSync(join(redoc, file), 'utf8'),
  );
  const api = parse(readFileSync(new URL('../openapi/events.yaml', import.meta.url), 'utf8')) as {
    readonly info: { readonly title: string };
  };
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${api.info.title}</title>
<!-- The first script is Redoc.
${licenses.join('\n').replaceAll('--', '- -')}
-->
<body style="margin: 0">
<div id="api"></div>
<script>${inScript(bundle.replaceAll('https://cdn.redoc.ly/redoc/logo-mini.svg', 'data:,'))}</script>
<script>Redoc.init(${inScript(JSON.stringify(api))}, {}, document.getElementById('api'));</script>
</body>
</html>
`;
}

/** Escapes `</script` and `<!--`, which HTML interprets in a script. Both occur only in strings of the two scripts. */
function inScript(text: string): string {
  return text.replaceAll(/<(?=\/script|!--)/gi, String.raw`\x3c`);
}
