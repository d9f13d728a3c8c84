import { LIMITS, overLimit, ServeError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import { type ChatBody, userMessage } from './chat-schema.ts';
import {
  type BoundSettings,
  checkModel,
  checkRange,
  checkSharedBounds,
  checkStreamOptions,
  invalidValue,
  refuseUnknownKeys,
  requireShapeAt,
  unsupported,
} from './field-checks.ts';
import { fileText } from './file-parts.ts';
import { CHAT_KEYS, CHAT_USABLE_KEYS, unknownKeys } from './root-keys.ts';
import { RANGES } from './shared-fields.ts';

/** Leniency of the deployment (`DYN_IGNORE_OPENAI_FE_UNSUPPORTED_FIELDS`). */
export interface CheckSettings extends BoundSettings {
  readonly ignoresUnknownKeys: boolean;
}

/**
 * Checks everything about a chat body that its types do not express, in Dynamo's order.
 * @throws ServeError `invalid_value`, `unknown_parameter`, `unsupported_parameter`.
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

/** Fields that are refused, and their replacements. */
const DEPRECATED = [
  ['function_call', 'tool_choice'],
  ['functions', 'tools'],
] as const;

function refuseDeprecated(body: ChatBody): void {
  for (const [field, successor] of DEPRECATED) {
    if (body[field] == null) continue;
    const message = `\`${field}\` is deprecated. Please migrate to use \`${successor}\` instead.`;
    throw new ServeError('unsupported_parameter', message, { param: field });
  }
}

/**
 * Variables of a template that the request's own fields or the model set: another prompt must not hide behind
 * `messages`.
 */
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

/**
 * Checks messages. New content of the user is checked like any other input; content before the model's last turn is
 * history, and is read as it is.
 */
function checkMessages(messages: ChatBody['messages']): void {
  const lastAnswer = messages.findLastIndex(({ role }) => role === 'assistant');
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    for (const field of ['content', 'tool_calls'] as const) checkLength(message[field], `messages[${at}].${field}`);
    if (message.role !== 'user' || at < lastAnswer) continue;
    requireShapeAt(userMessage, message, ['messages', at]);
    if (typeof message.content !== 'string') checkFiles(message.content, at);
  }
}

function checkLength(list: unknown, param: string): void {
  if (!Array.isArray(list) || list.length <= LIMITS.parts.max) return;
  const message = `${param}: at most ${LIMITS.parts.max} elements are allowed, got ${list.length}`;
  throw overLimit('parts', message, { param });
}

function checkFiles(parts: readonly Readonly<Record<string, unknown>>[], at: number): void {
  for (const [index, part] of parts.entries()) {
    if (part.type !== 'file') continue;
    const read = fileText(part);
    if (read.kind === 'text') continue;
    const param = `messages[${at}].content[${index}].${read.field}`;
    throw invalidValue(`${param}: ${read.reason}`, param);
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
