// As much of a browser's document as the script of the status page uses: elements with text, attributes and children.

export class PageElement {
  readonly tag: string;
  readonly attributes: Record<string, string> = {};
  readonly dataset: Record<string, unknown> = {};
  readonly listeners = new Map<string, (event: object) => void>();
  readonly addEventListener = this.listeners.set.bind(this.listeners);
  readonly clientWidth = 560;
  readonly createTHead = (): PageElement => this.appendChild(new PageElement('thead'));
  readonly createTBody = (): PageElement => this.appendChild(new PageElement('tbody'));
  readonly insertRow = (): PageElement => this.appendChild(new PageElement('tr'));
  readonly insertCell = (): PageElement => this.appendChild(new PageElement('td'));
  readonly deleteRow = (at: number): void => this.children.at(at)?.remove();
  readonly setAttribute = (name: string, value: unknown): string => (this.attributes[name] = String(value));
  className = '';
  hidden = false;
  href = '';
  id = '';
  #nodes: PageElement[] = [];
  #text = '';
  #parent: PageElement | undefined;

  constructor(tag: string, text = '') {
    this.tag = tag;
    this.#text = text;
  }

  get textContent(): string {
    return this.#text + this.#nodes.map(({ textContent }) => textContent).join('');
  }
  set textContent(text: string) {
    [this.#text, this.#nodes] = [text, []];
  }
  get children(): readonly PageElement[] {
    return this.#nodes.filter(({ tag }) => tag !== '#text');
  }
  get firstChild(): PageElement | undefined {
    return this.#nodes[0];
  }
  get lastChild(): PageElement | undefined {
    return this.#nodes.at(-1);
  }
  get rows(): readonly PageElement[] {
    return this.children;
  }
  get cells(): readonly PageElement[] {
    return this.children;
  }

  append(...nodes: readonly (PageElement | string)[]): void {
    for (const node of nodes) this.appendChild(typeof node === 'string' ? new PageElement('#text', node) : node);
  }
  appendChild(node: PageElement): PageElement {
    node.#parent = this;
    this.#nodes.push(node);
    return node;
  }
  replaceChildren(...nodes: readonly (PageElement | string)[]): void {
    this.textContent = '';
    this.append(...nodes);
  }
  remove(): void {
    const parent = this.#parent;
    if (parent !== undefined) parent.#nodes = parent.#nodes.filter((node) => node !== this);
  }

  all(tag: string): readonly PageElement[] {
    return this.children.flatMap((child) => [...(child.tag === tag ? [child] : []), ...child.all(tag)]);
  }
  querySelector(tag: string): PageElement | undefined {
    return this.all(tag)[0];
  }
  byId(id: string): PageElement | undefined {
    return this.id === id ? this : this.children.map((child) => child.byId(id)).find((one) => one !== undefined);
  }
}
