import { isRecord } from '../../../records/index.ts';
import { IMAGE_BYTES, lengthOf, tokensOf, toolBytes, valueBytes } from '../../generation/prompt-estimate.ts';
import type { JsonBody } from '../../json/json-body.ts';
import { requireShape } from '../field-checks.ts';
import { textOfPart } from '../history-parts.ts';
import { inputTokensSchema } from './body-schema.ts';
import { type InputItem, parseItems } from './items.ts';

/** Role that counts for results of tools, besides their content. */
const TOOL_ROLE = 'tool';

/**
 * Estimates the tokens of a request only from its bytes, without a model. Unlike the estimate of a prompt it counts the
 * names of all roles, and calls as they stand in the body.
 * @throws ServeError 400 for types that are wrong.
 */
export function estimateInputTokens(json: JsonBody): number {
  const body = requireShape(inputTokensSchema, json);
  let bytes = body.instructions == null ? 0 : lengthOf('system') + lengthOf(body.instructions);
  for (const item of parseItems(body.input ?? [])) bytes += itemBytes(item);
  for (const tool of body.tools ?? []) bytes += toolBytes(tool);
  return tokensOf(bytes);
}

function itemBytes(item: InputItem): number {
  switch (item.type) {
    case 'message':
      return lengthOf(item.role === 'developer' ? 'system' : item.role) + contentBytes(item.content);
    case 'function_call_output':
    case 'custom_tool_call_output':
      return lengthOf(TOOL_ROLE) + contentBytes(item.output);
    default:
      return valueBytes(item);
  }
}

function contentBytes(content: unknown): number {
  if (!Array.isArray(content)) return valueBytes(content);
  return content.reduce((sum: number, part: unknown) => sum + partBytes(part), 0);
}

function partBytes(part: unknown): number {
  const text = textOfPart(part);
  if (text !== undefined) return lengthOf(text);
  return isRecord(part) && part.type === 'input_image' ? IMAGE_BYTES : valueBytes(part);
}
