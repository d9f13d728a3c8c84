import { isRecord } from '../../records/index.ts';
import { BYTES_PER_TOKEN, type ChatMessage, type PromptInput } from './generation-request.ts';

/** Of a picture, about. */
export const IMAGE_BYTES = 256;

/**
 * A guess at the length of a prompt in tokens where nobody can count it, the same whatever API it came by: the bytes of its text over
 * three. 0 for what has no text.
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

/** Tokens that so many bytes of text are, about. */
export function tokensOf(bytes: number): number {
  return bytes === 0 ? 0 : Math.max(1, Math.floor(bytes / BYTES_PER_TOKEN));
}

/** Instructions are counted without their role, which some APIs do not name. */
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

/** What a tool is called, does and takes. */
type DescribedTool = { readonly [field in 'name' | 'description' | 'parameters']?: unknown };

export function toolBytes({ name, description, parameters }: DescribedTool): number {
  return lengthOf(name) + lengthOf(description) + valueBytes(parameters);
}

/** Of a text as it is, of any other value its JSON. */
export function valueBytes(value: unknown): number {
  if (typeof value === 'string') return lengthOf(value);
  return value === undefined || value === null ? 0 : lengthOf(JSON.stringify(value));
}

/** In bytes; 0 of what is no text. */
export function lengthOf(text: unknown): number {
  return typeof text === 'string' ? Buffer.byteLength(text) : 0;
}
