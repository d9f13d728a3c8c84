/**
 * @module parsers/tool-calls
 * Tool calls out of generated text, for every model family, as a stream: content at once, a call's
 * name and arguments as they are produced, markup never. Pure: text in, calls of a sink out; ids from the given `Random`.
 * Limits: formats that are shown whole hold one call in memory; nesting of values is bounded at 64.
 */

export type { ToolCallOptions, ToolCallParser, ToolCallSink } from './call-writer.ts';
export {
  createToolCallParser,
  describeToolCallParser,
  hasParserOfVersion,
  TOOL_CALL_PARSER_NAMES,
  type ToolCallParserDescription,
} from './registry.ts';
