import type { ChatMessage } from '../generation/index.ts';
import { invalidValue } from '../openai/field-checks.ts';
import { jsonPath } from '../openai/schema-errors.ts';
import { type ContentBlock, readBlock } from './content-blocks.ts';
import type { AnyBlock, BlockContent, MessageParam } from './messages-schema.ts';

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
