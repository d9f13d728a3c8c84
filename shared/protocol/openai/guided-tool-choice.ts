import { ServeError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import type { GuidedDecoding } from '../generation/index.ts';
import type { ChatBody } from './chat-schema.ts';
import type { Nvext } from './nvext-schema.ts';

type Schema = Readonly<Record<string, unknown>>;
type Tools = NonNullable<ChatBody['tools']>;

const GUIDED_FIELDS = ['guided_json', 'guided_regex', 'guided_choice', 'guided_grammar'] as const;
const NO_PARAMETERS: Schema = Object.freeze({ type: 'object', properties: Object.freeze({}) });
/** What engines make of a closed object without properties differs; this is what it means. */
const EMPTY_OBJECT = '\\{\\}';

/**
 * The constraint of a forced tool call, which beats `response_format`.
 * @throws ServeError `invalid_value` beside a `guided_*` field.
 */
export function guidedByToolChoice(body: ChatBody, nvext: Nvext): GuidedDecoding | undefined {
  const choice = body.tool_choice;
  if (choice == null || choice === 'auto' || choice === 'none') return undefined;
  for (const field of GUIDED_FIELDS) {
    if (body[field] != null || nvext[field] != null) {
      throw new ServeError('invalid_value', 'Invalid request', { param: field });
    }
  }
  const tools = body.tools ?? [];
  if (choice === 'required') return { json: anyCallSchema(tools, body.parallel_tool_calls === false) };
  const parameters = parametersOf(tools.find((tool) => tool.function.name === choice.function.name));
  return admitsOnlyNothing(parameters) ? { regex: EMPTY_OBJECT } : { json: parameters };
}

function parametersOf(tool: Tools[number] | undefined): unknown {
  return tool?.function.parameters ?? NO_PARAMETERS;
}

function admitsOnlyNothing(parameters: unknown): boolean {
  if (!isRecord(parameters)) return false;
  const { additionalProperties, properties, patternProperties } = parameters;
  return additionalProperties === false && isEmpty(properties) && isEmpty(patternProperties);
}

function isEmpty(value: unknown): boolean {
  return value == null || (isRecord(value) && Object.keys(value).length === 0);
}

/** A list of calls of any of the tools. */
function anyCallSchema(tools: Tools, isSingle: boolean): Schema {
  const definitions: Record<string, unknown> = {};
  const calls = tools.map((tool, index) => ({
    properties: {
      name: { type: 'string', enum: [tool.function.name] },
      parameters: placed(parametersOf(tool), `tool_${index}`, definitions),
    },
    required: ['name', 'parameters'],
  }));
  return {
    type: 'array',
    minItems: 1,
    ...(isSingle ? { maxItems: 1 } : {}),
    items: { type: 'object', anyOf: calls },
    ...(isEmpty(definitions) ? {} : { $defs: definitions }),
  };
}

/**
 * A tool's schema as it can stand inside of another: one with definitions of its own moves to the root under `name`, and
 * its references with it.
 */
function placed(parameters: unknown, name: string, definitions: Record<string, unknown>): unknown {
  if (!isRecord(parameters) || parameters.$defs === undefined) return parameters;
  definitions[name] = rebased(parameters, `#/$defs/${name}`);
  return { $ref: `#/$defs/${name}` };
}

/** References into the schema itself, seen from the root above `base`. A part with an `$id` is a root of its own. */
function rebased(value: unknown, base: string): unknown {
  if (Array.isArray(value)) return value.map((item) => rebased(item, base));
  if (!isRecord(value) || typeof value.$id === 'string') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, nested]) => {
      if (key !== '$ref' || typeof nested !== 'string') return [key, rebased(nested, base)];
      return [key, nested === '#' || nested.startsWith('#/') ? base + nested.slice(1) : nested];
    }),
  );
}
