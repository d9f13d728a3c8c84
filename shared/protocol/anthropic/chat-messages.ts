import * as z from 'zod';
import { ServeError } from '../../errors/index.ts';
import type { ChatMessage } from '../generation/generation-request.ts';
import { invalidValue, jsonPath, requireShapeAt } from '../openai/field-checks.ts';
import { anyObject } from '../openai/shared-fields.ts';
import { type AnyBlock, type BlockContent, blockContent, type MessageParam } from './messages-schema.ts';

type ToolUse = Extract<ContentBlock, { readonly kind: 'tool_use' }>;
type ToolResult = Extract<ContentBlock, { readonly kind: 'tool_result' }>;
type Part = Readonly<Record<string, unknown>>;
type Path = readonly PropertyKey[];

/**
 * The turns of a Messages body as chat messages, which is what templates take.
 * @throws ServeError 400; see `readBlock`.
 */
export function chatMessages(messages: readonly MessageParam[]): readonly ChatMessage[] {
  return messages.flatMap((message, at) => {
    const path = ['messages', at, 'content'];
    const { content } = message;
    if (typeof content === 'string') return [{ role: message.role, content }];
    if (content.length === 0) {
      const param = jsonPath(path);
      throw invalidValue(`${param}: must contain at least one content block`, param);
    }
    const blocks = readBlocks(content, path);
    if (message.role === 'user') return userTurn(blocks, path);
    if (message.role === 'assistant') return assistantTurn(blocks);
    return [{ role: 'system', content: textOf(blocks, '\n') }];
  });
}

function readBlocks(content: readonly AnyBlock[], path: Path): readonly ContentBlock[] {
  return content.map((block, at) => readBlock(block, [...path, at]));
}

/** Tool results come first, each as a message of its own; pictures in them follow with the rest of the turn. */
function userTurn(blocks: readonly ContentBlock[], path: Path): ChatMessage[] {
  const results: ChatMessage[] = [];
  const parts: Part[] = [];
  for (const [at, block] of blocks.entries()) {
    if (block.kind === 'tool_result') results.push(toolMessage(block, [...path, at, 'content'], parts));
    else if (block.kind === 'text') parts.push({ type: 'text', text: block.text });
    else if (block.kind === 'image') parts.push(imagePart(block.url));
  }
  if (parts.length === 0) return results;
  const content = parts.every((part) => part.type === 'text') ? textOf(blocks, '') : parts;
  return [...results, { role: 'user', content }];
}

function toolMessage({ toolUseId, content }: ToolResult, path: Path, images: Part[]): ChatMessage {
  return { role: 'tool', tool_call_id: toolUseId, content: resultText(content, path, images) };
}

function resultText(content: BlockContent, path: Path, images: Part[]): string {
  if (typeof content === 'string') return content;
  const blocks = readBlocks(content, path);
  for (const block of blocks) if (block.kind === 'image') images.push(imagePart(block.url));
  return textOf(blocks, '');
}

/**
 * A turn of the assistant: what was said and called, and after each run of calls that a server carried out its results, as
 * messages of their own. A turn of which nothing is left has nothing to say.
 */
function assistantTurn(blocks: readonly ContentBlock[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let said: ContentBlock[] = [];
  for (const block of blocks) {
    if (block.kind !== 'server_result') {
      said.push(block);
      continue;
    }
    messages.push(...assistantMessage(said), {
      role: 'tool',
      tool_call_id: block.toolUseId,
      content: block.text,
    });
    said = [];
  }
  return [...messages, ...assistantMessage(said)];
}

function assistantMessage(blocks: readonly ContentBlock[]): ChatMessage[] {
  const text = textOf(blocks, '');
  const reasoning = blocks.map((block) => (block.kind === 'thinking' ? block.thinking : '')).join('');
  const calls = blocks.filter((block): block is ToolUse => block.kind === 'tool_use');
  if (text === '' && reasoning === '' && calls.length === 0) return [];
  return [
    {
      role: 'assistant',
      content: text === '' && calls.length > 0 ? null : text,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
      ...(calls.length === 0 ? {} : { tool_calls: calls.map(toolCall) }),
    },
  ];
}

function toolCall({ id, name, input }: ToolUse): Part {
  return { id, type: 'function', function: { name, arguments: JSON.stringify(input) } };
}

function imagePart(url: string): Part {
  return { type: 'image_url', image_url: { url } };
}

function textOf(blocks: readonly ContentBlock[], separator: string): string {
  return blocks
    .filter((block) => block.kind === 'text')
    .map((block) => block.text)
    .join(separator);
}

const textBlock = z.looseObject({ text: z.string() });
const imageBlock = z.looseObject({
  source: z.discriminatedUnion('type', [
    z.looseObject({ type: z.literal('base64'), media_type: z.string(), data: z.string() }),
    z.looseObject({ type: z.literal('url'), url: z.string() }),
  ]),
});
const toolUseBlock = z.looseObject({ id: z.string(), name: z.string(), input: anyObject.nullish() });
const toolResultBlock = z.looseObject({ tool_use_id: z.string(), content: blockContent.nullish() });
const serverResultBlock = z.looseObject({ tool_use_id: z.string(), content: z.unknown() });
const thinkingBlock = z.looseObject({ thinking: z.string() });

/** A content block by its kind. What has no meaning for the model is `dropped`. */
export type ContentBlock =
  | { readonly kind: 'text'; readonly text: string }
  /** `url` may be a data URI. */
  | { readonly kind: 'image'; readonly url: string }
  /** Also the calls of tools that a server carried out. */
  | { readonly kind: 'tool_use'; readonly id: string; readonly name: string; readonly input: unknown }
  | { readonly kind: 'tool_result'; readonly toolUseId: string; readonly content: BlockContent }
  /** What came of a tool that a server carried out: it stands in the assistant's own turn. */
  | { readonly kind: 'server_result'; readonly toolUseId: string; readonly text: string }
  | { readonly kind: 'thinking'; readonly thinking: string }
  | { readonly kind: 'dropped' };

const DROPPED: ContentBlock = Object.freeze({ kind: 'dropped' });

/**
 * Reads the block that stands at `path` of the body.
 * @throws ServeError `invalid_value`, `missing_required_parameter`, and `unsupported_parameter` for unknown kinds.
 */
export function readBlock(block: AnyBlock, path: readonly PropertyKey[]): ContentBlock {
  switch (block.type) {
    case 'text':
      return { kind: 'text', text: requireShapeAt(textBlock, block, path).text };
    case 'image': {
      const { source } = requireShapeAt(imageBlock, block, path);
      const url = source.type === 'url' ? source.url : `data:${source.media_type};base64,${source.data}`;
      return { kind: 'image', url };
    }
    case 'tool_use':
    case 'server_tool_use':
    case 'mcp_tool_use': {
      const { id, name, input } = requireShapeAt(toolUseBlock, block, path);
      return { kind: 'tool_use', id, name, input: input ?? {} };
    }
    case 'tool_result': {
      const { tool_use_id, content } = requireShapeAt(toolResultBlock, block, path);
      return { kind: 'tool_result', toolUseId: tool_use_id, content: content ?? '' };
    }
    case 'web_search_tool_result':
    case 'web_fetch_tool_result':
    case 'code_execution_tool_result':
    case 'bash_code_execution_tool_result':
    case 'text_editor_code_execution_tool_result':
    case 'tool_search_tool_result':
    case 'mcp_tool_result': {
      const { tool_use_id, content } = requireShapeAt(serverResultBlock, block, path);
      return { kind: 'server_result', toolUseId: tool_use_id, text: serverResultText(content) };
    }
    case 'thinking':
      return { kind: 'thinking', thinking: requireShapeAt(thinkingBlock, block, path).thinking };
    case 'redacted_thinking':
      return DROPPED;
    default: {
      const at = jsonPath(path);
      const message = `${at}: content block type "${block.type}" is not supported`;
      throw new ServeError('unsupported_parameter', message, { param: at });
    }
  }
}

/** A server's result as text; without what only that server can read. */
function serverResultText(content: unknown): string {
  if (typeof content === 'string') return content;
  return JSON.stringify(content ?? null, (key, value: unknown) => (key.startsWith('encrypted_') ? undefined : value));
}
