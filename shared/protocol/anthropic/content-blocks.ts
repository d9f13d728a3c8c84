import { ServeError } from '../../errors/index.ts';
import { isRecord } from '../../records/index.ts';
import type { LeftOut } from '../generation/left-out.ts';
import { argumentsText } from '../openai/call-arguments.ts';
import { invalidValue, jsonPath, requireShapeAt } from '../openai/field-checks.ts';
import { fileText } from '../openai/file-parts.ts';
import { kindOfPart, mediaPart, textOfPart, toldAsText } from '../openai/history-parts.ts';
import { NEW_BLOCKS } from './block-schemas.ts';

type Part = Readonly<Record<string, unknown>>;

/** Content block by kind. */
export type ContentBlock =
  | { readonly kind: 'text'; readonly text: string }
  /** Picture, as a part of a chat message. */
  | { readonly kind: 'media'; readonly part: Part }
  /** Tool call; tools that a server executed are included. */
  | { readonly kind: 'tool_use'; readonly id: string; readonly name: string; readonly arguments: string }
  /** Result of a tool. `content` is read where all conversations are; for a tool that a server executed, it is text. */
  | { readonly kind: 'tool_result'; readonly toolUseId: string; readonly content: unknown }
  | { readonly kind: 'thinking'; readonly thinking: string }
  /** Block without meaning for the model, or one that cannot be read. */
  | { readonly kind: 'dropped' };

/** How blocks are read: new content is checked, everything else is data. */
export interface BlockReading {
  readonly isNew: boolean;
  readonly leftOut: LeftOut;
}

const DROPPED: ContentBlock = Object.freeze({ kind: 'dropped' });

/**
 * Reads the block at `path` of the body.
 * @throws ServeError for new content: `invalid_value`, `missing_required_parameter`, and `unsupported_parameter` for
 * unknown kinds
 */
export function readBlock(given: unknown, path: readonly PropertyKey[], reading: BlockReading): ContentBlock {
  const block: Part = typeof given === 'string' ? { type: 'text', text: given } : isRecord(given) ? given : {};
  const { type } = block;
  if (reading.isNew && typeof type === 'string' && Object.hasOwn(NEW_BLOCKS, type)) {
    requireShapeAt(NEW_BLOCKS[type as keyof typeof NEW_BLOCKS], block, path);
  }
  switch (type) {
    case 'text':
      return { kind: 'text', text: textOfPart(block) ?? '' };
    case 'image': {
      const part = mediaPart(block);
      return part === undefined ? dropped(block, reading) : { kind: 'media', part };
    }
    case 'document':
      return readDocument(block, path, reading);
    case 'search_result':
      return { kind: 'text', text: toldAsText(block, reading.leftOut) };
    case 'thinking':
      return { kind: 'thinking', thinking: typeof block.thinking === 'string' ? block.thinking : '' };
    case 'tool_result':
      return { kind: 'tool_result', toolUseId: textIn(block.tool_use_id), content: block.content };
    case 'redacted_thinking':
    case 'container_upload':
      return dropped(block, reading);
    default:
      return readOther(block, path, reading);
  }
}

/** Reads the many kinds of blocks that servers write, recognised by their names. */
function readOther(block: Part, path: readonly PropertyKey[], reading: BlockReading): ContentBlock {
  const kind = kindOfPart(block);
  if (/(?:^|_)tool_use$/.test(kind)) {
    const { id, name, server_name: server, input } = block;
    const own = typeof name === 'string' && name !== '' ? name : 'unknown';
    const called = typeof server === 'string' && server !== '' ? `${server}__${own}` : own;
    return { kind: 'tool_use', id: textIn(id), name: called, arguments: argumentsText(input) };
  }
  if (/_tool_result$/.test(kind)) {
    const content = resultText(block.content, reading.leftOut);
    return { kind: 'tool_result', toolUseId: textIn(block.tool_use_id), content };
  }
  if (reading.isNew) {
    const at = jsonPath(path);
    const message = `${at}: content block type "${kind.slice(0, 100)}" is not supported`;
    throw new ServeError('unsupported_parameter', message, { param: at });
  }
  if (kind === 'compaction' && typeof block.content === 'string') return { kind: 'text', text: block.content };
  const text = textOfPart(block);
  return text === undefined ? dropped(block, reading) : { kind: 'text', text };
}

/**
 * Returns a server's result as text: plain blocks as they are, everything else as JSON without the parts that only that
 * server can read.
 */
function resultText(content: unknown, leftOut: LeftOut): string {
  if (!Array.isArray(content) || !content.every((block) => textOfPart(block) !== undefined)) {
    return typeof content === 'string' ? content : content == null ? 'null' : toldAsText(content, leftOut);
  }
  return content.map((block) => textOfPart(block)).join('');
}

function readDocument(block: Part, path: readonly PropertyKey[], reading: BlockReading): ContentBlock {
  const read = fileText(block);
  if (read.kind === 'text') return { kind: 'text', text: read.text };
  if (!reading.isNew) return { kind: 'text', text: toldAsText(block, reading.leftOut) };
  const at = `${jsonPath(path)}.${read.field}`;
  throw invalidValue(`${at}: ${read.reason}`, at);
}

function dropped(block: Part, { leftOut }: BlockReading): ContentBlock {
  leftOut.note('history', kindOfPart(block));
  return DROPPED;
}

/** Returns an id; an empty one is replaced later. */
function textIn(id: unknown): string {
  return typeof id === 'string' ? id : '';
}
