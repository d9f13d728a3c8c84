/** Receives a text split in two, in order and as soon as it is certain. Never called with an empty text. */
export interface ReasoningSink {
  reasoning(text: string): void;
  content(text: string): void;
}

/**
 * Splits the text of one choice into reasoning and content. What the sink gets, joined, does not depend on how the text
 * was cut into pieces, and at any moment it is a prefix of what it will be in the end. One instance a choice.
 */
export interface ReasoningParser {
  /** Takes the next piece of text. */
  push(text: string, out: ReasoningSink): void;
  /** Ends the text: releases what was held back. Nothing may be pushed afterwards. */
  end(out: ReasoningSink): void;
}

/** Where a prompt leaves the model: inside a reasoning span, past its end, or wherever the format begins. */
export type ReasoningStart = 'inside' | 'outside' | 'as-usual';
