import * as z from 'zod';
import { ServeError } from '../../errors/index.ts';
import { jsonPath, requireShapeAt } from '../openai/schema-errors.ts';
import { anyObject } from '../openai/shared-fields.ts';
import { type AnyBlock, type BlockContent, blockContent } from './messages-schema.ts';

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
      return { kind: 'server_result', toolUseId: tool_use_id, text: resultText(content) };
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
function resultText(content: unknown): string {
  if (typeof content === 'string') return content;
  return JSON.stringify(content ?? null, (key, value: unknown) => (key.startsWith('encrypted_') ? undefined : value));
}
