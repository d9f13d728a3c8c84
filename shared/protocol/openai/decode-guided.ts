import { ServeError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import type { GuidedDecoding } from '../generation/engine-request.ts';
import type { CheckedChat, CompletionsBody } from './chat-schema.ts';
import type { Mutable } from './decode-context.ts';
import { invalidValue } from './field-checks.ts';
import type { Nvext } from './shared-fields.ts';

const CONSTRAINTS = ['json', 'regex', 'choice', 'grammar', 'structural_tag'] as const;

const GUIDED_FIELDS = ['guided_json', 'guided_regex', 'guided_choice', 'guided_grammar'] as const;

/**
 * Returns the constraint on the output: `structured_outputs` or `guided_*` fields, which take precedence over
 * `response_format`.
 * @throws ServeError `invalid_value` when more than one is set.
 */
export function decodeGuided(body: CheckedChat | CompletionsBody, nvext: Nvext): GuidedDecoding | undefined {
  if (body.structured_outputs != null) return decodeStructured(body.structured_outputs, body, nvext);
  const guided: Mutable<GuidedDecoding> = {};
  const json = body.guided_json ?? nvext.guided_json ?? schemaOfResponseFormat(body);
  const regex = body.guided_regex ?? nvext.guided_regex;
  const choice = body.guided_choice ?? nvext.guided_choice;
  const grammar = body.guided_grammar ?? nvext.guided_grammar;
  if (json != null) guided.json = json;
  if (regex != null) guided.regex = regex;
  if (choice != null) guided.choice = choice;
  if (grammar != null) guided.grammar = grammar;
  const received = CONSTRAINTS.filter((kind) => guided[kind] !== undefined);
  if (received.length === 0) return undefined; // a backend or a whitespace pattern by itself constrains nothing
  if (received.length > 1) {
    const message = `Only one guided-decoding constraint can be set; received: ${received.join(', ')}`;
    throw invalidValue(message, `guided_${received[1]}`);
  }
  const backend = body.guided_decoding_backend ?? nvext.guided_decoding_backend;
  const whitespace = body.guided_whitespace_pattern ?? nvext.guided_whitespace_pattern;
  if (backend != null) guided.backend = backend;
  if (whitespace != null) guided.whitespace_pattern = whitespace;
  return guided;
}

type StructuredOutputs = NonNullable<CompletionsBody['structured_outputs']>;

/**
 * Decodes `structured_outputs`. @throws ServeError `invalid_value` unless it sets one constraint, and no `guided_*`
 * field another
 */
function decodeStructured(given: StructuredOutputs, body: CheckedChat | CompletionsBody, nvext: Nvext): GuidedDecoding {
  const json = given.json ?? undefined;
  if (json !== undefined && given.json_object === true) throw oneConstraint(['json', 'json_object']);
  const set: Readonly<Record<string, unknown>> = {
    ...given,
    json: json ?? (given.json_object === true ? { type: 'object' } : undefined),
  };
  const received: string[] = CONSTRAINTS.filter((kind) => set[kind] != null);
  const doubled = GUIDED_FIELDS.find((field) => (body[field] ?? nvext[field]) != null);
  if (doubled !== undefined) received.push(doubled);
  const [kind] = received;
  if (kind === undefined || received.length > 1) throw oneConstraint(received);
  const whitespace = given.whitespace_pattern ?? body.guided_whitespace_pattern ?? nvext.guided_whitespace_pattern;
  const backend = body.guided_decoding_backend ?? nvext.guided_decoding_backend;
  return {
    [kind]: set[kind],
    ...(backend == null ? {} : { backend }),
    ...(whitespace == null ? {} : { whitespace_pattern: whitespace }),
  };
}

function oneConstraint(received: readonly string[]): ServeError {
  const allowed = 'exactly one of json, regex, choice, grammar, json_object and structural_tag';
  const message = `structured_outputs takes ${allowed}; received: ${received.join(', ') || 'none'}`;
  return invalidValue(message, 'structured_outputs');
}

function schemaOfResponseFormat(body: CheckedChat | CompletionsBody): unknown {
  const format = (body as CheckedChat).response_format; // completions refuse it as an unknown key
  if (format?.type === 'json_object') return { type: 'object' };
  return format?.type === 'json_schema' ? format.json_schema.schema : undefined;
}

type Schema = Readonly<Record<string, unknown>>;
type Tools = NonNullable<CheckedChat['tools']>;

const NO_PARAMETERS: Schema = Object.freeze({ type: 'object', properties: Object.freeze({}) });
/** Pattern that stands for a closed object without properties, which engines interpret differently. */
const EMPTY_OBJECT = '\\{\\}';

/**
 * Returns the constraint of a forced tool call, which takes precedence over `response_format`.
 * @throws ServeError `invalid_value` together with a `guided_*` field.
 */
export function guidedByToolChoice(body: CheckedChat, nvext: Nvext): GuidedDecoding | undefined {
  const choice = body.tool_choice;
  if (choice == null || choice === 'auto' || choice === 'none') return undefined;
  for (const field of GUIDED_FIELDS) {
    if (body[field] != null || nvext[field] != null) {
      throw new ServeError('invalid_value', 'Invalid request', { param: field });
    }
  }
  if (body.structured_outputs != null) {
    throw invalidValue('structured_outputs cannot be set beside a forced tool call', 'structured_outputs');
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

/** Returns the schema of a list of calls of any of the tools. */
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
 * Returns a tool's schema in a form that fits inside another schema: if it has definitions of its own, it moves to the
 * root under `name`, and its references change accordingly.
 */
function placed(parameters: unknown, name: string, definitions: Record<string, unknown>): unknown {
  if (!isRecord(parameters) || parameters.$defs === undefined) return parameters;
  definitions[name] = rebased(parameters, `#/$defs/${name}`);
  return { $ref: `#/$defs/${name}` };
}

/**
 * Changes references into the schema itself to start at the root above `base`. A part with an `$id` is a root of its
 * own.
 */
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
