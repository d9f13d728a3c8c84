import { LIMITS, overLimit, ServeError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import type { ChatBody } from './chat-schema.ts';
import {
  type BoundSettings,
  checkModel,
  checkRange,
  checkSharedBounds,
  checkStreamOptions,
  invalidValue,
  refuseUnknownKeys,
  unsupported,
} from './field-checks.ts';
import { CHAT_KEYS, CHAT_USABLE_KEYS, unknownKeys } from './root-keys.ts';
import { RANGES } from './shared-fields.ts';

/** How lenient the deployment is (`DYN_IGNORE_OPENAI_FE_UNSUPPORTED_FIELDS`). */
export interface CheckSettings extends BoundSettings {
  readonly ignoresUnknownKeys: boolean;
}

/**
 * Everything about a chat body that its types do not say, in the order in which Dynamo checks it.
 * @throws ServeError `invalid_value`, `unknown_parameter`, `not_implemented`.
 */
export function checkChatBody(body: ChatBody, settings: CheckSettings): void {
  checkThinking(body.thinking);
  refuseDeprecated(body);
  if (body.moderation != null) throw unsupported('moderation');
  if (body.messages.length === 0) {
    throw invalidValue("The 'messages' field cannot be empty. At least one message is required.", 'messages');
  }
  checkStreamOptions(body);
  if (!settings.ignoresUnknownKeys) refuseUnknownKeys(unknownKeys(body, CHAT_KEYS), CHAT_USABLE_KEYS);
  checkTemplateArgs(body);
  checkMessages(body.messages);
  checkModel(body.model);
  checkSharedBounds(body, settings);
  checkRange(body.top_logprobs, RANGES.top_logprobs, 'Top_logprobs', 'top_logprobs');
  if (body.max_completion_tokens === 0) {
    throw invalidValue('Max completion tokens must be greater than 0, got 0', 'max_completion_tokens');
  }
  checkResponseFormat(body);
  checkTools(body);
}

function checkThinking(thinking: unknown): void {
  if (thinking == null || typeof thinking === 'boolean') return;
  const type = typeof thinking === 'object' && 'type' in thinking ? thinking.type : undefined;
  if (type === 'enabled' || type === 'disabled' || type === 'adaptive') return;
  if (type === undefined) {
    throw invalidValue('`thinking` must be a boolean or an object with a `type`', 'thinking');
  }
  throw invalidValue('`thinking.type` must be `enabled`, `disabled`, or `adaptive`', 'thinking.type');
}

/** Fields that are refused, and what to use instead. */
const DEPRECATED = [
  ['function_call', 'tool_choice'],
  ['functions', 'tools'],
] as const;

function refuseDeprecated(body: ChatBody): void {
  for (const [field, successor] of DEPRECATED) {
    if (body[field] == null) continue;
    const message = `\`${field}\` is deprecated. Please migrate to use \`${successor}\` instead.`;
    throw new ServeError('not_implemented', message, { param: field });
  }
}

/** What a template is given by the request's own fields or by the model: another prompt must not hide behind `messages`. */
const RESERVED_TEMPLATE_ARGS = [
  'chat_template',
  'messages',
  'tools',
  'bos_token',
  'eos_token',
  'pad_token',
  'unk_token',
  'add_generation_prompt',
  'continue_final_message',
  'tokenize',
  'raise_exception',
  'strftime_now',
] as const;

function checkTemplateArgs(body: ChatBody): void {
  for (const field of ['chat_template_args', 'chat_template_kwargs'] as const) {
    const args = body[field];
    if (args == null) continue;
    const reserved = RESERVED_TEMPLATE_ARGS.find((name) => Object.hasOwn(args, name));
    if (reserved === undefined) continue;
    throw invalidValue(`\`${reserved}\` is not supported inside \`${field}\``, `${field}.${reserved}`);
  }
  if (body.continue_final_message === true && body.add_generation_prompt !== false) {
    throw invalidValue(
      'Cannot set both `continue_final_message` and `add_generation_prompt` to True.',
      'continue_final_message',
    );
  }
}

/** Arguments of earlier tool calls must be JSON objects: templates print them as such. */
function checkMessages(messages: ChatBody['messages']): void {
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    if (message.role !== 'assistant' || message.tool_calls == null) continue;
    for (let call = 0; call < message.tool_calls.length; call++) {
      const text = message.tool_calls[call]!.function.arguments;
      if (text.trim() === '' || isJsonObject(text)) continue;
      const param = `messages[${at}].tool_calls[${call}].function.arguments`;
      throw invalidValue(`\`${param}\` must be a valid JSON object string`, param);
    }
  }
}

function isJsonObject(text: string): boolean {
  try {
    return isRecord(JSON.parse(text));
  } catch {
    return false; // the answer to the question, not a failure
  }
}

function checkResponseFormat(body: ChatBody): void {
  if (body.response_format?.type !== 'json_schema') return;
  const { name, schema } = body.response_format.json_schema;
  const param = 'response_format.json_schema';
  if (name === '') throw invalidValue(`\`${param}.name\` cannot be empty`, `${param}.name`);
  if (schema !== true && !isRecord(schema)) {
    const kind = schema === null ? 'null' : Array.isArray(schema) ? 'array' : typeof schema;
    throw invalidValue(`\`${param}.schema\` must be a JSON object, got ${kind}`, `${param}.schema`);
  }
}

const FUNCTION_NAME = /^[A-Za-z0-9_-]+$/;

/** Bounds of `tools` and `tool_choice`. */
function checkTools(body: ChatBody): void {
  const { tools } = body;
  if (tools != null) {
    if (tools.length === 0) {
      throw invalidValue('tools array cannot be empty; omit the field entirely to disable tool use', 'tools');
    }
    if (tools.length > LIMITS.tools.max) {
      const message = `tools array cannot hold more than ${LIMITS.tools.max} entries, got ${tools.length}`;
      throw overLimit('tools', message, { param: 'tools' });
    }
    for (let at = 0; at < tools.length; at++) checkTool(tools[at]!.function, at, `tools[${at}].function`);
  }
  checkToolChoice(body);
}

type ToolFunction = Pick<NonNullable<ChatBody['tools']>[number]['function'], 'name' | 'parameters' | 'strict'>;

/** The name and the schema of the tool number `at`, which stands at `param` of the body. */
export function checkTool(tool: ToolFunction, at: number, param: string): void {
  if (tool.name === '') throw invalidValue(`Function name at index ${at} cannot be empty`, `${param}.name`);
  if (!FUNCTION_NAME.test(tool.name)) {
    throw invalidValue(
      `Function at index ${at} has an invalid name: "${tool.name}". ` +
        'Only a-z, A-Z, 0-9, underscores, and dashes are allowed.',
      `${param}.name`,
    );
  }
  if (tool.strict !== true) return;
  const offender = findOpenObject(tool.parameters, '#');
  if (offender !== undefined) {
    throw invalidValue(
      `Invalid schema for function '${tool.name}': In context=${offender}, ` +
        'object schemas require additionalProperties: false',
      `${param}.parameters`,
    );
  }
}

/** Where in a JSON schema an object allows properties it does not name; undefined = nowhere. */
function findOpenObject(schema: unknown, context: string): string | undefined {
  if (Array.isArray(schema)) {
    for (let at = 0; at < schema.length; at++) {
      const offender = findOpenObject(schema[at], `${context}/${at}`);
      if (offender !== undefined) return offender;
    }
    return undefined;
  }
  if (typeof schema !== 'object' || schema === null) return undefined;
  const record = schema as Readonly<Record<string, unknown>>;
  if (record.type === 'object' && record.additionalProperties !== false) return context;
  for (const [key, nested] of Object.entries(record)) {
    const offender = findOpenObject(nested, `${context}/${key}`);
    if (offender !== undefined) return offender;
  }
  return undefined;
}

function checkToolChoice(body: ChatBody): void {
  const choice = body.tool_choice;
  if (choice === 'required' && (body.tools == null || body.tools.length === 0)) {
    throw invalidValue('tool_choice is "required" but tools is empty', 'tool_choice');
  }
  if (choice == null || typeof choice === 'string') return;
  const { name } = choice.function;
  if (body.tools?.some((tool) => tool.function.name === name)) return;
  throw invalidValue(`tool named "${name}" in tool_choice is not present in tools`, 'tool_choice');
}
