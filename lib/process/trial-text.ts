// What `make ingest-run` prints once its gateway listens: commands to try it, as a shell reads them.
import { join } from 'node:path';

export interface Trial {
  /** The gateway's, as https://host:port. */
  readonly address: string;
  readonly stateDir: string;
  /** The folder of the programs, as seen from where the commands are typed. */
  readonly bin: string;
  /** The certificates were configured: where a producer's is, is not known. */
  readonly ownCertificates: boolean;
  /** The SQLite file of the warehouse; undefined where another warehouse was configured. */
  readonly database: string | undefined;
}

export function trialText({ address, stateDir, bin, ownCertificates, database }: Trial): string {
  const [ca, cert, key] = ownCertificates
    ? ['CA.pem', 'PRODUCER.pem', 'PRODUCER-KEY.pem']
    : ['ca.pem', 'producer.pem', 'producer-key.pem'].map((name) => quoted(join(stateDir, 'tls', name)));
  const curl = `curl -w '\\n' --cacert ${ca} --cert ${cert} --key ${key}`;
  const event = '{"id":"first","type":"example.created","data":{"n":1}}';
  return `
Send an event:
  ${curl} -H 'Content-Type: application/json' -d '${event}' ${address}/events

See its state; "accepted" turns into "landed" once the consumer has written it:
  ${curl} ${address}/events/first
${database === undefined ? '' : inspections(quoted(database), bin)}
Send a hundred sample events:
  ${quoted(join(bin, 'ingest-send'))} --url ${address} --sample 100

Ctrl-C ends everything. To begin again with nothing, remove the state folder: rm -r ${quoted(stateDir)}

`;
}

/** `file` is quoted for a shell. */
function inspections(file: string, bin: string): string {
  const query = 'SELECT id, producer, landed_at, body FROM events';
  const database = 'new (require("node:sqlite").DatabaseSync)(process.argv[1],{readOnly:true})';
  const script = `console.table(${database}.prepare("${query}").all())`;
  return `
Look into the warehouse, with either:
  sqlite3 -readonly ${file} '${query}'
  ${quoted(join(bin, 'node'))} -e '${script}' ${file}
`;
}

const quoted = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
