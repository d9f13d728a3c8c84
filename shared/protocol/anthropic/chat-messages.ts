import { isRecord } from '../../records/index.ts';
import type { ChatMessage } from '../generation/generation-request.ts';
import type { LeftOut } from '../generation/left-out.ts';
import { invalidValue, jsonPath } from '../openai/field-checks.ts';
import { textOfPart } from '../openai/history-parts.ts';
import { type BlockReading, type ContentBlock, readBlock } from './content-blocks.ts';
import type { MessageParam } from './messages-schema.ts';

type ToolUse = Extract<ContentBlock, { readonly kind: 'tool_use' }>;
type ToolResult = Extract<ContentBlock, { readonly kind: 'tool_result' }>;
type Part = Readonly<Record<string, unknown>>;
type Path = readonly PropertyKey[];

/**
 * Converts the turns of a Messages body to chat messages, which templates take. The model's last turn and everything
 * before it are data and never refused.
 * @throws ServeError 400 for new content; see `readBlock`.
 */
export function chatMessages(messages: readonly MessageParam[], leftOut: LeftOut): readonly ChatMessage[] {
  const lastAnswer = messages.findLastIndex(({ role }) => role === 'assistant');
  return messages.flatMap((message, at) => {
    const path = ['messages', at, 'content'];
    const { role, content } = message;
    if (typeof content === 'string') return [{ role, content }];
    const reading = { isNew: role === 'system' || at > lastAnswer, leftOut };
    if (reading.isNew && Array.isArray(content) && content.length === 0) {
      const param = jsonPath(path);
      throw invalidValue(`${param}: must contain at least one content block`, param);
    }
    const blocks = readBlocks(content, path, reading);
    if (role === 'user') return userTurn(blocks);
    if (role === 'assistant') return assistantTurn(blocks);
    return [{ role: 'system', content: textOf(blocks, '\n') }];
  });
}

function readBlocks(content: unknown, path: Path, reading: BlockReading): readonly ContentBlock[] {
  if (content === undefined || content === null) return [];
  const blocks = Array.isArray(content) ? content : [content];
  return blocks.map((block, at) => readBlock(block, [...path, at], reading));
}

/**
 * Converts a user's turn. Tool results come first, each as a message of its own; pictures in them follow with the rest
 * of the turn.
 */
function userTurn(blocks: readonly ContentBlock[]): ChatMessage[] {
  const results: ChatMessage[] = [];
  const parts: Part[] = [];
  for (const block of blocks) {
    if (block.kind === 'tool_result') results.push(toolMessage(block));
    else if (block.kind === 'text') parts.push({ type: 'text', text: block.text });
    else if (block.kind === 'media') parts.push(block.part);
  }
  if (parts.length === 0) return results;
  const content = parts.every((part) => part.type === 'text') ? textOf(blocks, '') : parts;
  return [...results, { role: 'user', content }];
}

/** Converts a tool's result; blocks of kinds other than text are read where all conversations are. */
function toolMessage({ toolUseId, content }: ToolResult): ChatMessage {
  const id = toolUseId === '' ? {} : { tool_call_id: toolUseId };
  return { role: 'tool', ...id, content: toolContent(content) };
}

function toolContent(content: unknown): NonNullable<ChatMessage['content']> {
  if (typeof content === 'string') return content;
  const blocks = content === undefined || content === null ? [] : Array.isArray(content) ? content : [content];
  const texts = blocks.flatMap((block) => (isRecord(block) && block.type === 'text' ? [textOfPart(block) ?? ''] : []));
  // blocks of another server, whatever they are
  return texts.length === blocks.length ? texts.join('') : (blocks as readonly Part[]);
}

/**
 * Converts an assistant's turn: its text and calls, and after each run of calls that a server executed, their results
 * as messages of their own. A turn with nothing left becomes no message.
 */
function assistantTurn(blocks: readonly ContentBlock[]): ChatMessage[] {
  const messages: ChatMessage[] = [];
  let said: ContentBlock[] = [];
  for (const block of blocks) {
    if (block.kind !== 'tool_result') {
      said.push(block);
      continue;
    }
    messages.push(...assistantMessage(said), toolMessage(block));
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

function toolCall({ id, name, arguments: text }: ToolUse): Part {
  return { id, type: 'function', function: { name, arguments: text } };
}

function textOf(blocks: readonly ContentBlock[], separator: string): string {
  return blocks
    .filter((block) => block.kind === 'text')
    .map((block) => block.text)
    .join(separator);
}
