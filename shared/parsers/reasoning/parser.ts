/** Receives a text split in two, in order and as soon as the split is certain. Never called with an empty text. */
export interface ReasoningSink {
  reasoning(text: string): void;
  content(text: string): void;
}

/**
 * Splits the text of one choice into reasoning and content. The joined output does not depend on how the text was cut
 * into pieces; at any moment it is a prefix of the final output. There is one instance per choice.
 */
export interface ReasoningParser {
  /** Takes the next piece of text. */
  push(text: string, out: ReasoningSink): void;
  /** Ends the text: releases held text. Nothing may be pushed afterwards. */
  end(out: ReasoningSink): void;
}

/** Where a prompt leaves the model: inside a reasoning span, past its end, or wherever the format begins. */
export type ReasoningStart = 'inside' | 'outside' | 'as-usual';
