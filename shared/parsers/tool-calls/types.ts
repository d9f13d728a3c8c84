import type { Random } from '../../clock/index.ts';
import type { FinishReason, ToolChoice, ToolDefinition } from '../../protocol/generation/index.ts';

/** Where a parser writes. A call's arguments follow its start, piece by piece; joined they are the arguments text. */
export interface ToolCallSink {
  content(text: string): void;
  /** `index` counts from 0 over the whole message. */
  callStart(index: number, id: string, name: string): void;
  callArguments(index: number, fragment: string): void;
}

/** What of the request decides how its answer is read. */
export interface ToolCallOptions {
  readonly tools: readonly ToolDefinition[];
  /** Default `auto`. */
  readonly toolChoice?: ToolChoice;
  /** False keeps only the first call. Default true. */
  readonly parallelToolCalls?: boolean;
  readonly random: Random;
}

/**
 * Splits the text of one choice into content and tool calls. One per
 * choice. However the text is cut into pushes, the joined content, the calls and their arguments are the same.
 */
export interface ToolCallParser {
  /** Calls shown so far. */
  readonly callCount: number;
  push(text: string, out: ToolCallSink): void;
  /** The text is complete: releases what is held back, and returns the reason that the client reads. */
  end(reason: FinishReason | null, out: ToolCallSink): FinishReason | null;
}
