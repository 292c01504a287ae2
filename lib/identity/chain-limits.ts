// What the authorities of a chain allow for the certificates below them: how long the chain may be, which names may be
// in it, and for what it may be used (RFC 5280, sections 4.2.1.9, 4.2.1.10, 4.2.1.12 and 6.1). OpenSSL checks that in
// the handshake; this checks it again when the trust material has changed.
//
// It fails closed: a critical extension, a constraint or a name that it does not know is outside the limits. The client
// connects again then, and OpenSSL decides.
//
// Fact: node shows neither path lengths nor name constraints, and @peculiar/x509 takes a tenth of a second to load.
// Choice: the few extensions are read from their DER (X.690) here.
import type { X509Certificate } from 'node:crypto';

const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';

/** DER of the object identifiers id-ce-…, in hexadecimal. */
const SUBJECT_NAMES = '551d11';
const BASIC_CONSTRAINTS = '551d13';
const NAME_CONSTRAINTS = '551d1e';
/** Of critical extensions: the ones above, usages, distribution points, and policies (which are not asked for). */
const KNOWN = new Set([SUBJECT_NAMES, BASIC_CONSTRAINTS, NAME_CONSTRAINTS]);
for (const last of ['0f', '1f', '20', '21', '24', '25', '36']) KNOWN.add(`551d${last}`);
const EMAIL_ADDRESS = '2a864886f70d010901';
const COMMON_NAME = '550403';

/** Tags of GeneralName. */
const [EMAIL, DNS, DIRECTORY, URI, ADDRESS] = [0x81, 0x82, 0xa4, 0x86, 0x87];
const [BOOLEAN, INTEGER, OCTETS, BMP_STRING] = [0x01, 0x02, 0x04, 0x1e];

/** `tag` is a GeneralName's; a directory name is its attributes, one on each line. */
interface Name {
  readonly tag: number;
  readonly value: Buffer;
}

interface Limits {
  readonly selfIssued: boolean;
  readonly names: readonly Name[];
  readonly pathLength: number | undefined;
  readonly permitted: readonly Name[];
  readonly excluded: readonly Name[];
}

/** Those of a certificate; undefined where it cannot be read, or has a critical extension that is not known. */
const limits = new WeakMap<X509Certificate, Limits | undefined>();

/** Whether the chain, leaf first and root last, is one that its authorities allow for a TLS client. */
export function withinLimits(chain: readonly X509Certificate[]): boolean {
  const all: Limits[] = [];
  /** Intermediates so far, without those that only have another certificate of their own issuer. */
  let depth = 0;
  for (const [at, certificate] of chain.entries()) {
    const usages = certificate.keyUsage as readonly string[] | undefined;
    if (usages !== undefined && !usages.includes(CLIENT_AUTH)) return false;
    const own = limitsOf(certificate);
    if (own === undefined) return false;
    if (own.pathLength !== undefined && at > 0 && depth > own.pathLength) return false;
    const constrained = all.filter(({ selfIssued }, below) => below === 0 || !selfIssued);
    if (!constrained.every(({ names }) => names.every((name) => isAllowed(name, own)))) return false;
    all.push(own);
    if (at > 0 && !own.selfIssued) depth += 1;
  }
  return true;
}

function isAllowed(name: Name, { permitted, excluded }: Limits): boolean {
  const of = (list: readonly Name[]): readonly Name[] => list.filter(({ tag }) => tag === name.tag);
  const [mayBe, mayNotBe] = [of(permitted), of(excluded)];
  if (mayBe.length + mayNotBe.length === 0) return true;
  const covers = COVERS.get(name.tag);
  const text = name.tag === URI ? hostOf(name.value) : name.value;
  if (covers === undefined || text === undefined) return false;
  if (mayBe.length > 0 && !mayBe.some(({ value }) => covers(value, text))) return false;
  return !mayNotBe.some(({ value }) => covers(value, text));
}

/** Whether a constraint covers a name of its kind. */
const COVERS: ReadonlyMap<number, (base: Buffer, name: Buffer) => boolean> = new Map([
  [
    DNS,
    (base, name) => {
      const [above, below] = [lower(base), lower(name)];
      return above === '' || below === above || below.endsWith(above.startsWith('.') ? above : `.${above}`);
    },
  ],
  [URI, (base, host) => coversHost(lower(base), lower(host))],
  [
    EMAIL,
    (base, name) => {
      const [above, below] = [base.toString('latin1'), name.toString('latin1')];
      const host = below.slice(below.lastIndexOf('@') + 1).toLowerCase();
      if (!above.includes('@')) return coversHost(above.toLowerCase(), host);
      const local = above.slice(0, above.lastIndexOf('@') + 1);
      return below.startsWith(local) && above.slice(local.length).toLowerCase() === host;
    },
  ],
  [
    ADDRESS,
    (base, name) =>
      base.length === 2 * name.length &&
      name.every((byte, at) => ((byte ^ (base[at] ?? 0)) & (base[name.length + at] ?? 0)) === 0),
  ],
  [DIRECTORY, (base, name) => name.subarray(0, base.length).equals(base)],
]);

const coversHost = (base: string, host: string): boolean =>
  base === '' || (base.startsWith('.') ? host.endsWith(base) && host.length > base.length : host === base);

const lower = (bytes: Buffer): string => bytes.toString('latin1').toLowerCase();

/** The host of a URI that has one. */
function hostOf(uri: Buffer): Buffer | undefined {
  const host = /^[^:]*:\/\/([^:/]+)/.exec(uri.toString('latin1'))?.[1];
  return host === undefined ? undefined : Buffer.from(host, 'latin1');
}

function limitsOf(certificate: X509Certificate): Limits | undefined {
  if (!limits.has(certificate)) {
    try {
      limits.set(certificate, read(certificate.raw));
    } catch {
      limits.set(certificate, undefined);
    }
  }
  return limits.get(certificate);
}

interface Element {
  readonly tag: number;
  readonly content: Buffer;
}

/** The elements of DER, one behind the other. Throws a RangeError where it is cut off. */
function elements(der: Buffer): Element[] {
  const found: Element[] = [];
  for (let at = 0; at < der.length;) {
    const tag = der.readUInt8(at);
    let length = der.readUInt8(at + 1);
    at += 2;
    if (length > 0x80) {
      const bytes = length - 0x80;
      length = der.readUIntBE(at, bytes);
      at += bytes;
    }
    if (at + length > der.length) throw new RangeError('DER is cut off');
    found.push({ tag, content: der.subarray(at, at + length) });
    at += length;
  }
  return found;
}

const inside = (element: Element | undefined): Element[] => elements(element?.content ?? Buffer.alloc(0));

function read(raw: Buffer): Limits | undefined {
  const fields = inside(inside(elements(raw)[0])[0]);
  // The version may be left out: then the serial number is the first.
  const at = fields[0]?.tag === INTEGER ? 0 : 1;
  const [issuer, subject] = [fields[at + 2], fields[at + 4]].map((name) => directoryName(inside(name)));
  const extensions = new Map<string, Buffer>();
  for (const extension of inside(inside(fields.find(({ tag }) => tag === 0xa3))[0])) {
    const parts = inside(extension);
    const id = parts[0]?.content.toString('hex') ?? '';
    if (parts[1]?.tag === BOOLEAN && !KNOWN.has(id)) return undefined;
    extensions.set(id, parts.find(({ tag }) => tag === OCTETS)?.content ?? Buffer.alloc(0));
  }
  const partsOf = (id: string): Element[] => inside(elements(extensions.get(id) ?? Buffer.alloc(0))[0]);
  const names = partsOf(SUBJECT_NAMES).map(nameOf);
  const pathLength = partsOf(BASIC_CONSTRAINTS).find(({ tag }) => tag === INTEGER)?.content;
  const constraints = partsOf(NAME_CONSTRAINTS);
  const subtrees = (tag: number): Name[] =>
    constraints.filter((one) => one.tag === tag).flatMap((one) => inside(one).map(subtree));
  return {
    selfIssued: issuer?.text === subject?.text,
    names: [...names, ...subjectNames(subject, names)],
    pathLength: pathLength?.readUIntBE(0, Math.min(6, pathLength.length)),
    permitted: subtrees(0xa0),
    excluded: subtrees(0xa1),
  };
}

/** Throws where the subtree has bounds, which RFC 5280 forbids. */
function subtree(element: Element): Name {
  const [base, ...bounds] = inside(element);
  if (base === undefined || bounds.length > 0) throw new RangeError('a subtree with bounds');
  return nameOf(base);
}

const nameOf = ({ tag, content }: Element): Name =>
  tag === DIRECTORY
    ? { tag, value: Buffer.from(directoryName(inside(elements(content)[0])).text) }
    : { tag, value: content };

interface DirectoryName {
  readonly text: string;
  readonly attributes: readonly { readonly id: string; readonly text: string }[];
}

/** Compared without case, and with any blanks between words (RFC 5280, section 7.1). */
function directoryName(sets: readonly Element[]): DirectoryName {
  const attributes = sets.flatMap((set) =>
    inside(set).map((attribute) => {
      const [id, value] = inside(attribute);
      const bytes = value?.content ?? Buffer.alloc(0);
      const text = value?.tag === BMP_STRING ? Buffer.from(bytes).swap16().toString('utf16le') : bytes.toString('utf8');
      return { id: id?.content.toString('hex') ?? '', text };
    }),
  );
  const lines = attributes.map(({ id, text }) => `${id}=${text.trim().replaceAll(/\s+/g, ' ').toLowerCase()}\n`);
  return { text: lines.join(''), attributes };
}

/**
 * The names in a subject: itself, its email addresses, and its common names where they look like hosts, for want of
 * others.
 */
function subjectNames(subject: DirectoryName | undefined, others: readonly Name[]): Name[] {
  if (subject === undefined || subject.text === '') return [];
  const hasHost = others.some(({ tag }) => tag === DNS);
  const found: Name[] = [{ tag: DIRECTORY, value: Buffer.from(subject.text) }];
  for (const { id, text } of subject.attributes) {
    if (id === EMAIL_ADDRESS) found.push({ tag: EMAIL, value: Buffer.from(text) });
    if (id === COMMON_NAME && !hasHost && /^[\w-]+(\.[\w-]+)+$/.test(text))
      found.push({ tag: DNS, value: Buffer.from(text) });
  }
  return found;
}
