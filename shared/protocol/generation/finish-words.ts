import type { FinishReason } from './generation-sink.ts';

/** Finish reasons by the words of engines, servers and workers made of code. */
const FINISHES: ReadonlyMap<string, FinishReason> = new Map([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['complete', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['max_output_tokens', 'length'],
  ['model_length', 'length'],
  ['repetition', 'length'], // it was cut off, as at the length limit
  ['tool_calls', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
  ['safety', 'content_filter'],
]);

/** Returns the reason for a word; undefined for an unknown word, or one that says that the choice was aborted. */
export function finishReasonOf(word: string): FinishReason | undefined {
  return FINISHES.get(word.toLowerCase());
}

/** Returns the reason for models whose calls are found in the text: there, the parser decides whether calls exist. */
export function textFinishOf(word: string): Exclude<FinishReason, 'tool_calls'> | undefined {
  const reason = finishReasonOf(word);
  return reason === 'tool_calls' ? 'stop' : reason;
}
