// A `fetch` that presents a client certificate, for generated clients.
import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';

export function mutualFetch(folder: string): typeof fetch {
  const pem = (name: string): Buffer => readFileSync(join(folder, name));
  const tls = { ca: pem('ca.pem'), cert: pem('producer.pem'), key: pem('producer-key.pem') };
  return async (input, init) => {
    const asked = new Request(input, init);
    const body = Buffer.from(await asked.arrayBuffer());
    return new Promise((resolve, reject) => {
      const headers = { ...Object.fromEntries(asked.headers), 'content-length': body.length };
      request(asked.url, { ...tls, method: asked.method, headers }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () => {
          const given = Object.entries(answer.headers).map(([name, value]): [string, string] => [name, String(value)]);
          resolve(new Response(Buffer.concat(chunks), { status: answer.statusCode ?? 0, headers: given }));
        });
      })
        .on('error', reject)
        .end(body);
    });
  };
}
