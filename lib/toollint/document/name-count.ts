// How many names a parsed JSON value has. A text with more names than its value has a name twice, which JSON.parse
// hides.

/** Members of all objects in the value, all the way down; the caller has bounded the depth. */
export function countNames(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  let count = 0;
  if (Array.isArray(value)) {
    for (const element of value) count += countNames(element);
    return count;
  }
  const members = value as Record<string, unknown>;
  for (const name of Object.keys(members)) {
    const member = members[name];
    count += typeof member === 'object' ? 1 + countNames(member) : 1;
  }
  return count;
}
