import { SECRET_ARN_PREFIX, type StackOutput, type Template } from '../localize.ts';

/** Templates by the names of their stacks. A stack precedes the stacks that refer to it. */
export type Templates = Readonly<Record<string, Template>>;

const REGION = 'us-east-1';
const ACCOUNT = '123456789012';

/**
 * Resolves the values in templates as CloudFormation would. It throws at any construct that it does not know, and
 * guesses nothing.
 */
export class TemplateValues {
  readonly #templates: Templates;
  readonly #physicalIds: Readonly<Record<string, Readonly<Record<string, string>>>>;

  /**
   * @param physicalIds physical ids by stack and id; a resource without one is named after its id
   */
  constructor(templates: Templates, physicalIds: Readonly<Record<string, Readonly<Record<string, string>>>> = {}) {
    this.#templates = templates;
    this.#physicalIds = physicalIds;
  }

  /** Returns `value` of a resource or output of `stack`, with every reference filled in. */
  resolve(stack: string, value: unknown): unknown {
    if (Array.isArray(value)) return value.map((each) => this.resolve(stack, each));
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value);
    const [name, given] = entries[0] ?? [];
    if (entries.length === 1 && name !== undefined && /^(Ref$|Fn::)/.test(name)) return this.#fill(stack, name, given);
    return Object.fromEntries(entries.map(([key, each]) => [key, this.resolve(stack, each)]));
  }

  /** Returns the resolved `value`, which must be a text. */
  text(stack: string, value: unknown): string {
    const found = this.resolve(stack, value);
    if (typeof found === 'object') throw new Error(`${JSON.stringify(value)} of ${stack} is no text`);
    return String(found);
  }

  #fill(stack: string, name: string, given: unknown): unknown {
    switch (name) {
      case 'Ref':
        return this.#nameOf(stack, given as string);
      case 'Fn::GetAtt': {
        const [id = '', attribute = ''] = Array.isArray(given) ? (given as string[]) : String(given).split('.');
        return this.#attributeOf(stack, id, attribute);
      }
      case 'Fn::GetStackOutput': {
        const { StackName: other, OutputName: output } = given as StackOutput;
        return this.#outputOf(other, output);
      }
      case 'Fn::Join': {
        const [between, parts] = this.resolve(stack, given) as [string, readonly unknown[]];
        return parts.join(between);
      }
      case 'Fn::Select': {
        const [at, list] = this.resolve(stack, given) as [number | string, readonly unknown[]];
        return list[Number(at)];
      }
      case 'Fn::Split': {
        const [between, text] = this.resolve(stack, given) as [string, string];
        return text.split(between);
      }
      case 'Fn::Sub':
        return this.#substitute(stack, given as string | readonly [string, Readonly<Record<string, unknown>>]);
      case 'Fn::GetAZs':
        return ['a', 'b', 'c', 'd'].map((zone) => `${REGION}${zone}`);
      default:
        throw new Error(`${stack}: ${name} is not known here`);
    }
  }

  #nameOf(stack: string, id: string): string | undefined {
    const pseudo: Readonly<Record<string, string | undefined>> = {
      'AWS::Region': REGION,
      'AWS::AccountId': ACCOUNT,
      'AWS::Partition': 'aws',
      'AWS::URLSuffix': 'amazonaws.com',
      'AWS::StackName': stack,
      'AWS::NoValue': undefined,
    };
    if (id in pseudo) return pseudo[id];
    const type = this.#typeOf(stack, id);
    if (type === 'AWS::SecretsManager::Secret') return `${SECRET_ARN_PREFIX}${id}`;
    return this.#physicalIds[stack]?.[id] ?? `${stack}-${id}`;
  }

  #attributeOf(stack: string, id: string, attribute: string): string {
    return `arn:aws:stub:${REGION}:${ACCOUNT}:${this.#typeOf(stack, id)}/${stack}-${id}/${attribute}`;
  }

  #outputOf(stack: string, output: string): unknown {
    const found = this.#templates[stack]?.Outputs?.[output] as { readonly Value: unknown } | undefined;
    if (found === undefined) throw new Error(`${stack} has no output ${output}`);
    return this.resolve(stack, found.Value);
  }

  #typeOf(stack: string, id: string): string {
    const type = this.#templates[stack]?.Resources[id]?.Type;
    if (type === undefined) throw new Error(`${stack} has no resource ${id}`);
    return type;
  }

  #substitute(stack: string, given: string | readonly [string, Readonly<Record<string, unknown>>]): string {
    const [text, own] = typeof given === 'string' ? [given, {}] : given;
    return text.replaceAll(/\$\{([^!}][^}]*)\}/g, (_all, name: string) => {
      if (Object.hasOwn(own, name)) return this.text(stack, (own as Record<string, unknown>)[name]);
      const [id = '', ...attribute] = name.split('.');
      return this.text(stack, attribute.length > 0 ? this.#attributeOf(stack, id, attribute.join('.')) : { Ref: id });
    });
  }
}

/** Returns the ids of all resources of the same stack to which `value` refers. */
export function referencesIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(referencesIn);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, given]) => {
    if (name === 'Ref') return [given as string];
    if (name === 'Fn::GetAtt') return [Array.isArray(given) ? (given[0] as string) : String(given).split('.')[0]!];
    if (name !== 'Fn::Sub') return referencesIn(given);
    const text = Array.isArray(given) ? String(given[0]) : String(given);
    return [...[...text.matchAll(/\$\{([^!}.]+)/g)].map(([, id]) => id!), ...referencesIn(given)];
  });
}
