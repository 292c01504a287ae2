// Runs every command of the runbook on a running system, in the order of the page, and compares the output. The test
// fails if a command has no step below, or a step has no command.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { eventually } from '../support/scope.ts';
import { deployFile } from './deploy-files.ts';
import { LAST_NAME, promtool, startRunbookSystem, type RunbookSystem } from './runbook-system.ts';

const PROGRAMS =
  'curl|ingest-(?:gateway|consumer|admin)|openssl|redis-cli|systemctl|kubectl|journalctl|ss|sysctl|pg_dump|pg_restore|sqlite3|du|make|printf|\\[';
const REDIS = 'INFO|SLOWLOG|CLUSTER|CONFIG|XLEN|XINFO|REPLICAOF|SENTINEL|MEMORY';
const REDIS_ALONE = 'BGSAVE|BGREWRITEAOF';
const SQL = 'SELECT|ALTER|GRANT|VACUUM';
const ADMIN = 'erase|quarantine|prune|reconcile';
/** Matches a command only if an argument follows, because the page also mentions commands by name. */
const begins = (words: string): RegExp => new RegExp(`^(?:${words}) .`);
const isRedis = (text: string): boolean => begins(REDIS).test(text) || new RegExp(`^(?:${REDIS_ALONE})$`).test(text);
const isName = (text: string): boolean => new RegExp(`^ingest-admin (?:${ADMIN})$`).test(text);
const isCommand = (text: string): boolean =>
  isRedis(text) || (begins(`${PROGRAMS}|${SQL}|${ADMIN}|(?:sum|count) by`).test(text) && !isName(text));

function commandsOf(page: string): readonly string[] {
  return page.split(/^ *```\n/m).flatMap((part, at) =>
    at % 2 === 1
      ? part
          .replaceAll('\\\n', '')
          .split('\n')
          .map((line) => line.replace(/ {2,}# .*$/, '').trim())
          .filter((line) => isCommand(line))
      : [...part.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code).filter((code) => isCommand(code)),
  );
}

const UNITS = 'units need a machine that systemd has started';
const KUBERNETES = 'there is no Kubernetes cluster';
const RESTORED = 'test/admin restores a queue with these commands';
const ERASED = 'test/admin/erased-bytes.long.ts removes the bytes with these commands';
const CANNOT: Readonly<Record<string, string>> = {
  'kubectl get pods': KUBERNETES,
  'kubectl get deploy ingest-consumer': KUBERNETES,
  'kubectl rollout restart deployment/ingest-gateway': KUBERNETES,
  'kubectl get cronjob ingest-reconcile': KUBERNETES,
  'kubectl get cronjob ingest-prune': KUBERNETES,
  'kubectl logs': KUBERNETES,
  'kubectl create job --from=cronjob/ingest-prune ingest-prune-now': KUBERNETES,
  'kubectl apply': KUBERNETES,
  'kubectl rollout status deployment/ingest-consumer': KUBERNETES,
  'make setup': 'every target of make runs it first',
  "journalctl -u 'ingest-*' -o cat -n 100": UNITS,
  "systemctl status 'ingest-*'": UNITS,
  'systemctl list-timers ingest-reconcile.timer': UNITS,
  'journalctl -u ingest-reconcile': UNITS,
  'systemctl start ingest-reconcile': UNITS,
  'systemctl reload': UNITS,
  'systemctl start': UNITS,
  'systemctl stop ingest-gateway@9470': UNITS,
  'systemctl restart ingest-consumer@9464': UNITS,
  'systemctl enable --now ingest-consumer@9474': 'test/deploy/installed.ts enables units',
  'redis-cli CONFIG SET aof-use-rdb-preamble no': ERASED,
  'redis-cli BGREWRITEAOF': ERASED,
  'redis-cli INFO persistence | grep aof_last_bgrewrite_status:ok && systemctl restart redis-server': ERASED,
  'redis-cli BGSAVE': ERASED,
  'systemctl restart redis-server': ERASED,
  'systemctl stop redis-server': RESTORED,
  'systemctl start redis-server': RESTORED,
  'redis-cli CONFIG REWRITE': 'the server here has no configuration file',
  'sysctl net.ipv4.tcp_migrate_req=1':
    "it changes the machine's own setting; test/rolling does it in a network of its own",
  'make rolling-restart': 'test/rolling is that target, and runs with the long forms',
  'make bench': 'it takes an hour; the gate runs its cases',
  'SENTINEL FAILOVER': 'test/fail-over does it with three Sentinels under load',
};

interface Step {
  readonly says: RegExp;
  /** Returns a text in the command and its replacement. If the text is empty, the replacement is appended. */
  readonly with?: (system: RunbookSystem) => Promise<readonly [string, string]> | readonly [string, string];
  /** A command that runs first, because the page presupposes its effect. */
  readonly after?: string;
  /** True if the command must be retried, because Prometheus needs two scrapes for a rate. */
  readonly soon?: true;
  readonly exits?: number;
}

const append = (more: string) => (): readonly [string, string] => ['', more];
const host = ({ consumerUrl }: RunbookSystem): readonly [string, string] => ['http://127.0.0.1:9464', consumerUrl];
const port = ({ gateway }: RunbookSystem): readonly [string, string] => [':8443', `:${gateway.port}`];
const aNode = ({ cluster }: RunbookSystem): string => `127.0.0.1:${cluster.nodes[0]?.port}`;

const ENTRY = /^(\d{13}-\d+)$/m;
const lastEntry = (system: RunbookSystem): readonly [string, string] => [
  'NAME',
  ENTRY.exec(system.run('redis-cli XREVRANGE ingest + - COUNT 1').text)?.[1] ?? '',
];

const OLD_PASSWORD = "redis-cli ACL SETUSER ingest-gateway '>OLD'";

const STEPS: Readonly<Record<string, Step>> = {
  "curl -s -w '\\n' http://127.0.0.1:9464/health/ready": { says: /^\{"status":"ready"\}$/m, with: host },
  'curl -s http://127.0.0.1:9464/metrics | grep ^ingest_': { says: /^ingest_landed_total \d/m, with: host },
  'curl -s http://127.0.0.1:9464/metrics | grep ^ingest_build_info': {
    says: /version="[^"]+\+git[^"]+",revision="/,
    with: host,
  },
  'ingest-admin status': { says: /replica [^]*quarantine rows/ },
  'redis-cli INFO memory': { says: /used_memory:\d+[^]*maxmemory:\d+/ },
  'redis-cli --user ingest-operator': { says: /^PONG$/m, with: append(' PING') },
  'redis-cli TIME': { says: /^\d{10}$\n^\d{1,6}$/m },
  'redis-cli PING': { says: /^PONG$/m },
  'redis-cli WAIT 1 1000': { says: /^0$/m },
  'INFO persistence': { says: /loading:0[^]*aof_last_write_status:ok/ },
  'INFO replication': { says: /role:master/ },
  'INFO memory': { says: /used_memory:\d+[^]*maxmemory:\d+/ },
  'SLOWLOG GET': { says: /^/ },
  'SLOWLOG RESET': { says: /^OK$/m },
  'XLEN ingest': { says: /^\d+$/m },
  'redis-cli XINFO STREAM ingest': { says: /last-generated-id/ },
  'XINFO GROUPS ingest': { says: /warehouse[^]*lag/ },
  'XINFO CONSUMERS ingest warehouse': { says: /name[^]*pending/ },
  'redis-cli --cluster check HOST:PORT': { says: /All 16384 slots covered/, with: (one) => ['HOST:PORT', aNode(one)] },
  'CLUSTER NODES': { says: /myself,master/, with: ({ cluster }) => ['redis-cli', onNode(cluster.nodes[0]?.port)] },
  'CLUSTER FAILOVER TAKEOVER': { says: /^OK$/m, with: ({ cluster }) => ['redis-cli', onNode(cluster.nodes[3]?.port)] },
  'CONFIG SET maxmemory': { says: /^OK$/m, with: append(' 200mb') },
  'CONFIG SET maxmemory <more>': { says: /^OK$/m, with: () => ['<more>', '300mb'] },
  'CONFIG SET': { says: /^OK$/m, with: append(' stream-node-max-entries 1000') },
  'REPLICAOF NO ONE': { says: /^OK/m },
  'MEMORY USAGE': { says: /^\d+$/m, with: append(' ingest') },
  'redis-cli MEMORY USAGE ingest SAMPLES 0': { says: /^\d+$/m },
  'redis-cli --bigkeys': { says: /Biggest stream found '"ingest"'/ },
  'redis-cli --rdb queue.rdb': { says: /Transfer finished with success/ },
  BGSAVE: { says: /Background saving/, with: append(' SCHEDULE') },
  BGREWRITEAOF: { says: /Background append only file rewriting/ },
  "redis-cli ACL SETUSER ingest-gateway '>NEW'": { says: /^OK$/m },
  "redis-cli ACL SETUSER ingest-gateway '<OLD'": { says: /^OK$/m, after: OLD_PASSWORD },
  'redis-cli ACL SAVE': { says: /^OK$/m },
  'redis-cli ACL GETUSER ingest-gateway': {
    says: /^passwords$\n^[0-9a-f]{64}$\n^[0-9a-f]{64}$/m,
    after: OLD_PASSWORD,
  },
  "redis-cli ACL SETUSER ingest-operator +xdel +xsetid '+xgroup|setid'": { says: /^OK$/m },
  [`redis-cli XDEL ingest ${LAST_NAME}`]: { says: /^1$/m, with: ({ endStream }) => endStream().then(() => ['', '']) },
  'redis-cli XREVRANGE ingest + - COUNT 1': { says: ENTRY },
  'redis-cli XSETID ingest NAME MAXDELETEDID NAME': { says: /^OK$/m, with: lastEntry },
  'redis-cli XGROUP SETID ingest warehouse NAME': { says: /^OK$/m, with: lastEntry },
  "redis-cli ACL SETUSER ingest-operator -xdel -xsetid '-xgroup|setid'": { says: /^OK$/m },
  'sum by (code) (rate(ingest_errors_total[5m]))': { says: /\{code="QUEUE_UNAVAILABLE"\} => 0/, soon: true },
  'count by (version) (ingest_build_info)': { says: /\{version="[^"]+\+git[^"]+"\} => 2/, soon: true },
  'openssl x509 -enddate -noout -in server.pem': { says: /^notAfter=/m },
  'openssl crl -nextupdate -noout -in crl.pem': { says: /^nextUpdate=/m },
  'openssl s_client -connect host:8443 </dev/null | openssl x509 -enddate -noout': {
    says: /^notAfter=/m,
    with: ({ gateway }) => ['host:8443', `127.0.0.1:${gateway.port}`],
  },
  "ss -ltnp 'sport = :8443'": { says: /^LISTEN /m, with: port },
  'ingest-gateway --check': { says: /configuration is good/ },
  'ingest-gateway --check=connect': { says: /configuration is good/ },
  'ingest-gateway --version': { says: /^ingest-gateway [\w.+]+ \(\w+\)$/m },
  'ingest-consumer --check': { says: /configuration is good/ },
  'ingest-consumer --check=connect': { says: /configuration is good/ },
  'ingest-admin quarantine list': { says: /refused_by_warehouse/ },
  'ingest-admin quarantine show ENTRY': {
    says: /^ {2}\w+: .*\n {2}producer /m,
    with: async ({ store }) => ['ENTRY', `'${(await store.quarantine())[0]?.entry}'`],
  },
  'ingest-admin quarantine list --reason refused_by_warehouse --since 12h': { says: /refused_by_warehouse/ },
  'ingest-admin quarantine replay --reason refused_by_warehouse': { says: /audit: .* replay .*: 2 changed/ },
  'ingest-admin quarantine drop --reason invalid_event': { says: /audit: .* drop .*: 2 changed/ },
  'quarantine drop ENTRY': { says: /0|no/, with: () => ['ENTRY', '0-1'], exits: 1 },
  'quarantine drop': { says: /0|no/, with: append(' --reason schema'), exits: 1 },
  'quarantine replay': { says: /0|no/, with: append(' --reason schema'), exits: 1 },
  'ingest-admin reconcile --rate 1000': { says: /^all .* 0$/m },
  'ingest-admin reconcile --land': { says: /audit: .* reconcile .*: 0 changed/ },
  'ingest-admin reconcile --land --yes': { says: /audit: .* reconcile .*: 0 changed/ },
  'reconcile --land': { says: /audit: .* reconcile .*: 0 changed/ },
  'ingest-admin prune --older-than 400d': { says: /audit: .* prune .*: 0 changed/ },
  'ingest-admin prune --older-than 90d --type order.paid': { says: /audit: .* prune .*: 0 changed/ },
  'ingest-admin prune --older-than 90d --quarantine': { says: /audit: .* prune .*: 0 changed/ },
  'ingest-admin erase --file erased-ids --yes': { says: /audit: .* erase .*: 1 changed/ },
  'ingest-admin erase ID': { says: /audit: .* erase .*: 1 changed/, with: () => ['ID', 'e-2'] },
  'erase --file F': { says: /audit: .* erase .*: 1 changed/ },
  'du -h': { says: /warehouse\.db/, with: append(' warehouse.db') },
  "SELECT relname, pg_size_pretty(pg_total_relation_size(oid)), reltuples FROM pg_class WHERE relname LIKE 'events%' AND relkind = 'r'":
    { says: /events +\|.*kB/ },
  "SELECT n_dead_tup, last_autovacuum FROM pg_stat_user_tables WHERE relname = 'events'": { says: /\(1 row\)/ },
  "ALTER ROLE ingest_gateway PASSWORD 'NEW'": { says: /^ALTER ROLE$/m, after: 'CREATE ROLE ingest_gateway LOGIN' },
  'ALTER ROLE old NOLOGIN': { says: /^ALTER ROLE$/m, after: 'CREATE ROLE old LOGIN' },
  'GRANT DELETE ON events': { says: /^GRANT$/m, with: () => ['ON events', 'ON events TO ingest_gateway'] },
  'ALTER TABLE events SET (autovacuum_vacuum_scale_factor = 0.01)': { says: /^ALTER TABLE$/m },
  'VACUUM FULL events': { says: /^VACUUM$/m },
  'VACUUM FULL events, events_quarantine': { says: /^VACUUM$/m },
  'pg_dump --format=custom --file=warehouse.dump "$INGEST_WAREHOUSE_URI"': { says: /^$/ },
  'pg_restore --clean --if-exists --dbname=… warehouse.dump': { says: /^$/, with: ({ store }) => ['…', store.uri] },
  'sqlite3 warehouse.db "VACUUM INTO \'warehouse.backup.db\'"': { says: /^$/ },
};

const onNode = (nodePort: number | undefined): string => `redis-cli -p ${nodePort}`;

function typed(command: string, prometheusUrl: string): string {
  if (isRedis(command)) return `redis-cli ${command}`;
  if (begins(`${SQL}|CREATE`).test(command)) return `psql "$INGEST_WAREHOUSE_URI" -c "${command}"`;
  if (begins(ADMIN).test(command)) return `ingest-admin ${command}`;
  if (begins('(?:sum|count) by').test(command)) return `${promtool()} query instant ${prometheusUrl} '${command}'`;
  return command;
}

/** True for certificate commands, which runbook.test.ts runs. */
const isOfCertificates = (command: string): boolean => /^(?:openssl (?:req|ca|verify)|printf|\[) /.test(command);

describe('the commands of the runbook', () => {
  const commands = [...new Set(commandsOf(deployFile('RUNBOOK.md')).filter((one) => !isOfCertificates(one)))];
  let system: RunbookSystem;
  before(async () => {
    system = await startRunbookSystem();
  });

  it('all have an expected output in this test', () => {
    assert.deepEqual([...Object.keys(STEPS), ...Object.keys(CANNOT)].sort(), [...commands].sort());
  });

  for (const command of commands.filter((one) => one in STEPS))
    it(`print what the page promises: ${command}`, async () => {
      const { says, with: given, after, soon, exits = 0 } = STEPS[command] as Step;
      if (after !== undefined) system.run(typed(after, system.prometheusUrl));
      const [from, to] = (await given?.(system)) ?? ['', ''];
      const asTyped = typed(command, system.prometheusUrl);
      const line = from === '' ? asTyped + to : asTyped.replaceAll(from, to);
      if (soon === true) await eventually(command, () => says.test(system.run(line).text));
      const { status, text } = system.run(line);
      assert.match(text, says);
      assert.equal(status, exits, text);
    });
});
