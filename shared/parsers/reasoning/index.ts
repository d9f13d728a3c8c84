/**
 * @module parsers/reasoning
 * Splits a model's text into reasoning and content as it comes: a format by name, a plan for each
 * request, a parser for each choice. Pure and synchronous; what a parser holds is bounded by its longest marker or header.
 */
export { createReasoningParser, needsSpecialTokens, planReasoning, type ReasoningPlan } from './create-parser.ts';
export { type FoundFormat, findReasoningFormat, type ReasoningFormat, type ReasoningRequest } from './formats.ts';
export type { ReasoningParser, ReasoningSink } from './parser.ts';
