export const page = (..._: unknown[]): string => '';
