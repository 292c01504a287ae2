// Compares the names of producers. DNS names (RFC 4343) and common names (RFC 5280, section 7.1) are compared
// case-insensitively, as are the scheme and host of a URI (RFC 3986, section 6.2.2.1) and the part of a URN before its
// second colon (RFC 8141, section 3.1).

/** Converts the case-insensitive parts of a name to lowercase. Names of one producer become equal. */
export function comparableName(name: string): string {
  const folded = /^(?:urn:[^:]*:|[a-z][a-z0-9+.-]*:\/\/[^/?#]*|[a-z][a-z0-9+.-]*:)/i.exec(name)?.[0] ?? name;
  return folded.toLowerCase() + name.slice(folded.length);
}

export const isSameProducer = (one: string, other: string): boolean => comparableName(one) === comparableName(other);
