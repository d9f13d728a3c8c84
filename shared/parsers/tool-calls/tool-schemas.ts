import type { ToolDefinition } from '../../protocol/generation/index.ts';
import { isRecord } from '../../records/index.ts';

/** The JSON schema of one parameter, as the client declared it. */
export type ParameterSchema = Readonly<Record<string, unknown>>;

/** The declared tools, looked up by tool and parameter name. Built once a message, and only when a call is read. */
export class ToolSchemas {
  readonly #tools: readonly ToolDefinition[];
  #parameters: Map<string, unknown> | undefined;

  constructor(tools: readonly ToolDefinition[]) {
    this.#tools = tools;
  }

  get names(): string[] {
    return this.#tools.map((tool) => tool.function.name);
  }

  /** `undefined` when the tool or its parameter was not declared. */
  parameter(tool: string, name: string): ParameterSchema | undefined {
    this.#parameters ??= new Map(this.#tools.map((each) => [each.function.name, each.function.parameters]));
    return childSchema(this.#parameters.get(tool), name);
  }
}

/** The schema of a property of an object schema. */
export function childSchema(schema: unknown, name: string): ParameterSchema | undefined {
  const properties = isRecord(schema) ? schema.properties : undefined;
  const child = isRecord(properties) && Object.hasOwn(properties, name) ? properties[name] : undefined;
  return isRecord(child) ? child : undefined;
}

/** The schema's type in lower case; of a list of types the first that is not `null`. */
export function schemaType(schema: ParameterSchema): string | undefined {
  const type = Array.isArray(schema.type) ? schema.type.find((each) => each !== 'null') : schema.type;
  return typeof type === 'string' ? type.toLowerCase() : undefined;
}
