import { isRecord } from '../../records/index.ts';
import { BYTES_PER_TOKEN, type ChatMessage, type PromptInput } from './generation-request.ts';

/** Bytes that a picture counts for. */
export const IMAGE_BYTES = 256;

/**
 * Estimates the length of a prompt in tokens if it cannot be counted, in the same way for every API: the bytes of its
 * text divided by three. Returns 0 for a prompt without text.
 */
export function estimatePromptTokens(prompt: PromptInput): number {
  switch (prompt.kind) {
    case 'chat': {
      const tools = prompt.tools ?? [];
      const bytes = prompt.messages.reduce((sum, message) => sum + messageBytes(message), 0);
      return tokensOf(tools.reduce((sum, tool) => sum + toolBytes(tool.function), bytes));
    }
    case 'raw':
      return tokensOf(lengthOf(prompt.text));
    case 'tokens':
      return prompt.tokenIds.length;
    default:
      return 0;
  }
}

/** Estimates the tokens in `bytes` bytes of text. */
export function tokensOf(bytes: number): number {
  return bytes === 0 ? 0 : Math.max(1, Math.floor(bytes / BYTES_PER_TOKEN));
}

/** Roles that are not counted: some APIs do not name the role of instructions. */
const UNNAMED: ReadonlySet<string> = new Set(['system', 'developer']);

function messageBytes({ role, content, tool_calls: calls, reasoning_content: reasoning }: ChatMessage): number {
  let bytes = (UNNAMED.has(role) ? 0 : lengthOf(role)) + lengthOf(reasoning);
  if (Array.isArray(content)) for (const part of content) bytes += partBytes(part);
  else bytes += lengthOf(content);
  for (const { function: called } of calls ?? []) {
    if (isRecord(called)) bytes += lengthOf(called.name) + valueBytes(called.arguments);
  }
  return bytes;
}

function partBytes(part: Readonly<Record<string, unknown>>): number {
  if (typeof part.text === 'string') return lengthOf(part.text);
  return String(part.type).includes('text') ? valueBytes(part) : IMAGE_BYTES;
}

/** Parts of a tool that count: its name, description and parameters. */
type DescribedTool = { readonly [field in 'name' | 'description' | 'parameters']?: unknown };

export function toolBytes({ name, description, parameters }: DescribedTool): number {
  return lengthOf(name) + lengthOf(description) + valueBytes(parameters);
}

/** Returns the bytes of a text, or of any other value's JSON. */
export function valueBytes(value: unknown): number {
  if (typeof value === 'string') return lengthOf(value);
  return value === undefined || value === null ? 0 : lengthOf(JSON.stringify(value));
}

/** Returns the length of a text in bytes; 0 for any other value. */
export function lengthOf(text: unknown): number {
  return typeof text === 'string' ? Buffer.byteLength(text) : 0;
}
