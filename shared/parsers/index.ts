/**
 * @module parsers Extracts tool calls and reasoning from generated text, for every model family, as a stream. Content
 * goes out at once, a call's name and arguments as they are produced; markup never goes out. Pure and synchronous; ids
 * come from the given `Random`. A parser holds back at most its longest marker or header, or one call if the format
 * shows calls whole. Values nest at most 64 deep.
 */
export {
  createReasoningParser,
  needsSpecialTokens,
  planReasoning,
  type ReasoningPlan,
} from './reasoning/create-parser.ts';
export { findReasoningFormat } from './reasoning/formats.ts';
export type { AnswerConstraint } from './reasoning/guided-start.ts';
export type { ReasoningParser, ReasoningSink } from './reasoning/parser.ts';
export type { ToolCallOptions, ToolCallParser, ToolCallSink } from './tool-calls/call-writer.ts';
export { JsonValueScan } from './tool-calls/json-value-scan.ts';
export { createToolCallParser, describeToolCallParser, hasParserOfVersion } from './tool-calls/registry.ts';
