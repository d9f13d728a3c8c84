import { BYTES_PER_TOKEN } from '../../generation/index.ts';
import type { JsonBody } from '../../json/index.ts';
import { requireShape } from '../schema-errors.ts';
import { type InputTokensBody, inputTokensSchema } from './body-schema.ts';
import { type ContentPart, type InputItem, parseItems } from './items.ts';

/** Bytes that a message costs beside its content, by role. */
const ROLE_BYTES = { user: 4, assistant: 9, system: 6, developer: 6 } as const;
const TOOL_ROLE_BYTES = 4;
/** An image counts as so many bytes. */
const IMAGE_BYTES = 256;

/**
 * Estimates the tokens of a request from its bytes alone: no model is asked.
 * @throws ServeError 400 for types that are wrong.
 */
export function estimateInputTokens(json: JsonBody): number {
  const body = requireShape(inputTokensSchema, json);
  const items = parseItems(body.input ?? []);
  const bytes = instructionBytes(body) + sum(items.map(itemBytes)) + sum((body.tools ?? []).map(toolBytes));
  return bytes === 0 ? 0 : Math.max(1, Math.floor(bytes / BYTES_PER_TOKEN));
}

function instructionBytes({ instructions }: InputTokensBody): number {
  return instructions == null ? 0 : ROLE_BYTES.system + Buffer.byteLength(instructions);
}

function itemBytes(item: InputItem): number {
  switch (item.type) {
    case 'message':
      return ROLE_BYTES[item.role] + contentBytes(item.content);
    case 'function_call_output':
    case 'custom_tool_call_output':
      return TOOL_ROLE_BYTES + contentBytes(item.output);
    default:
      return Buffer.byteLength(JSON.stringify(item));
  }
}

function contentBytes(content: string | readonly ContentPart[]): number {
  return typeof content === 'string' ? Buffer.byteLength(content) : sum(content.map(partBytes));
}

function partBytes(part: ContentPart): number {
  if (part.type === 'input_text' || part.type === 'output_text') return Buffer.byteLength(part.text);
  return part.type === 'input_image' ? IMAGE_BYTES : Buffer.byteLength(JSON.stringify(part));
}

function toolBytes(tool: NonNullable<InputTokensBody['tools']>[number]): number {
  const { name = '', description, parameters } = tool;
  const schema = parameters == null ? '' : JSON.stringify(parameters);
  return Buffer.byteLength(name) + Buffer.byteLength(description ?? '') + Buffer.byteLength(schema);
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
