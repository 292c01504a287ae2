// Finds the route of a request target, first among fixed paths, then among prefixes followed by one parameter.
//
// A parameter is the rest of the path; it is not empty and contains no literal `/`. The query is ignored. Only the path
// of an absolute-form target is used (RFC 9112, section 3.2.2).

/** `M` is the type of the caller's value for a method, such as a handler. */
export interface Route<M> {
  /** The route's name in metrics and in the API file, such as `/events/{id}`. */
  readonly name: string;
  readonly path: string;
  readonly parameter: boolean;
  readonly methods: ReadonlyMap<string, M>;
  /** The value of an `Allow` header (RFC 9110, section 10.2.1). */
  readonly allow: string;
}

/** `parameter` is still percent-encoded; it is `''` if the route has none. */
export interface RouteMatch<M> {
  readonly route: Route<M>;
  readonly parameter: string;
}

/** Makes a route from `/fixed/path` or `/prefix/{name}`. A route with GET also has HEAD. */
export function route<M>(name: string, methods: Readonly<Record<string, M>>): Route<M> {
  const all = new Map(Object.entries(methods));
  const get = all.get('GET');
  if (get !== undefined) all.set('HEAD', get);
  const path = name.replace(/\{\w+\}$/, '');
  return { name, path, parameter: path !== name, methods: all, allow: [...all.keys()].join(', ') };
}

export class Router<M> {
  readonly #fixed = new Map<string, RouteMatch<M>>();
  readonly #prefixes = new Map<string, Route<M>>();

  constructor(routes: readonly Route<M>[]) {
    for (const one of routes)
      if (one.parameter) this.#prefixes.set(one.path, one);
      else this.#fixed.set(one.path, { route: one, parameter: '' });
  }

  find(target: string): RouteMatch<M> | undefined {
    const exact = this.#fixed.get(target);
    if (exact !== undefined) return exact;
    const path = pathOf(target);
    const at = path.lastIndexOf('/') + 1;
    const [route, parameter] = [this.#prefixes.get(path.slice(0, at)), path.slice(at)];
    return route === undefined || parameter === '' ? this.#fixed.get(path) : { route, parameter };
  }
}

function pathOf(target: string): string {
  let path = target;
  if (!path.startsWith('/')) path = /^https?:\/\/[^/?#]*(\/[^?#]*)?/i.exec(path)?.[1] ?? path;
  const query = path.indexOf('?');
  return query === -1 ? path : path.slice(0, query);
}

/** Decodes a percent-encoded parameter. Returns `undefined` if it is not valid UTF-8. */
export function decodeParameter(parameter: string): string | undefined {
  if (!parameter.includes('%')) return parameter;
  try {
    return decodeURIComponent(parameter);
  } catch {
    return undefined;
  }
}
