import type { ToolDefinition } from '../../protocol/index.ts';
import { isRecord } from '../../records/index.ts';

/** Kind of value that a schema allows. `any`: a type with an unknown name. */
export type ValueKind = 'string' | 'integer' | 'number' | 'boolean' | 'null' | 'object' | 'array' | 'any';

type SchemaNode = Readonly<Record<string, unknown>>;

/** Bounds of schema traversal: schemas may refer to themselves, and may be very large. */
const DEPTH_MAX = 16;
const NODES_MAX = 256;

/** JSON schema of one parameter or of a part of it, as the client declared it. */
export class ParameterSchema {
  readonly #node: SchemaNode;
  /** Document that `$ref` points into. */
  readonly #root: unknown;
  #kinds: ReadonlySet<ValueKind> | undefined | 'unread' = 'unread';

  constructor(node: SchemaNode, root: unknown) {
    this.#node = node;
    this.#root = root;
  }

  /** Kinds that the schema allows; undefined if it does not say. */
  get kinds(): ReadonlySet<ValueKind> | undefined {
    if (this.#kinds === 'unread') this.#kinds = new KindReader(this.#root).read(this.#node, 0);
    return this.#kinds;
  }

  /** Returns whether the schema allows only that kind, apart from `null`. */
  isOnly(kind: ValueKind): boolean {
    const { kinds } = this;
    return kinds?.has(kind) === true && kinds.size === (kinds.has('null') && kind !== 'null' ? 2 : 1);
  }

  property(name: string): ParameterSchema | undefined {
    return this.#child((node) => (isRecord(node.properties) ? ownValue(node.properties, name) : undefined));
  }

  items(): ParameterSchema | undefined {
    return this.#child((node) => node.items);
  }

  /** Whether the schema lists its properties. */
  get hasProperties(): boolean {
    return this.#child((node) => node.properties) !== undefined;
  }

  #child(of: (node: SchemaNode) => unknown): ParameterSchema | undefined {
    let left = NODES_MAX;
    const find = (node: SchemaNode, depth: number): SchemaNode | undefined => {
      if (depth > DEPTH_MAX || left-- <= 0) return undefined;
      const own = of(node);
      if (isRecord(own)) return own;
      for (const part of partsOf(node, this.#root)) {
        const found = find(part, depth + 1);
        if (found !== undefined) return found;
      }
      return undefined;
    };
    const child = find(this.#node, 0);
    return child === undefined ? undefined : new ParameterSchema(child, this.#root);
  }
}

/** Declared tools, looked up by tool and parameter name. Built once for each message, and only when a call is read. */
export class ToolSchemas {
  readonly #tools: readonly ToolDefinition[];
  #parameters: Map<string, ParameterSchema | undefined> | undefined;

  constructor(tools: readonly ToolDefinition[]) {
    this.#tools = tools;
  }

  get names(): string[] {
    return this.#tools.map((tool) => tool.function.name);
  }

  isDeclared(tool: string): boolean {
    return this.#byName().has(tool);
  }

  /** Returns the schema of a parameter; undefined when the tool or its parameter was not declared. */
  parameter(tool: string, name: string): ParameterSchema | undefined {
    return this.#byName().get(tool)?.property(name);
  }

  /** Returns false when the tool lists its parameters and this is not among them. */
  takesParameter(tool: string, name: string): boolean {
    const schema = this.#byName().get(tool);
    return schema === undefined || !schema.hasProperties || schema.property(name) !== undefined;
  }

  /**
   * Returns the only declared tool. Of several, returns the tool with the most of the parameters and the fewest others;
   * undefined when no tool has any, or when the best are equal.
   */
  onlyTakerOf(parameters: readonly string[]): string | undefined {
    const { names } = this;
    if (names.length === 1) return names[0];
    let best: { readonly name: string | undefined; readonly score: number } = { name: undefined, score: 0 };
    for (const name of names) {
      const known = parameters.filter((parameter) => this.parameter(name, parameter) !== undefined).length;
      const score = 2 * known - parameters.length;
      if (score > best.score) best = { name, score };
      else if (score === best.score) best = { name: undefined, score };
    }
    return best.name;
  }

  /**
   * Returns whether a parameter may wrap all arguments. Models wrap the arguments of a tool in one parameter of such a
   * name; an object in it is the arguments, if the tool has no such parameter.
   */
  isWrapper(tool: string, name: string): boolean {
    return WRAPPERS.has(name) && this.isDeclared(tool) && !this.takesParameter(tool, name);
  }

  #byName(): Map<string, ParameterSchema | undefined> {
    this.#parameters ??= new Map(
      this.#tools.map(({ function: { name, parameters } }) => [
        name,
        isRecord(parameters) ? new ParameterSchema(parameters, parameters) : undefined,
      ]),
    );
    return this.#parameters;
  }
}

const WRAPPERS: ReadonlySet<string> = new Set(['arguments', 'input', 'parameters']);

const TYPE_NAMES: readonly (readonly [RegExp, ValueKind])[] = [
  [/^(string|str|text|varchar|char|enum)$/, 'string'],
  [/^(int|uint|long|short|unsigned)/, 'integer'],
  [/^(num|float|double|decimal)/, 'number'],
  [/^(boolean|bool|binary)$/, 'boolean'],
  [/^(null|none)$/, 'null'],
  [/^(object|dict|map)/, 'object'],
  [/^(array|arr|list|sequence|tuple)/, 'array'],
];

/** Finds which kinds of values a schema allows, as far as the schema is simple. */
class KindReader {
  readonly #root: unknown;
  #left = NODES_MAX;

  constructor(root: unknown) {
    this.#root = root;
  }

  read(node: SchemaNode, depth: number): ReadonlySet<ValueKind> | undefined {
    if (depth > DEPTH_MAX || this.#left-- <= 0) return undefined;
    const kinds = this.#own(node, depth);
    return kinds !== undefined && node.nullable === true ? new Set([...kinds, 'null' as const]) : kinds;
  }

  #own(node: SchemaNode, depth: number): ReadonlySet<ValueKind> | undefined {
    const named = kindsOfTypes(node.type);
    if (named !== undefined) return named;
    if (Array.isArray(node.enum) && node.enum.length > 0)
      return new Set(node.enum.slice(0, NODES_MAX).map(kindOfValue));
    if (Object.hasOwn(node, 'const')) return new Set([kindOfValue(node.const)]);
    const target = referenceOf(node, this.#root);
    if (target !== undefined) return this.read(target, depth + 1);
    for (const branches of [node.anyOf, node.oneOf]) {
      const read = recordsOf(branches).map((branch) => this.read(branch, depth + 1) ?? new Set<ValueKind>(['any']));
      if (read.length > 0) return new Set(read.flatMap((kinds) => [...kinds]));
    }
    const all = recordsOf(node.allOf).flatMap((part) => this.read(part, depth + 1) ?? []);
    if (all.length > 0) return all.reduce(bothOf);
    if (node.properties !== undefined || node.additionalProperties !== undefined) return new Set(['object']);
    if (node.items !== undefined || node.prefixItems !== undefined) return new Set(['array']);
    return undefined;
  }
}

function kindsOfTypes(type: unknown): ReadonlySet<ValueKind> | undefined {
  const names = (Array.isArray(type) ? type : [type]).filter((name) => typeof name === 'string');
  if (names.length === 0) return undefined;
  return new Set(
    names.map((name) => TYPE_NAMES.find(([pattern]) => pattern.test(name.trim().toLowerCase()))?.[1] ?? 'any'),
  );
}

function kindOfValue(value: unknown): ValueKind {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'integer' : 'number';
  if (typeof value === 'string') return 'string';
  return typeof value === 'boolean' ? 'boolean' : 'object';
}

/** Returns the kinds that both of two schemas allow. If they have none in common, the first one counts. */
function bothOf(first: ReadonlySet<ValueKind>, second: ReadonlySet<ValueKind>): ReadonlySet<ValueKind> {
  const both = [...first].filter((kind) => second.has(kind) || (kind === 'integer' && second.has('number')));
  return both.length > 0 ? new Set(both) : first;
}

/** Returns the schemas that a schema consists of. */
function partsOf(node: SchemaNode, root: unknown): readonly SchemaNode[] {
  const target = referenceOf(node, root);
  return [
    ...(target === undefined ? [] : [target]),
    ...recordsOf(node.allOf),
    ...recordsOf(node.anyOf),
    ...recordsOf(node.oneOf),
  ];
}

/** Returns the target of a `$ref` within the same document: `#/$defs/Name`. */
function referenceOf(node: SchemaNode, root: unknown): SchemaNode | undefined {
  const reference = node.$ref;
  if (typeof reference !== 'string' || !reference.startsWith('#')) return undefined;
  let found: unknown = root;
  for (const part of reference.slice(1).split('/').slice(1, DEPTH_MAX)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    found = isRecord(found) ? ownValue(found, key) : Array.isArray(found) ? found[Number(key)] : undefined;
  }
  return isRecord(found) ? found : undefined;
}

function ownValue(record: SchemaNode, key: string): unknown {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

function recordsOf(list: unknown): readonly SchemaNode[] {
  return Array.isArray(list) ? list.slice(0, NODES_MAX).filter(isRecord) : [];
}
