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
const thinkingBlock = z.looseObject({ thinking: z.string() });

/** A content block by its kind. What has no meaning for the model is `dropped`. */
export type ContentBlock =
  | { readonly kind: 'text'; readonly text: string }
  /** `url` may be a data URI. */
  | { readonly kind: 'image'; readonly url: string }
  | { readonly kind: 'tool_use'; readonly id: string; readonly name: string; readonly input: unknown }
  | { readonly kind: 'tool_result'; readonly toolUseId: string; readonly content: BlockContent }
  | { readonly kind: 'thinking'; readonly thinking: string }
  | { readonly kind: 'dropped' };

const DROPPED: ContentBlock = Object.freeze({ kind: 'dropped' });

/**
 * Reads the block that stands at `path` of the body (http-api.md, section 7.1).
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
    case 'tool_use': {
      const { id, name, input } = requireShapeAt(toolUseBlock, block, path);
      return { kind: 'tool_use', id, name, input: input ?? {} };
    }
    case 'tool_result': {
      const { tool_use_id, content } = requireShapeAt(toolResultBlock, block, path);
      return { kind: 'tool_result', toolUseId: tool_use_id, content: content ?? '' };
    }
    case 'thinking':
      return { kind: 'thinking', thinking: requireShapeAt(thinkingBlock, block, path).thinking };
    case 'redacted_thinking':
    case 'server_tool_use':
    case 'web_search_tool_result':
      return DROPPED;
    default: {
      const at = jsonPath(path);
      const message = `${at}: content block type "${block.type}" is not supported`;
      throw new ServeError('unsupported_parameter', message, { param: at });
    }
  }
}
