// Finds the route of a request target: a fixed path, or a prefix and one parameter without `/`. The query and the host
// are ignored (RFC 9112, section 3.2.2).

export interface Route<M> {
  /** The route's name in metrics and in the API file, such as `/events/{id}`. */
  readonly name: string;
  readonly methods: ReadonlyMap<string, M>;
  readonly allow: string;
}

export interface RouteMatch<M> {
  readonly route: Route<M>;
  /** Still percent-encoded; `''` if the route has none. */
  readonly parameter: string;
}

/** Makes a route from `/fixed/path` or `/prefix/{name}`. A route with GET also has HEAD. */
export function route<M>(name: string, methods: Readonly<Record<string, M>>): Route<M> {
  const { GET: get } = methods;
  const all = new Map(Object.entries({ ...methods, ...(get !== undefined && { HEAD: get }) }));
  return { name, methods: all, allow: [...all.keys()].join(', ') };
}

export class Router<M> {
  readonly #fixed = new Map<string, RouteMatch<M>>();
  readonly #prefixes = new Map<string, Route<M>>();

  constructor(routes: readonly Route<M>[]) {
    for (const one of routes)
      if (one.name.endsWith('}')) this.#prefixes.set(one.name.replace(/\{.*$/, ''), one);
      else this.#fixed.set(one.name, { route: one, parameter: '' });
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
  const path = target.startsWith('/') ? target : /^https?:\/\/[^/?#]*(\/[^?#]*)?/i.exec(target)?.[1];
  return (path ?? target).replace(/\?.*$/s, '');
}

export function decodeParameter(parameter: string): string | undefined {
  try {
    return decodeURIComponent(parameter);
  } catch {
    return undefined;
  }
}
