/** Refusal of a call, with AWS's code and words. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: string;
  readonly status: number;

  constructor(code: string, message: string, status = 400) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

export function validationError(message: string): ApiError {
  return new ApiError('ValidationError', message);
}

/** Value of an answer. Undefined members are left out. */
export type Answer =
  | string
  | number
  | boolean
  | Date
  | undefined
  | readonly Answer[]
  | { readonly [name: string]: Answer };

type Node = { [name: string]: Node } | string;

/** Parameters of one call in the query protocol: `A.member.1.B=value`. */
export class Call {
  readonly #root: Node;

  constructor(parameters: Readonly<Record<string, string>> | Node) {
    this.#root = typeof parameters === 'string' ? parameters : nested(parameters as Record<string, Node>);
  }

  has(name: string): boolean {
    return this.#at(name) !== undefined;
  }

  text(name: string): string | undefined {
    const value = this.#at(name);
    return typeof value === 'string' ? value : undefined;
  }

  required(name: string): string {
    const value = this.text(name);
    if (value === undefined || value === '') {
      const field = `${name.charAt(0).toLowerCase()}${name.slice(1)}`;
      throw validationError(
        `1 validation error detected: Value null at '${field}' failed to satisfy constraint: Member must not be null`,
      );
    }
    return value;
  }

  whole(name: string): number | undefined {
    const value = this.text(name);
    return value === undefined ? undefined : Number(value);
  }

  flag(name: string): boolean | undefined {
    const value = this.text(name);
    return value === undefined ? undefined : value === 'true';
  }

  texts(name: string): string[] {
    return this.#members(name).filter((member) => typeof member === 'string');
  }

  list(name: string): Call[] {
    return this.#members(name).map((member) => new Call(member));
  }

  within(name: string): Call {
    return new Call(this.#at(name) ?? {});
  }

  #members(name: string): Node[] {
    const list = this.#at(name);
    const members = typeof list === 'object' ? list.member : undefined;
    if (typeof members !== 'object') return [];
    return Object.entries(members)
      .toSorted(([one], [other]) => Number(one) - Number(other))
      .map(([, member]) => member);
  }

  #at(name: string): Node | undefined {
    return typeof this.#root === 'object' ? this.#root[name] : undefined;
  }
}

function nested(flat: Readonly<Record<string, Node>>): Node {
  const root: { [name: string]: Node } = {};
  for (const [path, value] of Object.entries(flat)) {
    const names = path.split('.');
    const last = names.pop() ?? path;
    let at = root;
    for (const name of names) {
      const next = at[name];
      if (typeof next === 'object') at = next;
      else {
        const made: { [name: string]: Node } = {};
        at[name] = made;
        at = made;
      }
    }
    at[last] = value;
  }
  return root;
}
