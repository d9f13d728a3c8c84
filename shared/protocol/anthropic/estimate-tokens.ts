import { BYTES_PER_TOKEN } from '../generation/index.ts';
import { findFault } from '../openai/shape-check.ts';
import { type AnyBlock, type BlockContent, blockContent, type CountTokensBody } from './messages-schema.ts';

const IMAGE_BYTES = 256;

/**
 * A guess at the prompt's length where no tokenizer can tell it: bytes of its text over three.
 */
export function estimateTokens(body: Pick<CountTokensBody, 'messages' | 'system' | 'tools'>): number {
  const { system } = body;
  let bytes = 0;
  if (typeof system === 'string') bytes += lengthOf(system);
  else for (const block of system ?? []) bytes += lengthOf(block.text);
  for (const { role, content } of body.messages) bytes += lengthOf(role) + contentBytes(content);
  for (const tool of body.tools ?? []) {
    bytes += lengthOf(tool.name ?? '') + lengthOf(tool.description ?? '') + jsonBytes(tool.input_schema);
  }
  return bytes === 0 ? 0 : Math.max(1, Math.floor(bytes / BYTES_PER_TOKEN));
}

function contentBytes(content: unknown): number {
  if (findFault(blockContent, content) !== undefined) return jsonBytes(content);
  const blocks = content as BlockContent; // just checked
  if (typeof blocks === 'string') return lengthOf(blocks);
  return blocks.reduce((sum, block) => sum + blockBytes(block), 0);
}

function blockBytes(block: AnyBlock): number {
  switch (block.type) {
    case 'text':
      return lengthOf(block.text);
    case 'thinking':
      return lengthOf(block.thinking);
    case 'image':
      return IMAGE_BYTES;
    case 'tool_use':
      return lengthOf(block.name) + jsonBytes(block.input);
    case 'tool_result':
      return contentBytes(block.content);
    default:
      return jsonBytes(block);
  }
}

function lengthOf(text: unknown): number {
  return typeof text === 'string' ? Buffer.byteLength(text) : 0;
}

function jsonBytes(value: unknown): number {
  return value === undefined ? 0 : lengthOf(JSON.stringify(value));
}
